"""Copies of checkpoints at a URL that fsspec supports. Law: the disk comes first; training never waits.

At the URL a manifest is written last and removed first: a checkpoint with a manifest is complete. Drivers draw random
numbers and start threads, so they never run in a training process: the engine sends, and a separate process fetches
what a leg lacks (`python -m workbench.store.keeping.remote`).

Beside a trial's checkpoints, ``remote`` records the state of the URL: ``sent-STEP`` with the digest of a copy there,
``gone-STEP`` for a checkpoint that was removed here and must be removed there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from workbench import interpreter
from workbench.errors import BadOption, NotFound, StaleAttempt, StoreError
from workbench.records import Json, Spec
from workbench.records.names import trial_label
from workbench.store.files.atomic import FOLDER_MODE, make_folder, telling, write_atomic
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints, Skipped
from workbench.store.keeping.manifest import NAME, Manifest, from_plain, what_is_wrong
from workbench.store.layout import Store, TrialPaths

#: The variable with the default URL.
VARIABLE = "WORKBENCH_STORAGE"
#: The list's text for an experiment's storage while copies are waiting and there is no error.
SENDING = "is being sent"
#: Seconds for which a leg waits for a storage that is down before it trains again what it lost.
PATIENCE_S = 60.0

_TRIAL = re.compile(r"t\d{4,9}")
_STEP = re.compile(r"step-(\d{8,12})")
_NOTE = re.compile(r"(sent|gone)-(\d{8,12})")


# ---------------------------------------------------------------------------------------------------------------------
# The URL


def checked(given: str, written: str = "--storage") -> str:
    """The URL for the user's ``given``, which may be a folder. Raises BadOption, before anything is sent.

    It does not check that the storage answers: one that is down only delays copies.
    """
    advice = f"For example: {written} s3://bucket/workbench, or {written} /backup/workbench."
    if not given.strip() or any(ord(letter) < 32 for letter in given) or "::" in given:
        raise BadOption(f"{written} {shown(given)!r}: expected a folder or one URL that fsspec knows. {advice}")
    if "://" not in given:
        return f"file://{os.path.abspath(Path(given).expanduser())}"  # fsspec takes a quoted path literally
    import fsspec

    protocol, _, path = given.partition("://")
    if protocol == "memory":
        raise BadOption(f"{written} {shown(given)}: it ends with its process; expected a permanent place. {advice}")
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        raise BadOption(
            f"{written} {shown(given)}: the package for {protocol}:// is not installed ({error}). Install it where the "
            "engine runs and where trials train, or choose another place."
        ) from None
    except ValueError:
        raise BadOption(f"{written} {shown(given)}: fsspec knows no {protocol}://. {advice}") from None
    if not path.strip("/"):
        raise BadOption(f"{written} {shown(given)}: expected a place behind {protocol}://. {advice}")
    return given


def shown(url: str) -> str:
    """``url`` without possible secrets, for display."""
    url = re.sub(r"(://)[^/]*@", r"\1***@", url)
    return re.sub(r"\?.*", "?***", url)


def shown_spec(spec: Spec) -> dict[str, Json]:
    """``spec`` as plain data for display."""
    return {**spec.to_json(), "storage": shown(spec.storage) if spec.storage else None}


def _cleaned(text: str, url: str) -> str:
    """A driver's message without the URL's secrets."""
    text = text.replace(url, shown(url))
    user, _, host = urlsplit(url).netloc.rpartition("@")
    for secret in (user, *user.split(":")[1:]) if host and user else ():
        for one in {secret, unquote(secret)} - {""}:
            text = text.replace(one, "***")
    return text


# ---------------------------------------------------------------------------------------------------------------------
# One trial there


class Remote:
    """The copies of one trial at a URL, or of a whole experiment if ``trial`` is None.

    kind: ``checkpoints`` at levels, each named by its step, or another kind with its own names.

    Any exception of a driver is raised as StoreError, without secrets.
    """

    def __init__(self, url: str, experiment: str, trial: int | None = None, kind: str = "checkpoints") -> None:
        self._url = url
        parts = [url.rstrip("/"), experiment, *([] if trial is None else [trial_label(trial), kind])]
        self._place = "/".join(parts)
        self._opened: tuple[Any, str] | None = None

    @property
    def shown(self) -> str:
        """Its address, without secrets."""
        return shown(self._place)

    def steps(self) -> list[int]:
        """Steps with a copy, rising."""
        return sorted(int(match[1]) for name in self.names() if (match := _STEP.fullmatch(name)))

    def names(self) -> list[str]:
        """Names of the copies."""
        with self._telling("read"):
            system, root = self._system()
            system.invalidate_cache()
            try:
                names = system.ls(root, detail=False)
            except FileNotFoundError:
                return []
        return [str(name).rstrip("/").rpartition("/")[2] for name in names]

    def push(self, checkpoint: Checkpoint, name: str | None = None) -> None:
        """Send ``checkpoint``, its manifest last. Existing copies are not sent again.

        name: of the copy, instead of the one from its step.

        Raises StoreError also if it was replaced here meanwhile, FileNotFoundError if it was removed.
        """
        folder, manifest = checkpoint.folder, checkpoint.manifest
        ours = (folder / NAME).read_bytes()  # a small one is sent as it was read, whatever happens meanwhile
        with self._telling("written"):
            system, root = self._system()
            name = name or _name(checkpoint.step)
            target = f"{root}/{name}"
            theirs = self._manifest(name)
            if theirs == ours and self._has_sizes(system, target, manifest):
                return
            if theirs is not None:
                system.rm_file(f"{target}/{NAME}")
            for parent in {f"{target}/{file}".rpartition("/")[0] for file in (*manifest.files, NAME)}:
                system.makedirs(parent, exist_ok=True)
            for file in manifest.files:
                if isinstance(folder, Path):
                    system.put_file(str(folder / file), f"{target}/{file}")
                else:
                    system.pipe_file(f"{target}/{file}", (folder / file).read_bytes())
            system.invalidate_cache()
            if not self._has_sizes(system, target, manifest) or (folder / NAME).read_bytes() != ours:
                raise StoreError("the copy differs from the original")
            system.pipe_file(f"{target}/{NAME}", ours)
            if self._manifest(name) != ours:
                raise StoreError("the copied manifest differs from the original")

    def remove(self, which: int | str | None = None) -> None:
        """Remove the copy of that step or name, its manifest first; None removes everything of this trial and kind."""
        with self._telling("removed"):
            system, root = self._system()
            system.invalidate_cache()
            target = root if which is None else f"{root}/{which if isinstance(which, str) else _name(which)}"
            with contextlib.suppress(FileNotFoundError):
                if which is not None and system.exists(f"{target}/{NAME}"):
                    system.rm_file(f"{target}/{NAME}")
                system.rm(target, recursive=True)

    def remove_trials(self) -> None:
        """Remove all trials of an experiment, and its folder if it is empty then. Other files stay: the URL and the id
        may come from another person, and name a folder of this one's."""
        trials = [name for name in self.names() if _TRIAL.fullmatch(name)]
        with self._telling("removed"):
            system, root = self._system()
            for name in trials:
                with contextlib.suppress(FileNotFoundError):
                    system.rm(f"{root}/{name}", recursive=True)
            system.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                if not system.ls(root, detail=False):
                    system.rm(root, recursive=True)

    def fetch(self, step: int, checkpoints: Checkpoints, attempt: int | None, name: str | None = None) -> str | None:
        """Fetch the checkpoint at ``step`` to the disk; return what is wrong with the copy, or None. A damaged one
        never becomes visible.

        attempt: the one that will own it, or None for a reader. name: as for :meth:`push`. Raises StaleAttempt,
        StoreError.
        """
        with self._telling("read"):
            system, root = self._system()
            source = f"{root}/{name or _name(step)}"
            data = self._manifest(name or _name(step))
        if data is None:
            return "it was never sent in full"
        try:
            manifest = from_plain(json.loads(data), f"the checkpoint in {self.shown}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"its manifest cannot be read ({error})"
        if manifest.step != step or any(_leads_out(file) for file in manifest.files):
            return "its manifest belongs to another checkpoint"
        aside = checkpoints.begin_fetched(step, attempt)
        try:
            for file in manifest.files:
                with telling(aside):
                    (aside / file).parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
                try:
                    with self._telling("read"):
                        system.get_file(f"{source}/{file}", str(aside / file))
                except FileNotFoundError:
                    return f"{file} is missing"
            wrong = what_is_wrong(aside, manifest, "digest")
            if wrong is None:
                with telling(aside):
                    (aside / NAME).write_bytes(data)
                checkpoints.adopt(aside, step, attempt)
            return wrong
        finally:
            checkpoints.discard(aside)

    def _system(self) -> tuple[Any, str]:
        if self._opened is None:
            import fsspec

            system, path = fsspec.core.url_to_fs(self._place)
            self._opened = system, str(path).rstrip("/")
        return self._opened

    def _manifest(self, name: str) -> bytes | None:
        system, root = self._system()
        try:
            return bytes(system.cat_file(f"{root}/{name}/{NAME}"))
        except FileNotFoundError:
            return None

    @staticmethod
    def _has_sizes(system: Any, target: str, manifest: Manifest) -> bool:
        try:
            return all(system.info(f"{target}/{name}")["size"] == file.size for name, file in manifest.files.items())
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _telling(self, done: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            words = _cleaned(str(error), self._url)
            raise StoreError(f"{self.shown} cannot be {done}: {type(error).__name__}: {words}") from None


# ---------------------------------------------------------------------------------------------------------------------
# From here to there: for the engine


def note_removal(trial: TrialPaths, step: int) -> None:
    """Record that the checkpoint at ``step`` is about to be removed on purpose, so that its copy is removed too."""
    if trial.remote.is_dir():
        write_atomic(trial.remote / f"gone-{step:08d}", b"", fsync=False)


def steps_sent(trial: TrialPaths) -> set[int]:
    """Steps with a copy at the URL, as recorded here, that will not be removed there."""
    if not trial.remote.is_dir():
        return set()
    return set(_notes(trial, "sent")) - set(_notes(trial, "gone"))


def mirror(trial: TrialPaths, remote: Remote) -> int:
    """Copy the checkpoints of ``trial`` to ``remote``, newest first; return how many copies were sent or removed there:
    with 0, the storage was not used. It blocks.

    Only checkpoints that were removed on purpose are removed there, never those lost with a disk. Raises StoreError;
    the next call does the rest.
    """
    checkpoints, changed = Checkpoints(trial), 0
    if not trial.folder.is_dir() and checkpoints.is_empty:
        return 0
    make_folder(trial.remote)
    leaving = set()
    for step in _notes(trial, "gone"):
        gone = trial.remote / f"gone-{step:08d}"
        if step in checkpoints.steps():
            if not _is_newer(checkpoints, step, gone):
                leaving.add(step)  # it is just being removed
                continue
        else:
            remote.remove(step)
            changed += 1
            (trial.remote / f"sent-{step:08d}").unlink(missing_ok=True)
        gone.unlink(missing_ok=True)
    for one in reversed(checkpoints.all()):
        note = trial.remote / f"sent-{one.step:08d}"
        if one.step in leaving or _text(note) == one.manifest.digest:
            continue
        try:
            found = checkpoints.at(one.step)
        except (StoreError, NotFound):
            continue  # damaged here, or removed meanwhile
        try:
            remote.push(found)
        except FileNotFoundError as error:
            if (found.folder / NAME).exists():
                raise StoreError(f"{remote.shown} cannot be written: {error.strerror or 'it is not there'}") from None
            continue
        write_atomic(note, found.manifest.digest.encode(), fsync=False)
        changed += 1
    return changed


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _notes(trial: TrialPaths, kind: str) -> list[int]:
    found = (_NOTE.fullmatch(name) for name in os.listdir(trial.remote))
    return sorted(int(match[2]) for match in found if match and match[1] == kind)


def _is_newer(checkpoints: Checkpoints, step: int, than: Path) -> bool:
    """Whether the checkpoint at ``step`` was taken after the file ``than`` was written."""
    try:
        found = checkpoints.at(step, verify="size")
        taken = (found.folder / NAME).stat().st_mtime if isinstance(found.folder, Path) else _created(found)
        return taken > than.stat().st_mtime
    except (FileNotFoundError, NotFound, StoreError):
        return False


def _created(checkpoint: Checkpoint) -> float:
    return datetime.fromisoformat(checkpoint.manifest.created).timestamp()


# ---------------------------------------------------------------------------------------------------------------------
# From there to here


def bring(
    store: Store, spec: Spec, trial: int, step: int | None = None, *, after: int = -1, most: int | None = None,
    attempt: int | None = None, patience_s: float = 0.0,
) -> list[Skipped]:  # fmt: skip
    """Fetch the newest intact checkpoint of ``trial`` after step ``after``, or the one at ``step``; return the skipped
    ones.

    Does nothing if the experiment has no storage or was imported. An error is printed once: the caller continues with
    the checkpoints on disk. Callers have checked that the store is this user's, as its engine did for runners, whose
    host may have no list of stores.
    """
    paths = store.experiment(spec.id)
    if not spec.storage or store.readonly or paths.foreign.exists():
        return []
    wanted = {"url": spec.storage, "experiment": spec.id, "trial": trial, "step": step, "after": after, "most": most,
              "attempt": attempt, "folder": str(paths.trial(trial).folder), "patience": patience_s}  # fmt: skip
    # A separate process; it gets the URL through a pipe, since every user can read command lines.
    top = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (top, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        interpreter.command("workbench.store.keeping.remote"),
        input=json.dumps(wanted).encode(),
        capture_output=True,
        env=interpreter.surroundings({**os.environ, interpreter.PATH: path}),
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        error = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        answer = {"error": _cleaned(error, spec.storage), "skipped": []}
    if answer["error"]:
        print(f"[workbench] nothing is fetched: {answer['error']}")  # noqa: T201 - its log
    place = Path(shown(spec.storage))
    return [Skipped(one["step"], place, f"at {shown(spec.storage)}: {one['why']}") for one in answer["skipped"]]


def at_hand(store: Store, spec: Spec, trial: int, step: int | None = None) -> None:
    """Make sure that the checkpoint at ``step`` (None: any) is on disk, if possible."""
    there = Checkpoints(store.experiment(spec.id).trial(trial)).steps() if spec.storage else []
    if spec.storage and (step not in there if step is not None else not there):
        bring(store, spec, trial, step)


def _bring(wanted: dict[str, Any], skipped: list[dict[str, Any]]) -> None:
    from workbench.store.keeping import passing  # it depends on this file

    remote = Remote(wanted["url"], wanted["experiment"], wanted["trial"])
    folder, after = Path(wanted["folder"]), wanted["after"]
    checkpoints = Checkpoints(folder)
    until, pause = time.monotonic() + wanted["patience"], 0.25
    while True:
        try:
            for step in reversed(remote.steps()):
                if wanted["step"] not in (None, step) or step <= after:
                    continue
                if wanted["most"] is not None and step > wanted["most"]:
                    continue
                if any(one["step"] == step for one in skipped):
                    continue
                why = remote.fetch(step, checkpoints, wanted["attempt"])
                if why is None:
                    after = step
                    break
                skipped.append({"step": step, "why": why})
            if wanted["step"] is None and wanted["attempt"] is not None:  # a leg resumes between levels too
                between = Remote(wanted["url"], wanted["experiment"], wanted["trial"], passing.KIND)
                missed = passing.fetch_passing(between, folder, after, wanted["most"], wanted["attempt"])
                skipped += [{"step": one.step, "why": one.why} for one in missed]
            return
        except StaleAttempt:
            raise
        except StoreError:
            if time.monotonic() + pause > until:
                raise
            time.sleep(pause)
            pause = min(2 * pause, 5.0)


def _main() -> None:
    skipped: list[dict[str, Any]] = []
    error = None
    try:
        _bring(json.load(sys.stdin), skipped)
    except (StoreError, ImportError) as found:
        error = str(found)
    print(json.dumps({"error": error, "skipped": skipped}))  # noqa: T201 - its answer


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _leads_out(name: str) -> bool:
    return not name or name.startswith("/") or ".." in name.split("/") or name == NAME


if __name__ == "__main__":
    _main()
