"""Which executed cells produced the names that a cell uses. Law: in order of execution, from the texts alone; a cell
that may matter is included, one that cannot matter is not.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from workbench.snapshot.reading.facts import Body, Call, Facts, facts_of

#: Modules that only display, log or measure time.
_SHOWS = frozenset(
    {"matplotlib", "pylab", "seaborn", "plotly", "bokeh", "altair", "IPython", "ipywidgets", "rich", "pprint"}
    | {"logging", "warnings", "time", "datetime", "tqdm", "gc", "timeit", "tabulate", "torchinfo"}
    | {"torchsummary", "inspect", "math"}
)
#: Methods that change nothing.
_READS = frozenset(
    {"head", "tail", "describe", "info", "mean", "sum", "std", "var", "min", "max", "median", "quantile"}
    | {"value_counts", "copy", "clone", "item", "numpy", "tolist", "items", "keys", "values", "get", "format"}
    | {"join", "split", "strip", "size", "dim", "count", "unique", "nunique", "to_string", "corr", "groupby"}
    | {"plot", "hist", "show", "parameters", "named_parameters", "state_dict", "argmax", "argmin", "startswith"}
    | {"endswith", "lower", "upper", "index", "all", "any", "isna", "isnull", "sample", "reshape", "view"}
    | {"astype", "to", "cpu", "detach", "exists", "is_file", "glob", "read_text", "read_bytes", "transpose"}
    | {"squeeze", "unsqueeze", "float", "long", "int", "round", "abs", "boxplot", "memory_usage", "children"}
    | {"modules", "numel", "isin", "scatter", "savefig", "summary", "iterdir", "decode"}
)
#: Those of them by which a torch module changes itself: if the result is unused, the call is not a read.
_MOVES = frozenset({"to", "float", "cpu"})
#: Functions of modules that change their arguments; so do those whose name ends in ``_``.
_CHANGES = frozenset(
    {"shuffle", "heappush", "heappop", "heapify", "insort", "insort_left", "insort_right", "seed_all"}
    | {"fill_diagonal", "copyto", "putmask", "put_along_axis", "at"}
)
_BUILTINS_THAT_CHANGE = frozenset({"setattr", "delattr", "next", "exec", "eval"})
#: Functions that draw random numbers, by the library whose generator they advance.
_DRAWS = frozenset(
    {"rand", "randn", "randint", "random", "normal", "uniform", "shuffle", "permutation", "choice", "choices"}
    | {"randperm", "sample", "gauss", "rand_like", "randn_like", "bernoulli", "multinomial", "random_split"}
    | {"standard_normal", "binomial", "poisson", "beta", "gamma", "exponential", "random_sample", "betavariate"}
    | {"randrange"}
)
_GENERATORS = ("numpy", "torch", "random")
#: Functions of modules that change a global setting.
_SETS = re.compile(r"seed|set|use|enable|disable|option|default|config|register|filter|update|append|insert")


class History:
    """Executed cells, in their order.

    sources: their texts. failed: positions of those that ended with an error. Positions count from 0.
    """

    def __init__(self, sources: Sequence[str], failed: Collection[int] = ()) -> None:
        self.sources = sources
        self.facts: list[Facts] = [facts_of(source) for source in sources]
        for number in failed:  # it is not known how far it got
            self.facts[number] = dataclasses.replace(self.facts[number], binds=frozenset())
        self._binders: dict[str, list[int]] = defaultdict(list)
        self._modules: dict[str, str] = {}
        self._functions: dict[str, Body] = {}
        self._classes: set[str] = set()
        for number, facts in enumerate(self.facts):
            for name in facts.may_bind:
                self._binders[name].append(number)
            self._modules |= facts.modules
            self._functions |= facts.functions
            self._classes |= facts.classes
        self._dynamic = [number for number, facts in enumerate(self.facts) if facts.dynamic]
        made = [one for facts in self.facts for one in facts.body.made]
        self._losses = {name for name, _, last in made if last.endswith("Loss")}
        #: Figures, axes and the like: drawing into them changes nothing else.
        self._shown = {name for name, root, _ in made if self._modules.get(root, "").partition(".")[0] in _SHOWS}
        self._shown |= {name for name, root, _ in made if root in self._shown}

    def binder(self, name: str, before: int) -> int | None:
        """The last cell before position ``before`` that defines ``name``, if only possibly."""
        return next((number for number in reversed(self._binders.get(name, ())) if number < before), None)

    def needed(self, names: Iterable[str], before: int, quoted: Collection[str] = ()) -> list[int]:
        """The positions of the cells before ``before`` that produce the values of ``names`` there, in order.

        quoted: texts that name files there.
        """
        wanted = {number for number in range(before) if self.facts[number].arranges}
        asked: set[tuple[str, int]] = set()
        waiting = [(name, before) for name in names]
        opened: set[int] = set()
        files = set(quoted)
        while True:
            while waiting:
                name, at = waiting.pop()
                if (name, at) in asked:
                    continue
                asked.add((name, at))
                found, later = self._makers(name, at)
                wanted |= found
                waiting += [(one, at) for one in later]
            for number in wanted - opened:
                facts = self.facts[number]
                waiting += [(name, number) for name in (*facts.uses, *self._drawn(number))]
                waiting += [(name, number) for name in self._called(number)]
                files |= facts.quoted
            opened |= wanted
            wanted |= {
                number for number in range(before) if self.facts[number].writes and self.facts[number].quoted & files
            }
            if not waiting and wanted <= opened:
                return sorted(wanted)

    # -- one name -----------------------------------------------------------------------------------------------------

    def _makers(self, name: str, at: int) -> tuple[set[int], set[str]]:
        """The cells before ``at`` that define ``name`` or change its object, and the names that are looked up with
        it."""
        found: set[int] = set()
        later: set[str] = set()
        for number in reversed(self._binders_of(name)):
            if number < at:
                found.add(number)
                if self._is_code(name, number):
                    later |= self.facts[number].later - {name}
                if name in self.facts[number].binds or name.startswith("~"):
                    break
        if not found:
            if name.startswith("~") or hasattr(builtins, name):
                return set(), set()
            return {number for number in self._dynamic if number < at}, set()
        first = min(found)
        found |= {number for number in self._dynamic if first < number < at}
        found |= {number for number in self._changers(name) if first < number < at}
        return found, later

    def _is_code(self, name: str, number: int) -> bool:
        """Whether the cell makes ``name`` a function or a class, which looks up names when it is called."""
        facts = self.facts[number]
        return name in facts.functions or name in facts.classes or "lambda" in self.sources[number]

    def _binders_of(self, name: str) -> list[int]:
        return self._seeders.get(name, []) if name.startswith("~") else self._binders.get(name, [])

    def _changers(self, name: str) -> list[int]:
        return self._all_changes.get(name, [])

    @functools.cached_property
    def _all_changes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for number in range(len(self.facts)):
            for name in {*self._changed(number), *self._drawn(number)}:
                found[name].append(number)
        return found

    # -- what a cell changes ------------------------------------------------------------------------------------------

    @functools.cached_property
    def _held(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        holds: dict[str, set[str]] = defaultdict(set)
        held_by: dict[str, set[str]] = defaultdict(set)
        for facts in self.facts:
            for name, held in facts.body.holds:
                if held not in self._modules and held not in self._functions:
                    holds[name].add(held)
                    held_by[held].add(name)
        return holds, held_by

    @functools.cache  # noqa: B019 - lives as long as the history, which serves one query
    def _changed(self, number: int) -> frozenset[str]:
        """Names whose objects the cell may change: directly, through objects that refer to them, and those objects
        themselves."""
        facts = self.facts[number]
        direct = self._changed_by(facts.body, 0)
        own = {name for name in direct if name in facts.binds and name not in facts.uses}
        holds, held_by = self._held
        below = _closure(direct, holds)
        return frozenset(_closure(below, held_by) | below) - own

    def _changed_by(self, body: Body, depth: int) -> set[str]:
        found = set(body.stores)
        for call in body.calls:
            found |= self._changed_by_call(call, depth)
        return found

    def _changed_by_call(self, call: Call, depth: int) -> set[str]:
        last = (call.attributes or (call.root,))[-1]
        given = {name for _, name in call.arguments if name not in self._modules}
        into = {name for place, name in call.arguments if place == "out"}
        if call.root in self._functions and not call.attributes:
            return self._changed_by_function(self._functions[call.root], call, depth)
        module = self._modules.get(call.root)
        if module is not None or (not call.attributes and hasattr(builtins, call.root)):
            top = (module or "").partition(".")[0]
            if module is None:
                return given if last in _BUILTINS_THAT_CHANGE else set()
            if top in _SHOWS or last[:1].isupper():
                return into
            if last in _CHANGES or (last.endswith("_") and not last.startswith("__")):
                return given | into
            if not call.is_statement:
                return into
            # A call whose result is unused: it sets something up (a seed, an option), or changes its arguments.
            return into | (given if not call.attributes else {call.root} if _SETS.search(last) else set())
        if call.root in self._classes and not call.attributes:
            return set()
        if call.root in self._shown:
            return set()
        if call.attributes:
            is_read = last in _READS and not (call.is_statement and last in _MOVES)
            return set() if is_read else {call.root, *given}
        # A called object may change its state (running means, say). A loss does not.
        return set() if call.root in self._losses or call.root.lower().endswith(("loss", "criterion")) else {call.root}

    def _changed_by_function(self, function: Body, call: Call, depth: int) -> set[str]:
        if depth > 3:
            return {name for _, name in call.arguments}
        changed = self._changed_by(function, depth + 1)
        by_place: dict[int | str, str] = dict(enumerate(function.parameters)) | {
            one: one for one in function.parameters
        }
        inside = {name for name, held in function.holds if held in function.parameters and name in changed}
        parameters = changed | {held for name, held in function.holds if name in inside}
        given = {name for place, name in call.arguments if by_place.get(place, "") in parameters or place == "**"}
        return given | {name for name in changed if name in self._binders and name not in function.parameters}

    # -- random numbers -----------------------------------------------------------------------------------------------

    def _library(self, call: Call) -> str | None:
        path = ".".join([self._modules.get(call.root, ""), *call.attributes])
        top = path.partition(".")[0]
        return top if top in _GENERATORS else None

    @functools.cache  # noqa: B019 - lives as long as the history
    def _drawn(self, number: int) -> frozenset[str]:
        """``~numpy`` and the like: the global generators that the cell advances."""
        found = set()
        facts = self.facts[number]
        bodies = [
            facts.body,
            *(self._functions[call.root] for call in facts.body.calls if call.root in self._functions),
        ]
        for call in (call for body in bodies for call in body.calls):
            last = (call.attributes or (self._modules.get(call.root, call.root).rpartition(".")[2],))[-1]
            library = self._library(call)
            if library == "torch" and (last in _DRAWS or last[:1].isupper() or last.endswith("_")):
                found.add("~torch")
            elif library is not None and last in _DRAWS and (library != "numpy" or "random" in self._path(call)):
                found.add(f"~{library}")
            elif call.root in self._classes and not call.attributes and "torch" in self._tops:
                found.add("~torch")  # the constructor of a torch module draws its weights
        return frozenset(found)

    def _path(self, call: Call) -> str:
        return ".".join([self._modules.get(call.root, ""), *call.attributes])

    @functools.cached_property
    def _tops(self) -> set[str]:
        return {path.partition(".")[0] for path in self._modules.values()}

    @functools.cached_property
    def _seeders(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for number, facts in enumerate(self.facts):
            if facts.trains:
                found["~trained"].append(number)
            for call in facts.body.calls:
                last = (call.attributes or (call.root,))[-1]
                if "seed" in last.lower() and last != "initial_seed":
                    library = self._library(call)
                    for one in [library] if library else _GENERATORS:
                        if number not in found[f"~{one}"]:
                            found[f"~{one}"].append(number)
        return found

    def _called(self, number: int) -> set[str]:
        """The names that functions called by the cell look up."""
        found: set[str] = set()
        for name in self.facts[number].uses:
            binder = self.binder(name, number)
            if binder is not None and self._is_code(name, binder):
                found |= self.facts[binder].later
        return found


def _closure(names: Iterable[str], edges: dict[str, set[str]]) -> set[str]:
    found = set(names)
    waiting = list(found)
    while waiting:
        more = edges.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found
