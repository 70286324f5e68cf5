"""Memory that several objects share: views of arrays, and tensors and arrays on the same bytes. Law: what shared memory
when it was saved shares it after a resume.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.kinds import buffer_of_array


def reduced(array: Any, is_known: Callable[[Any], bool]) -> tuple[Any, tuple[Any, ...]] | None:
    """The function that makes an array again, and its arguments; None for one that pickles as NumPy does it.

    is_known: whether there are tensors on a storage. An array on the memory of one that is gone has it for itself.
    """
    base, dtype = array.base, array.dtype
    if dtype.hasobject or not dtype.itemsize:
        return None
    if not _is_shared(array, is_known):
        if not _is_compact(array):
            return None
        order = "C" if array.flags.c_contiguous else "F"
        data = pickle.PickleBuffer(buffer_of_array(_in_order(array)))
        return own_array, (data, dtype, array.shape, order, array.flags.writeable)
    while _is_shared(base, is_known):
        base = base.base
    layout, writeable = (dtype, array.shape, array.strides), array.flags.writeable
    if type(base) in (type(array), loaded("numpy").memmap) and not base.dtype.hasobject:
        offset = address_of(array) - address_of(base)
        if _is_compact(base) and offset >= 0:
            return array_on, (base, *layout, offset, writeable)
    elif _is_in_memory(base):
        storage = base.untyped_storage()
        return array_on, (storage, *layout, address_of(array) - storage.data_ptr(), writeable)
    return None


def own_array(data: Any, dtype: Any, shape: tuple[int, ...], order: str, writeable: bool) -> Any:
    """An array with memory of its own, as views and later saves expect it."""
    array = loaded("numpy").ndarray(shape, dtype, data, order=order).copy(order)
    array.flags.writeable = writeable
    return array


def array_on(
    holder: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, writeable: bool
) -> Any:
    """An array on the memory of an array or of a tensor's storage. strides, offset: in bytes."""
    numpy, torch = loaded("numpy"), loaded("torch")
    if not isinstance(holder, numpy.ndarray):
        holder = torch.empty(0, dtype=torch.uint8).set_(holder).numpy()
    array = numpy.ndarray(shape, dtype, _in_order(holder), offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array


def owners(objects: Iterable[Any]) -> list[tuple[int, Any]]:
    """The arrays among ``objects`` in whose memory storages may lie, by address."""
    numpy = loaded("numpy")
    classes = (numpy.ndarray, numpy.memmap) if numpy is not None else ()
    arrays = [one for one in objects if type(one) in classes]
    found = [one for one in arrays if one.size and not one.dtype.hasobject and _is_compact(one) and not _is_shared(one)]
    return sorted(((address_of(one), one) for one in found), key=itemgetter(0))


def is_foreign(storage: Any) -> bool:
    """Whether PyTorch did not allocate a storage's memory: it can resize what it has allocated."""
    return storage.device.type == "cpu" and not storage.resizable()


def below(storage: Any, arrays: list[tuple[int, Any]]) -> tuple[Any, int, int] | None:
    """The array in whose memory a storage lies, where there in bytes, and its length; None if there is none.

    arrays: :func:`owners`.
    """
    start, size = storage.data_ptr(), storage.nbytes()
    place = bisect_right(arrays, start, key=itemgetter(0))
    address, one = arrays[place - 1] if place else (0, None)
    return (one, start - address, size) if one is not None and start + size <= address + one.nbytes else None


def storage_on(array: Any, offset: int, size: int) -> Any:
    """A tensor's storage on an array's memory: ``size`` bytes from ``offset`` on."""
    numpy = loaded("numpy")
    part = numpy.ndarray((size,), "u1", _in_order(array), offset)
    return loaded("torch").from_numpy(part).untyped_storage()


def address_of(array: Any) -> int:
    """Where an array's first element lies."""
    return int(array.__array_interface__["data"][0])


def _is_shared(obj: Any, is_known: Callable[[Any], bool] | None = None) -> bool:
    """Whether an object's memory is that of an array or a tensor. An array from a pickle is on that of some bytes."""
    base: Any = getattr(obj, "base", None)
    if _is_in_memory(base):
        return is_known is None or is_known(base.untyped_storage())
    array = loaded("numpy").ndarray
    # Between a view that ``as_strided`` made and its array is an object of NumPy's own.
    return isinstance(base, array) or isinstance(getattr(base, "base", None), array)


def _is_compact(array: Any) -> bool:
    return bool(array.flags.c_contiguous or array.flags.f_contiguous)


def _in_order(array: Any) -> Any:
    """The same memory as an array whose elements lie in their order, as NumPy wants a buffer."""
    return array if array.flags.c_contiguous else array.T


def _is_in_memory(obj: Any) -> bool:
    torch = loaded("torch")
    return torch is not None and isinstance(obj, torch.Tensor) and obj.device.type == "cpu"
