"""Why two trials differ, for the user: hybrids are trained one by one, and a table shows the results."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.compare.section import listed, number
from workbench.compare.sections.curves import curve, last
from workbench.compare.sides import Side
from workbench.compare.verdict import parted
from workbench.errors import TrialFailed
from workbench.experiment.experiment import Experiment
from workbench.experiment.trial import Trial
from workbench.records import Json
from workbench.replay.again import Prepared
from workbench.replay.before import trained_before
from workbench.replay.data import not_seen_as_it_was
from workbench.replay.why import Hybrids, Step
from workbench.store import Store
from workbench.store.lists.catalog import Reference
from workbench.store.lists.numbering import write_numbered

if TYPE_CHECKING:
    from nbformat import NotebookNode


@dataclass(slots=True)
class Row:
    """One line of the table.

    what: what was put back (or the trial itself). words: a description of the difference. trial: the trained trial.
    value: the goal's metric at the last common step. apart: the value minus the baseline's. parts_at: the first step at
    which the goal differs from the baseline's, or any metric if only that and the weights do; None if it does not.
    could_not: what was not put back. others: what differs although the goal does not, such as a time or the weights.
    """

    what: str
    words: str
    trial: str
    value: float | None
    apart: float | None
    parts_at: int | None
    could_not: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class Why:
    """Why two trials differ: the baseline, the other one, and a row for each difference that was put back."""

    def __init__(self, a: str, b: str, metric: str, rows: list[Row], notes: list[str]) -> None:
        self.a, self.b, self.metric = a, b, metric
        self.rows = rows
        self.notes = notes

    @property
    def explained(self) -> bool:
        """True where the last row equals the baseline bit for bit."""
        return len(self.rows) > 1 and self.rows[-1].parts_at is None and self.rows[-1].value is not None

    @property
    def cause(self) -> str | None:
        """The difference that, put back, moved the value nearest to the baseline's; None if none moved it."""
        moves = []
        for before, after in zip(self.rows[1:], self.rows[2:], strict=False):
            if before.apart is not None and after.apart is not None and after.what != "trained again":
                moves.append((abs(before.apart) - abs(after.apart), after.what))
        best = max(moves, default=(0.0, ""))
        return best[1] if best[0] > 0 else None

    def to_dict(self) -> dict[str, Json]:
        """The whole answer as plain data."""
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            "rows": [asdict(row) for row in self.rows],
            "explained": self.explained,
            "cause": self.cause,
            "notes": list(self.notes),
        }

    @property
    def words(self) -> str:
        """The answer in one line."""
        # What differs although the goal does not is in the notes.
        goal = f"{self.metric} of " if self.rows[-1].others else ""
        if self.explained and len(self.rows) == 2:
            return f"{goal}{self.b} equals {goal}{self.a} bit for bit"
        if self.explained:
            most = f"; most of it is the {self.cause}" if self.cause else ""
            what = f"its {self.metric} equals that of" if goal else "it equals"
            return f"with {self.rows[-1].what} restored as well, {what} {self.a} bit for bit{most}"
        return f"something that is not recorded, or could not be restored, still differs from {self.a}"

    def table(self) -> list[list[str]]:
        """The head and the rows, as text."""
        head = ["restored", self.metric, "from the baseline", "differs from step", "what it was"]
        return [head, *(self._cells(place, row) for place, row in enumerate(self.rows))]

    @staticmethod
    def _cells(place: int, row: Row) -> list[str]:
        apart = "" if place == 0 or row.apart is None else f"{row.apart:+.6g}" if row.apart else "0"
        where = "" if place == 0 else "never" if row.parts_at is None else str(row.parts_at)
        value = "–" if row.value is None else f"{row.value:.6g}"
        words = "; ".join([row.words, *(f"not restored: {one}" for one in row.could_not)]).strip("; ")
        return [row.what, value, apart, where if row.value is not None else "–", words]

    def __str__(self) -> str:
        cells = self.table()
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join([*lines, *(f"Note: {note}." for note in self.notes), f"{self.words}."])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        top = "".join(f"<th style='text-align:left'>{html.escape(cell)}</th>" for cell in head)
        body = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        notes = "".join(f"<div>Note: {html.escape(note)}.</div>" for note in self.notes)
        end = f"{notes}<div>{html.escape(self.words)}.</div>"
        return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{end}"

    def notebook(self) -> NotebookNode:
        """The answer as a notebook: executing it again shows the same, and trains only what was not trained before."""
        from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

        def shown(source: str, text: str) -> Any:
            output = new_output("execute_result", data={"text/plain": text}, execution_count=1)
            return new_code_cell(source, outputs=[output], execution_count=1)

        told = [
            f"# Why {self.b} differs from {self.a}",
            "One difference after the other is restored, and the trial is trained again from step 0.",
            "Each row includes everything restored above it.",
        ]
        end = [f"**{self.words[:1].upper()}{self.words[1:]}.**", *(f"- {note}" for note in self.notes)]
        return new_notebook(
            cells=[
                new_markdown_cell("\n\n".join(told)),
                shown(f"import workbench as wb\n\nwhy = wb.why({self.a!r}, {self.b!r})\nwhy", str(self)),
                new_markdown_cell("\n".join(end)),
                new_code_cell(f"wb.compare({self.a!r}, {self.b!r})"),
            ],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        )

    def write(self, path: str | Path) -> Path:
        """Write :meth:`notebook` to ``path``."""
        import nbformat

        nbformat.write(self.notebook(), str(path))
        return Path(path)


