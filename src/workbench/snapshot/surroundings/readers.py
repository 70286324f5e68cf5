"""Readers that open files without Python's ``open``: pyarrow, HDF5, safetensors and others. Law: a wrapper records the
path and calls the wrapped function; it changes neither arguments nor results, and its own errors are suppressed.

:func:`install` installs the wrappers in readers that are already imported, and in others when they are imported.
:data:`NOT_SEEN` lists what cannot be wrapped (methods of extension types, libraries with their own readers).
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import sys
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

from workbench.snapshot.surroundings.arriving import when_imported

#: Functions by module, each with the name of its path parameter (the first one, unless a number is given).
#: ``Class.__init__`` is a method; a name with ``+`` is an extension type, which is replaced by a subclass.
READERS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "pyarrow": (("memory_map", 0, "path"), ("OSFile+", 0, "path")),
    "pyarrow.ipc": (("RecordBatchFileReader.__init__", 1, "source"), ("RecordBatchStreamReader.__init__", 1, "source")),
    "pyarrow.parquet.core": (
        ("ParquetFile.__init__", 1, "source"),
        ("ParquetDataset.__init__", 1, "path_or_paths"),
        ("read_table", 0, "source"),
        ("read_metadata", 0, "where"),
    ),
    "pyarrow.dataset": (("dataset", 0, "source"), ("parquet_dataset", 0, "metadata_path")),
    "pyarrow.feather": (("read_table", 0, "source"), ("read_feather", 0, "source")),
    "pyarrow.csv": (("read_csv", 0, "input_file"), ("open_csv", 0, "input_file")),
    "pyarrow.json": (("read_json", 0, "input_file"), ("open_json", 0, "input_file")),
    "pyarrow.orc": (("ORCFile.__init__", 1, "source"), ("read_table", 0, "source")),
    "h5py.h5f": (("open", 0, "name"),),
    "tables.file": (("File.__init__", 1, "filename"),),
    "safetensors": (("safe_open", 0, "filename"),),
    "torch": (("from_file", 0, "filename"), ("UntypedStorage.from_file", 0, "filename")),
    "torch.jit._serialization": (("load", 0, "f"),),
    "torchvision.io.image": (("read_file", 0, "path"),),
    "soundfile": (("SoundFile.__init__", 1, "file"),),
    "lmdb": (("open", 0, "path"),),
    "cv2": (
        *(("imread", 0, "filename"), ("imreadmulti", 0, "filename"), ("imcount", 0, "filename")),
        *(("VideoCapture+", 0, "filename"), ("FileStorage+", 0, "filename"), ("CascadeClassifier+", 0, "filename")),
        *((f"dnn.readNet{kind}", 0, "model") for kind in ("", "FromONNX", "FromTensorflow", "FromTFLite")),
    ),
    "polars": tuple(
        (name, 0, "source")
        for kind in ("csv", "parquet", "ipc", "ndjson", "avro", "excel", "ods", "json", "ipc_stream", "delta")
        for name in (f"read_{kind}", f"scan_{kind}")
    ),
    "faiss": (("read_index", 0, "fname"),),
    "netCDF4": (("Dataset+", 0, "filename"), ("MFDataset+", 0, "files")),
    "onnxruntime": (("InferenceSession.__init__", 1, "path_or_bytes"),),
}

#: Packages that read files in their own libraries, where neither an audit event nor a wrapper reports them.
NOT_SEEN = (
    *("tensorflow", "duckdb", "torchcodec", "decord", "av", "ffcv", "nvidia.dali", "deeplake", "tiledb", "cudf"),
    *("osgeo", "rasterio", "SimpleITK", "pyvips", "openslide", "tokenizers", "sentencepiece", "fasttext"),
    *("xgboost", "lightgbm", "catboost", "datatable", "vaex", "petastorm", "ROOT", "uproot"),
    *("rdkit", "openbabel", "pyogrio", "fiona", "open3d", "pysam", "pyreadstat", "MDAnalysis", "mdtraj"),
)

#: The maximum number of files recorded for a folder that was passed to a reader.
_MOST = 5_000

#: The callback for each read (the path as given) and each created file.
Told = Callable[[str, bool], None]
_told: Told | None = None
_is_installed = False


def tell(told: Told) -> None:
    """From now on, call ``told`` with each path, and whether the file is created and not read."""
    global _told
    _told = told


def install() -> None:
    """Install the wrappers in imported readers, and in the others when they are imported. Idempotent."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        for name in READERS:
            when_imported(name, _wrap)


