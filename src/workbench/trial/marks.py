"""Identity of a set-up's objects across processes: a mark of their path, never an address or a number.

Law: the same code with the same content gives the same marks and signatures in every process. Objects for which this
is impossible (an address, a set ordered by addresses, a connection) are *loose*: they are not compared.
"""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Mapping
from typing import Any

import xxhash

from workbench.trial import torch_kinds
from workbench.trial.kinds import SCALARS, Instance, Kind, module_of

#: Objects of these packages represent something outside of the process (a server, a file, another process) or display
#: something: each process has its own, whatever the training code does.
SURROUNDINGS = frozenset(
    {
        *("wandb", "mlflow", "neptune", "comet_ml", "clearml", "aim", "tensorboardX", "sacred"),
        *(
            "tempfile",
            "subprocess",
            "multiprocessing",
            "concurrent",
            "threading",
            "asyncio",
            "socket",
            "ssl",
            "selectors",
        ),
        *(
            "logging",
            "requests",
            "urllib",
            "urllib3",
            "httpx",
            "aiohttp",
            "grpc",
            "botocore",
            "boto3",
            "s3fs",
            "fsspec",
        ),
        *("sqlalchemy", "psycopg", "psycopg2", "pymongo", "redis", "tqdm", "rich", "loguru"),
    }
)
#: Integers in this range may be addresses of objects.
ADDRESSES = range(1 << 32, 1 << 48)


def mark_of(key: str | int, parent: int) -> int:
    """The mark of the object at ``key`` in the object marked ``parent``: 63 bits that tell paths apart."""
    return xxhash.xxh3_64_intdigest(str(key).encode("utf-8", "surrogatepass"), parent) >> 1


def print_of(mark: int, signature: bytes) -> int:
    """64 bits for an object's path and content; prints are added up."""
    return xxhash.xxh3_64_intdigest(signature, mark)


def is_loose(obj: Any, how: Kind) -> bool:
    """True for an object whose content naturally differs between processes."""
    if isinstance(how, torch_kinds.Storage):
        tensor = how.seen_by.get(id(obj))
        return obj.device.type != "cpu" and tensor is not None and tensor.requires_grad
    if isinstance(how, Instance) and how.bare:
        return how.container is set and any(_goes_by_address(item) for item in obj)
    cls: Any = type(obj)
    return _is_surroundings(cls)


def may_hold_addresses(obj: Any, how: Kind) -> bool:
    """True if ``obj`` should be checked for addresses once all objects are known."""
    is_bare = isinstance(how, Instance) and how.bare
    return (is_bare or type(obj) in (collections.defaultdict, frozenset)) and begins_with_addresses(obj)


def begins_with_addresses(obj: Any) -> bool:
    """Whether the first item of a container, or the first value of a mapping, may be an address or a tuple with one."""
    if not obj:
        return False
    return _may_be_address(next(iter(obj))) or (isinstance(obj, dict) and _may_be_address(next(iter(obj.values()))))


def _may_be_address(one: Any) -> bool:
    if type(one) is tuple:
        return any(type(part) is int and part in ADDRESSES for part in one)
    return type(one) is int and one in ADDRESSES


def holds_addresses(obj: Any, known: Mapping[int, int]) -> bool:
    """True for plain numbers that are addresses of known objects, as in ``set(map(id, model.parameters()))``."""
    parts = [obj, obj.values()] if isinstance(obj, Mapping) else [obj]
    # Two passes, since a container of a million numbers takes a generator for each of them too long.
    return any(one in known for part in parts for one in part if type(one) is int) or any(
        type(one) is int and one in known for part in parts for each in part if type(each) is tuple for one in each
    )


def address_in(key: str) -> int:
    """The key of a mapping that a part of a path names, if it may be an address; 0 otherwise."""
    return int(key[1:-1]) if len(key) > 11 and key[1:-1].isdecimal() else 0


@functools.cache
def _is_surroundings(cls: type) -> bool:
    return any(module_of(base).partition(".")[0] in SURROUNDINGS for base in cls.__mro__) or cls is weakref.WeakSet


def _goes_by_address(item: Any) -> bool:
    cls = type(item)
    if cls in SCALARS:
        return False
    if cls is tuple or cls is frozenset:
        return any(_goes_by_address(part) for part in item)
    addressed = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, weakref.ReferenceType)
    hashed: Any = cls.__hash__
    return isinstance(item, addressed) or hashed is object.__hash__ or module_of(cls).startswith("torch")
