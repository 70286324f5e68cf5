"""The words for what is not as it should be: counted once, said shortly, the same for every face."""

import pytest

from workbench.records import Goal
from workbench.store.lists import outcome

IT, BAR = {"name": "it", "reason": "an iterator"}, {"name": "bar", "reason": "a bar"}


def test_what_was_lost_is_named_the_commonest_first():
    found = outcome.inexact([[IT], [], [BAR, IT], [IT, IT]])
    assert found == {"names": ["it", "bar"], "trials": 3}
    assert outcome.inexact_words(found) == "resumed inexactly: it, bar (3 trials)"
    assert outcome.inexact([[], []]) is None
    assert outcome.inexact_words(None) == ""
    many = {"names": list("abcdefgh"), "trials": 1}
    assert outcome.inexact_words(many) == "resumed inexactly: a, b, c, d, e, f and 2 more (1 trial)"


def test_a_trial_that_resumes_again_keeps_what_it_had_lost():
    again = {"name": "it", "reason": "another reason"}
    assert outcome.added([IT], [again, BAR]) == [IT, BAR]
    assert outcome.lost_words([IT, BAR]) == "it (an iterator); bar (a bar)"
    assert outcome.lost_words(None) == ""


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (["KeyError: 'lr'"], "1 failed (KeyError: 'lr')"),
        (["ValueError: bad 1 (line 3)", "ValueError: bad 2 (line 3)"], "2 failed (ValueError: bad 1 (line 3))"),
        (["A: a", "B: b", "B: b"], "3 failed (2 of them: B: b)"),
        (["A: a\nmore", "A: a; the second time in a row at step 0, so it is not retried"], "2 failed (A: a)"),
        (["E: " + "x" * 200], f"1 failed (E: {'x' * 86}…)"),
        ([""], "1 failed"),
    ],
)
def test_failures_are_counted_and_the_commonest_is_named(reasons, words):
    assert outcome.failed_words(outcome.failures(reasons)) == words


def test_without_failures_there_is_nothing_to_say():
    assert outcome.failures([]) is None
    assert outcome.trials_words(1, {}) == "1 trial"
    assert outcome.trials_words(6, {"failures": {"count": 4, "error": "A: a", "same": 4}}, others=["1 diverged"]) == (
        "6 trials, 1 diverged, 4 failed (A: a)"
    )


def test_a_winner_is_named_plainly_or_with_what_failed():
    goal = Goal("val_acc", "max")
    assert outcome.best_words(goal, 5, {}, "0.98", "lr=0.05") == "best val_acc 0.98 by t0005 (lr=0.05)"
    rows = [("failed", 3), ("failed", 3), ("failed", 1), ("stopped", 3), ("completed", 1)]
    told = {"promoted": outcome.promoted(3, rows)}
    assert outcome.best_words(goal, 5, told, "0.98") == (
        "best of the trials that did not fail, at step 3: val_acc 0.98 by t0005; all 2 promoted trials failed"
    )
    assert outcome.promoted(9, rows) is None
    assert outcome.promoted(0, [("failed", 0)]) is None


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (None, ""),
        ({"verdict": "identical"}, "resume checked: identical"),
        ({"verdict": "parts", "step": 4, "metric": "loss"}, "resume checked: differs from step 4: loss"),
        ({"verdict": "could not", "why": "it was lost"}, "resume not checked: it was lost"),
        ({"verdict": "waiting"}, "resume check: not done yet"),
    ],
)
def test_the_check_is_told_in_a_few_words(verdict, words):
    assert outcome.checked_words(verdict) == words


def test_seeds_that_all_gave_the_same_bits_are_told():
    def told(deviation: float, trials: int) -> str:
        of = {"mean": 0.6, "deviation": deviation, "trials": trials}
        return outcome.told(outcome.known({"best": {"trial": 0, "value": 0.6, "of": of}}, {}))["seeds"]

    assert told(0.0, 3) == (
        "all 3 trials of the best configuration gave the same bits; if the seed should matter, the training code sets "
        "its own: use trial.seed there"
    )
    assert told(0.1, 3) == told(0.0, 1) == ""
    assert outcome.told({"best": {"trial": 0, "value": 0.6}})["seeds"] == ""


def test_of_an_old_experiment_only_the_number_of_failures_is_known():
    told = outcome.told(outcome.known({"counts": {"failed": 4, "completed": 2}}, {}))
    assert told == {"failed": "4 failed", "promoted": "", "inexact": "", "checked": "", "lost": "", "seeds": ""}
