"""Logging in with a browser, and attacks: other sites, guessing, stolen and planted cookies."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import httpx2
import pytest

from proofs.http_world import OTHER, TEAM, Team, serving_here
from tests.server.network import API, SOON_S, Client, answer_all, denials, problem
from turntree.boot.open import tree_on
from turntree.server.access.login_tries import (
    AT_ONCE_MAX,
    BY_ADDRESS,
    BY_NAME,
    CODES_AT_ONCE_MAX,
    LoginTries,
    TooManyTries,
)
from turntree.server.access.session_cookie import cookie_name, origin_of, read_cookie
from turntree.server.reads.runs import ADMITTED_S
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio
LOGIN, LOGOUT = "/login-sessions", "/logout"
PASSWORD = "correct horse battery"
PUBLIC = "turntree.example.net"


class Browser:
    """A browser: it keeps cookies, and says from which page it asks."""

    def __init__(self, http: httpx2.AsyncClient, origin: str = "") -> None:
        self.http = http
        self.origin = origin or str(http.base_url).rstrip("/")

    async def get(self, path: str, workspace: str = TEAM, **headers: str) -> httpx2.Response:
        sent = {"sec-fetch-site": "same-origin", **_named(headers)}
        return await self.http.get(f"/w/{workspace}/api/v1{path}", headers=sent)

    async def post(
        self, path: str, body: dict[str, Any], workspace: str = TEAM, **headers: str
    ) -> httpx2.Response:
        sent = {"origin": self.origin, "sec-fetch-site": "same-origin", "idempotency-key": "k"}
        return await self.http.post(
            f"/w/{workspace}/api/v1{path}", json=body, headers={**sent, **_named(headers)}
        )

    async def log_in(self, workspace: str = TEAM, **shown: str) -> httpx2.Response:
        return await self.post(LOGIN, shown, workspace)

    async def user(self) -> str | None:
        """Return the name of the person who is logged in."""
        answer = await self.get("/me")
        return str(answer.json()["user"]) if answer.status_code == 200 else None


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}


@pytest.fixture
async def browsers(client: Client) -> AsyncGenerator[list[Browser], None]:
    """Three browsers, none of them logged in."""
    async with AsyncExitStack() as stack:
        yield [
            Browser(await stack.enter_async_context(
                httpx2.AsyncClient(base_url=client.http.base_url, timeout=SOON_S)
            ))
            for _ in range(3)
        ]  # fmt: skip


@pytest.fixture
async def browser(browsers: list[Browser]) -> Browser:
    """A browser that is not logged in."""
    return browsers[0]


async def invite(client: Client, invitee: str) -> str:
    answer = await client.post("admin", "/invitations", {"invitee": invitee})
    return str(answer.json()["code"])


async def test_admin_logs_in_with_a_password_and_out(browser: Browser, team: Team) -> None:
    await team.tree.passwords.set(PASSWORD)
    answer = await browser.log_in(name="ana", password=PASSWORD)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["holder"], answer.json()["method"]) == ("human:ana", "password")
    assert await browser.user() == "ana"
    assert "tts_" not in answer.text, "no script reads the code"
    cookies = dict(browser.http.cookies)
    assert (await browser.post(LOGOUT, {})).status_code == 204
    assert await browser.user() is None
    browser.http.cookies.update(cookies)
    assert await browser.user() is None, "the session has ended, and not only its cookie"


async def test_member_logs_in_with_a_key_and_gets_what_it_permits(
    browser: Browser, client: Client, team: Team
) -> None:
    assert (await browser.log_in(key=team.keys["narrowed to reading"])).status_code == 200
    assert await browser.user() == "olga"
    answer = await browser.post("/sessions", {"label": "mine"})
    assert (answer.status_code, problem(answer)) == (403, "denied")
    (key,) = [
        one for one in (await client.get("admin", "/keys")).json()["keys"]
        if one["name"] == "narrowed to reading"
    ]  # fmt: skip
    await client.post("admin", f"/keys/{key['id']}/revoke", {})
    assert await browser.user() is None


async def test_invited_person_is_logged_in_once(browsers: list[Browser], client: Client) -> None:
    code = await invite(client, "bo")
    first, second, _ = browsers
    assert (await first.log_in(invitation=code)).json()["holder"] == "human:bo"
    assert await first.user() == "bo"
    assert (await second.log_in(invitation=code)).status_code == 422
    assert await second.user() is None
    assert (await first.post("/keys", {"name": "laptop"})).status_code == 200


async def test_key_that_is_not_a_persons_or_not_valid_logs_no_one_in(
    browser: Browser, team: Team
) -> None:
    callers = ("agent on behalf", "expired", "revoked", "removed", "garbled", "other workspace")
    for caller in callers:
        answer = await browser.log_in(key=team.keys[caller])
        assert (answer.status_code, problem(answer)) == (403, "login-refused"), caller
    assert not browser.http.cookies
    assert ("atlas", "action:login.create") in await denials(team)


@pytest.mark.parametrize("body", [
    {}, {"name": "ana"}, {"password": PASSWORD}, {"key": "x", "invitation": "y"},
    {"name": "ana", "key": "x"}, {"name": "ana", "password": PASSWORD, "key": "x"},
])  # fmt: skip
async def test_login_takes_one_of_three(browser: Browser, body: dict[str, str]) -> None:
    assert problem(await browser.log_in(**body)) == "invalid-input"


async def test_stranger_learns_no_name_no_workspace_and_no_password(
    browser: Browser, team: Team
) -> None:
    await team.tree.passwords.set(PASSWORD)
    answers = [
        await browser.log_in(workspace, name=name, password="another long password")
        for workspace, name in ((TEAM, "ana"), (TEAM, "mia"), (TEAM, "nobody"), ("none", "ana"),
                                (OTHER, "ana"), (TEAM, "agent:atlas"), (TEAM, ""))
    ]  # fmt: skip
    answers += [
        await browser.log_in(workspace, key=team.keys["owner"][:-1] + "~")
        for workspace in (TEAM, OTHER, "none")
    ]
    answers += [
        await browser.log_in(workspace, invitation="guessed") for workspace in (TEAM, OTHER, "none")
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert len({answer.text for answer in answers}) == 1
    assert not any("set-cookie" in answer.headers for answer in answers)


async def test_password_of_one_workspace_opens_no_other(
    browser: Browser, team: Team, client: Client
) -> None:
    await team.tree.passwords.set(PASSWORD)
    database = await client.of_workspace(OTHER)
    zoe = tree_on(database, team.settings_of(OTHER, "zoe"), SystemClock())
    await zoe.members.add("ana", "admin")
    assert problem(await browser.log_in(OTHER, name="ana", password=PASSWORD)) == "login-refused"
    assert (await browser.log_in(name="ana", password=PASSWORD)).status_code == 200
    (cookie,) = [text for name, text in browser.http.cookies.items() if "login" in name]
    port = browser.http.base_url.port
    planted = {"cookie": f"{cookie_name('login', f'127.0.0.1:{port}', OTHER)}={cookie}"}
    answer = await browser.http.get(f"/w/{OTHER}/api/v1/me", headers=planted)
    assert answer.status_code == 401
    absent = {"cookie": f"{cookie_name('login', f'127.0.0.1:{port}', 'none')}={cookie}"}
    assert (await browser.http.get("/w/none/api/v1/me", headers=absent)).text == answer.text


async def test_member_without_the_role_of_an_admin_has_no_password(
    browser: Browser, team: Team
) -> None:
    await team.tree.passwords.set(PASSWORD)
    await team.tree.members.set_role("mia", "admin")
    await team.tree.members.set_role("ana", "member")
    assert problem(await browser.log_in(name="ana", password=PASSWORD)) == "login-refused"


async def test_login_gives_a_new_session_and_ends_the_one_before(
    browser: Browser, team: Team
) -> None:
    await browser.log_in(key=team.keys["member"])
    (before,) = [text for name, text in browser.http.cookies.items() if "login" in name]
    await browser.log_in(key=team.keys["owner"])
    (after,) = [text for name, text in browser.http.cookies.items() if "login" in name]
    assert before != after
    assert await browser.user() == "olga"
    assert "key" not in {one.method for one in await team.of("mia").login_sessions.list_all()}


async def test_planted_cookie_is_never_taken_as_a_session(browser: Browser, team: Team) -> None:
    port = browser.http.base_url.port
    name = cookie_name("login", f"127.0.0.1:{port}", TEAM)
    await browser.log_in(key=team.keys["member"])
    (mine,) = [text for key, text in browser.http.cookies.items() if key == name]
    browser.http.cookies.clear()
    for header in (f"{name}=tts_chosen-by-another", f"{name}={team.keys['member']}", f"{name}="):
        answer = await browser.http.get(f"{API}/me", headers={"cookie": header})
        assert answer.status_code == 401
    two = f"{name}=tts_planted; {name}={mine}"
    assert (await browser.http.get(f"{API}/me", headers={"cookie": two})).status_code == 401
    bearer = {"authorization": f"Bearer {mine}"}
    assert (await browser.http.get(f"{API}/me", headers=bearer)).status_code == 401
    both = {"authorization": "Bearer x", "cookie": f"{name}={mine}"}
    assert (await browser.http.get(f"{API}/me", headers=both)).status_code == 401
    assert (await browser.http.get(f"{API}/me", headers={"cookie": f"{name}={mine}"})).is_success


FOREIGN = [
    ({"origin": "http://evil.example"}, "foreign-origin"),
    ({"origin": "null"}, "foreign-origin"),
    ({"origin": "http://127.0.0.1:1"}, "foreign-origin"),
    ({"sec-fetch-site": "cross-site"}, "foreign-site"),
    ({"sec-fetch-site": "same-site"}, "foreign-site"),
    ({"sec-fetch-site": "none"}, "foreign-site"),
    ({"content-type": "text/plain"}, "wrong-media"),
    ({"content-type": "application/x-www-form-urlencoded"}, "wrong-media"),
]


@pytest.mark.parametrize(("headers", "name"), FOREIGN)
@pytest.mark.parametrize("path", ["/keys", LOGIN, LOGOUT, "/accepted-invitations"])
async def test_other_site_cannot_write_log_in_or_log_out(
    browser: Browser, team: Team, headers: dict[str, str], name: str, path: str
) -> None:
    await browser.log_in(key=team.keys["member"])
    answer = await browser.post(path, {"name": "x"}, **headers)
    assert problem(answer) == name
    assert "set-cookie" not in answer.headers
    assert await browser.user() == "mia"


async def test_write_with_a_cookie_names_its_origin(browser: Browser, team: Team) -> None:
    await browser.log_in(key=team.keys["member"])
    sent = {"idempotency-key": "k"}
    answer = await browser.http.post(f"{API}/keys", json={"name": "x"}, headers=sent)
    assert (answer.status_code, problem(answer)) == (403, "no-origin")


async def test_other_site_reads_nothing_with_the_cookie(browser: Browser, team: Team) -> None:
    await browser.log_in(key=team.keys["member"])
    for site in ("cross-site", "same-site"):
        answer = await browser.get("/me", sec_fetch_site=site, sec_fetch_dest="document")
        assert problem(answer) == "foreign-site"
    answer = await browser.get("/me", origin="http://evil.example")
    assert problem(answer) == "foreign-origin"
    assert "access-control-allow-origin" not in answer.headers
    assert (await browser.get("/me", sec_fetch_site="none")).status_code == 200


@pytest.mark.parametrize("path", [
    "/w/a%2Fb/api/v1/keys", "/w/a%2Fapi/api/v1/logout", "/w/team/api%2Fv1/keys", "/w/team/login",
])  # fmt: skip
async def test_other_site_cannot_hide_a_write_in_an_escaped_path(
    browser: Browser, path: str
) -> None:
    headers = {"origin": "http://evil.example", "cookie": "a=b", "idempotency-key": "k"}
    answer = await browser.http.post(path, json={}, headers=headers)
    assert problem(answer) == "foreign-origin"


async def test_password_in_an_address_does_not_pass_for_a_key(browser: Browser, team: Team) -> None:
    await browser.log_in(key=team.keys["member"])
    basic = {"origin": "http://evil.example", "authorization": "Basic YTpi"}
    assert problem(await browser.post("/keys", {"name": "x"}, **basic)) == "foreign-origin"


async def test_key_in_a_header_needs_no_origin(client: Client) -> None:
    answer = await client.post("member", "/keys", {"name": "x"}, origin="http://elsewhere.example")
    assert answer.status_code == 200


async def test_cookie_on_this_machine_is_for_its_port_and_no_script(
    browser: Browser, team: Team
) -> None:
    answer = await browser.log_in(key=team.keys["member"])
    (cookie,) = answer.headers.get_list("set-cookie")
    port = browser.http.base_url.port
    assert cookie.startswith(f"turntree-login-{port}-")
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "path=/", "samesite=strict"} <= attributes
    assert "secure" not in attributes
    assert not any(one.startswith("domain") for one in attributes)


async def test_cookie_of_a_public_name_needs_tls(team: Team) -> None:
    async with (
        serving_here(team, names=(PUBLIC,)) as url,
        httpx2.AsyncClient(base_url=url, timeout=SOON_S) as http,
    ):
        sent = {"host": PUBLIC, "origin": f"https://{PUBLIC}", "sec-fetch-site": "same-origin"}
        body = {"key": team.keys["member"]}
        answer = await http.post(f"{API}{LOGIN}", json=body, headers=sent)
        assert answer.status_code == 200, answer.text
        (cookie,) = answer.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-turntree-login-")
        attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"httponly", "path=/", "samesite=strict", "secure"} <= attributes
        assert not any(one.startswith("domain") for one in attributes)
        pair = cookie.partition(";")[0]
        http.cookies.clear()
        seen = await http.get(f"{API}/me", headers={"host": PUBLIC, "cookie": pair})
        assert seen.json()["user"] == "mia"
        near = await http.get(f"{API}/me", headers={"cookie": pair})
        assert near.status_code == 401, "a cookie counts where it was given"
        plain = {**sent, "origin": f"http://{PUBLIC}"}
        answer = await http.post(f"{API}{LOGIN}", json=body, headers=plain)
        assert problem(answer) == "foreign-origin"
        rebound = {"host": "evil.example", "cookie": pair}
        assert (await http.get(f"{API}/me", headers=rebound)).status_code == 421


async def test_person_sees_and_ends_their_own_sessions_only(
    browsers: list[Browser], team: Team
) -> None:
    first, second, admin = browsers
    await first.log_in(key=team.keys["member"])
    await second.log_in(key=team.keys["member"])
    await admin.log_in(key=team.keys["admin"])
    seen = (await first.get(LOGIN)).json()["login_sessions"]
    assert {one["holder"] for one in seen} == {"human:mia"}
    mine = [one for one in seen if one["method"] == "key"]
    assert len(mine) == 2
    everything = (await admin.get(LOGIN)).json()["login_sessions"]
    (ana,) = [one for one in everything if one["holder"] == "human:ana"]
    assert ana["method"] == "key"
    answer = await first.post(f"{LOGIN}/{ana['id']}/end", {})
    assert problem(answer) == "not-found"
    assert (await first.post(f"{LOGIN}/{mine[1]['id']}/end", {})).status_code == 204
    assert (await first.user(), await second.user()) == ("mia", None)
    assert (await admin.post(f"{LOGIN}/{mine[0]['id']}/end", {})).status_code == 204
    assert (await first.user(), await admin.user()) == (None, "ana")


async def test_removed_member_and_changed_password_end_all_sessions(
    browsers: list[Browser], client: Client, team: Team
) -> None:
    await team.tree.passwords.set(PASSWORD)
    mia, ana, again = browsers
    await mia.log_in(key=team.keys["member"])
    await ana.log_in(name="ana", password=PASSWORD)
    await again.log_in(key=team.keys["admin"])
    await client.post("admin", "/members/mia/remove", {})
    assert await mia.user() is None
    await team.tree.passwords.change("ana", PASSWORD, "another long password")
    assert (await ana.user(), await again.user()) == (None, None)


async def test_stream_ends_with_the_session(browser: Browser, team: Team) -> None:
    await browser.log_in(key=team.keys["member"])
    sent = await browser.post("/runs", {"to": "lobby", "text": "hello"})
    run = sent.json()["run"]
    headers = {"sec-fetch-site": "same-origin"}
    async with browser.http.stream("GET", f"{API}/runs/{run}/events", headers=headers) as answer:
        assert answer.status_code == 200
        await browser.post(LOGOUT, {})
        await asyncio.sleep(ADMITTED_S)
        await answer_all(team, "lobby")
        async with asyncio.timeout(SOON_S):
            assert [line async for line in answer.aiter_lines() if line.startswith("data")] == []


async def test_guessing_is_slowed_and_locks_no_one_out_who_was_in_before(
    browsers: list[Browser], team: Team
) -> None:
    await team.tree.passwords.set(PASSWORD)
    ana, stranger, fresh = browsers
    assert (await ana.log_in(name="ana", password=PASSWORD)).status_code == 200
    await ana.post(LOGOUT, {})
    answers = [
        await stranger.log_in(name="ana", password=f"guess number {number}") for number in range(6)
    ]
    assert [answer.status_code for answer in answers][-1] == 429
    assert int(answers[-1].headers["retry-after"]) > 0
    assert problem(answers[-1]) == "too-many-tries"
    # From one address, as behind a proxy: the right password of a browser that is not known waits.
    assert (await fresh.log_in(name="ana", password=PASSWORD)).status_code == 429
    assert (await ana.log_in(name="ana", password=PASSWORD)).status_code == 200
    assert await ana.user() == "ana"


async def test_limit_of_tries_does_not_tell_whether_a_name_exists(
    browser: Browser, team: Team
) -> None:
    await team.tree.passwords.set(PASSWORD)
    statuses = {
        name: [
            (await browser.log_in(name=name, password="another long password")).status_code
            for _ in range(BY_NAME.burst + 1)
        ]
        for name in ("ana", "nobody")
    }
    assert statuses["ana"] == statuses["nobody"]


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def tries_until_refused(tries: LoginTries, *what: Any) -> int:
    for number in range(1000):
        try:
            with tries.trying(*what):
                pass
        except TooManyTries:
            return number
    raise AssertionError("nothing was refused")


def test_tries_come_back_one_by_one() -> None:
    time = Seconds()
    tries = LoginTries(b"k" * 32, time)
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "ana", None) == BY_NAME.burst
    time.now += BY_NAME.interval_s
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "ana", None) == 1
    time.now += 100 * BY_NAME.interval_s
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "ana", None) == BY_NAME.burst


def test_tries_count_by_person_network_and_address() -> None:
    tries = LoginTries(b"k" * 32, Seconds())
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "ana", None) == BY_NAME.burst
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "human:ana", None) == 0
    assert tries_until_refused(tries, "192.0.2.2", TEAM, "ana", None) == BY_NAME.burst
    assert tries_until_refused(tries, "2001:db8::1", TEAM, "ana", None) == BY_NAME.burst
    assert tries_until_refused(tries, "2001:db8::2", TEAM, "ana", None) == 0
    assert tries_until_refused(tries, "::ffff:192.0.2.1", TEAM, "ana", None) == 0
    assert tries_until_refused(tries, "::ffff:192.0.2.3", TEAM, "ana", None) == BY_NAME.burst
    names = (f"name {number}" for number in range(1000))
    refused = sum(tries_until_refused(tries, "192.0.2.9", TEAM, name, None) for name in names)
    assert refused == BY_ADDRESS.burst


def test_browser_is_known_for_one_person_of_one_workspace() -> None:
    time = Seconds()
    tries = LoginTries(b"k" * 32, time)
    mark = tries.mark(TEAM, "ana")
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "ana", None) == BY_NAME.burst
    for place, name, browser in (
        (TEAM, "ana", mark[:-1] + ("0" if mark[-1] != "0" else "1")), (TEAM, "ana", "x.y"),
        (TEAM, "ana", LoginTries(b"z" * 32, time).mark(TEAM, "ana")), (TEAM, "ana", "ünknown"),
        (TEAM, "ana", tries.mark(OTHER, "ana")), (TEAM, "ana", tries.mark(TEAM, "mia")),
    ):  # fmt: skip
        assert tries_until_refused(tries, "192.0.2.1", place, name, browser) == 0, browser
    assert tries_until_refused(tries, "192.0.2.1", TEAM, "ana", mark) == BY_NAME.burst
    assert tries_until_refused(tries, "192.0.2.7", TEAM, "ana", mark) == 0, "a stolen mark is one"


def test_passwords_that_wait_are_limited() -> None:
    tries = LoginTries(b"k" * 32, Seconds())
    with ExitStack() as stack:
        for number in range(AT_ONCE_MAX):
            stack.enter_context(tries.trying(f"192.0.2.{number}", TEAM, "ana", None))
        with pytest.raises(TooManyTries), tries.trying("198.51.100.1", TEAM, "bo", None):
            pass
        with tries.trying("198.51.100.1", TEAM, "ana", tries.mark(TEAM, "ana")):
            pass
    with tries.trying("198.51.100.1", TEAM, "bo", None):
        pass


def test_answers_of_a_provider_that_hangs_leave_room_for_passwords() -> None:
    tries = LoginTries(b"k" * 32, Seconds())
    with ExitStack() as stack:
        for _ in range(CODES_AT_ONCE_MAX):
            stack.enter_context(tries.redeeming("192.0.2.1"))
        with tries.trying("198.51.100.1", TEAM, "ana", None):
            pass
        with pytest.raises(TooManyTries), tries.redeeming("198.51.100.1"):
            pass
    with tries.redeeming("198.51.100.1"):
        pass


@pytest.mark.parametrize(("host", "origin"), [
    ("127.0.0.1:8744", "http://127.0.0.1:8744"), ("[::1]:8744", "http://[::1]:8744"),
    ("LOCALHOST:8744", "http://localhost:8744"), (PUBLIC, f"https://{PUBLIC}"),
    (f"{PUBLIC}:8744", f"https://{PUBLIC}:8744"), ("127.0.0.1.evil.example:1",
    "https://127.0.0.1.evil.example:1"),
])  # fmt: skip
def test_origin_beyond_this_machine_is_https(host: str, origin: str) -> None:
    assert origin_of(host) == origin
    is_host = cookie_name("login", host, TEAM).startswith("__Host-")
    assert is_host == origin.startswith("https")


def test_cookie_that_was_sent_twice_is_none() -> None:
    assert read_cookie("a", ["b=1; a=2"]) == "2"
    assert read_cookie("a", ["a=1; a=2"]) is None
    assert read_cookie("a", ["a=1", "a=2"]) is None
    assert read_cookie("a", ["aa=1"]) is None


async def test_link_says_whom_it_logs_in_and_uses_nothing_up(
    browser: Browser, client: Client, team: Team
) -> None:
    code = await invite(client, "bo")
    for shown, holder, method in (
        ({"key": team.keys["member"]}, "human:mia", "key"),
        ({"invitation": code}, "human:bo", "invitation"),
    ):
        answer = await browser.post("/login-previews", shown)
        told = answer.json()
        assert (told["holder"], told["workspace"], told["method"]) == (holder, TEAM, method)
        assert told["expires_at"] > SystemClock().now()
    assert not browser.http.cookies
    assert (await browser.log_in(invitation=code)).json()["holder"] == "human:bo"
    assert await browser.user() == "bo"
    # Asking whom another link is for ends no session.
    await browser.post("/login-previews", {"key": team.keys["admin"]})
    assert await browser.user() == "bo"


async def test_link_that_opens_nothing_says_no_name(browser: Browser, team: Team) -> None:
    asked = [
        {"key": team.keys[caller]}
        for caller in ("agent on behalf", "expired", "revoked", "removed", "garbled")
    ]
    asked += [{"key": team.keys["other workspace"]}, {"invitation": "tti_none"}]
    answers = [await browser.post("/login-previews", shown) for shown in asked]
    answers.append(await browser.post("/login-previews", asked[0], "none"))
    assert {(one.status_code, problem(one)) for one in answers} == {(403, "login-refused")}
    assert len({one.text for one in answers}) == 1
    for wrong in ({}, {"key": "x", "invitation": "y"}):
        assert problem(await browser.post("/login-previews", wrong)) == "invalid-input"
