"""A trained model for other programs: safetensors, torch.export or ONNX. The entry point names this file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.exporter import Order
    from workbench.store import Store


# Imports are inside functions: the process that writes a model imports this package too, and needs none of them.
def write(store: Store, order: Order) -> dict[str, Any]:
    """Write the model of a trial; see :func:`workbench.exporters.model.ordering.write_model`."""
    from workbench.exporters.model.ordering import write_model

    target = None if order.target is None else Path(order.target)
    return write_model(store, order.ref, order.form or "", target, inputs=order.inputs, name=order.object)


def lines(told: dict[str, Any]) -> list[str]:
    """What was written and how it was checked, as lines for the user."""
    from workbench.exporters.model.ordering import sentence

    return [f"{sentence(told)}.", f"Written: {told['file']}"]
