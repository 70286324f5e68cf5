"""Where it was trained: packages, Python, processor, GPUs, threads."""

from __future__ import annotations

from typing import Any

from workbench.compare.section import Item, Section, change, counted
from workbench.compare.sections.packages import likely
from workbench.compare.sides import Side

#: Packages that do a trial's arithmetic; they come before those that the cell does not import.
_COMPUTES = ("torch", "numpy", "scipy", "pandas", "scikit-learn", "torchvision", "torchaudio", "lightning")
#: Properties of the machine that may change a result.
_MACHINE = ("system", "architecture", "processor", "gpus", "libc")


def libraries(a: Side, b: Side) -> Section | None:
    """Python and packages that were added, removed or changed; those that the training uses first.

    Packages that came or went are last, and not in the title, if neither side's training imported anything of their
    names. They may still be a cause: a distribution may hold packages of other names.
    """
    one, other = _versions(a), _versions(b)
    used = {name.lower().replace("_", "-") for side in (a, b) for name in _modules(side)}
    section = Section("libraries", [])
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    imported = _imported(a, b)
    idle = {name for name in {*one} ^ {*other} if imported and name not in used and not likely(name) & imported}
    for name in sorted(
        names, key=lambda name: (name in idle, name != "python", name not in used, name not in _COMPUTES, name)
    ):
        if name in idle:
            note = "neither side's training imported a package of this name"
            section.items.append(Item(name, one.get(name), other.get(name), note))
            continue
        note = "the training uses it" if name in used or name == "python" else ""
        section.items.append(Item(name, one.get(name), other.get(name), note))
        if name not in one:
            section.short.append(f"{name} {_bare(other[name])} added")
        elif name not in other:
            section.short.append(f"{name} {_bare(one[name])} removed")
        else:
            same = _bare(one[name]) == _bare(other[name])
            section.short.append(
                f"{name} from elsewhere" if same else change(name, _bare(one[name]), _bare(other[name]))
            )
    if idle and not section.short:
        section.short = [f"{counted(len(idle), 'package')} came or went that training did not import by name"]
    return section if section.items else None


def _imported(a: Side, b: Side) -> set[str]:
    """The packages that the trials of both sides imported; empty if it is not known for one of them."""
    told: list[dict[str, Any]] = [side.series.meta().get("used") or {} for side in (a, b) if side.series is not None]
    if len(told) < 2 or not all(used.get("complete") and used.get("packages") for used in told):
        return set()
    return {str(name).lower() for used in told for name in used["packages"]}


def _versions(side: Side) -> dict[str, str]:
    found = {str(name): str(version) for name, version in side.environment("distributions").items()}
    python = side.environment("python").get("version") or side.spec.training.versions.get("python")
    if not found:
        found = {name: version for name, version in side.spec.training.versions.items() if name != "python"}
    # The runner reported the versions with which the trial was trained.
    trained: dict[str, Any] = side.detail(_witness(side)).get("environment") or {}
    for name in ("torch", "numpy"):
        if name in trained and not _same_version(found.get(name, ""), str(trained[name])):
            found[name] = str(trained[name])
    python = trained.get("python", python)
    return {**({"python": str(python)} if python else {}), **found}


def _same_version(recorded: str, told: str) -> bool:
    """The metadata may omit a suffix of the module's version: ``2.13.0`` and ``2.13.0+cpu``."""
    return _bare(recorded).partition("+")[0] == told.partition("+")[0]


def _bare(version: str) -> str:
    return version.partition(" @ ")[0]


def _modules(side: Side) -> list[str]:
    capture = side.snapshot.get("capture") or {}
    return [*(capture.get("modules") or {}), *side.spec.training.preload]


def _witness(side: Side) -> int | None:
    """The trial that describes the machine: the named one, else the first."""
    return side.trial if side.trial is not None else min(side.trials, default=None)


def hardware(a: Side, b: Side) -> Section | None:
    """Processor, GPUs and platform; the threads that trials reported, unless the experiments set them."""
    one, other = _machine(a), _machine(b)
    items = [
        Item(name, _joined(one.get(name)), _joined(other.get(name)))
        for name in {**one, **other}
        if one.get(name) != other.get(name) and name not in ("host", *_asked(a, b))
    ]
    if not items:
        return None
    if one.get("host") != other.get("host"):
        items.append(Item("host", one.get("host"), other.get("host")))
    return Section("hardware", items, [change(item.name, item.a, item.b) for item in items])


