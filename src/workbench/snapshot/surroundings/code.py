"""Tells code that Python imports from code that training reads itself. Law: it looks only at names and calling frames.

Imported modules count by their code, under their names. A file that is loaded by its path (a configuration in Python)
has no name there, so it is data.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import types

from workbench import interpreter

#: The folder of Workbench's own code.
WORKBENCH = os.path.join(interpreter.PACKAGE, "")
#: Code, however it is opened.
CODE = (".pyc", ".so", ".pyd")
#: Code if it is imported or shown in a traceback, but data if training code opens it or loads it by its path.
_SOURCE = (".py", ".pyi")
#: Files of the standard library that read code: a source opened through them is not data.
_READERS = (
    *("linecache.py", "tokenize.py", "inspect.py", "pkgutil.py", "zipimport.py", "pdb.py"),
    "multiprocessing/spawn.py",
)
_LIBRARY = f"{os.path.dirname(os.__file__)}/"
#: The function of Python's importer through which every import by name goes.
_BY_NAME = "_find_and_load"


def data_in(name: str, opener: types.FrameType | None) -> str | None:
    """The file that is read as data where ``opener`` opens ``name``, or None if that is code. Of a compiled file that
    is loaded by its path, it is the source.
    """
    if name.endswith(_SOURCE):
        return None if _is_code(opener) else name
    if name.endswith(".pyc") and not _is_code(opener):
        with contextlib.suppress(ValueError, NotImplementedError):  # a compiled file of another form has no source
            return importlib.util.source_from_cache(name)
    # Text without a file is called <string> or <unknown>. Python opens that when it shows an error in it.
    is_text = os.path.basename(name).startswith("<") and name.endswith(">")
    return None if is_text or name.endswith(CODE) else name


def is_ours(opener: types.FrameType | None) -> bool:
    """Whether Workbench itself opens a file, directly or through the standard library."""
    frame = opener
    while frame is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(WORKBENCH)


def _is_code(opener: types.FrameType | None) -> bool:
    """Whether the file being opened is imported by its name or shown, and not read by the training code itself."""
    frame = opener
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen zipimport") or frame.f_code.co_name == _BY_NAME:
            return True
        if name.startswith(WORKBENCH):
            return True  # it reads code to find out whether it has changed
        if not _is_library(name):
            return False
        if name.startswith(f"{_LIBRARY}importlib/") or name.endswith(_READERS):
            return True
        frame = frame.f_back
    return False


def _is_library(file: str) -> bool:
    return file.startswith("<frozen ") or (file.startswith(_LIBRARY) and "/site-packages/" not in file)
