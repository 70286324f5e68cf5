"""A trained model written for other programs and compared with its own output. Law: a file that differs is removed.

It runs in a process of the training environment's Python: the training code's set-up runs there, the checkpoint is
restored, and the loop continues until it calls the model: that call's input is the example.

    python -m workbench.exporters.model.exporting ORDER ANSWER      # two JSON files
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import BadOption, CannotResume, NotFound, TrialFailed
from workbench.records.names import trial_label
from workbench.snapshot.settings import settings
from workbench.store import Store
from workbench.store.keeping.checkpoints import Folder
from workbench.trial.api.trial import LegLeft
from workbench.trial.export.apart import answered
from workbench.trial.export.loading import LoadCourse, brought

#: What must be installed for each format, besides torch: the name to import, and the name for pip.
NEEDS = {
    "safetensors": ("safetensors",),
    "torch.export": (),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
}
#: Relative difference from the model's own output that counts as rounding, as another order of summation causes it.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
_WRITTEN = re.compile(r"(?P<type>\w+)\[(?P<shape>\d+(?:,\d+)*)?\]")


def write(order: Mapping[str, Any]) -> dict[str, Any]:
    """Write the model of a trial. The order: ``store``, ``experiment``, ``trial``, ``step``, ``configuration``,
    ``format``, ``target``, ``input`` (or None) and ``object`` (the model's name, or None).

    Raises BadOption for an unusable model or input, TrialFailed if the written model differs.
    """
    missing = [name for name in NEEDS[order["format"]] if not _is_there(name)]
    if missing or not _is_there("torch"):
        wanted = " ".join(missing or ["torch"])
        raise BadOption(
            f"--model {order['format']} needs {wanted} in the training environment: {sys.executable} -m pip install "
            f"{wanted}, or workbench[models]."
        )
    import torch

    store = Store(order["store"])
    spec = store.read_spec(order["experiment"])
    torch.set_num_threads(spec.training.threads)
    settings.put(spec.training.settings)
    trial, given = order["trial"], order["input"]
    kind = _kind(order["object"], sees=not given)
    with torch.compiler.set_stance("force_eager"):
        course = brought(store, spec, trial, order["configuration"], order["step"], kind)
    if course.model is None:
        raise CannotResume(
            f"{trial_label(trial)} has no trial.steps() at which its checkpoint could be put in. Load it with "
            "exp[...].load(), and write the model from there."
        )
    model = course.model.cpu().eval()
    example = _drawn(given) if given else course.seen
    if example is None and order["format"] != "safetensors":
        raise BadOption(
            f"a whole turn did not call {course.name}, so its input is not known. Say what it takes, such as --input "
            "'float32[8,64]' (once for each argument)."
        )
    args, kwargs = _on_cpu(example) if example is not None else ((), {})
    own = None if example is None else _outputs(model, args, kwargs)
    aside = Path(f"{order['target']}.writing")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations between torch and its exporters: the user cannot fix them
            told = _WRITERS[order["format"]](model, args, kwargs, own, aside)
        os.replace(aside, order["target"])
    finally:
        aside.unlink(missing_ok=True)
    return {
        "file": order["target"],
        "format": order["format"],
        "model": course.name,
        "step": course.step,
        "parameters": sum(one.numel() for one in model.parameters()),
        "bytes": os.path.getsize(order["target"]),
        "input": [_described(one) for one in (*args, *kwargs.values())],
        "input_from": "nowhere" if example is None else "--input" if given else "the training loop",
        **told,
    }


def _is_there(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


# ---------------------------------------------------------------------------------------------------------------------
# The model, and its example input


class _Seeing(LoadCourse):
    """Restores the checkpoint, and continues the loop until it calls the model."""

    #: The model's name as the user gave it, and whether its input is to be recorded.
    wanted: str | None = None
    sees = True

    def __init__(self, folder: Folder, namespace: dict[str, Any]) -> None:
        super().__init__(folder, namespace)
        self.model: Any = None
        self.name = ""
        self.step = 0
        self.seen: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def turn(self, frame: types.FrameType) -> int:
        if self.model is not None:
            raise LegLeft("loaded")  # a whole turn without a call
        self.step = self.put_in(frame)
        assert self.names is not None
        self.name, self.model = model_of(self.names, self.wanted)
        if not self.sees:
            raise LegLeft("loaded")
        self.model.register_forward_pre_hook(self._called, with_kwargs=True)
        return max(0, self.step - 1)

    def _called(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.seen = (args, kwargs)
        model._forward_pre_hooks.clear()
        model._forward_pre_hooks_with_kwargs.clear()
        raise LegLeft("loaded")

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        if step is not None:
            raise LegLeft("loaded")  # a loop of its own, which may have loaded its weights itself
        return True


def _kind(wanted: str | None, *, sees: bool) -> type[_Seeing]:
    return type("_Seeing", (_Seeing,), {"wanted": wanted, "sees": sees})


def model_of(names: Mapping[str, Any], wanted: str | None) -> tuple[str, Any]:
    """The model among ``names``, with its name: the one that is not part of another; of several, ``model``.

    ``wanted``: a name, or a path such as ``trainer.model``. A wrapper of torch.compile is removed.
    """
    import torch

    modules = {name: _bare(value) for name, value in names.items() if isinstance(value, torch.nn.Module)}
    if wanted is not None:
        first, *rest = wanted.split(".")
        found = names.get(first)
        for part in rest:
            found = getattr(found, part, None)
        if not isinstance(found, torch.nn.Module):
            raise NotFound(f"--object {wanted} names no module of torch; modules are {', '.join(modules) or 'none'}.")
        return wanted, _bare(found)
    parts = {id(part) for one in modules.values() for part in one.modules() if part is not one}
    whole = {name: one for name, one in modules.items() if id(one) not in parts}
    distinct = {id(one): name for name, one in reversed(whole.items())}
    if len(distinct) != 1 and "model" not in whole:
        said = "none" if not distinct else f"several: {', '.join(sorted(distinct.values()))}"
        raise BadOption(f"expected one module of torch to write; the trial has {said}. Name it, such as --object net.")
    name = "model" if "model" in whole else next(iter(distinct.values()))
    return name, whole[name]


def _bare(module: Any) -> Any:
    return getattr(module, "_orig_mod", module)


def _drawn(written: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments from their description: ``float32[8,64]``; random from a fixed seed, integers 0 and 1."""
    import torch

    made, generator = [], torch.Generator().manual_seed(0)
    for text in written:
        match = _WRITTEN.fullmatch(text.replace(" ", ""))
        kind = getattr(torch, match["type"], None) if match else None
        if match is None or not isinstance(kind, torch.dtype):
            raise BadOption(f"--input {text}: expected a type and a shape, such as 'float32[8,64]' or 'int64[8,16]'.")
        shape = [int(one) for one in (match["shape"] or "").split(",") if one]
        if kind.is_floating_point:
            made.append(torch.randn(shape, generator=generator).to(kind))
        else:
            made.append(torch.randint(0, 2, shape, generator=generator).to(kind))
    return tuple(made), {}


def _on_cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(one) for key, one in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_on_cpu(one) for one in value)
    return value