def why(
    a: str | Trial | Experiment,
    b: str | Trial | Experiment,
    *,
    env: str = "same",
    store: str | Store | None = None,
    say: Callable[[str], None] | None = None,
) -> Why:
    """Find out why ``b`` differs from the baseline ``a``: put back data, configuration, code, libraries and seeds.

    One after the other, training again each time, until nothing differs or nothing is left to put back. For an
    experiment, its best trial is used. env: ``rebuild`` builds the recorded libraries. say: gets a line for each row.
    """
    from workbench.experiment.again import referred

    place, one = referred(a, store)
    _, other = referred(b, store if not isinstance(b, str) else place)
    made = Hybrids(place, one, other, env)
    table = _Table(place, made, say or (lambda line: None))
    table.notes += made.notes
    table.add("baseline", "", made.a.reference)
    table.add("nothing", "as it was", made.b.reference)
    again = made.again()
    if again is not None:
        table.train("trained again", "in today's environment and with today's files", again)
    for step in made.steps():
        if table.rows[-1].parts_at is None and table.rows[-1].value is not None:
            table.notes.append(f"{step.name} need not be restored ({step.words})")
            continue
        table.train(step.name, step.words, made.put_back(step), step)
    metric = made.a.spec.goal.metric
    return Why(str(made.a.reference), str(made.b.reference), metric, table.rows, [*dict.fromkeys(table.notes)])


class _Table:
    """The rows so far."""

    def __init__(self, store: Store, made: Hybrids, say: Callable[[str], None]) -> None:
        self.store, self.made, self.say = store, made, say
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def train(self, what: str, words: str, prepared: Prepared, step: Step | None = None) -> None:
        """Train a hybrid, unless it was trained before, and add its row."""
        known = trained_before(self.store, prepared.spec)
        if known is None:
            write_numbered(self.store, prepared.spec)
        experiment = Experiment.of(self.store, known or prepared.spec.id)
        self.notes += prepared.notes
        if not experiment.is_ended:
            experiment.start()
        try:
            experiment.wait()
        except TrialFailed as error:
            self.notes.append(f"{experiment.label} failed: {str(error).splitlines()[-1]}")
        self.add(what, words, Reference(experiment.id, experiment.label, 0), step)

    def add(self, what: str, words: str, reference: Reference, step: Step | None = None) -> None:
        """Add the row of a trained trial."""
        base, side = Side(self.store, self.made.a.reference), Side(self.store, reference)
        try:
            metric = self.made.a.spec.goal.metric
            values = curve(side, side.trial, metric)
            values = {key: value for key, value in values.items() if key[0] <= self.made.a.steps}
            value, baseline = last(values), last(curve(base, base.trial, metric))
            compared = parted(base, side, self.made.a.steps, metric)
            known = [one.step for one in compared.judged]
            legs = side.series.legs(side.trial) if side.series is not None else []
            unseen = not_seen_as_it_was(side.spec.data_back, legs)
            reached = max((key[0] for key in values), default=0)
            if not known and reached < self.made.a.steps:
                known = [reached + 1]  # it was trained for fewer steps
        finally:
            base.close()
            side.close()
        apart = None if value is None or baseline is None or not math.isfinite(value - baseline) else value - baseline
        could_not = [*(step.could_not if step else ()), *unseen]
        row = Row(what, words, str(reference), value, apart, min(known, default=None), could_not)
        self.rows.append(row)
        if row.parts_at is None:
            weights = ["the weights"] if compared.weights is False else []
            row.others = [*(one.metric for one in compared.others), *weights]
            if row.others:
                named = listed([*compared.named, *weights])
                self.notes.append(f"{what}: {metric} is the same bit for bit, but not {named}")
        moved = "" if len(self.rows) == 1 or apart is None else f" ({apart:+.4g} from the baseline)"
        self.say(f"{what}: {metric} {number(value)}{moved}")
