"""What an engine makes of mirrors: an exporter keeps them, and where there is none, training goes on and says why."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from running import spec_of

from workbench import exporter
from workbench.engine.telling import mirrors
from workbench.engine.telling.mirrors import Mirrors
from workbench.errors import BadOption
from workbench.records import Spec
from workbench.store import Store


class Kept:
    """An exporter and its keeper in one, which only notes what it is asked for."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def keeper(self, store: Store, tell: Any) -> Kept:
        return self

    def take(self, spec: Spec) -> None:
        self.taken.append(spec.id)

    def look(self) -> None: ...

    def word(self, experiment: str) -> str | None:
        return "is being written" if experiment in self.taken else None

    def forget(self, experiment: str) -> None:
        self.taken.remove(experiment)

    def is_busy(self, resting: Collection[str] = ()) -> bool:
        return bool(self.taken)

    def close(self) -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """How often an exporter was asked for, and what the next answers are."""
    answers: list[Any] = []

    def mirroring() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(exporter, "mirroring", mirroring)
    return answers


def test_nothing_is_looked_up_for_experiments_without_mirrors(tmp_path: Path, asked: list[Any]) -> None:
    kept = Mirrors(Store(tmp_path), lambda *_: None)
    spec = spec_of("", tmp_path)
    kept.take(spec)
    kept.look()
    kept.forget(spec.id)
    kept.close()
    assert (kept.word(spec.id), kept.is_busy()) == (None, False)


def test_without_an_exporter_it_is_said_once_and_looked_for_again_later(
    tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str | None]] = []
    kept = Mirrors(Store(tmp_path), lambda *words: told.append(words))
    spec = spec_of("", tmp_path, mirror=({"kind": "mlflow", "where": "x"}, {"kind": "wandb", "where": ""}))
    asked.append(BadOption("none is installed."))
    for _ in range(3):  # as an engine does, each second
        kept.take(spec)
        kept.look()
    assert told == [(spec.id, "mlflow, wandb waits: none is installed.")]
    assert [one.getMessage() for one in caplog.records] == [
        f"mirrors of {spec.label}, training goes on: none is installed."
    ]
    assert not kept.is_busy(), "an engine with nothing else to do may end"
    monkeypatch.setattr(mirrors.time, "monotonic", lambda: mirrors.AGAIN_S + kept._not_before)
    keeper = Kept()
    asked.append(keeper)
    kept.look()
    assert keeper.taken == [spec.id]
    assert told[1:] == [(spec.id, "is being written")]
    kept.forget(spec.id)
    assert not keeper.taken
