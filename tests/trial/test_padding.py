"""The gaps between the fields of structured arrays do not count, neither as content nor in a checkpoint."""

import numpy as np
import pytest

from workbench.trial.classifier import ARRAY, Classifier
from workbench.trial.discovery import Names, Survey
from workbench.trial.kinds import buffer_of_array
from workbench.trial.looking.padding import cleared
from workbench.trial.looking.pickles import digest_of

FIELDS = np.dtype([("a", "u1"), ("b", "f8"), ("c", [("x", "u1"), ("y", "f4")], (2,))], align=True)


def filled(gaps: int) -> np.ndarray:
    """The same fields in each call, with other bytes between them."""
    array = np.full(6 * FIELDS.itemsize, gaps, "u1").view(FIELDS).copy()
    for part, name in ((array, "a"), (array, "b"), (array["c"], "x"), (array["c"], "y")):
        part[name] = 3
    return array


@pytest.mark.parametrize("made", [lambda one: one.reshape(2, 3), lambda one: one.reshape(2, 3).T, lambda one: one[::2]])
def test_arrays_that_differ_in_their_gaps_only_have_the_same_bytes(made):
    one, other = made(filled(1)), made(filled(2))
    assert bytes(buffer_of_array(one)) == bytes(buffer_of_array(other))
    assert (cleared(one) == one).all()


def test_their_looks_and_the_digests_of_their_pickles_are_the_same():
    # Nodes of scikit-learn's trees are such arrays, and pickled with the tree.
    survey = Survey(Classifier({}), [Names("", dict, lambda *_: None)])
    one, other = filled(1), filled(2)
    assert ARRAY.look(one, lambda *_: 0) == ARRAY.look(other, lambda *_: 0)
    assert digest_of({"nodes": one}, survey)[0] == digest_of({"nodes": other}, survey)[0]
    other["b"][0] = 4
    assert digest_of({"nodes": one}, survey)[0] != digest_of({"nodes": other}, survey)[0]


def test_an_array_without_gaps_is_not_copied():
    array = np.zeros(3, [("a", "u1"), ("b", "f8")])
    assert cleared(array) is array
