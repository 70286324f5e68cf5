"""What a trial trains: its modules with their parts, their numbers of parameters, and the settings of its optimizers.

Law: it changes nothing; objects that cannot be inspected are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.snapshot.imported import loaded

#: The most parts of one module that are listed; the rest are only counted.
_PARTS = 500
_WORDS = 200


def architecture(objects: Mapping[str, Any]) -> dict[str, Any]:
    """Modules and optimizers among ``objects`` (by name) as plain data.

    A module: ``name``, ``class``, ``parameters`` and ``trainable`` (counts; shared parameters once), and ``tree``,
    pairs of a part's path and its description. An optimizer: ``name``, ``class``, and each group's plain settings.
    """
    torch = loaded("torch")
    found: dict[str, list[dict[str, Any]]] = {"modules": [], "optimizers": []}
    for name, value in objects.items() if torch is not None else ():
        try:
            if isinstance(value, torch.nn.Module):
                found["modules"].append({"name": name, **_module(value)})
            elif isinstance(value, torch.optim.Optimizer):
                found["optimizers"].append({"name": name, **_optimizer(value)})
        except Exception:  # noqa: S112 - the training code must not fail because of this record
            continue
    return found


def _module(module: Any) -> dict[str, Any]:
    parameters = [*module.parameters()]
    tree: list[list[str]] = []
    for path, part in module.named_modules():
        if len(tree) >= _PARTS:
            break
        tree.append([path, f"{type(part).__name__}({part.extra_repr()})"[:_WORDS]])
    return {
        "class": type(module).__name__,
        "parameters": sum(one.numel() for one in parameters),
        "trainable": sum(one.numel() for one in parameters if one.requires_grad),
        "tree": tree,
    }


def _optimizer(optimizer: Any) -> dict[str, Any]:
    groups = []
    for group in optimizer.param_groups:
        plain = {
            str(key): list(value) if isinstance(value, tuple) else value
            for key, value in group.items()
            if isinstance(value, bool | int | float | str | None)
            or (isinstance(value, tuple) and all(isinstance(one, int | float) for one in value))
        }
        groups.append({**plain, "parameters": sum(one.numel() for one in group["params"])})
    return {"class": type(optimizer).__name__, "groups": groups}
