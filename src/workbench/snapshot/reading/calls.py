"""How a runner calls a training function: which parameter gets the trial, and which gets what of a configuration.

Law: decided once, from names and annotations, before anything starts; a spec records it. What could be meant in two
ways is refused, with what to write.
"""

from __future__ import annotations

import copy
import difflib
import enum
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import BadCell, BadSpace
from workbench.records import Json
from workbench.space import Choice, Distribution, choice

FORM = "Expected a function such as `def train(trial, lr=wb.loguniform(1e-4, 1)): ...`"
#: Names under which people take a whole configuration.
_WHOLE = frozenset(
    {"config", "configuration", "cfg", "conf", "params", "parameters", "hparams", "hyperparams", "hyperparameters"}
)
_MAPPINGS = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
_EMPTY = inspect.Parameter.empty
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
#: Longer lists and dicts are captured, and are not shown in configurations.
_LETTERS = 80


@dataclass(frozen=True, slots=True)
class Call:
    """trial: the parameter that gets the trial; None: the function uses ``workbench.trial``. whole: the parameter that
    gets the values of ``names`` as one dict. names: what was given beside the function (``space=``), in its order.
    """

    trial: str | None
    whole: str | None = None
    names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Plain data for the spec."""
        return {"trial": self.trial, "whole": self.whole, "names": list(self.names)}

    @classmethod
    def of(cls, recorded: Json, function: Callable[..., Any]) -> Call:
        """The inverse of :meth:`to_json`. Specs of earlier versions record nothing: the first parameter gets the
        trial."""
        if recorded is None:
            return cls(next(iter(inspect.signature(function).parameters)))
        return cls(recorded["trial"], recorded["whole"], tuple(recorded["names"]))


def parameters_of(function: Callable[..., Any], shown: str) -> dict[str, inspect.Parameter]:
    """The parameters by name, as a caller sees them; ``*args`` and ``**kwargs`` among them. Raises BadCell."""
    try:
        return dict(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        raise BadCell(f"{shown} does not say what parameters it has. {FORM} that calls it.") from None


# ---------------------------------------------------------------------------------------------------------------------
# Deciding


def call_of(
    function: Callable[..., Any], shown: str, space: Mapping[str, Any], uses: tuple[bool, frozenset[str]]
) -> Call:
    """Which parameter gets the trial, and which the whole of ``space``.

    shown: the function, for messages. uses: whether its code uses ``workbench.trial``, and the parameters that it uses
    as a trial. Raises BadCell or BadSpace.
    """
    parameters = parameters_of(function, shown)
    named = {name: one for name, one in parameters.items() if not _is_many(one)}
    takes_more = any(one.kind == one.VAR_KEYWORD for one in parameters.values())
    strange = [name for name in space if name not in named]
    free = [name for name, one in named.items() if one.default is _EMPTY and name not in space]
    trial = _trial(shown, named, space, bool(strange) and not takes_more, *uses)
    free = [name for name in free if name != trial]
    if strange and not free:  # `config=None`, as W&B's examples have it
        free = [
            name for name, one in named.items() if name not in (trial, *space) and _is_open(one) and _says_whole(one)
        ]
    whole = None
    if strange and "self" not in free and (not takes_more or (len(free) == 1 and _says_whole(named[free[0]]))):
        whole = _whole(shown, named, space, strange, free, trial)
    elif free:
        raise _nothing_gives(function, shown, free[0], named, bool(strange))
    return Call(trial, whole, tuple(space))


def _trial(
    shown: str,
    named: Mapping[str, inspect.Parameter],
    space: Mapping[str, Any],
    is_whole: bool,
    is_global: bool,
    used: frozenset[str],
) -> str | None:
    """The parameter that gets the trial: by name or annotation, else by use, else the first that nothing else gives.

    is_whole: some parameter must get all of ``space``.
    """
    called = [name for name, one in named.items() if _says_trial(one)]
    if len(called) > 1:
        raise BadCell(
            f"{shown} has two parameters for the trial, {' and '.join(called)}. Expected one; give the other another "
            "name or annotation."
        )
    for name in called:
        if name in space:
            raise BadSpace(f"{shown}: `{name}` gets the trial, but space= gives it too. Rename one of them.")
        if _is_mapping(named[name]):
            raise BadCell(
                f"{shown}: is `{name}` the trial or a dict? Its name and annotation differ. Name the trial `trial`, "
                "and the dict `config`."
            )
        return name
    first = next(iter(named), "")
    could = {name: one for name, one in named.items() if name not in space and _is_open(one)}
    for name in could:
        if name in used:
            return name
    free = [name for name, one in could.items() if one.default is _EMPTY]
    unsaid = [
        name
        for name, one in could.items()
        if not _says_whole(one) and one.kind != one.KEYWORD_ONLY and (name in free or (name == first and not is_global))
    ]
    # With one parameter left, it is the configuration; but a function without any trial may have meant either.
    if unsaid and not (is_whole and len(free) == 1):
        return unsaid[0]
    if is_global:
        return None
    if unsaid:
        raise BadCell(
            f"{shown}: does `{unsaid[0]}` get the trial, or the configuration? Name the trial `trial`, and the dict of "
            "space= `config`: `def train(trial, config): ...`."
        )
    raise BadCell(
        f"{shown} has no parameter for the trial, and does not use `workbench.trial`. {FORM}: its first parameter, or "
        "the one named `trial`, gets the trial. Or write `from workbench import trial` above it."
    )


def _whole(
    shown: str,
    named: Mapping[str, inspect.Parameter],
    space: Mapping[str, Any],
    strange: list[str],
    free: list[str],
    trial: str | None,
) -> str:
    """The parameter that gets all of ``space`` as one dict, since ``strange`` are no parameters."""
    known = [name for name in space if name in named]
    if len(free) == 1 and not known:
        return free[0]
    one, takes = strange[0], [name for name in named if name != trial]
    near = difflib.get_close_matches(one, takes, n=1)
    if len(free) == 1 and not near:
        raise BadSpace(
            f"{shown}: space= gives {', '.join(known)}, a parameter, and {', '.join(strange)}, which is not. Expected "
            f"either only parameters, or only names for `{free[0]}`, which then gets all of them as a dict."
        )
    raise BadSpace(
        f"{shown}: space= gives {one}, which is not a parameter{f' (is {near[0]} meant?)' if near else ''}; it has "
        f"{', '.join(takes) or 'none for a configuration'}. Add the parameter {one}, or a parameter `config`, which "
        "gets all of space= as a dict."
    )


def _nothing_gives(
    function: Callable[..., Any], shown: str, name: str, named: Mapping[str, inspect.Parameter], is_strange: bool
) -> BadCell:
    if name == "self" and name == next(iter(named)):
        return BadCell(
            f"{shown} is a method without its object. Give that of an object: `{shown.removesuffix('()')}` of "
            "`runner = Runner()` is `runner.train`."
        )
    hint = " If its decorator gives it, give it a default." if hasattr(function, "__wrapped__") else ""
    whole = "" if is_strange or not _says_whole(named[name]) else f" A dict of all: `space={{'lr': {_LR}}}`."
    return BadCell(
        f"{shown}: nothing says what {name} should be. Give it a distribution (`{name}=wb.uniform(0, 1)`) or a "
        f"constant (`{name}=0.1`), in the function or beside it (`space={{{name!r}: ...}}`).{whole}{hint}"
    )


_LR = "wb.loguniform(1e-4, 1)"


def _is_many(one: inspect.Parameter) -> bool:
    return one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)


def _is_open(one: inspect.Parameter) -> bool:
    """Whether its default, if any, says nothing."""
    return one.default is _EMPTY or one.default is None


def _annotated(one: inspect.Parameter) -> str:
    """The last name of the annotation: ``Trial`` of ``wb.Trial``, ``dict`` of ``dict[str, Any]``."""
    note = one.annotation
    if note is _EMPTY:
        return ""
    text = note if isinstance(note, str) else getattr(note, "__name__", None) or str(note)
    return text.strip("'\" ").partition("[")[0].partition("|")[0].strip().rpartition(".")[2]


def _is_mapping(one: inspect.Parameter) -> bool:
    note = one.annotation
    return _annotated(one) in _MAPPINGS or (isinstance(note, type) and issubclass(note, dict))


def _says_trial(one: inspect.Parameter) -> bool:
    return one.name == "trial" or _annotated(one) == "Trial"


def _says_whole(one: inspect.Parameter) -> bool:
    return _is_mapping(one) or (one.name in _WHOLE and not _says_trial(one))


# ---------------------------------------------------------------------------------------------------------------------
# The space


def is_plain(value: Any) -> bool:
    """Whether configurations record it as it is: None, a truth value, a number or a text."""
    return (value is None or isinstance(value, bool | int | float | str)) and not isinstance(value, enum.Enum)


def space_of(
    parameters: Mapping[str, inspect.Parameter], call: Call, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is searched over, and what travels beside the function by name: choices among objects, and objects.

    ``given`` overrides defaults. A dict that holds distributions is a choice with one option, and so is a class or a
    function. Any other object is a constant, which is captured and is not a part of configurations.
    """
    others = {name: one for name, one in parameters.items() if name not in (call.trial, call.whole)}
    defaults = {name: one.default for name, one in others.items() if not _is_many(one)}
    searched = {name: value for name, value in defaults.items() if is_plain(value)}
    searched |= {name: value for name, value in defaults.items() if isinstance(value, Distribution)}
    beside: dict[str, Any] = {}
    for name, value in given.items():
        # Configurations name a class or a function by its label, as an option.
        is_option = isinstance(value, _NAMED) or (isinstance(value, dict) and _holds_distribution(value))
        one = choice(value) if is_option else value
        if isinstance(one, Distribution) or _holds_distribution(one) or _is_short(one):
            searched[name] = one  # a distribution inside a list is refused by the space
        else:
            searched.pop(name, None)
        if not (_is_short(one) or (isinstance(one, Distribution) and is_recorded(one))):
            beside[name] = one
    return _in_order(searched), beside


