"""How each kind of object is inspected, and how content is restored into it. Law: in place, so that aliases stay.

A *kind* knows three things about its objects: what to compare (``look``), what to save (``content``) and how to put
that into the object that the set-up code made again (``put``). Children are visited by ``see``, which returns a token;
an object has changed when its tokens have.
"""

from __future__ import annotations

import collections
import contextlib
import copyreg
import itertools
import pickle
import types
from collections.abc import Callable, Iterable
from typing import Any

from workbench.errors import CannotResume
from workbench.trial.looking.digests import digest, digest_of_buffer, looks_into
from workbench.trial.looking.names import is_of_class
from workbench.trial.looking.padding import cleared

Token = Any
#: ``see(child, key)``: the child's token; ``key`` is its position in the parent (text, or a number).
See = Callable[[Any, "str | int"], Token]
#: True for a child that cannot be saved: its holder keeps what the set-up code put there.
IsLeft = Callable[[Any], bool]

SCALARS = frozenset({int, float, str, bool, type(None), bytes, complex})
#: A container of at least this many plain values is compared and pickled as a whole, which is faster.
MANY = 1000
#: The deepest nesting of tuples that counts as plain.
_DEPTH = 4


def are_plain(items: Iterable[Any]) -> bool:
    """Whether all of ``items`` are plain values, or tuples of such: they can neither change nor be known by name."""
    level: Iterable[Any] = items
    for _ in range(_DEPTH):
        types_met = set(map(type, level))
        if types_met <= SCALARS:
            return True
        if not types_met - {tuple} <= SCALARS:
            return False
        level = list(itertools.chain.from_iterable(item for item in level if type(item) is tuple))
    return False


def is_plain_heap(obj: Any) -> bool:
    """Whether a container is so long, and its items so plain, that it is handled as one value."""
    return len(obj) >= MANY and are_plain(obj)


def module_of(cls: type) -> str:
    """The module of a class; empty if it has none, as some that are implemented in C."""
    return str(getattr(cls, "__module__", ""))


def type_name(cls: type) -> str:
    """The class as ``module.qualname``."""
    return f"{module_of(cls)}.{cls.__qualname__}"


class NotLookedInto(Exception):
    """Why an object could not be inspected, in words for the trial's page."""


class Kind:
    """One kind of object. This base class has no content that could change: what the set-up code makes is right."""

    #: The order of restoring: buffers first, hash tables last, since hashing their keys may need the rest.
    order = 1

    def look(self, obj: Any, see: See) -> Token:
        """Tokens of the content."""
        return 0

    def content(self, obj: Any, left: IsLeft) -> Any:
        """What to save of a changed object; children appear in it as they are."""
        raise NotImplementedError

    def put(self, obj: Any, content: Any) -> None:
        """Set the content of ``obj`` to ``content``."""
        raise NotImplementedError

    def wake(self, obj: Any, content: Any) -> None:
        """Put what threads wait for: all else is restored."""


# ---------------------------------------------------------------------------------------------------------------------
# Containers and instances


def _container(cls: type) -> type | None:
    for base in (collections.OrderedDict, dict, list, set, collections.deque):
        if issubclass(cls, base):
            return base
    return None