def _described(value: Any) -> str:
    import torch

    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"


# ---------------------------------------------------------------------------------------------------------------------
# Comparing outputs


def tensors_in(value: Any) -> Iterator[Any]:
    """All tensors of an output, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)


def _outputs(model: Any, args: Any, kwargs: Any) -> list[Any]:
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        return [one.detach().clone() for one in tensors_in(model(*args, **kwargs))]


def difference(own: Sequence[Any], other: Sequence[Any], what: str) -> float:
    """The largest absolute difference between two outputs. Raises TrialFailed if it is more than rounding."""
    import torch

    if [tuple(one.shape) for one in own] != [tuple(one.shape) for one in other]:
        raise TrialFailed(
            f"{what} gives {', '.join(map(_described, other)) or 'nothing'}; the model itself gives "
            f"{', '.join(map(_described, own)) or 'nothing'}. It was not kept."
        )
    worst = 0.0
    for one, two in zip(own, other, strict=True):
        if one.numel() == 0 or torch.equal(one, two):
            continue
        kind = str(one.dtype).removeprefix("torch.")
        one, two = one.double(), two.double()
        same = (one == two) | (one.isnan() & two.isnan())  # two equal infinities do not differ
        apart = (one - two).abs().masked_fill(same, 0.0)
        most = float("inf") if apart.isnan().any() else float(apart.max())
        finite = one[one.isfinite()]
        allowed = TOLERANCE.get(kind, 0.0) * max(1.0, float(finite.abs().max()) if finite.numel() else 1.0)
        if most > allowed:
            raise TrialFailed(
                f"{what} gives another output than the model itself: they differ by up to {most:.3g}, and "
                f"{allowed:.3g} is rounding for {kind}. It was not kept."
            )
        worst = max(worst, most)
    return worst


def _safetensors(model: Any, args: Any, kwargs: Any, own: list[Any] | None, file: Path) -> dict[str, Any]:
    """The weights alone, tied ones once; read back into the model, after overwriting the model's own."""
    import torch
    from safetensors.torch import load_model, save_model

    kept = {name: one.detach().clone() for name, one in model.state_dict().items() if isinstance(one, torch.Tensor)}
    save_model(model, str(file))
    with torch.no_grad():
        for one in model.state_dict().values():
            if isinstance(one, torch.Tensor):
                one.zero_()
    load_model(model, str(file))
    now = model.state_dict()
    wrong = [name for name, one in kept.items() if not _same_bytes(one, now[name])]
    if wrong:
        raise TrialFailed(f"{', '.join(wrong[:4])} did not come back as written. It was not kept.")
    told: dict[str, Any] = {"tensors": len(kept), "difference": None}
    if own is not None:
        told["difference"] = difference(own, _outputs(model, args, kwargs), "the model with the weights read back")
    return told


