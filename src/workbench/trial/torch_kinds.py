"""How torch's objects are inspected. Law: a tensor is a view, a storage the bytes; torch is never imported here."""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from workbench.snapshot.imported import loaded
from workbench.trial.kinds import (
    HOLD_ADDRESSES,
    SCALARS,
    ByState,
    Instance,
    IsLeft,
    Kind,
    See,
    Token,
    module_of,
    type_name,
)
from workbench.trial.looking.digests import digest, digest_of_buffer, is_sampled, looks_into
from workbench.trial.looking.on_device import digest_there

#: A part of a storage: its offset and size in bytes.
Place: TypeAlias = tuple[int, int]
#: A tensor's two mappings of hooks by the number of their handle; None for one without hooks.
Hooks: TypeAlias = tuple[Any, Any]
#: Attributes of every module that hold its parts; inspected with the module itself.
_PARTS = ("_parameters", "_buffers", "_modules")
_OURS = "workbench.trial.ranks."
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
#: Up to this many bytes on a GPU are copied, and digested on the host.
_COPIED = 32 * 1024 * 1024
_EMPTY = (dict, collections.OrderedDict)
_always_new = itertools.count()


class Module(Instance):
    """A ``torch.nn.Module``: its parts, and the other attributes of its class."""

    def look(self, obj: Any, see: See) -> Token:
        tokens: list[Token] = [type_name(type(obj)), see(type(obj), ".__class__")]
        for name, value in self.attributes(obj).items():
            tokens.append(name)
            if type(value) in _EMPTY and not value:
                tokens.append(0)
            elif name in _PARTS:
                tokens.append([(key, see(part, f".{key}")) for key, part in value.items()])
            else:
                tokens.append(see(value, f".{name}"))
        return tokens

    def attributes(self, obj: Any) -> dict[str, Any]:
        own = self.own(obj)
        return own if own.keys().isdisjoint(HOLD_ADDRESSES) else {k: own[k] for k in own if k not in HOLD_ADDRESSES}

    def content(self, obj: Any, left: IsLeft) -> Any:
        content = super().content(obj, left)
        for name in _PARTS:
            if name in content["attributes"]:
                content["attributes"][name] = list(content["attributes"][name].items())
        return content

    def put(self, obj: Any, content: Any) -> None:
        parts = {name: content["attributes"].pop(name) for name in _PARTS if name in content["attributes"]}
        content["kept attributes"] = [*content["kept attributes"], *parts]
        super().put(obj, content)
        for name, items in parts.items():
            held = obj.__dict__[name]
            held.clear()
            held.update(items)


class Script(ByState):
    """A module of TorchScript: its state_dict, and of all its parts ``training`` and the other attributes that are
    numbers, texts, tensors, or containers of these."""

    def __init__(self) -> None:
        super().__init__("state_dict", "load_state_dict")

    def content(self, obj: Any, left: IsLeft) -> Any:
        parts = {path: (part.training, _attributes(part)) for path, part in obj.named_modules()}
        return super().content(obj, left), parts

    def put(self, obj: Any, content: Any) -> None:
        state, parts = content if isinstance(content, tuple) else (content, {})  # earlier versions saved only that
        super().put(obj, state)
        for path, part in obj.named_modules():
            training, attributes = parts.get(path, (part.training, {}))
            for name, value in {"training": training, **attributes}.items():
                setattr(part, name, value)


def _attributes(part: Any) -> dict[str, Any]:
    known = getattr(part, "_concrete_type", None)  # a traced module has none
    names = [name for name in known.get_attributes() if name[0] != "_"] if known is not None else []
    values = {name: getattr(part, name) for name in names if name not in part._buffers and name != "training"}
    plain = (*SCALARS, list, dict, tuple, *tensor_types())
    return {name: value for name, value in values.items() if type(value) in plain}


class Tensor(Kind):
    """A strided tensor: its storage, its layout there, its gradient, and its hooks."""

    order = 0

    def look(self, obj: Any, see: See) -> Token:
        tokens = [
            type(obj).__name__,
            str(obj.dtype),
            tuple(obj.shape),
            obj.stride(),
            obj.storage_offset(),
            obj.requires_grad,
            see(obj.untyped_storage(), ".storage"),
        ]
        if obj.is_leaf and obj.grad is not None:
            tokens.append(see(obj.grad, ".grad"))
        attributes = getattr(obj, "__dict__", None)
        if attributes:
            tokens.append([(name, see(value, f".{name}")) for name, value in attributes.items()])
        flips = flips_of(obj)
        if flips:
            tokens.append(flips)
        # Only a tensor that requires a gradient can be given hooks; most do not, and reading each attribute costs time.
        if tokens[5] and (obj._backward_hooks is not None or obj._post_accumulate_grad_hooks is not None):
            hooks = hooks_of(obj)
            if hooks is not None and looks_into():
                tokens.append([see(one, f".{name}") for name, one in zip(_HOOKS, hooks, strict=True)])
        return tokens

    def content(self, obj: Any, left: IsLeft) -> Any:
        # A new view of the same storage: it pickles as itself, while `obj` would be a reference to the old one.
        view = obj.detach()
        grad = obj.grad if obj.is_leaf else None
        attributes = dict(getattr(obj, "__dict__", {}) or {})
        return view, obj.requires_grad and obj.is_leaf, grad, attributes, type(obj), hooks_of(obj)

    def put(self, obj: Any, content: Any) -> None:
        view, requires_grad, grad, attributes, cls, *hooks = content
        if hasattr(obj, "materialize") and not hasattr(cls, "materialize"):
            obj.materialize(tuple(view.shape), view.device, view.dtype)
        if not _same_view(obj, view):
            obj.data = view
        if obj.is_leaf:
            if obj.requires_grad != requires_grad:
                obj.requires_grad_(requires_grad)
            obj.grad = grad
        if attributes or getattr(obj, "__dict__", None):
            obj.__dict__.clear()
            obj.__dict__.update(attributes)
        for one in hooks:  # checkpoints of earlier versions have none
            put_hooks(obj, one)


