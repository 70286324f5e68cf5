"""What users of one machine share: locks, claims, weights, and that no file of another user does harm."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from users import ALICE, BOB, acting, common, home, meanwhile, only_root

from workbench.errors import StoreError
from workbench.store.owner import claimed, machine, runtime
from workbench.store.owner.claimed import Notice, survey
from workbench.store.owner.machine import Machine, prepare, shared, trouble
from workbench.store.owner.slots import Claimant, Claiming, drain, drained, holders, take, use_again, waiters

GOOD = {"holds": ["cpu0"], "wants": ["cpu1", "cpu2"], "lacks": 2, "unit": 1, "since": "2026-01-01"}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A shared machine with four slots."""
    with common() as folder:
        monkeypatch.setenv(machine.VARIABLE, str(folder / "machine"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", home(folder, os.geteuid())["XDG_RUNTIME_DIR"])
        yield prepare(folder / "machine", [f"cpu{number}" for number in range(4)])


def as_user(user: int, here: Machine) -> None:
    """In a process of ``user``: the user's own runtime folder."""
    os.environ["XDG_RUNTIME_DIR"] = str(here.place.parent / f"home-{user}" / "run")


def said(here: Machine) -> dict[int, claimed.Said]:
    return {one.user: one for one in survey(here).claims}


# ---------------------------------------------------------------------------------------------------------------------
# The folder


def test_the_folder_is_made_right_whatever_the_umask_is_and_again_after_a_change(here: Machine) -> None:
    before = os.umask(0o077)
    try:
        os.chmod(here.place / "claims", 0o700)
        prepare(here.place, ["cpu0", "cpu1", "gpu-GPU-1"])
    finally:
        os.umask(before)
    assert shared() == here
    assert here.slots == {"cpu0", "cpu1", "gpu-GPU-1"}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (here.place, *here.place.rglob("*"))}
    assert modes == {
        "machine": 0o755,
        "slots": 0o755,
        "drained": 0o755,
        "claims": 0o1777,
        "weights.toml": 0o644,
        **dict.fromkeys(here.slots, 0o444),
    }


def test_a_slot_that_cannot_be_taken_is_left_to_other_users(here: Machine) -> None:
    own = runtime.folder("slots") / "cpu1"
    own.mkdir()
    with pytest.raises(StoreError):
        take(["cpu1"], "/mine")
    own.rmdir()
    lease = take(["cpu1"], "/mine")
    assert lease is not None, "its lock was kept"
    lease.release()


def test_a_slot_that_is_held_stays_until_it_is_free(here: Machine) -> None:
    lock = here.lock("cpu3")
    assert lock is not None
    assert "cpu3" in prepare(here.place, ["cpu0"]).slots
    os.close(lock)
    assert prepare(here.place, ["cpu0"]).slots == {"cpu0"}


@pytest.mark.parametrize("kind", ["link", "file", "missing parent"])
def test_only_a_folder_of_the_administrator_is_made_the_shared_one(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        path.write_text("")
    else:
        path = path / "deeper"
    with pytest.raises(StoreError, match=str(path)):
        prepare(path, ["cpu0"])
    assert list(tmp_path.rglob("slots")) == []


@only_root
@pytest.mark.parametrize("part", ["", "slots", "claims"])
def test_a_folder_that_another_user_could_change_is_named_and_not_used(
    here: Machine, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(machine, "PLACE", here.place)
    monkeypatch.delenv(machine.VARIABLE)
    assert shared() == here
    assert trouble() is None
    os.chown(here.place / part, BOB, BOB)
    assert shared() is None
    assert f"{here.place / part}".rstrip("/") in str(trouble())
    os.chown(here.place / part, 0, 0)
    os.chmod(here.place / part, 0o777)
    assert shared() is None
    assert "has mode 777" in str(trouble())


def test_without_the_folder_nothing_is_shared_and_one_that_is_named_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "PLACE", tmp_path / "none")
    monkeypatch.delenv(machine.VARIABLE, raising=False)
    assert (shared(), trouble()) == (None, None)
    (tmp_path / "none").mkdir()  # of another program
    assert (shared(), trouble()) == (None, None)
    monkeypatch.setenv(machine.VARIABLE, str(tmp_path / "named"))
    assert shared() is None
    assert f"`workbench share-machine {tmp_path / 'named'}`" in str(trouble())
    monkeypatch.setenv(machine.VARIABLE, "relative")
    assert "absolute" in str(trouble())
    monkeypatch.setenv(machine.VARIABLE, machine.OFF)
    assert (shared(), trouble()) == (None, None)


@pytest.mark.parametrize(
    ("text", "weight", "wrong"),
    [
        (f'"{ALICE}" = 2', 2.0, None),
        ("# nothing", 1.0, None),
        ("someone = 3", 1.0, None),
        (f'"{ALICE}" = 0', 1.0, "expected weights from 0.001 to 1000"),
        (f'"{ALICE}" = "much"', 1.0, f": {ALICE}."),
        (f'"{ALICE}" = nan\n"{BOB}" = 2', 1.0, f": {ALICE}."),
        (f'"{ALICE}" = true', 1.0, f": {ALICE}."),
        ("alice: 2", 1.0, "is not valid TOML"),
        ("\0\xff", 1.0, "is not valid TOML"),
    ],
)
def test_weights_are_the_administrators_and_what_is_wrong_is_said(
    here: Machine, text: str, weight: float, wrong: str | None
) -> None:
    (here.place / "weights.toml").write_text(text)
    assert here.weight(ALICE) == weight
    found = here.weights()[1]
    assert found is None if wrong is None else wrong in str(found)


def test_weights_that_others_can_write_do_not_count(here: Machine) -> None:
    path = here.place / "weights.toml"
    path.write_text(f'"{ALICE}" = 9')
    path.chmod(0o666)
    assert here.weight(ALICE) == 1.0
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert here.weight(ALICE) == 1.0
    assert here.weights()[1] is not None


# ---------------------------------------------------------------------------------------------------------------------
# Users


@only_root
def test_a_slot_that_another_user_holds_is_not_free_and_the_users_name_is_all_that_is_known(here: Machine) -> None:
    home(here.place.parent, ALICE)

    def hold() -> Any:
        as_user(ALICE, here)
        lease, mark = take(["cpu1", "cpu2"], "/secret/store"), Claiming("/secret/store")
        assert lease is not None
        lease.trains("secret@1")
        facts = {"lacks": 1, "weight": 50.0, "priority": 9, "experiments": ("secret@1",), "holds": frozenset(["cpu1"])}
        claimant = mark.tell(1, ["cpu2", "cpu3"], **facts)
        mark.show(here, claimant)
        return lease, mark

    with meanwhile(ALICE, hold):
        (holder,) = holders()
        assert (holder.slot, holder.user, str(holder), holder.store) == ("cpu1", f"uid {ALICE}", f"uid {ALICE}", "")
        assert take(["cpu1"], "/mine") is None
        mine = take(["cpu1", "cpu2"], "/mine")
        assert mine is not None
        assert mine.name == "cpu2"
        assert [(one.slot, one.user) for one in holders()] == [("cpu1", f"uid {ALICE}"), ("cpu2", "")]
        (waiter,) = waiters()
        assert (waiter.user, waiter.held, waiter.lacks, waiter.weight) == (f"uid {ALICE}", 1, 1, 1.0)
        assert waiter.wants == {"cpu2", "cpu3"}
        everything = b"".join(path.read_bytes() for path in here.place.rglob("*") if path.is_file())
        assert b"secret" not in everything
        mine.release()
    assert (holders(), waiters()) == ([], []), "a killed user's slots and claims end with the process"
    lease = take(["cpu1"], "/mine")
    assert lease is not None
    lease.release()


@only_root
def test_no_user_can_change_remove_or_add_what_counts_for_others(here: Machine) -> None:
    home(here.place.parent, ALICE)

    def claim() -> Notice:
        notice = Notice(here)
        notice.say(GOOD)
        return notice

    with meanwhile(ALICE, claim):
        (file,) = (here.place / "claims").iterdir()
        tries: dict[str, Callable[[], Any]] = {
            "remove a claim": file.unlink,
            "replace a claim": lambda: os.rename(here.place / "slots" / "cpu0", file),
            "write a claim": lambda: os.open(file, os.O_RDWR),
            "lock a claim for writing": lambda: fcntl.lockf(os.open(file, os.O_RDONLY), fcntl.LOCK_EX),
            "remove a slot": (here.place / "slots" / "cpu0").unlink,
            "write a slot": lambda: os.open(here.place / "slots" / "cpu0", os.O_RDWR),
            "add a slot": lambda: (here.place / "slots" / "cpu9").write_text(""),
            "drain a slot": lambda: here.drain("cpu0"),
            "set weights": lambda: (here.place / "weights.toml").write_text(""),
        }

        def attack() -> list[str]:
            done = []
            for name, attempt in tries.items():
                try:
                    attempt()
                    done.append(name)
                except (OSError, StoreError):
                    pass
            return done

        assert acting(BOB, attack) == []
        assert said(here)[ALICE].lacks == 2


@only_root
def test_another_users_lock_does_not_make_a_dead_claim_seem_alive(here: Machine) -> None:
    path = here.place / "claims" / "dead"
    path.write_text(json.dumps(GOOD))
    os.chown(path, ALICE, ALICE)
    path.chmod(0o644)

    def pretend() -> int:
        descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fcntl.lockf(descriptor, fcntl.LOCK_SH)
        return descriptor

    with meanwhile(BOB, pretend):
        assert said(here) == {}
    assert path.exists(), "only its owner removes it"
    acting(ALICE, lambda: len(survey(here).claims))
    assert not path.exists()


@only_root
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not JSON",
        b"[" * 10_000,
        b"\xff\xfe\x00",
        b"[]",
        b'{"holds": []}',
        *(
            json.dumps({**GOOD, **facts}).encode()
            for facts in (
                {"lacks": "many"},
                {"lacks": float("inf")},
                {"unit": None},
                {"wants": 7},
                {"holds": [[{}]], "since": [1]},
                {"since": {"a": 1}, "wants": {"cpu1": 1}},
                {"lacks": -(10**400), "unit": -5},
            )
        ),
        b'{"lacks": 1e999, "holds": [], "wants": [], "unit": 1, "since": ""}',
        b'{"lacks": ' + b"9" * 9000 + b', "holds": [], "wants": [], "unit": 1, "since": ""}',
    ],
)
def test_garbage_of_one_user_hides_no_claim_of_another(here: Machine, content: bytes) -> None:
    def claim(data: bytes) -> Notice:
        notice = Notice(here)
        os.pwrite(notice._descriptor, data, 0)
        return notice

    with meanwhile(BOB, lambda: claim(content)), meanwhile(ALICE, lambda: claim(json.dumps(GOOD).encode())):
        found = said(here)
        assert found[ALICE].wants == {"cpu1", "cpu2"}
        if BOB in found:
            assert 0 <= found[BOB].lacks <= 4
            assert found[BOB].unit >= 1
            assert found[BOB].wants | found[BOB].holds <= here.slots
        assert [one.user for one in waiters()][-1:] == [f"uid {ALICE}"] or len(waiters()) == 2


