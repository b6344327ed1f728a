"""The table of routes: dispatch, validation, problems, description, idempotency and the page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from openapi_spec_validator import validate
from starlette.types import ASGIApp

from tests.server.asgi import HttpAnswer, ask
from turntree.core.errors import (
    Conflict,
    DatabaseUnavailable,
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    TurntreeError,
)
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.app import make_app
from turntree.server.context import ServerContext
from turntree.server.idempotency import ANSWERS_MAX, IdempotentAnswers
from turntree.server.openapi import describe_api
from turntree.server.page import Page
from turntree.server.reference import write_reference
from turntree.server.route import ApiRoute
from turntree.server.routes import ROUTES

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]


@value
class EchoAsks:
    """Values of each kind."""

    revision: str
    limit: int = 40
    is_whole: bool = False


@value
class PairAsks:
    """Two parameters in one segment."""

    left: str
    right: str


@value
class EchoAnswer:
    """What was asked."""

    said: str


async def echo(_: ServerContext, values: EchoAsks) -> EchoAnswer:
    return EchoAnswer(f"{values.revision} {values.limit} {values.is_whole}")


async def pair(_: ServerContext, values: PairAsks) -> EchoAnswer:
    return EchoAnswer(f"{values.left} | {values.right}")


class Counter:
    """A write that counts itself and fails as it is told."""

    def __init__(self) -> None:
        self.times = 0
        self.error: TurntreeError | None = None
        self.gate: anyio.Event | None = None

    async def act(self, _: ServerContext, values: EchoAsks) -> EchoAnswer:
        self.times += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return EchoAnswer(f"{values.revision} {self.times}")


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def app(context: ServerContext, counter: Counter) -> ASGIApp:
    answers: Any = EchoAnswer
    routes = (
        ApiRoute("GET", "/turns/{revision}/text", READ, echo, "Echo.", EchoAsks, answers),
        ApiRoute("GET", "/turns/first/text", READ, pair, "Exact.", PairAsks, answers),
        ApiRoute("GET", "/compare/{left}...{right}", READ, pair, "Pair.", PairAsks, answers),
        ApiRoute("POST", "/act", READ, counter.act, "Act.", EchoAsks, answers, kind="write"),
    )
    return make_app(context, routes=routes)


async def write(app: ASGIApp, key: str | None, body: bytes = b'{"revision": "a"}') -> HttpAnswer:
    headers = [] if key is None else [("idempotency-key", key)]
    return await ask(app, "/api/v1/act", method="POST", headers=headers, chunks=[body])


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/turns/main/text", "main 40 False"),
        ("/turns/demo%2Fshop~3/text?limit=7&is_whole=true", "demo/shop~3 7 True"),
        ("/turns/%C3%A4%20%3F%23%25/text", "ä ?#% 40 False"),
        ("/compare/demo%2Fa...demo%2Fb", "demo/a | demo/b"),
    ],
)
async def test_values_come_from_path_and_query(app: ASGIApp, path: str, said: str) -> None:
    assert (await ask(app, f"/api/v1{path}")).document == {"said": said}


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/turns/main/text?limit=many", "limit"),
        ("/turns/main/text?limits=1", "unknown: 'limits'"),
        ("/turns/main/text?revision=other", "unknown: 'revision'"),
        ("/turns/first/text", "left"),
    ],
)
async def test_values_that_do_not_fit_are_named(app: ASGIApp, path: str, detail: str) -> None:
    answer = await ask(app, f"/api/v1{path}")
    assert (answer.status, answer.problem) == (422, "invalid-input")
    assert detail in answer.document["detail"]


async def test_unknown_route_and_method_are_problems(app: ASGIApp) -> None:
    assert (await ask(app, "/api/v1/turns/a/b/text")).problem == "no-such-route"
    assert (await ask(app, "/api/v1/act")).problem == "method-not-allowed"


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b'{"revision": 1}', b"{}"])
async def test_body_that_does_not_fit_is_a_problem(
    app: ASGIApp, counter: Counter, body: bytes
) -> None:
    answer = await write(app, "k", body)
    assert (answer.status, answer.problem, counter.times) == (422, "invalid-input", 0)


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (NotFound("there is no turn"), 404, "not-found"),
        (Conflict("it moved"), 409, "conflict"),
        (PermissionDenied("no"), 403, "denied"),
        (InvalidOperation("no"), 422, "refused"),
        (DatabaseUnavailable("gone"), 503, "database-unavailable"),
    ],
)
async def test_errors_of_ours_are_problems(
    app: ASGIApp, counter: Counter, error: TurntreeError, status: int, name: str
) -> None:
    counter.error = error
    answer = await write(app, "k")
    assert (answer.status, answer.problem) == (status, name)
    assert answer.document["detail"] == str(error)


async def test_hint_of_an_error_is_the_next_step(app: ASGIApp, counter: Counter) -> None:
    counter.error = NotFound("none", hint=Hint("session.fork", {"revision": "main~2"}))
    assert (await write(app, "k")).document["next"] == ["turntree fork 'main~2' LABEL"]


async def test_write_without_a_key_is_refused(app: ASGIApp, counter: Counter) -> None:
    for key in (None, "", "k" * 201):
        assert (await write(app, key)).problem == "no-idempotency-key"
    assert counter.times == 0


async def test_write_with_the_same_key_acts_once(app: ASGIApp, counter: Counter) -> None:
    answers = [await write(app, "k") for _ in range(3)]
    assert [answer.document for answer in answers] == [{"said": "a 1"}] * 3
    assert (await write(app, "other")).document == {"said": "a 2"}
    assert (await write(app, "k", b'{"revision": "b"}')).problem == "key-reused"
    assert counter.times == 2


async def test_writes_at_the_same_time_act_once(app: ASGIApp, counter: Counter) -> None:
    counter.gate = anyio.Event()
    answers: list[HttpAnswer] = []

    async def send() -> None:
        answers.append(await write(app, "k"))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        counter.gate.set()
    assert [answer.document for answer in answers] == [{"said": "a 1"}] * 5


async def test_failed_write_may_be_tried_again(app: ASGIApp, counter: Counter) -> None:
    counter.error = Conflict("it moved")
    assert (await write(app, "k")).status == 409
    counter.error = None
    assert (await write(app, "k")).document == {"said": "a 2"}


async def test_kept_answers_are_bounded(context: ServerContext, counter: Counter) -> None:
    answers = IdempotentAnswers()
    app = make_app(
        context,
        routes=(
            ApiRoute("POST", "/act", READ, counter.act, "Act.", EchoAsks, EchoAnswer, "write"),
        ),
    )
    dispatcher: Any = app.routes[1].app  # type: ignore[attr-defined]
    dispatcher.answers = answers
    for number in range(ANSWERS_MAX + 10):
        await write(app, str(number))
    (kept,) = answers._answers.values()
    assert len(kept) == ANSWERS_MAX


def test_description_is_valid_openapi() -> None:
    document = describe_api(ROUTES)
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_description_names_every_status_of_a_route() -> None:
    document = describe_api(ROUTES)
    rewind = document["paths"]["/api/v1/sessions/{session}/rewind"]["post"]["responses"]
    assert {*rewind} == {
        "200", "400", "401", "403", "404", "408", "409", "412", "413", "415", "421", "422", "503",
    }  # fmt: skip
    assert {*document["paths"]["/api/v1/me"]["get"]["responses"]} == {
        "200", "304", "401", "403", "421", "422", "503",
    }  # fmt: skip
    assert "404" in document["paths"]["/api/v1/runs"]["get"]["responses"]
    for operations in document["paths"].values():
        for operation in operations.values():
            assert "default" not in operation["responses"]


def test_routes_are_unique() -> None:
    calls = [(route.method, route.path) for route in ROUTES]
    names = [route.handler.__name__ for route in ROUTES]
    assert len({*calls}) == len(calls)
    assert sorted({*names}) == sorted(names)
    assert [route.path for route in ROUTES if route.is_open] == ["/session-key"]


def test_reference_is_up_to_date() -> None:
    written = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    assert written == write_reference(), (
        "python -m turntree.server.reference > docs/reference/http.md"
    )


async def test_me_names_the_user(context: ServerContext) -> None:
    answer = await ask(make_app(replace(context, is_sample=True)), "/api/v1/me")
    assert answer.document["user"] == "ana"
    assert answer.document["sample"] is True


FILES = {
    "index.html": b"<!doctype html>",
    "icon.svg": b"<svg/>",
    "assets/index-abc.js": b"export {}",
    "assets/face-abc.woff2": b"face",
}


@pytest.fixture
def page(tmp_path: Path) -> Page:
    for name, body in FILES.items():
        path = tmp_path / "page" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (tmp_path / "secret.txt").write_text("secret")
    return Page(tmp_path / "page")


@pytest.mark.parametrize(
    ("path", "name", "media"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        ("/s/demo%2Fshop", "index.html", "text/html; charset=utf-8"),
        ("/../secret.txt", "index.html", "text/html; charset=utf-8"),
        ("/icon.svg", "icon.svg", "image/svg+xml"),
        ("/assets/index-abc.js", "assets/index-abc.js", "text/javascript; charset=utf-8"),
        ("/assets/face-abc.woff2", "assets/face-abc.woff2", "font/woff2"),
    ],
)
async def test_page_serves_files_and_its_document(
    page: Page, path: str, name: str, media: str
) -> None:
    answer = await ask(page, path)
    assert (answer.status, answer.body) == (200, FILES[name])
    assert answer.headers["content-type"] == media
    is_hashed = name.startswith("assets/")
    assert ("immutable" in answer.headers["cache-control"]) == is_hashed
    again = await ask(page, path, headers=[("if-none-match", answer.headers["etag"])])
    assert (again.status, again.body) == (304, b"")


async def test_missing_asset_is_not_the_document(page: Page) -> None:
    assert (await ask(page, "/assets/gone.js")).status == 404


async def test_missing_build_says_how_to_make_it(tmp_path: Path) -> None:
    answer = await ask(Page(tmp_path / "none"), "/")
    assert answer.status == 503
    assert b"just web" in answer.body
