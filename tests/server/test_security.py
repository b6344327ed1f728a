"""Attacks on the local server: each is refused, and an honest page is not."""

import re
from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest
from starlette.types import Message

from tests.server.asgi import HOST, ORIGIN, PORT, HttpAnswer, ask, post_headers
from tests.server.conftest import StoppedTime
from turntree.server import security
from turntree.server.keys import COOKIE_LIFE_S, KEY_LIFE_S, AccessKeys
from turntree.server.security import BODY_BYTES_MAX, Door

pytestmark = pytest.mark.anyio

ME = "/api/v1/me"
KEY = "/api/v1/session-key"
EVIL = "https://evil.example"


async def test_page_with_cookie_reads(door: Door, cookie: str) -> None:
    for headers in (
        [("host", HOST), ("cookie", cookie)],
        [("host", f"localhost:{PORT}"), ("cookie", cookie)],
        [("host", HOST), ("cookie", f"other=1; {cookie}"), ("sec-fetch-site", "same-origin")],
        [("host", HOST), ("cookie", cookie), ("sec-fetch-site", "none")],
        [("host", HOST), ("cookie", cookie), ("origin", ORIGIN)],
    ):
        answer = await ask(door, ME, headers=headers)
        assert (answer.status, answer.document["user"]) == (200, "ana")


@pytest.mark.parametrize(
    "hosts",
    [
        [], ["evil.example"], [f"evil.example:{PORT}"], [f"127.0.0.1.evil.example:{PORT}"],
        ["127.0.0.1"], ["127.0.0.1:80"], [f"[::1]:{PORT}"], [f"0.0.0.0:{PORT}"],
        [f"127.1:{PORT}"], [f"2130706433:{PORT}"], [f"localhost.:{PORT}"],
        [f"localhost:{PORT}@evil.example"], [HOST, "evil.example"], ["evil.example", HOST],
        [f" {HOST}"], [f"{HOST}\t"],
    ],
)  # fmt: skip
async def test_foreign_host_is_refused_before_anything_else(
    door: Door, cookie: str, hosts: list[str]
) -> None:
    for path in (ME, "/", "/api/v1/openapi.json"):
        headers = [("cookie", cookie), *(("host", host) for host in hosts)]
        answer = await ask(door, path, headers=headers)
        assert (answer.status, answer.problem) == (421, "wrong-host")


@pytest.mark.parametrize(
    "origin",
    [
        EVIL, "null", "http://127.0.0.1", f"https://{HOST}", f"http://localhost:{PORT}",
        "http://127.0.0.1:80", f"{ORIGIN}.evil.example", f"{ORIGIN}/", "",
    ],
)  # fmt: skip
async def test_foreign_origin_is_refused(door: Door, cookie: str, origin: str) -> None:
    headers = [("host", HOST), ("cookie", cookie), ("origin", origin)]
    answer = await ask(door, ME, headers=headers)
    assert (answer.status, answer.problem) == (403, "foreign-origin")


async def test_second_origin_is_refused(door: Door, cookie: str) -> None:
    headers = [("host", HOST), ("cookie", cookie), ("origin", ORIGIN), ("origin", EVIL)]
    assert (await ask(door, ME, headers=headers)).problem == "foreign-origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything", "same-origin, cross-site"])
async def test_request_of_another_site_is_refused(door: Door, cookie: str, site: str) -> None:
    for dest in ("document", "empty", "image", "script", "iframe"):
        headers = [
            ("host", HOST), ("cookie", cookie), ("sec-fetch-site", site), ("sec-fetch-dest", dest)
        ]  # fmt: skip
        answer = await ask(door, ME, headers=headers)
        assert (answer.status, answer.problem) == (403, "foreign-site")