def not_seen(packages: Collection[str] | None = None) -> list[str]:
    """The imported packages that may read files without being seen. packages: only of these; None: of all."""
    return [
        name for name in NOT_SEEN
        if name in sys.modules and (packages is None or name.partition(".")[0] in packages)
    ]  # fmt: skip


def paths_in(given: Any) -> Iterator[str]:
    """The local files that a reader's argument names: a path, a pattern, a folder of files, or several of them."""
    if isinstance(given, list | tuple | set):
        for one in given:
            yield from paths_in(one)
        return
    if isinstance(given, bytes):
        if b"\0" in given or len(given) > 4096:  # content, not a name
            return
    elif not isinstance(given, str | os.PathLike):
        return
    path = os.fsdecode(given).removeprefix("file://")
    if "\0" in path or "\n" in path or "://" in path:
        return
    if os.path.isdir(path):
        yield from _inside(path)
    elif glob.has_magic(path) and not os.path.exists(path):
        for _, found in zip(range(_MOST), glob.iglob(path, recursive=True), strict=False):
            yield found
    else:
        yield path


def _inside(folder: str) -> Iterator[str]:
    count = 0
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            if not name.startswith((".", "_")) and name not in ("lock.mdb",):
                yield os.path.join(here, name)
                if (count := count + 1) >= _MOST:
                    return


# ---------------------------------------------------------------------------------------------------------------------


def _wrap(module: types.ModuleType) -> None:
    for name, at, parameter in READERS[module.__name__]:
        with contextlib.suppress(Exception):  # another version has no such function, or it cannot be replaced
            _put(module, name, at, parameter)


def _put(module: types.ModuleType, name: str, at: int, parameter: str) -> None:
    where, _, last = name.removesuffix("+").rpartition(".")
    owner: Any = getattr(module, where) if where else module
    original = getattr(owner, last)
    if getattr(original, "_workbench_reads", False):
        return
    made: Any = _subclass(original, parameter) if name.endswith("+") else _noting(original, at, parameter)
    if where and not last.startswith("__"):
        made = staticmethod(made)
    setattr(owner, last, made)
    # Replace it in the defining module as well: pickle looks for it there.
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    if home is not None and not where and getattr(home, last, None) is original:
        setattr(home, last, made)


def _noting(original: Callable[..., Any], at: int, parameter: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def reads(*args: Any, **kwargs: Any) -> Any:
        _note(args, kwargs, at, parameter)
        return original(*args, **kwargs)

    reads._workbench_reads = True  # type: ignore[attr-defined]
    return reads


def _subclass(original: Any, parameter: str) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        _note(args, kwargs, 0, parameter)
        if original.__init__ is not object.__init__:
            original.__init__(self, *args, **kwargs)

    told = {"__init__": __init__, "__module__": original.__module__, "__doc__": original.__doc__}
    return type(original.__name__, (original,), {**told, "_workbench_reads": True})


def _note(args: tuple[Any, ...], kwargs: dict[str, Any], at: int, parameter: str) -> None:
    if _told is None:
        return
    with contextlib.suppress(Exception):
        given = kwargs[parameter] if parameter in kwargs else args[at]
        mode = kwargs["mode"] if "mode" in kwargs else args[at + 1] if len(args) > at + 1 else ""
        is_made = isinstance(mode, str) and mode[:1] in ("w", "x")
        for path in paths_in(given):
            _told(path, is_made)
