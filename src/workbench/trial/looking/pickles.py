"""Content as a pickle that is never read: its digest. Law: what the survey knows counts by its path, not by address."""

from __future__ import annotations

import io
import pickle
import types
import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle

from workbench.trial import torch_kinds
from workbench.trial.discovery import Survey
from workbench.trial.graph import PICKLE_PROTOCOL, GraphPickler, _array_view, _tensor
from workbench.trial.kinds import offset_of
from workbench.trial.looking.digests import digest, digest_of_buffer, looks_into
from workbench.trial.looking.padding import cleared

_CLASSES: Any = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS


def digest_of(obj: Any, survey: Survey) -> tuple[bytes, set[int]]:
    """A digest of the object's pickle, and the numbers in it: objects that the survey knows appear as their number."""
    file = io.BytesIO()
    buffers: list[bytes] = []

    def buffer(view: pickle.PickleBuffer) -> None:
        buffers.append(digest_of_buffer(view.raw()))

    pickler = _DigestPickler(file, survey, buffer)
    pickler.own = id(obj)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pickler.dump(obj)
    buffers.append(digest(file.getbuffer()))
    return digest(b"".join(buffers)), pickler.refers


class _DigestPickler(GraphPickler):
    own = 0
    keeps_shared = False  # as in digests of earlier versions

    def __init__(self, file: Any, survey: Survey, buffer: Callable[[pickle.PickleBuffer], None]) -> None:
        super().__init__(file, survey, buffer_callback=buffer)
        self.looks_into = looks_into()
        #: Numbers of the objects that appear in the pickle as such.
        self.refers: set[int] = set()
        #: What the tensor that is being pickled sees of its storage, if not all.
        self._place: torch_kinds.Place | None = None

    def reducer_override(self, obj: Any) -> Any:
        made = super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(made, tuple):
            # A class that no import finds: cloudpickle gives it a random name, another one in each process.
            name = _CLASSES.get(obj)
            if name is not None:
                made = (made[0], tuple("" if one is name else one for one in made[1]), *made[2:])
        return made

    def _reduce_tensor(self, tensor: Any) -> Any:
        self._place = torch_kinds.scalar_place(tensor)
        return super()._reduce_tensor(tensor)

    def _tensor_made(self, tensor: Any, requires_grad: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # As graphs of the first schema have it: checkpoints of that time hold digests of such pickles.
        layout = (tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        return _tensor, (type(tensor).__name__, tensor.untyped_storage(), *layout, requires_grad)

    def _array_made(self, array: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        # As earlier versions had it, for the same reason.
        if type(array.base) is type(array) and not array.dtype.hasobject:
            offset = offset_of(array, array.base)
            if array.base.flags.c_contiguous and offset >= 0 and min(array.strides, default=0) >= 0:
                return _array_view, (array.base, array.dtype, array.shape, array.strides, offset)
        without = cleared(array)
        return without.__reduce_ex__(PICKLE_PROTOCOL) if without is not array else None

    def persistent_id(self, obj: Any) -> Any:
        number = self.survey.numbers.get(id(obj))
        if number is not None and number < self._size and id(obj) != self.own:
            self.refers.add(number)
            return ("made", self.survey.entries[number].mark)
        if type(obj) is self._storage_type:
            storages, place = self.survey.classifier.storages, self._place
            return ("storage", storages.look_at(obj, [place]) if place else storages.look(obj, lambda child, key: 0))
        if isinstance(obj, types.ModuleType):
            return ("module", obj.__name__)
        return None
