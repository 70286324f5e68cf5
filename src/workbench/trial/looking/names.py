"""Names such as ``__name__``. Law: those of fixed lists are Python's or torch.compile's; all others are the training
code's."""

from __future__ import annotations

import functools
import re
from typing import Any

from workbench.trial.looking.digests import counts_all_names

#: The names that Python and Cython give to modules, or look up in them.
_PYTHONS = frozenset(
    {
        *("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__cached__", "__path__"),
        *("__builtins__", "__builtin__", "__dict__", "__getattr__", "__dir__", "__warningregistry__"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__conditional_annotations__", "__pyx_capi__", "__test__"),
    }
)
#: The names that torch.compile gives to what it makes, in the globals of the code that it compiles. It counts them in
#: each process, and fails where the next one exists: a resume must not bring back those of another process.
_COMPILERS = re.compile(
    r"__(builtins_dict__|resume_at_\d+|comprehension_\w+_at_\d+|gen_rand_values|warnings_warn_wrapper)_\d+$"
    r"|__compiled_fn_\d+_|__import_(\w+_dot_|torch)|.+_c\d+/"  # the last: with an object's address
)
_PLAIN = frozenset({int, float, str, bool, type(None), bytes, complex})
#: The same for classes, where the value is a number or a text.
_PYTHONS_OF_CLASSES = frozenset(
    {"__module__", "__qualname__", "__name__", "__doc__", "__hash__", "__slots__", "__firstlineno__", "__final__"}
)


def of_training(scope: dict[str, Any]) -> dict[str, Any]:
    """The names of a module, given its globals, that are the training code's."""
    all_count = counts_all_names()
    return {name: value for name, value in list(scope.items()) if _is_of_training(name, all_count)}


@functools.lru_cache(1 << 12)  # a leg looks at the same names some seventeen times
def _is_of_training(name: str, all_count: bool) -> bool:
    """all_count: whether ``__best__`` is a name like any other."""
    is_pythons = name in _PYTHONS or (_is_special(name) and not all_count)
    return not (is_pythons or _COMPILERS.match(name))


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def is_of_class(name: str, value: Any) -> bool:
    """Whether Python or a library gives an attribute of a class its meaning.

    Numbers and texts may be the training code's, and those that do not change are harmless.
    """
    if not _is_special(name):
        return False
    return type(value) not in _PLAIN or name in _PYTHONS_OF_CLASSES or not counts_all_names()
