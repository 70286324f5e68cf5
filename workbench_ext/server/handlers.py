"""The addresses that answer from a store. Law: each reads its query, and says what another module found."""

from __future__ import annotations

import asyncio
import functools
import json
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from workbench.store import Store
from workbench.store.lists import ladder
from workbench_ext.server import curves, disk, experiments, importance, logs, pages, snapshots
from workbench_ext.server.base import Handler, Refused, bad, to_json, trial
from workbench_ext.server.stores import described

#: Bytes of a trial's file that are read at once.
_BLOCK = 1 << 20
#: Columns of pixels that anybody's screen may have.
_WIDEST = 16_384


class Health(Handler):
    """Whether there is a store, and how its engine is."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(experiments.health)


class Stores(Handler):
    """The stores that this server shows."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        def read() -> bytes:
            return to_json({"stores": [described(known) for known in self.stores.listed()]})

        await self.say(await self.aside(read))


class StoreOf(Handler):
    """The store beside a notebook, or the one that holds an experiment."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        path, name = self.get_query_argument("path", None), self.get_query_argument("experiment", None)
        if path is None and name is None:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected path, experiment, or both.", "path")

        def read() -> bytes:
            known = self.stores.beside(str(path)) if name is None else self.stores.holding(name, path)
            return to_json({"store": None if known is None else described(known)})

        await self.say(await self.aside(read))


class Experiments(Handler):
    """All experiments, newest first."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(experiments.experiments)


class Experiment(Handler):
    """One experiment and its spec."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(experiments.experiment, experiment)


class Trials(Handler):
    """Its trials that changed after a cursor."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(experiments.trials, experiment, self.number("after", 0))


class Points(Handler):
    """Its metric points that came after a cursor."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        after, limit = (
            self.number("after", 0),
            self.number("limit", experiments.MOST_POINTS, 1, experiments.MOST_POINTS),
        )
        metric = self.get_query_argument("name", None)
        await self.answer(experiments.points, experiment, after, limit, metric, self.trials())


class Metrics(Handler):
    """Its metrics, the goal first."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(experiments.metrics, experiment)


class Curves(Handler):
    """Its curves of one metric, thinned to what pixels can show."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        metric = self.get_query_argument("metric", None)
        low, high = self.real("low"), self.real("high")
        if low is not None and high is not None and low > high:
            raise bad("high", high, f"{low:g} or more, as low is")
        options: dict[str, Any] = {
            "trials": self.trials(),
            "low": low,
            "high": high,
            "width": self.number("width", 800, 1, _WIDEST),
            "x": self.one_of("x", ("step", "time")),
            "draft": self.one_of("draft", ("0", "1")) == "1",
        }

        def read(store: Store) -> Any:
            experiment_id, spec = experiments.found(store, experiment)
            path = store.experiment(experiment_id).series
            if not path.exists():
                return {"cursor": 0, "x": options["x"], "draft": False, "curves": []}
            return curves.curves(path, spec.goal.metric if metric is None else metric, **options)

        await self.answer(read)


class Timeline(Handler):
    """Its legs that changed after a cursor: which slot ran which trial when."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(experiments.timeline, experiment, self.number("after", 0))


class Ladder(Handler):
    """What is new of its ladder of rungs behind a line of its journal, and what happened since."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        after = self.number("after", 0)
        await self.answer(lambda store: ladder.ladder(store, experiments.found(store, experiment)[0], after))


class Cluster(Handler):
    """The engine's cluster: workers, slots and who is in them, memory."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(experiments.cluster)


class Importance(Handler):
    """Which hyperparameters matter for a metric."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(importance.importance, experiment, self.get_query_argument("metric", None))


class Compare(Handler):
    """What differs between two trials or experiments, and from which step on they part."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        a, b = self.reference("a"), self.reference("b")

        def read(store: Store) -> Any:
            from workbench.compare import compare  # half a second: not at the server's start

            return compare(store, a, b)

        await self.answer(read)

    def reference(self, name: str) -> str:
        """What one side names: an experiment, a trial, or a trial at a step."""
        given = self.get_query_argument(name, "")
        if not given:
            raise bad(name, given, "what to compare, such as digits@2 or digits@2/t0007:27")
        return given


class Disk(Handler):
    """What the store takes, and what cleaning it up would free."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(disk.disk)


class Trial(Handler):
    """One trial's page."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str, number: str) -> None:
        await self.answer(pages.page, experiment, trial(number))


class Log(Handler):
    """What a trial printed, from an offset on."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str, number: str) -> None:
        tail = self.get_query_argument("offset", None) == "-1"
        offset = -1 if tail else self.number("offset", 0)
        await self.answer(logs.log, experiment, trial(number), offset, self.number("limit", 1 << 16, 64, logs.MOST))


class File(Handler):
    """A file that a trial kept. Nothing in it runs: it has no origin, and is never guessed to be more than it says."""

    @property
    def content_security_policy(self) -> str:
        return "sandbox; default-src 'none'"

    @web.authenticated
    @authorized
    async def get(self, experiment: str, number: str, path: str) -> None:
        real = await self.read(pages.file, experiment, trial(number), path)
        kind = pages.type_of(real.name)
        try:
            file = await asyncio.to_thread(open, real, "rb")
        except OSError as error:
            raise Refused(HTTPStatus.NOT_FOUND, f"{path[:80]!r} cannot be read ({error.strerror}).") from error
        with file:
            self.set_header("Content-Type", kind)
            self.set_header("X-Content-Type-Options", "nosniff")
            self.set_header("Cache-Control", "private, no-cache")
            inline = "inline" if kind in pages.INLINE else "attachment"
            self.set_header("Content-Disposition", f"{inline}; filename*=UTF-8''{quote(real.name)}")
            while block := await asyncio.to_thread(file.read, _BLOCK):
                self.write(block)
                await self.flush()
        await self.finish(set_content_type=kind)


class Snapshot(Handler):
    """What the experiment froze when it was started."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(snapshots.snapshot, experiment)


class Notebook(Handler):
    """Its notebook as it was."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(snapshots.notebook, experiment, self.one_of("which", snapshots.WHICH))


class OpenAPI(Handler):
    """What all of this is, for programs."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.say(await asyncio.to_thread(description))


@functools.cache
def description() -> bytes:
    """The OpenAPI description as JSON; its file is YAML, which people read more easily."""
    text = Path(__file__).with_name("openapi.yaml").read_text(encoding="utf-8")
    return json.dumps(yaml.safe_load(text)).encode()


class Nothing(Handler):
    """Every other address under ``api/``: a 404 in JSON."""

    @web.authenticated
    async def get(self) -> None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Nothing is at {self.request.path}.")

    post = put = patch = delete = get


class Plotly(JupyterHandler, web.StaticFileHandler):
    """Plotly's own plotly.min.js, once for all live views, so that no page asks the internet for it."""

    def initialize(self) -> None:  # type: ignore[override]
        spec = find_spec("plotly")
        assert spec is not None
        assert spec.origin is not None
        super().initialize(path=str(Path(spec.origin).parent / "package_data"))

    @web.authenticated
    async def get(self, include_body: bool = True) -> None:  # type: ignore[override]
        await super().get("plotly.min.js", include_body)

    @web.authenticated
    async def head(self) -> None:  # type: ignore[override]
        await super().get("plotly.min.js", include_body=False)

    def set_extra_headers(self, path: str) -> None:
        """Kept for a day by the person's browser, and by nobody between: the address wants a login."""
        self.set_header("Cache-Control", "private, max-age=86400")
