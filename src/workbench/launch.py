"""From a train cell or function to an experiment that the engine can start. Law: all refusals come before any write.

The cell form and the function form become the same kind of spec, with a capture and a snapshot, by the same steps.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.choices import BESIDES
from workbench.compare.same import Now, Standing, chosen, standing
from workbench.errors import BadOption
from workbench.interpreter import versions
from workbench.records import Json, Program, Spec, Training
from workbench.records.names import checked_name
from workbench.search import Plan
from workbench.search.cost import Times
from workbench.settled import Settings, planned
from workbench.snapshot import Snapshot, take
from workbench.snapshot.capture import Capture, capture
from workbench.snapshot.modules import one_look, project_digests, project_modules
from workbench.snapshot.reading.cell import Cell
from workbench.snapshot.reading.facts import RUNS
from workbench.snapshot.reading.script import imports_as
from workbench.snapshot.surroundings.around import Around
from workbench.snapshot.surroundings.launched import asked_aside
from workbench.snapshot.unsent import unsent
from workbench.store import Store, new_id
from workbench.store.layout import FOLDER
from workbench.store.lists.known import experiments
from workbench.store.lists.measured import times
from workbench.store.lists.numbering import write_numbered
from workbench.store.owner import ownership
from workbench.store.owner.trust import is_foreign

#: Settings that do not change the result.
_BESIDES = ("notify", *BESIDES)
#: Installed packages that take long to import: the forkserver imports them in advance if the notebook has imported
#: them.
_HEAVY = ("numpy", "scipy", "pandas", "sklearn", "torch", "torchvision", "torchaudio", "transformers", "lightning")
#: What :func:`expecting` calls.
EXPECTING: set[Callable[[], object]] = set()


def expecting() -> None:
    """An experiment will be drafted and launched: what its legs wait for can begin meanwhile."""
    for prepare in [*EXPECTING]:
        prepare()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where it was typed: the magic line as typed and as expanded, the notebook, the executed cells, the cell's id."""

    typed: str = ""
    expanded: str = ""
    notebook: str | None = None
    cells: Sequence[Any] = ()
    cell_id: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An experiment that could be started: everything is checked and captured, nothing is trained."""

    store: Store
    name: str
    cell: Cell
    settings: Settings
    origin: Origin
    capture: Capture
    #: The fingerprint by which the same cell, run again, finds its experiment.
    content: str
    #: What training gets from this process: its variables, its settings, its threads.
    around: Around
    #: The newest experiment of this name with the same content for which no dependency of training has changed.
    twin: str | None
    #: The newest experiment of this name.
    previous: str | None
    version: int
    #: Who launches it, and the state of the repository: git is asked while the rest is captured.
    launched: Future[Json]
    #: For a fork, the checkpoint from which its trials start, in the form of the spec.
    parent: Json = None
    #: How the twin, else the newest with the same content, else the newest of this name compares with the present.
    standing: Standing = field(default_factory=Standing)
    #: The newest experiment of this name with the same content, whether or not its dependencies have changed.
    former: str | None = None
    #: All experiments of this name that were there.
    others: frozenset[str] = frozenset()
    #: A note about values that the notebook set in modules; empty without any.
    unsent: str = ""

    def shown(self, *, again: bool, same: bool) -> str | None:
        """The experiment that is shown instead of a new one. Raises BadOption if both were asked for."""
        if again and same:
            raise BadOption(
                "--again retrains, and --same shows what was trained before. Expected only one of them; leave one out."
            )
        return None if again else self.twin or (self.former if same else None)

    @property
    def beside(self) -> list[str]:
        """Notes for the user: if training does not go into the folder's usual store, and if the notebook has set what
        training will not find."""
        told = ownership.note(self.store, self.store.root.with_name(FOLDER))
        return [*filter(None, [told, self.unsent])]

    @property
    def plan(self) -> Plan:
        """The plan of what would be trained."""
        return planned(self.cell.space, self.settings)

    def launch(self) -> Spec:
        """Write the snapshot and the spec. The engine starts it when it is asked to."""
        return self.launch_once(again=True)[0]

    @one_look()
    def launch_once(self, *, again: bool) -> tuple[Spec, bool]:
        """As :meth:`launch`, and whether the experiment is new. Without ``again``, it is not if another process has
        launched the same content since this was drafted."""
        with imports_as(self.cell.file, self.cell.module):
            snapshot = take(
                self.store,
                cell=self.cell,
                capture=self.capture,
                notebook=self.origin.notebook,
                cells=self.origin.cells,
                cell_id=self.origin.cell_id,
                typed=self.origin.typed,
                expanded=self.origin.expanded,
                seed=self.settings.seed,
            )
            spec = dataclasses.replace(self.spec(snapshot), launched=self.launched.result())
        written = write_numbered(self.store, spec, (lambda: None) if again else self._launched_since)
        return written, written.id == spec.id

    def _launched_since(self) -> str | None:
        """An experiment with the same content that was not there when this was drafted."""
        new = [one for one in experiments(self.store) if one["name"] == self.name and one["id"] not in self.others]
        twin, _ = chosen(self.store, _alike(self.store, new, self.content), Now.here(self.around))
        return twin.experiment if twin else None

    def spec(self, snapshot: Snapshot | None) -> Spec:
        """The spec as it would be written, with a new id."""
        every = self.settings.save_every
        return Spec(
            id=new_id(),
            name=self.name,
            version=self.version,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            goal=self.settings.goal,
            space=self.cell.space.to_json(),
            scheduler=self.settings.scheduler,
            searcher=self.settings.searcher,
            program=Program(
                kind=self.cell.kind,
                source=self.cell.source,
                filename=self.cell.file or f"<{self.name}@{self.version}>",
                capture=self.capture.digest,
                entry=self.cell.entry,
                module=self.cell.module,
                arguments=self.cell.arguments,
                metrics=self.cell.metrics,
                listens=self.cell.listens,
                call=self.cell.call,
            ),
            training=training_here(snapshot, self.cell.imports, self.around),
            **self.settings.recorded(),
            save_s=every if isinstance(every, float) else None,
            save_steps=every if isinstance(every, int) else None,
            parent=self.parent,
            notify=self.settings.notify,
            slots_least=self.settings.slots_least,
            packs=self.settings.packs,
            since=self._since(),
            snapshot=None if snapshot is None else snapshot.digest,
            content=self.content,
            typed=self.origin.typed,
            expanded=self.origin.expanded,
            notebook=self.origin.notebook,
        )

    def _since(self) -> Json:
        found = self.standing
        if not found.differences:
            return None
        return {"experiment": found.experiment, "differences": [one.to_json() for one in found.differences]}


def measured(store: Store, name: str) -> Times | None:
    """What a set-up and a step took: as tried last in this process, or in the newest version that has trained."""
    if (tried := TRIED.get((str(store.root), name))) is not None:
        return tried
    versions = sorted((one for one in experiments(store) if one["name"] == name), key=_age, reverse=True)
    found = (times(store, one["id"], one["label"]) for one in versions)
    return next((one for one in found if one is not None), None)


#: What ``--try`` has measured in this process, by store and name.
TRIED: dict[tuple[str, str], Times] = {}


def _alike(store: Store, entries: Sequence[Json], content: str) -> list[str]:
    """Which of these experiments were launched here with this content, the newest first."""
    # An archive may say anything of itself: that is not a result of training here.
    own = [one for one in entries if one.get("content") == content and not is_foreign(store, one["id"])]
    return [one["id"] for one in sorted(own, key=_age, reverse=True)]


@one_look()
def draft(
    cell: Cell,
    namespace: Mapping[str, Any],
    name: str,
    settings: Settings,
    store: Store,
    origin: Origin,
    parent: Json = None,
    *,
    values: Mapping[str, Any] | None = None,
    parts: Collection[str] = (),
) -> Draft:
    """Capture what ``cell`` needs from ``namespace``, and find out whether the same content was trained before.

    parent: for a fork, the result of :func:`workbench.replay.fork.parent_of`. values, parts: for a function, as
    :func:`~workbench.snapshot.capture.capture` takes them.
    """
    checked_name(name)
    store.create()
    launched = asked_aside(Path.cwd())
    around = Around.here(settings.threads, _executed_here(origin))
    captured = capture(
        cell.needs,
        namespace,
        store,
        assigned=cell.assigned,
        attributes=cell.attributes,
        imports=cell.imports,
        values=values,
        parts=parts,
        entry=cell.entry,
    )
    with imports_as(cell.file, cell.module):
        project = _project(cell)
    content = fingerprint(cell, settings, captured.fingerprint, project, parent)
    others = [entry for entry in experiments(store) if entry["name"] == name]
    newest = max(others, key=_age, default=None)
    same = _alike(store, others, content)
    twin, former = chosen(store, same, now := Now.here(around))
    is_own = newest is not None and not is_foreign(store, newest["id"])
    found = twin or former or (standing(store, newest["id"], now) if newest and is_own else Standing())
    return Draft(
        store=store,
        name=name,
        cell=cell,
        settings=settings,
        origin=origin,
        capture=captured,
        content=content,
        around=around,
        twin=twin.experiment if twin else None,
        previous=newest["id"] if newest else None,
        version=newest["version"] + 1 if newest else 1,
        parent=parent,
        standing=found,
        former=same[0] if same else None,
        others=frozenset(one["id"] for one in others),
        unsent=unsent(cell.source, _executed_here(origin), namespace, captured.modules),
        launched=launched,
    )


def _age(entry: Mapping[str, Any]) -> tuple[int, str]:
    return entry["version"], entry["id"]


def _executed_here(origin: Origin) -> list[str]:
    """The texts of cells that this process has executed; a train cell runs elsewhere."""
    texts = [str(one.get("source", "")) if isinstance(one, Mapping) else str(one) for one in origin.cells]
    return [text for text in texts if not text.lstrip().startswith("%%") or text.split()[0][2:] in RUNS]


def fingerprint(cell: Cell, settings: Settings, captured: str, project: Mapping[str, str], parent: Json = None) -> str:
    """The digest of everything that determines a result: text (without comments), space, settings, captured values,
    project code.

    Slots, time limit, checkpoint frequency, retention and checks are not part of it.
    """
    chosen = dataclasses.asdict(settings)
    # As before these could be given.
    plain = {
        "threads": settings.threads is None,
        "seeds_each": settings.seeds_each == 1,
        "slots_least": settings.slots_least is None,
        "strategy": settings.strategy == "replicate",
        "packs": True,  # it changes no result
    }
    for name in (*_BESIDES, *(name for name, is_default in plain.items() if is_default)):
        del chosen[name]
    if not settings.searcher.given:
        chosen["searcher"] = {"kind": settings.searcher.kind}  # as before configurations could be given
    parts = [1, cell.kind, cell.content or cell.source, cell.space.to_json(), chosen, captured, project]
    if parent:
        parts.append({key: parent[key] for key in ("experiment", "trial", "step", "digest")})
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _project(cell: Cell) -> dict[str, str]:
    """Digests of the project code that contains the function or that the cell or function imports itself."""
    return project_digests([*cell.imports, *([cell.module] if cell.module else [])])


# ---------------------------------------------------------------------------------------------------------------------
# The surroundings


def has_imported(package: str) -> bool:
    """Whether this process has imported an installed package."""
    return package in sys.modules


def training_here(snapshot: Snapshot | None, imports: Sequence[str], around: Around) -> Training:
    """This process's surroundings, as runners get them."""
    here = os.getcwd()
    path = [entry or here for entry in sys.path]
    if snapshot is not None and snapshot.code is not None:
        path.insert(0, str(snapshot.code))
    own = project_modules(imports).values()
    imported = {name.partition(".")[0] for name in (*imports, *(one for module in own for one in module.imports))}
    loaded = tuple(name for name in _HEAVY if name in imported or has_imported(name))
    return Training(
        python=sys.executable,
        cwd=here,
        path=tuple(dict.fromkeys(path)),
        threads=around.threads,
        hash_seed=around.hash_seed,
        env=around.variables.env,
        preload=(*loaded, "torch._dynamo") if "torch" in loaded else loaded,
        versions=versions(),
        is_whole=True,
        secrets=around.variables.secrets,
        settings=around.settings,
    )
