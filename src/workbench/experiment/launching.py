"""From a draft and its options to the experiment that is shown: a new one, or one that has the same content."""

from __future__ import annotations

from workbench.asking import check_cluster
from workbench.experiment.experiment import Experiment
from workbench.experiment.grammar import Options
from workbench.experiment.opening import remember
from workbench.launch import Draft


def experiment_of(made: Draft, options: Options) -> tuple[Experiment, bool]:
    """The experiment to show, and whether it is new."""
    shown = made.shown(again=options.again, same=options.same)
    if shown is None:
        check_cluster(made.store, options.cluster)
    experiment = Experiment.of(made.store, made.launch().id if shown is None else shown)
    if shown is not None:
        stands = str(made.standing) if made.standing.differences else "unchanged"
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
    return experiment, shown is None