def _same_bytes(one: Any, two: Any) -> bool:
    import torch

    one, two = one.contiguous(), two.contiguous()
    if one.shape != two.shape:
        return False
    return bool(torch.equal(one.view(-1).view(torch.uint8), two.view(-1).view(torch.uint8)))


def _exported(model: Any, args: Any, kwargs: Any, own: list[Any] | None, file: Path) -> dict[str, Any]:
    import torch

    def written(shapes: Any) -> dict[str, Any]:
        program = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
        torch.export.save(program, str(file))
        again = torch.export.load(str(file)).module()
        return _checked(model, again, args, kwargs, own, "the exported program", shapes is not None)

    return _with_any_batch(written, model, args, kwargs)


def _onnx(model: Any, args: Any, kwargs: Any, own: list[Any] | None, file: Path) -> dict[str, Any]:
    import torch

    def written(shapes: Any) -> dict[str, Any]:
        program = torch.onnx.export(model, args, kwargs=kwargs, dynamo=True, dynamic_shapes=shapes, verbose=False)
        assert program is not None
        program.save(str(file), external_data=False)
        return _checked(model, _session(file), args, kwargs, own, "ONNX Runtime", shapes is not None)

    return _with_any_batch(written, model, args, kwargs)


def _session(file: Path) -> Any:
    """A callable that runs the written file, with the model's signature."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        given = [one.numpy() for one in tensors_in([args, kwargs])]
        return [torch.from_numpy(one) for one in session.run(None, dict(zip(names, given, strict=True)))]

    return run


def _with_any_batch(written: Any, model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The model for any batch size if it can be exported so, else for the example's size."""
    shapes = _batches(model, args, kwargs)
    if shapes is not None:
        try:
            return {**written(shapes), "batch": "any"}
        except TrialFailed:
            raise
        except Exception as error:
            told = _first_line(error)  # the next try shows whether the batch size was the cause
    else:
        told = ""
    try:
        return {**written(None), "batch": "as the example's", **({"why": told} if told else {})}
    except TrialFailed:
        raise
    except Exception as error:
        raise TrialFailed(f"torch cannot write this model: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]


def _batches(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The first dimension of every tensor as dynamic; None if they do not share one larger than 1."""
    import torch

    try:
        given = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    except TypeError:
        return None
    if not all(isinstance(one, torch.Tensor) for one in given.values()):
        return None
    sizes = {one.shape[0] if one.dim() else 0 for one in given.values()}
    if len(sizes) != 1 or min(sizes) < 2:
        return None
    batch = torch.export.Dim("batch", min=1)
    return {name: {0: batch} for name in given}


def _checked(
    model: Any, other: Any, args: Any, kwargs: Any, own: list[Any] | None, what: str, any_batch: bool
) -> dict[str, Any]:
    """How much ``other`` differs from the model, on the example and, if any size is promised, on half of it."""
    assert own is not None
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        worst = difference(own, [*tensors_in(other(*args, **kwargs))], what)
        if any_batch:
            args = tuple(one[: max(1, len(one) // 2)] for one in args)
            kwargs = {name: one[: max(1, len(one) // 2)] for name, one in kwargs.items()}
            torch.manual_seed(0)
            half = _outputs(model, args, kwargs)
            torch.manual_seed(0)
            worst = max(worst, difference(half, [*tensors_in(other(*args, **kwargs))], what))
    return {"difference": worst}


_WRITERS = {"safetensors": _safetensors, "torch.export": _exported, "onnx": _onnx}

if __name__ == "__main__":
    answered(write, *sys.argv[1:])