@only_root
def test_a_claim_counts_for_its_owner_and_no_more_than_there_is(here: Machine) -> None:
    lie = {
        "holds": ["cpu0", "cpu1"],
        "wants": [f"cpu{number}" for number in range(1000)],
        "lacks": 10**9,
        "unit": 10**9,
        "since": "",
        "user": ALICE,
        "uid": ALICE,
        "weight": 1e9,
        "priority": 10**9,
    }

    def claim() -> Notice:
        notice = Notice(here)
        notice.say(lie)
        return notice

    with meanwhile(ALICE, lambda: here.lock("cpu0")), meanwhile(BOB, claim):
        found = survey(here)
        assert found.held == {"cpu0": ALICE}, "the kernel says who holds it, whatever another user claims"
        (one,) = found.claims
        assert (one.user, one.lacks, one.wants) == (BOB, 2, {"cpu2", "cpu3"})
        (waiter,) = waiters()
        assert (waiter.user, waiter.weight, waiter.priority, waiter.held) == (f"uid {BOB}", 1.0, 0, 0)


@only_root
def test_links_pipes_folders_and_second_names_in_the_folder_of_claims_do_no_harm(here: Machine) -> None:
    claims = here.place / "claims"
    target = here.place.parent / "mine"
    target.write_text("root's")

    def plant() -> Notice:
        (claims / "link").symlink_to(target)
        (claims / "loop").symlink_to(claims / "loop")
        os.mkfifo(claims / "pipe")
        (claims / "folder").mkdir()
        notice = Notice(here)
        notice.say(GOOD)
        os.link(notice._path, claims / "again")
        os.fchmod((writable := Notice(here))._descriptor, 0o666)
        writable.say(GOOD)
        notice.other = writable  # type: ignore[attr-defined]
        return notice

    with meanwhile(BOB, plant):
        assert len(survey(here).claims) == 1
        mark = Claiming("/mine")
        mark.show(here, mark.tell(0, ["cpu0"], lacks=1))
        assert {one.user for one in survey(here).claims} == {0, BOB}
        mark.release()
    assert target.read_text() == "root's"
    assert survey(here).claims == ()