class Instance(Kind):
    """An object implemented in Python: attributes, slots, and the items of a builtin container that it extends."""

    def __init__(self, cls: type) -> None:
        self.container = _container(cls)
        self.slots = tuple(copyreg._slotnames(cls)) if module_of(cls) != "builtins" else ()  # type: ignore[attr-defined]
        self.bare = cls in (dict, list, set, collections.deque, collections.OrderedDict, collections.Counter)
        self.name = type_name(cls)
        self.order = 2 if self.container in (dict, set, collections.OrderedDict) else 1

    def look(self, obj: Any, see: See) -> Token:
        items = self._look_items(obj, see)
        if self.bare:
            return items
        tokens = [self.name, items, see(type(obj), ".__class__")]
        for name, value in self.attributes(obj).items():
            tokens.append(name)
            tokens.append(see(value, f".{name}"))
        filled = self._filled(obj)
        tokens += [see(filled.get(name), f".{name}") for name in self.slots]
        if self.container is not None and issubclass(self.container, dict):
            factory = obj.default_factory if isinstance(obj, collections.defaultdict) else None
            tokens.append(see(factory, ".default_factory"))
        return tokens

    def _filled(self, obj: Any) -> dict[str, Any]:
        """The slots that hold something, bypassing a ``__getattr__`` that passes on what is missing."""
        found = {}
        for name in self.slots:
            with contextlib.suppress(AttributeError):
                found[name] = object.__getattribute__(obj, name)
        return found

    def _look_items(self, obj: Any, see: See) -> Token:
        container = self.container
        if container is None:
            return 0
        obj = self._plainly(obj)
        if container is list or container is collections.deque:
            if SCALARS.issuperset(map(type, obj)):
                return (1, list(obj))
            if is_plain_heap(obj):
                return (2, list(obj))
            return [see(item, number) for number, item in enumerate(obj)]
        if container is set:
            if SCALARS.issuperset(map(type, obj)):
                return (1, list(obj))
            return [see(item, f"{{{number}}}") for number, item in enumerate(obj)]
        if SCALARS.issuperset(map(type, dict.keys(obj))):
            if SCALARS.issuperset(map(type, dict.values(obj))):
                return (1, dict(dict.items(obj)))
            if dict.__len__(obj) >= MANY and are_plain(dict.values(obj)):
                return (2, dict(dict.items(obj)))
            tokens: list[Token] = []
            for key, value in dict.items(obj):
                tokens.append(key)
                tokens.append(see(value, f"[{key!r}]"))
            return tokens
        tokens = []
        for number, (key, value) in enumerate(dict.items(obj)):
            tokens.append(see(key, f"<key {number}>"))
            tokens.append(see(value, f"<value {number}>"))
        return tokens

    def _plainly(self, obj: Any) -> Any:
        """The items, or keys and values, in their order; a subclass may iterate in another way."""
        container: Any = self.container
        if container is dict or not looks_into():
            return obj
        if container is collections.OrderedDict:  # the methods of ``dict`` do not know its order
            return dict(container.items(obj))
        return obj if self.bare else list(container.__iter__(obj))

    def attributes(self, obj: Any) -> dict[str, Any]:
        """The attributes that are content."""
        return self.own(obj)

    @staticmethod
    def own(obj: Any) -> dict[str, Any]:
        """The attributes themselves, bypassing any ``__getattribute__`` of the class."""
        try:
            own: dict[str, Any] = object.__getattribute__(obj, "__dict__")
        except AttributeError:
            return {}
        return own

    def content(self, obj: Any, left: IsLeft) -> Any:
        content: dict[str, Any] = {}
        container: Any = self.container
        if container is not None and issubclass(container, dict):
            content["items"] = [(key, value) for key, value in container.items(obj) if not left(value)]
            content["kept"] = [key for key, value in container.items(obj) if left(value)]
            if isinstance(obj, collections.defaultdict) and not left(obj.default_factory):
                content["default_factory"] = obj.default_factory
        elif container is not None:
            content["items"] = list(container.__iter__(obj))
        if not self.bare:
            attributes = self.attributes(obj)
            content["attributes"] = {name: value for name, value in attributes.items() if not left(value)}
            content["kept attributes"] = [name for name, value in attributes.items() if left(value)]
            content["slots"] = self._filled(obj)
            content["class"] = type(obj)
        return content

    def put(self, obj: Any, content: Any) -> None:
        self._put_items(obj, content)
        if "default_factory" in content:
            obj.default_factory = content["default_factory"]
        if self.bare:
            return
        # A class of the project's own modules is left as it is where a trained trial is loaded.
        if type(obj) is not content["class"] and isinstance(content["class"], type):
            obj.__class__ = content["class"]
        own, new = self.own(obj), content["attributes"]
        for name in [
            name for name in self.attributes(obj) if name not in new and name not in content["kept attributes"]
        ]:
            del own[name]
        own.update(new)
        for name in self._filled(obj).keys() - content["slots"].keys():
            object.__delattr__(obj, name)
        for name, value in content["slots"].items():
            object.__setattr__(obj, name, value)

    def _put_items(self, obj: Any, content: Any) -> None:
        container: Any = self.container
        if container is None:
            return
        items = content["items"]
        if container is list:
            list.__setitem__(obj, slice(None), items)
        elif container is set:
            set.clear(obj)
            set.update(obj, items)
        elif container is collections.deque:
            collections.deque.clear(obj)
            collections.deque.extend(obj, items)
        else:
            # Call the container's own methods: a subclass may have overridden them.
            kept = {key: dict.__getitem__(obj, key) for key in content["kept"] if dict.__contains__(obj, key)}
            container.clear(obj)
            for key, value in (*items, *kept.items()):
                container.__setitem__(obj, key, value)


