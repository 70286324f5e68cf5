"""From options as they were written to the experiment that is shown: a new one, or one that has the same content."""

from __future__ import annotations

from workbench.asking import check_cluster
from workbench.experiment.experiment import Experiment
from workbench.experiment.grammar import Options
from workbench.experiment.opening import remember
from workbench.launch import Draft
from workbench.settled import Settings, settled
from workbench.snapshot.reading.cell import Cell


def settings_of(cell: Cell, options: Options) -> Settings:
    """How to search over ``cell`` as the options say. Raises as :func:`workbench.settled.settled`."""
    return settled(
        cell,
        goal=options.goal,
        steps=options.steps,
        scheduler=options.scheduler_of(cell),
        searcher=options.searcher_record,
        first=options.first,
        configurations=options.configurations,
        notify=options.notify,
        slots_least=options.slots_least,
        packs=options.packs,
        **options.chosen(),
    )


def experiment_of(made: Draft, options: Options) -> tuple[Experiment, bool]:
    """The experiment to show, and whether it is new."""
    shown, is_new = made.shown(again=options.again, same=options.same), False
    stands = str(made.standing) if made.standing.differences else "unchanged"
    if shown is None:
        check_cluster(made.store, options.cluster)
        spec, is_new = made.launch_once(again=options.again)
        shown, stands = spec.id, "unchanged"
    experiment = Experiment.of(made.store, shown)
    if not is_new:
        unsure = made.standing.not_checked if stands == "unchanged" else ""
        shows = f"showing {experiment.label}; use --again to retrain"
        experiment.changed.append("; ".join(filter(None, [f"{stands}: {shows}", unsure])))
        if options.mirror:
            experiment.changed.append(
                f"its mirrors are unchanged; `workbench export {experiment.label} --to mlflow:` writes it now"
            )
        if "keep" in options.written:
            experiment.changed.append(
                f"its rule is unchanged; %workbench keep {experiment.label} {options.keep} changes it"
            )
    remember(experiment)
    return experiment, is_new