def test_a_claim_ends_with_its_release_and_leaves_no_file(here: Machine) -> None:
    mark = Claiming("/mine")
    mark.show(here, mark.tell(1, ["cpu1"], lacks=1, holds=frozenset(["cpu0"])))
    (one,) = survey(here).claims
    assert (one.user, one.holds, one.wants, one.lacks) == (os.geteuid(), {"cpu0"}, {"cpu1"}, 1)
    mark.release()
    assert list((here.place / "claims").iterdir()) == []
    mark = Claiming("/mine")
    mark.show(here, mark.tell(0, ["cpu1"], lacks=1))
    mark.show(None, Claimant("", "", "", 0, frozenset()))  # the folder is gone
    assert survey(here).claims == ()
    mark.release()


def test_a_file_that_another_user_made_is_never_opened_to_be_made(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where ``fs.protected_regular`` is set, the kernel refuses that in a sticky folder."""
    opened = []
    real = os.open

    def recorded(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if str(path).startswith(str(here.place)):
            opened.append((str(path), flags))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", recorded)
    lease, mark = take(["cpu0"], "/mine"), Claiming("/mine")
    mark.show(here, mark.tell(1, ["cpu1"], lacks=1))
    assert lease is not None
    survey(here)
    drain("cpu1")
    use_again("cpu1")
    lease.release()
    mark.release()
    assert len(opened) > 5
    for path, flags in opened:
        assert flags & os.O_EXCL or not flags & os.O_CREAT, path
        assert flags & os.O_EXCL or flags & os.O_NOFOLLOW, path
        assert flags & os.O_EXCL or flags & os.O_ACCMODE == os.O_RDONLY, path


def test_only_slots_that_users_share_can_be_taken(here: Machine) -> None:
    assert take(["more0", "gpu-GPU-unlisted"], "/mine") is None


@only_root
def test_the_administrator_drains_for_all_and_another_user_for_the_own_trials(here: Machine) -> None:
    home(here.place.parent, BOB)

    def of_bob() -> list[Any]:
        as_user(BOB, here)
        drain("cpu1")
        use_again("cpu0")  # not the administrator's
        first = take(["cpu0", "cpu1", "cpu2"], "/bob")
        use_again("cpu1")
        second = take(["cpu1"], "/bob")
        return [sorted(drained()), first and first.name, second and second.name]

    drain("cpu0")
    assert acting(BOB, of_bob) == [["cpu0"], "cpu2", "cpu1"]
    assert drained() == {"cpu0"}, "what a user drains does not concern others"
    use_again("cpu0")
    assert drained() == frozenset()