class Cached(Instance):
    """An object that keeps what it has looked up: these attributes are not its content."""

    def __init__(self, cls: type, caches: frozenset[str]) -> None:
        super().__init__(cls)
        self._caches = caches

    def attributes(self, obj: Any) -> dict[str, Any]:
        return {name: value for name, value in self.own(obj).items() if name not in self._caches}


class ByState(Kind):
    """An object whose class defines its state: ``state_dict`` or ``__getstate__``."""

    def __init__(self, get: str, put: str) -> None:
        self._get, self._put = get, put

    def content(self, obj: Any, left: IsLeft) -> Any:
        return getattr(obj, self._get)()

    def put(self, obj: Any, content: Any) -> None:
        getattr(obj, self._put)(content)


BY_STATE_DICT = ByState("state_dict", "load_state_dict")
BY_GETSTATE = ByState("__getstate__", "__setstate__")


class Fixed(Kind):
    """An object that cannot be saved (a lock, an open file, an iterator): the set-up code's new one replaces it."""


class Stateless(Fixed):
    """An object without a state of its own (a lock, a logger): a new one does as well, also inside other objects."""

    def content(self, obj: Any, left: IsLeft) -> Any:
        return None

    def put(self, obj: Any, content: Any) -> None:
        """Does nothing: the set-up's is as good."""


#: Attributes that ``torch.compile`` sets to an object's address, which is another one in each process.
HOLD_ADDRESSES = frozenset({"_torchdynamo_wrapper_id"})


class Function(Kind):
    """A function of the cell, with its defaults, attributes and closure."""

    def look(self, obj: Any, see: See) -> Token:
        tokens = [see(value, f"<default {number}>") for number, value in enumerate(obj.__defaults__ or ())]
        tokens += [see(value, f"<default {name}>") for name, value in (obj.__kwdefaults__ or {}).items()]
        tokens += [see(cell, f"<closure {name}>") for name, cell in closure(obj).items()]
        tokens += [see(value, f".{name}") for name, value in obj.__dict__.items() if name not in HOLD_ADDRESSES]
        return tokens

    def content(self, obj: Any, left: IsLeft) -> Any:
        attributes = {name: value for name, value in obj.__dict__.items() if name not in HOLD_ADDRESSES}
        return obj.__defaults__, obj.__kwdefaults__, attributes

    def put(self, obj: Any, content: Any) -> None:
        obj.__defaults__, obj.__kwdefaults__, attributes = content
        own = {name: value for name, value in obj.__dict__.items() if name in HOLD_ADDRESSES}
        obj.__dict__.clear()
        obj.__dict__.update({**attributes, **own})


def closure(function: Any) -> dict[str, Any]:
    """The cells that a function closes over, by name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))


class Cell(Kind):
    """One variable that functions share by closing over it."""

    def look(self, obj: Any, see: See) -> Token:
        try:
            return see(obj.cell_contents, "()")
        except ValueError:  # not assigned yet
            return (2,)

    def content(self, obj: Any, left: IsLeft) -> Any:
        try:
            return () if left(obj.cell_contents) else (obj.cell_contents,)
        except ValueError:
            return ()

    def put(self, obj: Any, content: Any) -> None:
        if content:
            obj.cell_contents = content[0]


class Class(Kind):
    """A class of the cell: its own attributes may count or collect."""

    def look(self, obj: Any, see: See) -> Token:
        tokens = [see(base, f"<base {number}>") for number, base in enumerate(obj.__bases__)]
        for name, value in self._own(obj):
            tokens.append(name)
            tokens.append(see(value, f".{name}"))
        return tokens

    def content(self, obj: Any, left: IsLeft) -> Any:
        own = self._own(obj)
        return {name: value for name, value in own if not left(value)}, [name for name, value in own if left(value)]

    def put(self, obj: Any, content: Any) -> None:
        if isinstance(content, tuple):  # checkpoints of earlier versions do not tell what was deleted
            content, kept = content
            for name in [name for name, _ in self._own(obj) if name not in content and name not in kept]:
                delattr(obj, name)
        for name, value in content.items():
            if vars(obj).get(name) is not value:
                setattr(obj, name, value)

    @staticmethod
    def _own(obj: Any) -> list[tuple[str, Any]]:
        hidden = types.GetSetDescriptorType | types.MemberDescriptorType
        return [
            (name, value)
            for name, value in vars(obj).items()
            if not is_of_class(name, value) and name != "_abc_impl" and not isinstance(value, hidden)
        ]


class ByteArray(Kind):
    """A bytearray."""

    def look(self, obj: Any, see: See) -> Token:
        return digest(obj)

    def content(self, obj: Any, left: IsLeft) -> Any:
        return bytes(obj)

    def put(self, obj: Any, content: Any) -> None:
        obj[:] = content


# ---------------------------------------------------------------------------------------------------------------------
# Random generators


class Generator(Kind):
    """A random generator held in a name; its position in the stream is its content."""

    def __init__(self, get: Callable[[Any], Any], put: Callable[[Any, Any], Any]) -> None:
        self._get, self._put = get, put

    def look(self, obj: Any, see: See) -> Token:
        return digest(pickle.dumps(self._get(obj), 4))

    def content(self, obj: Any, left: IsLeft) -> Any:
        return self._get(obj)

    def put(self, obj: Any, content: Any) -> None:
        self._put(obj, content)


class NumpyGenerator(Kind):
    """NumPy's Generator: its bit generator is its content."""

    def look(self, obj: Any, see: See) -> Token:
        return see(obj.bit_generator, ".bit_generator")


