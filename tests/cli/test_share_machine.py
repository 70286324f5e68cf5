"""`workbench share-machine`, and what the commands about the machine say where users share it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.stored import typed
from users import ALICE, BOB, acting, common, home, meanwhile, only_root

from workbench.store.owner import machine
from workbench.store.owner.slots import cores, take


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with common() as found:
        monkeypatch.setenv(machine.VARIABLE, str(found / "machine"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", home(found, os.geteuid())["XDG_RUNTIME_DIR"])
        for user in (ALICE, BOB) if os.geteuid() == 0 else ():
            home(found, user)
        yield found / "machine"


def as_user(user: int, folder: Path) -> None:
    os.environ["XDG_RUNTIME_DIR"] = str(folder.parent / f"home-{user}" / "run")


def test_the_folder_is_made_with_the_machines_cores_and_named_slots(folder: Path) -> None:
    told = typed("share-machine", str(folder), "--slot", "gpu-MIG-1")
    assert told.code == 0
    assert f"{machine.VARIABLE}={folder}" in told.out
    found = typed("share-machine", str(folder), "--json", "--slot", "gpu-MIG-1").json
    assert set(cores()) <= set(found["slots"])
    assert "gpu-MIG-1" in found["slots"]
    assert f"users share this machine ({folder})." in typed("queue").out
    (folder / "weights.toml").write_text("alice = 2\nbob = -1\n")
    said = typed("queue").out
    assert "weights: alice 2, others 1." in said
    assert "expected weights from 0.001 to 1000; not so, and 1: bob." in said


def test_a_folder_or_a_slot_that_cannot_be_is_refused(folder: Path) -> None:
    refused = typed("share-machine", str(folder), "--slot", "../cpu0")
    assert refused.code != 0
    assert "expected the name of a slot, such as cpu3 or gpu-MIG-UUID" in refused.err
    assert not folder.exists()
    folder.write_text("")
    assert f"{folder} is not a folder" in typed("share-machine", str(folder)).err
    assert f"{folder} cannot be used (Not a directory)" in typed("queue").out


@only_root
def test_another_user_is_shown_by_name_and_drains_only_for_the_own_trials(folder: Path) -> None:
    typed("share-machine", str(folder))
    first = cores()[0]

    def hold() -> Any:
        as_user(ALICE, folder)
        return take([first], "/secret/.workbench")

    def of_bob() -> list[str]:
        as_user(BOB, folder)
        return [typed("queue").out, typed("drain", first).out, typed("drain", first, "--undo").out]

    with meanwhile(ALICE, hold):
        shown, own, undone = acting(BOB, of_bob)
        assert f"{first}  uid {ALICE}  –" in shown
        assert "secret" not in shown
        assert own.startswith(f"{first}: none of your trials is there, and none starts there until ")
        assert "only root can drain it for all" in own
        assert undone == f"{first} is used again.\n"
        (slot,) = typed("queue", "--json").json["slots"]
        assert (slot["user"], slot["store"], slot["experiment"], slot["has_engine"]) == (
            f"uid {ALICE}",
            None,
            None,
            None,
        )
        assert typed("drain", first, "--no-wait").out.startswith(f"{first} is not free yet. ")
    assert acting(BOB, of_bob)[2] == f"{first} stays drained: only root can undo that.\n"
