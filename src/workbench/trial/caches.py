"""The contents of ``functools.lru_cache`` and ``cache``. Law: a resumed cache has the same values, in the same order.

A cached value may depend on more than the arguments. Python gives no access to the values, but its garbage collector
does; and to refill a cache, call it while its function returns the saved values instead of computing them.
"""

from __future__ import annotations

import functools
import gc
import types
from typing import Any

from workbench.trial.kinds import IsLeft, Kind, NotLookedInto, See, Token

CACHE_TYPE = type(functools.lru_cache(lambda: None))
#: A cache with more entries is not inspected: each costs a few microseconds at every checkpoint.
MOST = 10_000

#: One cached call: arguments, keyword arguments, and the value.
Call = tuple[tuple[Any, ...], dict[str, Any], Any]


def calls(cache: Any) -> list[Call] | None:
    """The entries of ``cache``, the oldest first; None if they cannot be read."""
    size = cache.cache_info().currsize
    if not size:
        return []
    if size > MOST or type(cache.__wrapped__) is not types.FunctionType:
        return None
    parts = gc.get_referents(cache)
    place = next((n for n, one in enumerate(parts) if type(one) is dict and len(one) == size), None)
    if place is None or parts[place + 1] is not cache.__wrapped__:
        return None
    kept, mark = parts[place], parts[place + 2]
    options = cache.cache_parameters()
    if options["maxsize"] is None:
        pairs = list(kept.items())
    else:
        link = type(next(iter(kept.values())))
        linked = [one for one in parts[:place] if one is not CACHE_TYPE and one is not link]
        if len(linked) != 2 * size:
            return None
        pairs = list(zip(linked[::2], linked[1::2], strict=True))
    return [(*_arguments(key, mark, bool(options["typed"])), value) for key, value in pairs]


def _arguments(key: Any, mark: Any, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call that made a key, as C's ``lru_cache_make_key`` builds it."""
    if not isinstance(key, tuple):
        return (key,), {}
    place = next((n for n, one in enumerate(key) if one is mark), None)
    if place is None:
        return key[: len(key) // 2] if typed else key, {}
    rest = key[place + 1 :]
    if typed:
        # The types of all values follow the keywords.
        rest = rest[: 2 * ((len(rest) - place) // 3)]
    return key[:place], dict(zip(rest[::2], rest[1::2], strict=True))


def fill(cache: Any, saved: list[Call]) -> None:
    """Replace the entries of ``cache`` with these calls; its function is not run."""
    cache.cache_clear()
    function = cache.__wrapped__
    code, values = function.__code__, iter([value for _, _, value in saved])
    function.__code__ = _giving(values, code.co_freevars)
    try:
        for arguments, keywords, _ in saved:
            cache(*arguments, **keywords)
    finally:
        function.__code__ = code


def _giving(values: Any, free: tuple[str, ...]) -> types.CodeType:
    """Code of a function that returns the next of ``values`` at each call, whatever its arguments."""

    def give(*arguments: Any, **keywords: Any) -> Any:
        return "the values".__next__()  # type: ignore[attr-defined]

    code = give.__code__
    consts = tuple(values if one == "the values" else one for one in code.co_consts)
    return code.replace(co_consts=consts, co_freevars=free)


class Cache(Kind):
    """A function wrapped by ``lru_cache`` or ``cache``: its entries, and the function."""

    #: Hashing the keys may need other objects that are restored earlier.
    order = 2

    def look(self, obj: Any, see: See) -> Token:
        found = calls(obj)
        if found is None:
            raise NotLookedInto("what this cache keeps cannot be saved: after a resume it is as the set-up left it")
        tokens: list[Token] = [see(obj.__wrapped__, ".__wrapped__")]
        for number, (arguments, keywords, value) in enumerate(found):
            tokens.append([see(one, f"<key {number}>") for one in arguments])
            tokens.append([(name, see(one, f"<key {number} {name}>")) for name, one in keywords.items()])
            tokens.append(see(value, f"<value {number}>"))
        return tokens

    def content(self, obj: Any, left: IsLeft) -> Any:
        return [call for call in calls(obj) or () if not left(call[2])]

    def put(self, obj: Any, content: Any) -> None:
        fill(obj, content)


CACHE = Cache()