# ---------------------------------------------------------------------------------------------------------------------
# Arrays


class Array(Kind):
    """A NumPy array. The memory of a view belongs to its base."""

    order = 0

    def look(self, obj: Any, see: See) -> Token:
        shape = (obj.dtype.str, obj.shape, obj.strides)
        if obj.dtype.hasobject:
            return (*shape, [see(item, number) for number, item in enumerate(obj.ravel().tolist())])
        base = base_of(obj)
        if base is not None:
            return (*shape, see(base, ".base"), offset_of(obj, base))
        # The content of a mapped file is the user's, and reading all of it may take minutes.
        changes = obj.flags.writeable and getattr(obj, "mode", "c") == "c"
        return (*shape, digest_of_buffer(buffer_of_array(obj), changes=changes))

    def content(self, obj: Any, left: IsLeft) -> Any:
        if base_of(obj) is not None and not obj.dtype.hasobject:
            return None
        return obj.copy()

    def put(self, obj: Any, content: Any) -> None:
        if content is not None:
            if obj.shape != content.shape or obj.dtype != content.dtype:
                obj.resize(content.shape, refcheck=False)
            obj[...] = content


def base_of(array: Any) -> Any:
    """The array to which the memory of a view belongs; None for an array of its own, or a view of another class."""
    base = array.base
    if type(base).__name__ == "DummyArray":  # what ``as_strided`` and ``sliding_window_view`` put between the two
        base = base.base
    return base if type(base) is type(array) else None


def offset_of(view: Any, base: Any) -> int:
    """Offset in bytes of a view from the start of its base."""
    return int(view.__array_interface__["data"][0] - base.__array_interface__["data"][0])


def buffer_of_array(array: Any) -> memoryview:
    """The bytes of an array without objects in it; a copy if they are not contiguous, or if there are gaps in them."""
    if not array.flags.c_contiguous:
        array = array.copy()
    array = cleared(array)
    return memoryview(array.reshape(-1).view("u1")) if array.size else memoryview(b"")


class LeftOut:
    """Takes the place, in a resumed trial, of what could not be saved inside something that could. Using it says so."""

    def __init__(self, reason: str) -> None:
        self.__dict__["reason"] = reason

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise CannotResume(
            f"this object was not in the checkpoint ({self.__dict__['reason']}). The loop made it in an earlier step, "
            "so a resumed trial lacks it. Make it before the loop, in a name of its own, or again in each step."
        )

    __setattr__ = __iter__ = __next__ = __call__ = __getitem__ = __len__ = __enter__ = __exit__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def __reduce__(self) -> Any:
        return LeftOut, (self.__dict__["reason"],)


def is_from(obj: Any, names: Iterable[str]) -> bool:
    """True if the object's class, or one of its bases, comes from one of the named packages."""
    wanted = frozenset(names)
    return any(module_of(cls).partition(".")[0] in wanted for cls in type(obj).__mro__)