def hooks_of(tensor: Any) -> Hooks | None:
    """The functions that ``backward`` calls for a leaf, by handle: those with its gradient, and those after it."""
    if not tensor.is_leaf:
        return None
    before, after = (None if _is_ours(one) else one for one in (getattr(tensor, name) for name in _HOOKS))
    return (before, after) if before is not None or after is not None else None


def put_hooks(tensor: Any, hooks: Hooks | None) -> None:
    """Give a leaf these hooks. Handles refer to the mappings themselves."""
    if tensor.is_leaf:
        for name, one in zip(_HOOKS, hooks or (None, None), strict=True):
            held = getattr(tensor, name)
            if held is not one and not _is_ours(held):
                setattr(tensor, name, one)


def _is_ours(hooks: Any) -> bool:
    """Whether a mapping has the hooks by which ranks average gradients: these are no state."""
    return hooks is not None and any(str(getattr(one, "__module__", "")).startswith(_OURS) for one in hooks.values())


def handles() -> int:
    """How many handles of hooks were made in this process. A hook is kept by the number of its handle."""
    hooks = loaded("torch.utils.hooks")
    return hooks.RemovableHandle.next_id if hooks is not None else 0


def put_handles(count: int) -> None:
    """Have the next hook get no number below ``count``: it would take the place of another one."""
    hooks = loaded("torch.utils.hooks")
    if hooks is not None:
        hooks.RemovableHandle.next_id = max(hooks.RemovableHandle.next_id, count)


def _same_view(one: Any, other: Any) -> bool:
    return bool(
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
        and flips_of(one) == flips_of(other)
        and one.untyped_storage()._cdata == other.untyped_storage()._cdata
    )


class Storage(Kind):
    """The bytes below tensors. They are saved beside the graph, with the tensors' own format."""

    order = 0

    def __init__(self) -> None:
        #: For each visited storage, by its id: the tensor that led to it (its dtype gives the bytes their type).
        self.seen_by: dict[int, Any] = {}

    def look(self, obj: Any, see: See) -> Token:
        tensor = self.seen_by.get(id(obj))
        trained = tensor is not None and tensor.requires_grad
        length = obj.nbytes()
        if obj.device.type != "cpu":
            return (length, _digest_on_device(obj, tensor, trained))
        view = _bytes_at(obj, 0, length) if length else memoryview(b"")
        if trained or not is_sampled(length):
            return (length, digest(view))
        return (length, digest_of_buffer(view), tensor._version if tensor is not None else 0)

    def content(self, obj: Any, left: IsLeft) -> Any:
        raise NotImplementedError  # state.py writes storages into tensors.safetensors

    def put(self, obj: Any, content: Any) -> None:
        if obj.nbytes() != content.nbytes():
            obj.resize_(content.nbytes())
        obj.copy_(content)

    def look_at(self, obj: Any, places: Sequence[Place]) -> Token:
        """What :meth:`look` gives, of nothing but these places."""
        return (obj.nbytes(), *places, digest(b"".join(_bytes_at(obj, *place) for place in places)))


def _bytes_at(storage: Any, start: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(storage.data_ptr() + start)).cast("B")


def scalar_place(tensor: Any) -> Place | None:
    """Where a number lies in a larger storage in memory; None for other tensors and objects.

    Some of torch's losses leave their value in a storage for a whole batch. The rest of it was never written: it
    differs from process to process, and is not a part of the state.
    """
    if type(tensor) not in tensor_types() or tensor.shape or tensor.device.type != "cpu":
        return None
    size = tensor.itemsize
    return (tensor.storage_offset() * size, size) if tensor.untyped_storage().nbytes() > size else None


def scalar_places(tensors: Iterable[Any], storage: Any) -> list[Place]:
    """The same for all ``tensors`` on a storage: empty if one is not a number, or if numbers fill it."""
    found = {scalar_place(one) for one in tensors}
    places = sorted(place for place in found if place is not None)
    return places if len(places) == len(found) and sum(size for _, size in places) < storage.nbytes() else []