async def test_link_of_another_site_opens_the_page_and_nothing_else(door: Door) -> None:
    link = [("host", HOST), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document")]
    framed = [*link[:2], ("sec-fetch-dest", "iframe")]
    script = [*link[:2], ("sec-fetch-dest", "script")]
    assert (await ask(door, "/sessions", headers=link)).status in {200, 503}
    assert (await ask(door, "/sessions", headers=framed)).status == 403
    assert (await ask(door, "/assets/index.js", headers=script)).status == 403


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ([("host", HOST), ("content-type", "application/json")], "no-origin"),
        (
            [("host", HOST), ("content-type", "application/json"), ("sec-fetch-site", "none")],
            "no-origin",
        ),
        ([("host", HOST), ("origin", ORIGIN)], "wrong-media"),
        ([("host", HOST), ("origin", ORIGIN), ("content-type", "text/plain")], "wrong-media"),
        (
            [
                ("host", HOST),
                ("origin", ORIGIN),
                ("content-type", "application/x-www-form-urlencoded"),
            ],
            "wrong-media",
        ),
        (
            [
                ("host", HOST),
                ("origin", ORIGIN),
                ("content-type", "multipart/form-data; boundary=application/json"),
            ],
            "wrong-media",
        ),
        ([("host", HOST), ("origin", EVIL), ("content-type", "text/plain")], "foreign-origin"),
    ],
)
async def test_foreign_form_is_refused(
    door: Door, keys: AccessKeys, headers: list[tuple[str, str]], problem: str
) -> None:
    body = f'{{"key": "{keys.issue_key()}"}}'.encode()
    answer = await ask(door, KEY, method="POST", headers=headers, chunks=[body])
    assert (answer.problem, "set-cookie" in answer.headers) == (problem, False)


async def test_browser_without_origin_header_writes_by_fetch_site(
    door: Door, keys: AccessKeys
) -> None:
    headers = [
        ("host", HOST), ("content-type", "application/json; charset=utf-8"),
        ("sec-fetch-site", "same-origin"),
    ]  # fmt: skip
    body = f'{{"key": "{keys.issue_key()}"}}'.encode()
    assert (await ask(door, KEY, method="POST", headers=headers, chunks=[body])).status == 204


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"])
async def test_other_methods_and_preflights_are_refused(
    door: Door, cookie: str, method: str
) -> None:
    headers = [
        ("host", HOST), ("cookie", cookie), ("origin", EVIL),
        ("access-control-request-method", "POST"),
    ]  # fmt: skip
    answer = await ask(door, ME, method=method, headers=headers)
    assert answer.status == 403
    honest = await ask(door, ME, method=method, headers=headers[:2])
    assert honest.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: "",
        lambda cookie: cookie.partition("=")[0] + "=",
        lambda cookie: cookie.replace(f"turntree-{PORT}", "turntree-1"),
        lambda cookie: cookie[:-1] + ("A" if cookie[-1] != "A" else "B"),
        lambda cookie: re.sub(r"=\d+", "=9999999999", cookie),
        lambda cookie: f"{cookie}.x",
        lambda cookie: cookie.partition("=")[0] + "=é.é.é",
        lambda cookie: cookie.partition("=")[0] + "=..",
        lambda cookie: cookie.partition("=")[0] + "=" + "." * 10_000,
    ],
)
async def test_missing_or_forged_cookie_is_refused(
    door: Door, cookie: str, spoil: Callable[[str], str]
) -> None:
    for path in (ME, "/api/v1/openapi.json", "/api/v1/nothing", "/api/v1", "/api/v1/session-key"):
        answer = await ask(door, path, headers=[("host", HOST), ("cookie", spoil(cookie))])
        assert (answer.status, answer.problem) == (401, "no-cookie")


async def test_key_is_no_cookie_and_cookie_no_key(
    door: Door, keys: AccessKeys, cookie: str
) -> None:
    as_cookie = f"{keys.cookie_name}={keys.issue_key()}"
    assert (await ask(door, ME, headers=[("host", HOST), ("cookie", as_cookie)])).status == 401
    assert keys.redeem_key(cookie.partition("=")[2]) is None


async def test_key_is_exchanged_once(door: Door, keys: AccessKeys) -> None:
    body = f'{{"key": "{keys.issue_key()}"}}'.encode()
    answers = [
        await ask(door, KEY, method="POST", headers=post_headers(), chunks=[body]) for _ in range(3)
    ]
    assert [answer.status for answer in answers] == [204, 403, 403]
    flags = answers[0].headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=strict" in flags
    assert answers[1].document["next"]


def test_key_and_cookie_expire(keys: AccessKeys, time: StoppedTime) -> None:
    old, used = keys.issue_key(), keys.issue_key()
    cookie = keys.redeem_key(used)
    assert cookie is not None
    time.now += KEY_LIFE_S + 1
    assert keys.redeem_key(old) is None
    assert keys.redeem_key(used) is None
    assert keys.accepts_cookie(cookie)
    time.now += COOKIE_LIFE_S
    assert not keys.accepts_cookie(cookie)