def _asked(a: Side, b: Side) -> tuple[str, ...]:
    """``threads`` if the experiments ask for different numbers: the environment section shows these."""
    return ("threads",) if a.spec.training.threads != b.spec.training.threads else ()


def _machine(side: Side) -> dict[str, Any]:
    machine = side.environment("machine")
    found: dict[str, Any] = {name: machine[name] for name in (*_MACHINE, "host") if machine.get(name)}
    trained: dict[str, Any] = side.detail(_witness(side)).get("environment") or {}
    for name, key in (("threads", "threads"), ("device", "device"), ("cuda", "CUDA"), ("host", "host")):
        if trained.get(name) is not None:
            found[key] = trained[name]
    if "machine" in trained:
        found["architecture"] = trained["machine"]
    return found


def _joined(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


# ---------------------------------------------------------------------------------------------------------------------
# Architecture


def architecture(a: Side, b: Side) -> Section | None:
    """Modules, parameters and optimizers as the runner found them when the set-up was done."""
    trials = (a.trial, b.trial)
    if a.trial is None or b.trial is None:
        pair = next(((n, n) for n in a.trials if n in b.trials and _alike(a, b, n)), None)
        if pair is None:
            return None
        trials = pair
    one, other = (side.detail(trial).get("architecture") for side, trial in zip((a, b), trials, strict=True))
    if not one or not other:
        return None
    section = Section("architecture", [])
    for kind in ("modules", "optimizers"):
        left, right = ({entry["name"]: entry for entry in found.get(kind) or ()} for found in (one, other))
        for name in {**left, **right}:
            before, after = left.get(name), right.get(name)
            if before is None or after is None:
                found = before or after or {}
                section.items.append(Item(name, before and before["class"], after and after["class"]))
                section.short.append(f"{name} ({found['class']}) {'added' if before is None else 'removed'}")
            elif kind == "modules":
                _compare_module(section, name, before, after)
            else:
                _compare_optimizer(section, name, before, after)
    return section if section.items else None


def _alike(a: Side, b: Side, number: int) -> bool:
    return bool(a.trials[number].get("configuration") == b.trials[number].get("configuration"))


def _compare_module(section: Section, name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    one, other = (dict(entry["tree"]) for entry in (before, after))
    kinds = [sorted(text.partition("(")[0] for text in tree.values()) for tree in (one, other)]
    for path in {**one, **other}:
        if one.get(path) != other.get(path):
            section.items.append(Item(f"{name}.{path}" if path else name, one.get(path), other.get(path)))
    for word, mine, theirs in (("added", kinds[1], kinds[0]), ("removed", kinds[0], kinds[1])):
        rest = list(mine)
        for kind in theirs:
            if kind in rest:
                rest.remove(kind)
        section.short += [
            kind + (f" ×{rest.count(kind)}" if rest.count(kind) > 1 else "") + f" {word}"
            for kind in dict.fromkeys(rest)
        ]
    if before["parameters"] != after["parameters"]:
        counts = [millions(entry["parameters"]) for entry in (before, after)]
        section.items.append(Item(f"parameters of {name}", before["parameters"], after["parameters"]))
        section.short.append(f"{counts[0]} → {counts[1]} parameters")
    elif one != other and not section.short:
        section.short.append(
            f"{counted(sum(1 for p in {**one, **other} if one.get(p) != other.get(p)), 'module')} changed"
        )


def _compare_optimizer(section: Section, name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    if before["class"] != after["class"]:
        section.items.append(Item(name, before["class"], after["class"]))
        section.short.append(change(name, before["class"], after["class"]))
        return
    for place, (one, other) in enumerate(zip(before["groups"], after["groups"], strict=False)):
        which = f" (group {place})" if max(len(before["groups"]), len(after["groups"])) > 1 else ""
        for key in {**one, **other}:
            # The learning rate of a group is shown here only if it is not a hyperparameter.
            if one.get(key) != other.get(key) and key != "parameters":
                section.items.append(Item(f"{name}.{key}{which}", one.get(key), other.get(key)))
                section.short.append(change(f"{name}.{key}", one.get(key), other.get(key)))
    if len(before["groups"]) != len(after["groups"]):
        counts = [counted(len(entry["groups"]), "group") for entry in (before, after)]
        section.items.append(Item(f"groups of {name}", *counts))
        section.short.append(change(name, *counts))


def millions(count: int) -> str:
    """``1.3 M`` for 1,300,000."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
