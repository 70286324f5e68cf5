"""Settings of a process that cells made before training: torch's flags, NumPy's error state, filters of warnings, …

Law: it examines only modules that are already imported. A value that a fresh process has too is not a setting. Each
setting has the name that users write, is plain data, and can be applied in another process; one that cannot is refused
by name.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from workbench.errors import BadSetting
from workbench.records import Json
from workbench.snapshot.imported import imported, loaded
from workbench.snapshot.surroundings import filters
from workbench.snapshot.surroundings.filters import refused

#: Modules with settings that training loops change: a phase in another precision, an evaluation without gradients. Of
#: torch, those that all devices have.
_IN_LOOPS = ("torch", "numpy", "decimal", "sys")
CUDNN = ("enabled", "benchmark", "deterministic")  # of these, flags of ``torch.backends.cudnn``
_OF_TORCH = frozenset({"torch.autocast.cpu", "torch.autocast.cuda", "torch.use_deterministic_algorithms"}) | {
    *(f"torch.set_{name}" for name in ("default_device", "default_dtype", "float32_matmul_precision")),
    *("torch.set_flush_denormal", "torch.set_grad_enabled", "torch.backends.mkldnn.enabled"),
    *(f"torch.backends.cudnn.{name}" for name in CUDNN),
}
#: The warning filters, which are inserted before a runner's own.
FILTERS = "warnings.filters"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its value in a fresh process, how to read it and how to apply it, each as a function of its module.

    Every value that was read, also in a fresh process, can be applied.
    """

    name: str
    usual: Json
    read: Callable[[Any], Json]
    put: Callable[[Any, Any], object]


def here() -> dict[str, Json]:
    """The present settings of this process, in the form of ``Training.settings``.

    Raises BadSetting for one that cannot be passed on.
    """
    taken = _taken.get()
    if taken is not None:
        return dict(taken)
    found: dict[str, Json] = {}
    for name, settings in _TABLE.items():
        module = imported(name)
        if module is None:
            continue
        if name == "torch":
            _check_torch(module)
        for setting in settings:
            value = setting.read(module)
            if value != setting.usual:
                found[setting.name] = value
    if made := filters.here():
        found[FILTERS] = made
    return found


#: The settings of the thread on whose behalf another one launches.
_taken: ContextVar[dict[str, Json] | None] = ContextVar("taken", default=None)


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Make :func:`here` return this thread's present settings, also in threads that get this context: some settings of
    torch belong to one thread.
    """
    token = _taken.set(here())
    try:
        yield
    finally:
        _taken.reset(token)


def put(settings: Mapping[str, Json], module: str | None = None) -> None:
    """Apply ``settings`` in this process, if their modules are imported. module: only the settings of this module.

    Raises BadSetting for one that cannot be applied here.
    """
    for name, known in _TABLE.items():
        home = loaded(name) if module in (None, name) else None
        for setting in known if home is not None else ():
            if setting.name in settings:
                _put(setting, home, settings[setting.name])
    if module is None:
        for name in ("decimal", "locale"):  # small, and used without being named
            if name not in sys.modules and any(one.name in settings for one in _TABLE[name]):
                importlib.import_module(name)
                put(settings, name)
        if FILTERS in settings:
            filters.put(settings[FILTERS])


def read() -> dict[str, Json]:
    """The present values of settings that a training loop may change, in modules that are imported; None for a value
    that cannot be passed on."""
    return {setting.name: _read(setting, module) for setting, module in _in_loops()}


def changed(before: Mapping[str, Json]) -> dict[str, Json]:
    """Those of these values that differ from ``before``, or for modules imported since, from a fresh process."""
    return {
        setting.name: value
        for setting, module in _in_loops()
        if (value := _read(setting, module)) != before.get(setting.name, setting.usual)
    }


def put_changed(settings: Mapping[str, Json]) -> None:
    """Apply what :func:`changed` returned, where it differs now. Raises BadSetting."""
    for name in _IN_LOOPS:
        if loaded(name) is None and _of(name, settings):
            importlib.import_module(name)
    for setting, module in _in_loops():
        value = settings.get(setting.name)
        if value is not None and value != _read(setting, module):
            _put(setting, module, value)


def _in_loops() -> list[tuple[Setting, Any]]:
    found = []
    for name in _IN_LOOPS:
        module = loaded(name)
        if module is not None:
            found += [(setting, module) for setting in _OF_LOOPS[name]]
    return found


def _read(setting: Setting, module: Any) -> Json:
    try:
        return setting.read(module)
    except BadSetting:
        return None


@contextlib.contextmanager
def lent(settings: Mapping[str, Json]) -> Iterator[None]:
    """Apply ``settings`` temporarily, in modules that are already imported."""
    before = [
        (setting, module, setting.read(module))
        for name, known in _TABLE.items()
        if (module := loaded(name)) is not None
        for setting in known
        if setting.name in settings
    ]
    with warnings.catch_warnings():
        try:
            put(settings)
            yield
        finally:
            for setting, module, value in before:
                setting.put(module, value)


class Holding:
    """Settings that apply from now on, also in modules imported later; and torch's number of threads."""

    def __init__(self, settings: Mapping[str, Json], threads: int) -> None:
        self._settings = settings
        self._threads = threads
        self._absent = {name for name in _TABLE if loaded(name) is None and (name == "torch" or _of(name, settings))}
        self._classes = filters.modules(settings.get(FILTERS) or ()) - set(sys.modules)
        put(settings)
        if loaded("torch") is not None:
            self.hold_threads()

    def hold_threads(self) -> None:
        """Set torch's number of threads: torch starts with fewer if the environment asks for more threads than
        cores."""
        torch: Any = sys.modules["torch"]
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)

    def imported(self) -> None:
        """Apply the settings of a module that was just imported."""
        for name in [name for name in self._absent if loaded(name) is not None]:
            self._absent.discard(name)
            put(self._settings, name)
            if name == "torch":
                self.hold_threads()
        if any(name in sys.modules for name in self._classes):
            self._classes -= set(sys.modules)
            filters.put(self._settings[FILTERS])


