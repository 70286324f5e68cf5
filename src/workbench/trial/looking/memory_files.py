"""Files in memory: ``io.BytesIO`` and ``io.StringIO``. Law: what is written into them is state, as in a list."""

from __future__ import annotations

import io
from typing import Any

from workbench.trial.kinds import IsLeft, Kind, See, Token
from workbench.trial.looking.digests import digest

TYPES = (io.BytesIO, io.StringIO)


class MemoryFile(Kind):
    """What it contains, and the position in it."""

    def look(self, obj: Any, see: See) -> Token:
        if obj.closed:
            return 0
        if type(obj) is io.StringIO:
            return (digest(obj.getvalue().encode("utf-8", "surrogatepass")), obj.tell())
        with obj.getbuffer() as view:
            return (digest(view), obj.tell())

    def content(self, obj: Any, left: IsLeft) -> Any:
        return None if obj.closed else obj.__getstate__()

    def put(self, obj: Any, content: Any) -> None:
        if content is None:
            obj.close()
        else:
            obj.__setstate__(content)


def closed(cls: type) -> Any:
    """A closed file: graphs contain a call of this, since a closed file does not pickle."""
    file = cls()
    file.close()
    return file


MEMORY_FILE = MemoryFile()