def _is_short(value: Any) -> bool:
    """Whether configurations show it as it is: ``32``, ``"adam"``, ``[64, 32]``."""
    is_few = type(value) in (list, dict) and not _holds_distribution(value) and len(repr(value)) <= _LETTERS
    return is_plain(value) or (is_few and is_recorded(value))


def _holds_distribution(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_distribution, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_distribution, value))
    return isinstance(value, Distribution)


def is_recorded(value: Any) -> bool:
    """Whether a configuration holds the value itself, not only its label."""
    if isinstance(value, Choice):
        return all(map(is_recorded, value.options))
    if type(value) is dict:
        return all(map(is_recorded, value.values()))
    if type(value) is list:
        return all(map(is_recorded, value))
    return is_plain(value) or isinstance(value, Distribution)


def _in_order(searched: Mapping[str, Any]) -> dict[str, Any]:
    """The same, a hyperparameter after those that its condition names."""
    waiting, found = dict(searched), {}
    while waiting:
        ready = next((name for name, one in waiting.items() if not _parents(one) & waiting.keys() - {name}), None)
        name = ready if ready is not None else next(iter(waiting))  # a circle, which the space refuses
        found[name] = waiting.pop(name)
    return found


def _parents(value: Any) -> set[str]:
    when = value.when if isinstance(value, Distribution) else None
    return set() if when is None else {one.name for one in when.comparisons}


