"""Versions of a name. Law: experiments that are written at the same time under one name get versions of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Callable, Iterator

from workbench.records import Spec
from workbench.store.layout import Store
from workbench.store.lists.known import experiments


def versions_of(store: Store, name: str) -> set[int]:
    """The versions of ``name``."""
    return {int(entry["version"]) for entry in experiments(store) if entry["name"] == name}


def next_version(store: Store, name: str) -> int:
    """The version after the newest one of ``name``."""
    return max(versions_of(store, name), default=0) + 1


def write_numbered(store: Store, spec: Spec, instead: Callable[[], str | None] = lambda: None) -> Spec:
    """Write ``spec``, with the next version if another experiment has taken its own meanwhile; the spec as written.

    instead: called while no other process writes one; if it returns the id of an experiment, nothing is written, and
    that experiment's spec is returned.
    Raises StoreError as :meth:`~workbench.store.layout.Store.write_spec` does.
    """
    store.create()
    with _alone(store):
        if (other := instead()) is not None:
            return store.read_spec(other)
        if spec.version in versions_of(store, spec.name):
            own, spec = spec.label, dataclasses.replace(spec, version=next_version(store, spec.name))
            if spec.program.filename == f"<{own}>":
                spec = dataclasses.replace(spec, program=dataclasses.replace(spec.program, filename=f"<{spec.label}>"))
        store.write_spec(spec)
    return spec


@contextlib.contextmanager
def _alone(store: Store) -> Iterator[None]:
    descriptor = os.open(store.experiments, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
