"""BatchNorm over the whole batch, of which each rank has a part. Law: outputs, gradients and running statistics are
those of one process.

The ``forward`` of torch's BatchNorm classes is replaced while a gang trains, so modules, their states and their classes
stay as they are. Torch's ``SyncBatchNorm`` is another class, runs on GPUs only, and adds up the ranks' gradients as if
their parts were equal.

With the ranks' weights w (:class:`~workbench.trial.ranks.samples.Samples`) the loss is the sum of w times each rank's
loss, and each rank's gradients are multiplied by its w when they are averaged. So what a rank gets back here from the
others is divided by its own w.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.ranks import together
from workbench.trial.ranks.together import Place

#: Returns this rank's weight in the mean over the current batch, while a gang trains.
_share: Callable[[], float] | None = None
#: Torch's method, once it is replaced, and ours for whole batches.
_own: Any = None
_whole: Any = None


def begin(share: Callable[[], float]) -> None:
    """From now on, normalize whole batches. All ranks must then normalize the same number of times."""
    global _share, _own, _whole
    _share = share
    if _own is None:
        cls = loaded("torch.nn.modules.batchnorm")._BatchNorm
        _own, cls.forward = cls.forward, _forward
        # A compiled model has a break here: what is compiled may not wait for other ranks.
        _whole = loaded("torch").compiler.disable(_normalized)


def end() -> None:
    """From now on, normalize as torch does."""
    global _share
    _share = None


def is_whole(module: Any) -> bool:
    """False for a class of a library with a ``forward`` of its own, which normalizes each part by itself."""
    torch = loaded("torch")
    return isinstance(module, torch.nn.SyncBatchNorm) or type(module).forward in (_forward, _own)


def _forward(self: Any, input: Any) -> Any:  # noqa: A002 - torch's name
    if _share is None or not (self.training or self.running_mean is None):
        return _own(self, input)
    return _whole(self, input)


def _normalized(module: Any, x: Any) -> Any:
    assert _share is not None
    module._check_input_dim(x)
    found, mean, variance, count = _operation().apply(x, module.weight, module.bias, module.eps, _share())
    if x.numel() == x.shape[1] and float(count[0]) <= 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.shape}")
    if module.training and module.running_mean is not None:
        with loaded("torch").no_grad():
            momentum = module.momentum
            if module.num_batches_tracked is not None:
                module.num_batches_tracked.add_(1)
                momentum = 1.0 / float(module.num_batches_tracked) if momentum is None else momentum
            unbiased = variance * (count / (count - 1))
            module.running_mean.lerp_(mean.to(module.running_mean.dtype), momentum or 0.0)
            module.running_var.lerp_(unbiased.to(module.running_var.dtype), momentum or 0.0)
    return found


@functools.cache
def _operation() -> Any:
    """The operation as a class of torch's; made late, since this module is imported without torch."""
    torch: Any = loaded("torch")

    class Whole(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, eps: float, share: float) -> Any:
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            over = [0, *range(2, x.dim())]
            here = torch.stack([wide.mean(over), wide.var(over, correction=0)])
            # A rank whose part is empty goes along with a sample that does not count.
            count = wide.new_full((1, wide.shape[1]), x.numel() / x.shape[1] if share else 0.0)
            mine = torch.cat([here, count])
            means, variances, counts = torch.stack(together.all_gather(mine, Place.NORM)).unbind(1)
            total = counts.sum(0)
            mean = (means * counts).sum(0) / total
            variance = ((variances + (means - mean) ** 2) * counts).sum(0) / total
            shape = [1, -1, *[1] * (x.dim() - 2)]
            scale = (variance + eps).rsqrt()
            normal = (wide - mean.view(shape)) * scale.view(shape)
            ctx.save_for_backward(normal, weight, scale, total)
            ctx.over, ctx.shape, ctx.share = over, shape, share
            ctx.mark_non_differentiable(mean, variance, total)
            found = normal if weight is None else normal * weight.view(shape)
            return (found if bias is None else found + bias.view(shape)).to(x.dtype), mean, variance, total

        @staticmethod
        def backward(ctx: Any, gradient: Any, *_: Any) -> Any:
            normal, weight, scale, total = ctx.saved_tensors
            wide = gradient.to(normal.dtype)
            sums = torch.stack([wide.sum(ctx.over), (wide * normal).sum(ctx.over)])
            of_bias, of_weight = sums.unbind()
            whole = sums * ctx.share
            together.all_reduce(whole, Place.NORM)
            first, second = (one.view(ctx.shape) for one in (whole / (total * (ctx.share or 1.0))).unbind())
            found = (wide - first - normal * second) * scale.view(ctx.shape)
            if weight is not None:
                found = found * weight.view(ctx.shape)
                of_weight, of_bias = of_weight.to(weight.dtype), of_bias.to(weight.dtype)
            needs = ctx.needs_input_grad
            return found.to(gradient.dtype), of_weight if needs[1] else None, of_bias if needs[2] else None, None, None

    return Whole
