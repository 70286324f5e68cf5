"""A published experiment, found by its place. Law: it is read where it is, and trained again only after the user has
trusted its author and it was imported into the user's own store.
"""

from __future__ import annotations

import dataclasses
import re

from workbench.errors import NotFound, Untrusted
from workbench.store import Store
from workbench.store.lists.catalog import Reference, label_of, resolve
from workbench.store.owner.trust import check_trusted, is_foreign, trust


def found(text: str) -> tuple[Store, Reference] | None:
    """The published store, and the name inside it: ``DEST``, ``DEST#t0007``, ``DEST#t0007:27``.

    DEST is a folder or a URL. None if ``text`` does not name a publication, as ``digits@2/t0007`` does not.
    """
    from workbench.share.publish import opened
    from workbench.store.lists.known import experiments

    place, mark, rest = text.rpartition("#")
    if not mark:
        place, rest = text, ""
        if "/" not in text:
            return None
    store = opened(place)
    if store is None:
        if not mark:
            return None
        raise NotFound(f"{place} was not written by `workbench publish`. For example: ~/public/digits#t0007.")
    (entry,) = experiments(store)
    if not rest:
        return store, Reference(entry["id"], entry["label"])
    return store, resolve(store, f"{entry['id']}/{rest}" if re.match(r"t?\d", rest) else rest)


def at_home(published: Store, reference: Reference, home: Store) -> tuple[Store, Reference]:
    """The same in the store ``home``; it is imported if it is not there yet.

    Raises Untrusted if its author is not trusted.
    """
    from workbench.share.archive import take_in

    if is_foreign(published, reference.experiment):
        raise Untrusted(
            f"{reference.label} was published by someone else, and training it runs its code. If you trust its "
            "author: wb.open(…, trust=True).replay(), or workbench replay … --trust."
        )
    if home.exists and home.experiment(reference.experiment).spec.exists():
        label = label_of(home, reference.experiment)
        check_trusted(home, reference.experiment)  # the one with this id here may be another
    else:
        label = str(take_in(home, published.root)["label"])
        trust(home, reference.experiment)
    return home, dataclasses.replace(reference, label=label)