def _digest_on_device(storage: Any, tensor: Any, trained: bool) -> Token:
    torch = loaded("torch")
    if trained:
        # It is trained, so it has changed; to be certain would cost the copy that saving it makes anyway.
        # (Its version counter does not show it: a fused optimizer does not increase it.)
        return (str(storage.device), next(_always_new))
    view = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    length = view.numel()
    if is_sampled(length, on_device=True):
        view = view[torch.linspace(0, length - 1, 65536, dtype=torch.float64, device=view.device).long()]
    found = digest_there(view) if view.numel() > _COPIED else digest(view.cpu().numpy())
    return (str(storage.device), found, tensor._version if tensor is not None else 0)


def wait_for_gpus() -> None:
    """Wait until the GPUs have done all that they were told: a stream of the training code's own may still write what
    is about to be read."""
    torch = loaded("torch")
    if torch is None or not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return
    for device in range(torch.cuda.device_count()):
        if torch.cuda.memory_reserved(device):
            torch.cuda.synchronize(device)


def random_state(data: bytes) -> Any:
    """The state of one of torch's generators from its bytes."""
    torch = loaded("torch")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def draws_in_cudnn(network: Any) -> bool:
    """Whether a recurrent network draws its dropout from cuDNN's own generator: see :func:`seeds.turn_begins`."""
    draws = network.dropout > 0 and network.num_layers > 1
    return bool(draws and any(weight.is_cuda for weight in network.parameters()))


def is_tensor_class(cls: Any) -> bool:
    """True for torch's own classes of tensors, and for subclasses that hold no more than those: numbers, a gradient and
    attributes."""
    return _is_torchs(cls) or is_plain_subclass(cls)


def _is_torchs(cls: type) -> bool:
    """True for torch's own classes of tensors."""
    return module_of(cls).partition(".")[0] == "torch" and cls.__name__ in ("Tensor", "Parameter", "Buffer")


@functools.cache
def is_plain_subclass(cls: Any) -> bool:
    """True for a class that adds no more than methods and attributes to one of torch's own."""
    torch = loaded("torch")
    if (
        torch is None
        or not issubclass(cls, torch.Tensor)
        or cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    ):
        return False
    own = {name for base in cls.__mro__ if not _is_torchs(base) and base is not object for name in vars(base)}
    return not own & {"__torch_function__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"}


def tensor_types() -> tuple[type, ...]:
    """Torch's own classes of tensors, if torch is loaded."""
    global _types
    if not _types and (torch := loaded("torch")) is not None:
        _types = (torch.Tensor, torch.nn.Parameter)
    return _types


#: Looked up once: each checkpoint asks several times for each tensor.
_types: tuple[type, ...] = ()


def is_on_storage(tensor: Any) -> bool:
    """True for a tensor that is a strided view of a storage: not sparse, quantized or meta."""
    return tensor.layout is sys.modules["torch"].strided and not (tensor.is_quantized or tensor.is_meta)


def is_strided(tensor: Any) -> bool:
    """True for one whose numbers are those of the storage: none that is read conjugated or negated either."""
    return is_on_storage(tensor) and not flips_of(tensor)


def flips_of(tensor: Any) -> tuple[str, ...]:
    """How the numbers of a storage are read: ``conj``, ``neg``, both, or as they are."""
    if not (tensor.is_neg() or tensor.is_complex()):
        return ()
    return (*(("conj",) if tensor.is_conj() else ()), *(("neg",) if tensor.is_neg() else ()))


def flipped(tensor: Any, flips: Sequence[str]) -> Any:
    """A view of ``tensor`` whose numbers are read so."""
    torch = loaded("torch")
    for name in flips:
        tensor = tensor.conj() if name == "conj" else torch._neg_view(tensor)
    return tensor


#: The most functions of a graph that are looked at: a graph that grows with each turn has any number.
_MOST_FUNCTIONS = 1000


def is_used_up(tensor: Any) -> bool:
    """Whether no gradient can flow back through the graph of ``tensor``: ``backward`` has freed what it needs.

    False if that is not certain.
    """
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        if len(seen) > _MOST_FUNCTIONS or not function.next_functions:
            return False  # gradients would reach this leaf
        if not _is_freed(function):
            waiting += [following for following, _ in function.next_functions if following is not None]
    return True


def _is_freed(function: Any) -> bool:
    """Whether the tensors that a function of a graph needs are freed. Only then does reading one of them raise this."""
    cls: Any = type(function)
    try:
        for name in _needed(cls):
            getattr(function, name, None)
    except RuntimeError:
        return True
    return False


@functools.cache
def _needed(cls: type) -> tuple[str, ...]:
    """The attributes in which a function of this class has tensors. Of a function in Python they do not tell: its
    ``backward`` may not need them."""
    return tuple(name.replace("_raw", "", 1) for name in dir(cls) if name.startswith("_raw_saved_"))