def compared(settings: Mapping[str, Json]) -> dict[str, Json]:
    """The part of ``settings`` that can change a result.

    A filter of warnings that names a message, a module or a library's own class is left out, unless it raises: modules
    add such filters while they are imported.
    """
    found = dict(settings)
    telling = filters.compared(found.pop(FILTERS, None) or ())
    return found | ({FILTERS: telling} if telling else {})


def shown(name: str, value: Json) -> str:
    """The value of a setting in a few words."""
    if value is None:
        return "as usual"
    if name == FILTERS:
        return ", ".join(f"{one['action']} {one['category'].rpartition(':')[2]}" for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return str(value)


def _of(module: str, settings: Mapping[str, Json]) -> bool:
    return any(setting.name in settings for setting in _TABLE[module])


def _put(setting: Setting, module: Any, value: Json) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # already reported where it was first set
            setting.put(module, value)
    except Exception as error:
        raise BadSetting(
            f"the notebook had set {setting.name} to {shown(setting.name, value)}, and that is not available where "
            f"this trains ({type(error).__name__}: {error}). Undo it before the train cell, or train on a machine "
            "that can."
        ) from None


# ---------------------------------------------------------------------------------------------------------------------
# torch


def _at(path: str, usual: Json) -> Setting:
    """A setting that is a plain attribute: ``torch.backends.cudnn.benchmark``."""
    *way, last = path.split(".")[1:]

    def holder(module: Any) -> Any:
        for part in way:
            module = getattr(module, part)
        return module

    def read(module: Any) -> Json:
        value = getattr(holder(module), last, usual)  # a release of torch may lack it
        return value if isinstance(value, bool | int | str) else usual

    return Setting(path, usual, read, lambda module, value: setattr(holder(module), last, value))


def _attention(kind: str) -> Setting:
    """Whether a kind of attention may be used on a GPU."""
    return Setting(
        f"torch.backends.cuda.enable_{kind}_sdp",
        True,
        lambda torch: bool(getattr(torch.backends.cuda, f"{kind}_sdp_enabled", lambda: True)()),
        lambda torch, value: getattr(torch.backends.cuda, f"enable_{kind}_sdp")(value),
    )


def _autocast(device: str) -> Setting:
    """The type to which a device casts automatically, if autocast was turned on permanently."""

    def set_to(torch: Any, value: str | None) -> None:
        if value is not None:
            torch.set_autocast_dtype(device, _typed(torch, value))
        torch.set_autocast_enabled(device, value is not None)

    def read(torch: Any) -> Json:
        return str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else None

    return Setting(f"torch.autocast.{device}", None, read, set_to)


def _typed(torch: Any, name: str) -> Any:
    return getattr(torch, name.removeprefix("torch."))


def device(torch: Any) -> str:
    """The default device."""
    # Not `get_default_device`: it would initialise CUDA.
    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return str(context.device) if context is not None else "cpu"


def _set_device(torch: Any, name: str) -> None:
    kind = torch.device(name).type
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("no GPU can be used here")
    torch.set_default_device(name)


def _deterministic(torch: Any) -> str:
    if not torch.are_deterministic_algorithms_enabled():
        return "off"
    return "warn only" if torch.is_deterministic_algorithms_warn_only_enabled() else "on"


def _anomaly(torch: Any) -> str:
    if not torch.is_anomaly_enabled():
        return "off"
    return "on" if torch.is_anomaly_check_nan_enabled() else "on, nan allowed"


def precision(torch: Any) -> str:
    """The precision of float32 products, by either of torch's two interfaces, which it refuses to mix."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return "by backend"


def _set_precision(torch: Any, value: str) -> None:
    if value != "by backend":  # the settings of the backends follow
        torch.set_float32_matmul_precision(value)


def _tf32(torch: Any) -> bool:
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:
        return True  # set for each backend


def _by_backend(path: str, usual: str) -> Setting:
    """A backend's precision of float32 products, if it was set for the backend itself."""
    plain = _at(path, usual)

    def read(torch: Any) -> Json:
        try:
            _ = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        except RuntimeError:  # it was set for each backend
            return plain.read(torch)
        return usual

    return Setting(path, usual, read, plain.put)


def is_flushing(_: Any) -> bool:
    """Whether numbers too small for full precision count as zero: also where they are compared."""
    return sys.float_info.min / 2 == 0.0


_TORCH = (
    Setting("torch.set_default_dtype", "torch.float32", lambda torch: str(torch.get_default_dtype()),
            lambda torch, value: torch.set_default_dtype(_typed(torch, value))),
    Setting("torch.set_default_device", "cpu", device, _set_device),
    Setting("torch.use_deterministic_algorithms", "off", _deterministic,
            lambda torch, value: torch.use_deterministic_algorithms(value != "off", warn_only=value == "warn only")),
    _at("torch.utils.deterministic.fill_uninitialized_memory", True),
    Setting("torch.set_float32_matmul_precision", "highest", precision, _set_precision),
    Setting("torch.backends.cudnn.allow_tf32", True, _tf32,
            lambda torch, value: setattr(torch.backends.cudnn, "allow_tf32", value)),
    _by_backend("torch.backends.fp32_precision", "none"),
    _by_backend("torch.backends.cuda.matmul.fp32_precision", "none"),
    _by_backend("torch.backends.cudnn.conv.fp32_precision", "tf32"),
    _by_backend("torch.backends.cudnn.rnn.fp32_precision", "tf32"),
    _by_backend("torch.backends.mkldnn.matmul.fp32_precision", "none"),
    _by_backend("torch.backends.mkldnn.conv.fp32_precision", "none"),
    _by_backend("torch.backends.mkldnn.rnn.fp32_precision", "none"),
    _at("torch.backends.cudnn.enabled", True),
    _at("torch.backends.cudnn.benchmark", False),
    _at("torch.backends.cudnn.deterministic", False),
    _at("torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction", True),
    _at("torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction", True),
    _at("torch.backends.cuda.matmul.allow_fp16_accumulation", False),
    _at("torch.backends.mkldnn.enabled", True),
    _at("torch.backends.mkldnn.deterministic", False),
    *(_attention(kind) for kind in ("flash", "mem_efficient", "math", "cudnn")),
    Setting("torch.set_grad_enabled", True, lambda torch: torch.is_grad_enabled(),
            lambda torch, value: torch.set_grad_enabled(value)),
    Setting("torch.autograd.set_detect_anomaly", "off", _anomaly,
            lambda torch, value: torch.autograd.set_detect_anomaly(value != "off", check_nan=value == "on")),
    Setting("torch.set_flush_denormal", False, is_flushing,
            lambda torch, value: torch.set_flush_denormal(value)),
    *(_autocast(device) for device in ("cpu", "cuda")),
)  # fmt: skip


def _check_torch(torch: Any) -> None:
    if torch.is_inference_mode_enabled():
        raise refused("torch.inference_mode", "it is switched on for this whole process", "Leave it")
    stacks: tuple[list[Any], ...] = (
        getattr(torch.overrides, "_get_current_function_mode_stack", list)(),
        getattr(torch.utils._python_dispatch, "_get_current_dispatch_mode_stack", list)(),
    )
    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    for mode in (mode for stack in stacks for mode in stack if mode is not context):
        raise refused(type(mode).__name__, "a mode of torch is an object of this process", "Leave it")
    where = device(torch)
    if where.startswith("cuda") and not torch.cuda.is_available():
        raise refused(f"torch.set_default_device({where!r})", "there is no GPU here", "Set it to 'cpu'")


# ---------------------------------------------------------------------------------------------------------------------
# The other modules

_NUMPY_USUAL = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_LOCALES = ("LC_COLLATE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")


def _numpy_errors(numpy: Any) -> Json:
    found = dict(numpy.geterr())
    if numpy.geterrcall() is not None and {"call", "log"} & set(found.values()):
        raise refused("numpy.seterrcall", "its function is an object of this process", "Write numpy.seterr without it")
    return found


def _locale(locale: Any) -> str:
    # LC_CTYPE comes from the environment in every process, and Python's text does not depend on it.
    is_plain = all(locale.setlocale(getattr(locale, name)) in ("C", "POSIX") for name in _LOCALES)
    return "C" if is_plain else str(locale.setlocale(locale.LC_ALL))


def _decimal(decimal: Any) -> Json:
    context = decimal.getcontext()
    return {
        "prec": context.prec,
        "rounding": context.rounding,
        "Emin": context.Emin,
        "Emax": context.Emax,
        "capitals": context.capitals,
        "clamp": context.clamp,
        "traps": sorted(trap.__name__ for trap, is_set in context.traps.items() if is_set),
    }


def _set_decimal(decimal: Any, value: Mapping[str, Any]) -> None:
    traps = [getattr(decimal, name) for name in value["traps"]]
    decimal.setcontext(decimal.Context(**{**value, "traps": traps}))


_DECIMAL_USUAL = {
    "prec": 28, "rounding": "ROUND_HALF_EVEN", "Emin": -999999, "Emax": 999999, "capitals": 1, "clamp": 0,
    "traps": ["DivisionByZero", "InvalidOperation", "Overflow"],
}  # fmt: skip


def _pandas_settings() -> Iterator[Setting]:
    """Options that affect arithmetic or types; pandas itself supplies the values of a fresh process."""
    for name in ("compute.use_bottleneck", "compute.use_numexpr", "compute.use_numba", "mode.copy_on_write",
                 "mode.chained_assignment", "mode.string_storage", "future.infer_string",
                 "future.no_silent_downcasting", "future.distinguish_nan_and_na"):  # fmt: skip
        yield Setting(
            f"pandas.options.{name}",
            None,
            lambda pandas, name=name: _unusual(pandas, name),  # type: ignore[misc]
            lambda pandas, value, name=name: (  # type: ignore[misc]
                pandas.reset_option(name) if value is None else pandas.set_option(name, value)
            ),
        )


def _unusual(pandas: Any, name: str) -> Json:
    known = getattr(getattr(pandas, "_config", None), "config", None)
    registered = getattr(known, "_registered_options", {}).get(name)
    if registered is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a release may be about to drop it
        value: Json = pandas.get_option(name)
    return None if value == registered.defval else value


def _start_method(multiprocessing: Any) -> Json:
    chosen = multiprocessing.get_start_method(allow_none=True)
    usual = multiprocessing.get_all_start_methods()[0]
    return None if chosen in (None, usual) else chosen


_TABLE: dict[str, tuple[Setting, ...]] = {
    "torch": _TORCH,
    "torch.multiprocessing": (
        Setting("torch.multiprocessing.set_sharing_strategy", "file_descriptor" if sys.platform == "linux" else None,
                lambda module: module.get_sharing_strategy(),
                lambda module, value: module.set_sharing_strategy(value)),
    ),
    "numpy": (Setting("numpy.seterr", _NUMPY_USUAL, _numpy_errors, lambda numpy, value: numpy.seterr(**value)),),
    "decimal": (Setting("decimal.setcontext", _DECIMAL_USUAL, _decimal, _set_decimal),),
    "locale": (Setting("locale.setlocale", "C", _locale,
                       lambda locale, value: locale.setlocale(locale.LC_ALL, value)),),
    "pandas": tuple(_pandas_settings()),
    "multiprocessing": (
        Setting("multiprocessing.set_start_method", None, _start_method,
                lambda module, value: module.set_start_method(value, force=True)),
    ),
    "sys": (Setting("sys.setrecursionlimit", 1000, lambda module: module.getrecursionlimit(),
                    lambda module, value: module.setrecursionlimit(value)),),
}  # fmt: skip
_OF_LOOPS = {name: [one for one in _TABLE[name] if name != "torch" or one.name in _OF_TORCH] for name in _IN_LOOPS}
