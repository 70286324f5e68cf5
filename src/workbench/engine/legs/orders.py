"""The order that a leg receives. Law: data; the worker reads the outer part, the runner the part under ``leg``."""

from __future__ import annotations

from workbench.engine.legs.leg import Leg
from workbench.messages import LegOrder, Order
from workbench.records import Spec, Training
from workbench.search import Search
from workbench.store import Store


def leg_order(
    store: Store,
    spec: Spec,
    search: Search,
    leg: Leg,
    training: Training,
    known_step: int,
    *,
    may_wait: bool,
    is_short: bool = False,
) -> Order:
    """The order for ``leg`` in the environment ``training``.

    known_step: the last step whose points are known. may_wait: whether it may wait at its level to be continued, unless
    it is_short, which means that it probably takes a fraction of a second.
    """
    max_steps = max(spec.length, search.plan.scheduler.last)
    return Order(
        key=leg.key,
        experiment=spec.id,
        label=spec.label,
        attempt=leg.attempt,
        start=leg.start,
        grace_s=spec.grace_s,
        setup_limit_s=spec.setup_limit_s,
        strict=spec.deterministic == "strict",
        log=str(store.experiment(spec.id).trial(leg.trial).log),
        training=training,
        keep_data=spec.keep_data,
        data_back=spec.data_back,
        leg=LegOrder(
            store=str(store.root),
            experiment=spec.id,
            trial=leg.trial,
            attempt=leg.attempt,
            start=leg.start,
            until=leg.until,
            levels=frozenset(search.levels(leg.trial)),
            max_steps=max_steps,
            configuration=search.configuration(leg.trial),
            known_step=known_step,
            resume=leg.start > 0 or leg.attempt > 1,
            told=search.trials[leg.trial].step,
            asks=search.plan.scheduler.stops_most,
            is_short=is_short,
            slots=leg.slots,
            parts=leg.parts,
            is_gang=spec.is_elastic,
            may_wait=may_wait and not is_short and leg.until < max_steps and not spec.data_back,
        ),
    )
