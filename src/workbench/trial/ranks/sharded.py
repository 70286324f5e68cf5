"""Models whose parameters, gradients and optimizer states are sharded over the ranks. Law: while a checkpoint is taken,
and after the loop, all objects are as the set-up made them, with whole plain tensors.

Models are sharded in place by torch's ``fully_shard``. It replaces parameters, hooks and the classes of modules, so
both forms of each module are kept, and :meth:`Shards.whole` changes between them. Ranks have weights, as in
:mod:`~workbench.trial.ranks.replicate`: each rank's gradients are multiplied by its weight, and then added up.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from workbench.errors import BadInput, TrialFailed
from workbench.snapshot.imported import loaded
from workbench.trial.ranks import replicate
from workbench.trial.ranks.buffers import Buffers, put_from_first


class Shards:
    """All models and optimizers of this process, sharded with those of the other ranks."""

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: Mapping[str, Any],
        share: Callable[[], float],
        finished: Callable[[], None],
    ) -> None:
        """Broadcast parameters and buffers of the first rank, shard them, and average gradients from now on.

        share: this rank's weight in the mean over the current batch. finished: called at the end of each backward
        pass. All ranks must call this at the same time. Raises BadInput for what cannot be sharded.
        """
        check(models, optimizers)
        _read_whole()
        torch = loaded("torch")
        self._share, self._finished = share, finished
        #: Sharded tensors of an earlier trial in this process.
        self._others = [weakref.ref(one) for one in _alive([])]
        self._is_under_way, self._now = False, 0.0
        self._optimizers = list(optimizers.values())
        self._models = [one for one in models.values() if next(one.parameters(), None) is not None]
        put_from_first(
            [(f"{name}.{key}", one) for name, model in models.items() for key, one in model.named_parameters()],
            [(f"{name}.{key}", one) for name, model in models.items() for key, one in model.named_buffers()],
        )
        self._buffers = Buffers(models)
        self._modules = list({id(one): one for model in self._models for one in model.modules()}.values())
        self._plain = [_form(one) for one in self._modules]
        had = [{*one.__dict__} for one in self._modules]
        before = [list(one._parameters.values()) for one in self._modules]
        self._shard()
        #: Attributes that torch has added to modules.
        self._added = {name for one, names in zip(self._modules, had, strict=True) for name in {*one.__dict__} - names}
        self._sharded = [_form(one, self._added) for one in self._modules]
        after = [list(one._parameters.values()) for one in self._modules]
        #: Each parameter as the set-up made it, and its shard on this rank.
        self._pairs = [
            (whole, part)
            for wholes, parts in zip(before, after, strict=True)
            for whole, part in zip(wholes, parts, strict=True)
            if whole is not None
        ]
        self._is_whole = False
        for whole, part in self._pairs:
            part.grad = None if whole.grad is None else self._part_like(whole.grad, part)
        self._free(torch)
        self._rebind({id(whole): part for whole, part in self._pairs}, self._part_like)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within this, all objects have whole plain tensors. All ranks must enter it at the same time."""
        self.gather()
        try:
            yield
        finally:
            self.scatter()

    def gather(self) -> None:
        """Put whole plain tensors into the objects. Raises TrialFailed, by shape, for shards that the loop keeps."""
        if self._is_whole:
            return
        self._is_whole = True
        torch = loaded("torch")
        for model in self._models:
            for one in model.modules():
                if hasattr(one, "reshard"):
                    one.reshard()
        with torch.no_grad():
            for whole, part in self._pairs:
                whole.data = part.detach().full_tensor()
                whole.grad = None if part.grad is None else part.grad.full_tensor()
        self._rebind({id(part): whole for whole, part in self._pairs}, lambda value, _: _full(value))
        self._become(self._plain)

    def scatter(self) -> None:
        """Shard again what :meth:`gather` made whole; its values, which may have changed, count."""
        if not self._is_whole:
            return
        self._is_whole = False
        torch = loaded("torch")
        with torch.no_grad():
            for whole, part in self._pairs:
                local = self._part_like(whole.detach(), part).to_local()
                part.to_local().copy_(local)
        self._rebind({id(whole): part for whole, part in self._pairs}, self._part_like)
        self._become(self._sharded)
        self._free(torch)

    def end(self) -> None:
        """Make the objects whole for the code after the loop."""
        self.gather()
        self._pairs, self._sharded, self._modules, self._models, self._optimizers = [], [], [], [], []

    def refuse_kept(self) -> None:
        """Raise TrialFailed if something besides models and optimizers holds shards. Call it while all is whole."""
        own = {id(part) for _, part in self._pairs} | {id(part.grad) for _, part in self._pairs}
        if any(id(one) not in own for one in _alive(self._others)):
            gc.collect()
        for one in _alive(self._others):
            if id(one) not in own:
                raise TrialFailed(
                    f"the loop keeps a sharded tensor of shape {tuple(one.shape)}, which no checkpoint can have whole. "
                    "Delete it, or keep float(tensor.full_tensor()), or use --strategy replicate."
                )

    def _shard(self) -> None:
        torch = loaded("torch")
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        device = next(self._models[0].parameters()).device.type
        mesh = init_device_mesh(device, (torch.distributed.get_world_size(),))
        for model in self._models:
            for block in [*_blocks(model), model]:
                fully_shard(block, mesh=mesh)
                block.set_custom_reduce_scatter(_Weighted(self._weight))
                block.set_gradient_divide_factor(1.0)
                block.set_force_sum_reduction_for_comms(True)

    def _weight(self) -> float:
        if not self._is_under_way:
            self._is_under_way = True
            self._now = self._share()
            loaded("torch").autograd.Variable._execution_engine.queue_callback(self._finish)
        return self._now

    def _finish(self) -> None:
        self._is_under_way = False
        self._buffers.average(self._now)
        self._finished()

    def _become(self, forms: list[tuple[type, dict[str, Any]]]) -> None:
        for module, (cls, values) in zip(self._modules, forms, strict=True):
            module.__class__ = cls
            for name in [*module.__dict__]:
                if name not in values and name in self._added:
                    del module.__dict__[name]
            for name, value in values.items():
                if name in self._added:
                    module.__dict__[name] = value
                else:
                    module.__dict__[name].clear()
                    module.__dict__[name].update(value)

    def _rebind(self, others: Mapping[int, Any], convert: Callable[[Any, Any], Any]) -> None:
        torch = loaded("torch")
        for optimizer in self._optimizers:
            states = list(optimizer.state.items())
            optimizer.state.clear()
            for one, values in states:
                other = others[id(one)]
                optimizer.state[other] = {
                    name: convert(value, other)
                    if isinstance(value, torch.Tensor) and value.shape == other.shape and value.dim()
                    else value
                    for name, value in values.items()
                }
            for group in optimizer.param_groups:
                group["params"][:] = [others[id(one)] for one in group["params"]]

    @staticmethod
    def _part_like(value: Any, part: Any) -> Any:
        """This rank's shard of a whole tensor that all ranks have."""
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(value.detach(), part.device_mesh, part.placements, src_data_rank=None)

    def _free(self, torch: Any) -> None:
        for whole, _ in self._pairs:
            whole.data = torch.empty(0, dtype=whole.dtype, device=whole.device)
            whole.grad = None