# ---------------------------------------------------------------------------------------------------------------------
# Calling


@dataclass(frozen=True, slots=True)
class Callee:
    """A training function in a runner. beside: what was captured beside it, by the names of parameters: choices among
    objects, and constants that are objects."""

    function: Callable[..., Any]
    call: Call
    beside: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, configuration: Mapping[str, Any], trial: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments by position and by name for a configuration: labels become objects again."""
        call, parameters = self.call, inspect.signature(self.function).parameters
        values = {
            name: self._value(name, parameters.get(name), configuration)
            for name in dict.fromkeys([*configuration, *self.beside])
        }
        if call.whole is not None:
            values[call.whole] = {name: values.pop(name) for name in call.names}
        if call.trial is not None:
            values[call.trial] = trial
        before: list[Any] = []
        for place, (name, one) in enumerate(parameters.items()):
            # The trial by position where it is the first: a decorator may give the parameter another name.
            is_first = place == 0 and name == call.trial and one.kind == one.POSITIONAL_OR_KEYWORD
            if is_first or one.kind == one.POSITIONAL_ONLY:
                before.append(values.pop(name, one.default))
        return before, values

    def _value(self, name: str, parameter: inspect.Parameter | None, configuration: Mapping[str, Any]) -> Any:
        default = parameter.default if parameter is not None and name not in self.call.names else None
        given = self.beside.get(name, default)
        if not isinstance(given, Distribution):
            return self.beside[name] if name in self.beside else copy.deepcopy(configuration[name])
        value = configuration[name]
        return value if value is None and given.when is not None else given.pick(value)