def test_restart_keeps_cookies_and_ends_keys(keys: AccessKeys, time: StoppedTime) -> None:
    cookie, key = keys.redeem_key(keys.issue_key()), keys.issue_key()
    again = AccessKeys(b"k" * 32, "another launch", PORT, time)
    assert cookie is not None
    assert again.accepts_cookie(cookie)
    assert again.redeem_key(key) is None
    other_port = AccessKeys(b"k" * 32, "launch", PORT + 1, time)
    other_home = AccessKeys(b"j" * 32, "launch", PORT, time)
    assert not other_port.accepts_cookie(cookie)
    assert not other_home.accepts_cookie(cookie)
    assert other_port.redeem_key(key) is None


async def test_large_body_is_refused_by_its_length_and_by_its_bytes(door: Door) -> None:
    told = post_headers(("content-length", str(BODY_BYTES_MAX + 1)))
    lying = post_headers(("content-length", "nothing"))
    chunks = [b"x" * 300_000] * 4
    for headers in (told, lying, post_headers()):
        answer = await ask(door, KEY, method="POST", headers=headers, chunks=chunks)
        assert (answer.status, answer.problem) == (413, "too-large")
        assert answer.headers["connection"] == "close"


async def test_slow_body_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "BODY_S_MAX", 0.01)
    never: Callable[[], Awaitable[Message]] = _wait_for_ever
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": KEY, "raw_path": KEY.encode(), "root_path": "",
        "query_string": b"", "headers": [(n.encode(), t.encode()) for n, t in post_headers()],
    }  # fmt: skip
    await door(scope, never, send)
    assert sent[0]["status"] == 408


async def _wait_for_ever() -> Message:
    await anyio.sleep_forever()
    raise AssertionError


async def test_refused_body_is_never_read(door: Door) -> None:
    async def explode() -> Message:
        raise AssertionError("the body was read")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [("host", "evil.example"), ("content-type", "application/json")]
    scope = {
        "type": "http", "method": "POST", "path": KEY, "raw_path": KEY.encode(), "root_path": "",
        "query_string": b"", "headers": [(n.encode(), t.encode()) for n, t in headers],
    }  # fmt: skip
    await door(scope, explode, send)
    assert sent[0]["status"] == 421


def _directives(answer: HttpAnswer) -> dict[str, str]:
    policy = answer.headers["content-security-policy"]
    return dict(one.strip().partition(" ")[::2] for one in policy.split(";"))


async def test_every_response_is_guarded(door: Door, cookie: str) -> None:
    let_in = [("host", HOST), ("cookie", cookie)]
    for path, headers in (
        ("/", [("host", HOST)]), (ME, let_in), (ME, [("host", HOST)]), (ME, [("host", "evil")]),
        ("/api/v1/nothing", let_in), ("/assets/nothing.js", [("host", HOST)]),
    ):  # fmt: skip
        answer = await ask(door, path, headers=headers)
        policy = _directives(answer)
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "server" not in answer.headers


async def test_data_is_not_cached(door: Door, cookie: str) -> None:
    answer = await ask(door, ME, headers=[("host", HOST), ("cookie", cookie)])
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/assets/../../../pyproject.toml", "/..%2f..%2fapp.py",
        "/assets/..%2f..%2f..%2fapp.py", "//etc/passwd", "/%2e%2e/app.py", "/assets/\x00",
        "/assets/..\\..\\app.py", "/__init__.py",
    ],
)  # fmt: skip
async def test_path_never_leaves_the_build(door: Door, path: str) -> None:
    answer = await ask(door, path, headers=[("host", HOST)])
    assert b"import" not in answer.body[:4000] or answer.headers["content-type"] == "text/html"
    assert b"root:" not in answer.body


ATTACKS: Sequence[tuple[str, security.Check, tuple[tuple[str, str], ...]]] = (
    ("rebinding", security.check_host, (("host", "evil.example"),)),
    ("origin", security.check_origin, (("host", HOST), ("origin", EVIL))),
    ("site", security.check_fetch_site, (("host", HOST), ("sec-fetch-site", "cross-site"))),
    ("cookie", security.check_cookie, (("host", HOST), ("cookie", "none"))),
)


@pytest.mark.parametrize(("name", "check", "headers"), ATTACKS)
async def test_each_check_alone_stops_its_attack(
    door: Door, cookie: str, name: str, check: security.Check, headers: list[tuple[str, str]]
) -> None:
    sent = [*headers, *(() if name == "cookie" else (("cookie", cookie),))]
    without = Door(
        door._app,
        door._entrance,
        checks=[one for one in security.CHECKS if one is not check],
    )
    assert (await ask(door, ME, headers=sent)).status in {401, 403, 421}
    # The other checks let it pass, so that this one is needed.
    assert (await ask(without, ME, headers=sent)).status == 200