class _Weighted:
    """Adds up gradients, each rank's multiplied by its weight, as ``fully_shard`` asks for it."""

    def __init__(self, weight: Callable[[], float]) -> None:
        self._weight = weight

    def allocate(self, size: Any, *, dtype: Any, device: Any) -> Any:
        """A tensor for torch to fill."""
        return loaded("torch").empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        distributed = loaded("torch").distributed
        input_tensor.mul_(self._weight())
        # The name in torch up to 2.12, where the new one is not known.
        add = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
        return add(output_tensor, input_tensor, group=group, op=distributed.ReduceOp.SUM, async_op=async_op)


def check(models: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Raises BadInput, by name, for what cannot be sharded."""
    torch = loaded("torch")
    replicate.check(models, optimizers)
    otherwise = "Use --strategy replicate."
    if not hasattr(torch.nn.Module, "register_full_backward_pre_hook") or not _has_sharding():
        raise BadInput(f"torch {torch.__version__} cannot shard models as Workbench needs it. {otherwise}")
    owners: dict[int, str] = {}
    for name, model in models.items():
        if hasattr(model, "_orig_mod"):
            raise BadInput(f"{name} is compiled, and compiled models are not sharded. {otherwise}")
        for key, one in model.named_parameters(remove_duplicate=False):
            if id(one) in owners:
                raise BadInput(
                    f"{name}.{key} is {owners[id(one)]} too, and shared parameters are not sharded. {otherwise}"
                )
            owners[id(one)] = f"{name}.{key}"
            if type(one) is not torch.nn.Parameter or not one.is_floating_point() or not one.requires_grad:
                raise BadInput(
                    f"{name}.{key} is frozen, or not a plain parameter of a float type, and is not sharded. {otherwise}"
                )
            if one.dim() == 0:
                raise BadInput(f"{name}.{key} has no dimension that can be sharded. Make it of shape (1,). {otherwise}")
    if not owners:
        raise BadInput(f"no model was made before the loop, so there is nothing to shard. {otherwise}")
    for name, optimizer in optimizers.items():
        if type(optimizer) not in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
            raise BadInput(
                f"{name} is a {type(optimizer).__name__}. Sharded parameters are trained by SGD, Adam and AdamW only. "
                f"{otherwise}"
            )
        for group in optimizer.param_groups:
            if group.get("fused"):
                raise BadInput(f"{name} has fused=True, which is not used with sharded parameters. {otherwise}")
            if any(id(one) not in owners for one in group["params"]):
                raise BadInput(f"{name} has parameters that belong to no model found before the loop. {otherwise}")


def _has_sharding() -> bool:
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:
        return False
    return hasattr(FSDPModule, "set_custom_reduce_scatter") and hasattr(FSDPModule, "set_force_sum_reduction_for_comms")


def _blocks(model: Any) -> list[Any]:
    """The repeated parts of a model: children with parameters of lists and sequences of modules, innermost first."""
    nn = loaded("torch").nn
    found: dict[int, Any] = {}
    for one in model.modules():
        if isinstance(one, nn.ModuleList | nn.Sequential):
            for child in one.children():
                if next(child.parameters(), None) is not None and not isinstance(child, nn.ModuleList | nn.Sequential):
                    found[id(child)] = child
    return list(reversed(found.values()))


def _read_whole() -> None:
    """Make values that are read from sharded tensors, such as norms, those of all ranks. torch reads the local part."""
    from torch.distributed.tensor import DTensor

    def whole(name: str) -> Callable[..., Any]:
        return lambda self, *given: getattr(self.full_tensor(), name)(*given)

    for name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__array__"):
        setattr(DTensor, name, whole(name))
    clipping = loaded("torch.nn.utils.clip_grad")
    # Loops keep the norm that clip_grad_norm_ returns, and a checkpoint holds no shards.
    total = clipping._get_total_norm
    if not getattr(total, "is_whole", False):

        @functools.wraps(total)
        def total_norm(*given: Any, **named: Any) -> Any:
            return _full(total(*given, **named))

        total_norm.is_whole = True  # type: ignore[attr-defined]
        clipping._get_total_norm = total_norm


def _alive(others: list[Any]) -> list[Any]:
    """All sharded tensors of this process besides others."""
    from torch.distributed.tensor import DTensor

    known = {id(one()) for one in others}
    return [one for one in gc.get_objects() if type(one) is DTensor and id(one) not in known]


def _full(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _form(module: Any, added: Collection[str] = ()) -> tuple[type, dict[str, Any]]:
    """A module's class, and copies of its dictionaries of parameters and hooks."""
    values = {
        name: value.copy()
        for name, value in module.__dict__.items()
        if isinstance(value, dict) and (name == "_parameters" or name.endswith(("hooks", "kwargs", "called")))
    }
    values |= {name: module.__dict__[name] for name in added if name in module.__dict__}
    return type(module), values
