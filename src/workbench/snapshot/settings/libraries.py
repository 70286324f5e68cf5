"""Settings of libraries that can change a result: how each is read and applied.

Law: each setting has the name that users write, is plain data, and can be applied in another process; one that cannot
is refused by name. A value that a fresh process has too is not a setting.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from workbench.records import Json
from workbench.snapshot.settings.filters import refused


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its value in a fresh process, how to read it and how to apply it, each as a function of its module.

    Every value that was read, also in a fresh process, can be applied.
    """

    name: str
    usual: Json
    read: Callable[[Any], Json]
    put: Callable[[Any, Any], object]


# ---------------------------------------------------------------------------------------------------------------------
# torch


def _at(path: str, usual: Json, root: str = "torch") -> Setting:
    """A setting that is a plain attribute: ``torch.backends.cudnn.benchmark``."""
    *way, last = path.removeprefix(f"{root}.").split(".")

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


def _is_flushing(_: Any) -> bool:
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
    Setting("torch.set_flush_denormal", False, _is_flushing,
            lambda torch, value: torch.set_flush_denormal(value)),
    *(_autocast(device) for device in ("cpu", "cuda")),
)  # fmt: skip


def check_torch(torch: Any) -> None:
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
    value: Any = getattr(known, "_global_config", None)
    if registered is None or value is None:
        return None
    # Not by `get_option`, which warns of an option that a release drops: to ignore that, as each checkpoint would, has
    # Python forget which warnings it has shown.
    for part in name.split("."):
        value = value[part]
    return None if value == registered.defval else value


#: What ``sklearn.set_config`` may change of a result.
_SKLEARN_USUAL = {
    "assume_finite": False, "working_memory": 1024, "pairwise_dist_chunk_size": 256,
    "enable_cython_pairwise_dist": True, "array_api_dispatch": False, "transform_output": "default",
    "enable_metadata_routing": False, "skip_parameter_validation": False, "sparse_interface": "spmatrix",
}  # fmt: skip


def _sklearn_setting(name: str, usual: Json) -> Setting:
    return Setting(
        f"sklearn.set_config({name})",
        usual,
        lambda sklearn: sklearn.get_config().get(name, usual),  # a release may lack it
        lambda sklearn, value: sklearn.set_config(**{name: value}),
    )


def _keras_setting(name: str, usual: Json) -> Setting:
    return Setting(
        f"keras.config.set_{name}",
        usual,
        lambda keras: getattr(keras.config, name)(),
        lambda keras, value: getattr(keras.config, f"set_{name}")(value),
    )


def _policy(keras: Any) -> Json:
    policy = keras.config.dtype_policy()
    if type(policy).__name__ not in ("DTypePolicy", "FloatDTypePolicy"):
        raise refused("keras.config.set_dtype_policy", "its policy is an object of this process", "Set one by its name")
    return None if policy.name == keras.config.floatx() else str(policy.name)


def _set_policy(keras: Any, value: str | None) -> None:
    keras.config.set_dtype_policy(value or keras.config.floatx())


_MOST_PIXELS = 1024**3 // 4 // 3  # of Pillow's own


def _start_method(multiprocessing: Any) -> Json:
    chosen = multiprocessing.get_start_method(allow_none=True)
    usual = multiprocessing.get_all_start_methods()[0]
    return None if chosen in (None, usual) else chosen


#: Settings by the module that holds them.
Table: TypeAlias = Mapping[str, tuple[Setting, ...]]

TABLE: Table = {
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
    "sklearn": tuple(_sklearn_setting(name, usual) for name, usual in _SKLEARN_USUAL.items()),
    "keras": (
        _keras_setting("floatx", "float32"),
        _keras_setting("epsilon", 1e-07),
        _keras_setting("image_data_format", "channels_last"),
        Setting("keras.config.set_dtype_policy", None, _policy, _set_policy),
    ),
    "PIL.ImageFile": (_at("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", False, "PIL.ImageFile"),),
    "PIL.Image": (
        Setting("PIL.Image.MAX_IMAGE_PIXELS", _MOST_PIXELS, lambda module: module.MAX_IMAGE_PIXELS or "any",
                lambda module, value: setattr(module, "MAX_IMAGE_PIXELS", None if value == "any" else value)),
    ),
    "multiprocessing": (
        Setting("multiprocessing.set_start_method", None, _start_method,
                lambda module, value: module.set_start_method(value, force=True)),
    ),
    "sys": (Setting("sys.setrecursionlimit", 1000, lambda module: module.getrecursionlimit(),
                    lambda module, value: module.setrecursionlimit(value)),
            Setting("sys.set_int_max_str_digits", 4300, lambda module: module.get_int_max_str_digits(),
                    lambda module, value: module.set_int_max_str_digits(value))),
}  # fmt: skip


def _own_threads(torch: Any) -> int | None:
    """Torch's number of threads; None if it is the one that the slot has given it."""
    threads = int(torch.get_num_threads())
    return None if str(threads) == os.environ.get("OMP_NUM_THREADS") else threads


#: A launch passes it on in another way.
_THREADS = Setting("torch.set_num_threads", None, _own_threads, lambda torch, value: torch.set_num_threads(value))
#: No loop's result depends on them, and a machine may lack a locale.
_NOT_IN_LOOPS = ("locale", "multiprocessing", "torch.multiprocessing")
#: Settings that training loops change: a phase in another precision, an evaluation without gradients.
OF_LOOPS: Table = {name: known for name, known in TABLE.items() if name not in _NOT_IN_LOOPS} | {
    "torch": (*TABLE["torch"], _THREADS)
}
