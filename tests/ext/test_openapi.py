"""The description is the truth: every address is in it, and whatever anybody sends, the answer is one that it names."""

from __future__ import annotations

import asyncio
import re
import warnings

import pytest
import schemathesis
import yaml
from cli.stored import Answering
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tornado.httpclient import HTTPClientError

from workbench.store.owner.slots import cores, use_again
from workbench.store.series import Series
from workbench_ext.server import handlers
from workbench_ext.server.handlers import description
from workbench_ext.server.routes import ROUTES

SPEC = yaml.safe_load(description())
METHODS = {"get", "post", "put", "patch", "delete"}
OPERATIONS = [(path, method) for path, entry in SPEC["paths"].items() for method in entry if method in METHODS]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def route_of(path: str):
    """The handler that answers at a path of the description."""
    address = "api" + re.sub(r"\{\w+\}", "x", path)
    return next(handler for pattern, handler in ROUTES if re.fullmatch(pattern, address))


def methods_of(one):
    """The methods that a handler answers; a reading is asked by GET."""
    return METHODS & vars(one).keys() if isinstance(one, type) else {"get"}


def test_every_address_is_described_with_its_methods_and_nothing_else_is():
    described = {}
    for path, method in OPERATIONS:
        described.setdefault(route_of(path), set()).add(method)
    served = {one: methods_of(one) for pattern, one in ROUTES if pattern.startswith("api/")}
    served.pop(handlers.Nothing)
    assert described == served


def test_an_address_without_a_description_would_be_noticed():
    assert route_of("/secrets") is handlers.Nothing


async def test_nobody_is_answered_without_a_login(http_server_client, jp_base_url, written):
    written.experiment()
    for path, method in OPERATIONS:
        address = re.sub(r"\{\w+\}", "1", path.replace("{experiment}", "digits"))
        with pytest.raises(HTTPClientError) as caught:
            await http_server_client.fetch(
                f"{jp_base_url}workbench/api{address}",
                method=method.upper(),
                body="{}" if method == "post" else None,
                follow_redirects=False,
            )
        assert caught.value.code == 403, path


async def test_the_description_is_served(ask):
    assert await ask("openapi.json") == SPEC


@pytest.fixture
def recorded(written):
    """A store with things to find under the names that :func:`aimed` aims at."""
    spec = written.experiment(tags=["a"], note="<script>alert(1)</script>")
    written.experiment("other", state="running")
    written.checkpoint(spec, 1, 3)
    written.log(spec, 1, "one\ntwo\nthree")
    folder = written.store.experiment(spec.id).trial(1).files
    folder.mkdir(parents=True)
    (folder / "samples-000002.png").write_bytes(b"\x89PNG")
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(0, "loss", step, 0, float("nan") if step == 3 else float(step), 1.0) for step in range(9)])
    return written


#: What there is, so that more than refusals is met.
AIMS = {"experiment": "digits", "trial": "t0001", "path": "samples-000002.png", "slot": cores()[0]}


def aimed() -> dict:
    """The description, in which bodies and queries name what there is."""
    spec = yaml.safe_load(description())
    request = spec["components"]["schemas"]["Request"]["properties"]
    request["experiment"] = {"enum": ["digits", "digits@1", "other", "nobody"]}
    spec["components"]["parameters"]["store"]["schema"] = {"enum": ["", "0123456789abcdef"]}
    for parameter in spec["paths"]["/stores/of"]["get"]["parameters"]:
        parameter["schema"] = {
            "enum": {"path": ["a.ipynb", "../a.ipynb"], "experiment": ["digits", "nobody"]}[parameter["name"]]
        }
    for parameter in spec["paths"]["/compare"]["get"]["parameters"]:
        parameter["schema"] = {"enum": ["digits", "digits@1/t0001", "digits@1/t0001:3", "other/t0000", "t0001"]}
    return spec


async def test_whatever_is_sent_the_answer_is_one_that_is_described(
    recorded, http_server_client, http_server_port, jp_base_url, jp_auth_header
):
    address = f"http://127.0.0.1:{http_server_port[-1]}{jp_base_url}workbench/api"
    schema = schemathesis.openapi.from_dict(aimed())
    met: dict[str, set[int]] = {}

    def send_everything() -> None:
        for operation in (one.ok() for one in schema.get_all_operations()):
            named = {name: value for name, value in AIMS.items() if f"{{{name}}}" in operation.path}
            shared = {"path_parameters": named} if named else {}
            send_some(operation.as_strategy(GenerationMode.POSITIVE, **shared), 10)
            if named or "{" in operation.path:
                send_some(operation.as_strategy(GenerationMode.POSITIVE), 5)
            if operation.query or operation.body:
                send_some(operation.as_strategy(GenerationMode.NEGATIVE, **shared), 8)

    def send_some(cases, examples: int) -> None:
        @given(case=cases)
        @settings(
            max_examples=examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def send(case) -> None:
            response = case.call(base_url=address, headers=jp_auth_header, timeout=30)
            met.setdefault(case.operation.label, set()).add(response.status_code)
            case.validate_response(response, checks=CHECKS)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library's own making
            send()

    with Answering(recorded.store):
        await asyncio.to_thread(send_everything)
    use_again(AIMS["slot"])  # the runtime folder is that of all tests
    never = {label for label, statuses in met.items() if not statuses & {200, 202}}
    # Neither a snapshot nor enough trials are there; a document and a request that waits are not guessed.
    assert never == {
        "GET /experiments/{experiment}/importance",
        "GET /experiments/{experiment}/notebook",
        "GET /experiments/{experiment}/snapshot",
        "POST /documents",
        "POST /ownership",
        "GET /requests/{request}",
        "DELETE /requests/{request}",
    }
