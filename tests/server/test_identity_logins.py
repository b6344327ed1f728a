"""Logging in with an identity provider, and attacks on it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from proofs.http_world import OTHER, TEAM, Team, later, serving_here
from proofs.identity_provider import (
    FORGERIES,
    LoginBrowser,
    StrictProvider,
    mock_provider,
    strict_provider,
)
from tests.server.network import denials, problem
from turntree.core.errors import InvalidOperation
from turntree.core.viewer import EVERYTHING
from turntree.integrity.fsck import fsck
from turntree.server.access.login_tries import TryLimit
from turntree.server.access.oidc.config import IdentityProviderConfig, find_config, read_providers
from turntree.server.access.oidc.pending_login import (
    PENDING_S,
    SKEW_S,
    PendingLogin,
    read_pending,
)
from turntree.server.access.oidc.provider import ANSWER_BYTES_MAX

pytestmark = pytest.mark.anyio
CARL = "carl@example.org"


class Scene:
    """A server with a strict provider, and as many browsers as are asked for."""

    def __init__(self, team: Team, provider: StrictProvider, url: str, stack: AsyncExitStack):
        self.team, self.provider, self.url, self._stack = team, provider, url, stack

    async def browser(self, workspace: str = TEAM) -> LoginBrowser:
        return await self._stack.enter_async_context(LoginBrowser(self.url, workspace))

    async def invite(self, invitee: str) -> str:
        _, code = await self.team.tree.invitations.create(invitee, expires_at=later())
        return code

    async def link(self, person: str = "owner", subject: str = "s-olga") -> LoginBrowser:
        """Return a browser in which a member has linked an account."""
        browser = await self.browser()
        await browser.post("/login-sessions", {"key": self.team.keys[person]})
        self.provider.person = {"sub": subject}
        answer = await browser.log_in(aim="link")
        assert answer.status_code == 200, answer.text
        return browser


@pytest.fixture
async def scene(team: Team) -> AsyncGenerator[Scene, None]:
    """A server whose only provider is a strict one."""
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(strict_provider())
        url = await stack.enter_async_context(serving_here(team, providers=[provider.config()]))
        provider.redirect_uris = {f"{url}/w/{name}/login" for name in (TEAM, OTHER, "nowhere")}
        yield Scene(team, provider, url, stack)


def address(text: str, *, verified: Any = True, sub: str = "s-carl") -> dict[str, Any]:
    return {"sub": sub, "email": text, "email_verified": verified}


async def test_invited_person_logs_in_and_stays_the_same_when_the_address_changes(
    scene: Scene,
) -> None:
    await scene.invite("Carl@Example.org")
    scene.provider.person = address(CARL)
    browser = await scene.browser()
    answer = await browser.log_in()
    assert answer.status_code == 200, answer.text
    assert await browser.user() == "Carl@Example.org", "as the admin has written it"
    assert (await browser.post("/logout", {})).status_code == 204
    assert await browser.user() is None
    scene.provider.person = address("other@example.org", verified=False)
    again = await scene.browser()
    assert (await again.log_in()).status_code == 200
    assert await again.user() == "Carl@Example.org"
    assert await fsck(scene.team.database.seen_by(EVERYTHING)) == []


STRANGERS: tuple[dict[str, Any], ...] = (
    {"sub": "s-9"}, address(CARL, verified=False), address(CARL, verified="true"),
    {"sub": "s-9", "email": CARL}, address("carl@example.com"), address(f"x@{CARL}"),
    {"sub": "s-9", "preferred_username": CARL, "email_verified": True},
    address("carl@example.org\u200b"), address("CARL@EXAMPLE.ORG".replace("K", "\u212a") + " "),
    {"sub": "human:olga"}, address("olga"), {"sub": "s-9", "name": "olga"},
)  # fmt: skip


async def test_account_that_is_neither_linked_nor_invited_opens_nothing(scene: Scene) -> None:
    await scene.invite(CARL)
    for person in STRANGERS:
        scene.provider.person = person
        browser = await scene.browser()
        answer = await browser.log_in()
        assert (answer.status_code, problem(answer)) == (403, "login-refused"), person
        assert "invite" in answer.json()["next"][0]
        assert await browser.user() is None
    assert ("turntree", "action:identity.use") in await denials(scene.team)


async def test_member_called_by_an_address_is_not_taken_over(scene: Scene) -> None:
    await scene.team.tree.members.add(CARL)
    scene.provider.person = address(CARL)
    assert (await (await scene.browser()).log_in()).status_code == 403
    await scene.invite(CARL)
    assert (await (await scene.browser()).log_in()).status_code == 403
    assert await scene.team.tree.identities.list_all() == []


async def test_member_links_an_account_logs_in_with_it_and_unlinks_it(scene: Scene) -> None:
    linking = await scene.link()
    browser = await scene.browser()
    assert (await browser.log_in()).status_code == 200
    assert await browser.user() == "olga"
    (one,) = (await linking.get("/identities")).json()["identities"]
    assert (one["holder"], one["issuer"]) == ("human:olga", scene.provider.issuer)
    assert "s-olga" not in str(one)
    answer = await linking.post(f"/identities/{one['id']}/unlink", {})
    assert answer.status_code == 204
    assert await browser.user() is None, "the session was begun with it"
    assert await linking.user() == "olga"
    assert (await browser.log_in()).status_code == 403
    assert await fsck(scene.team.database.seen_by(EVERYTHING)) == []


async def test_account_is_one_persons(scene: Scene) -> None:
    await scene.link()
    mia = await scene.browser()
    await mia.post("/login-sessions", {"key": scene.team.keys["member"]})
    answer = await mia.log_in(aim="link")
    assert (answer.status_code, problem(answer)) == (403, "login-refused")
    assert ("mia", "action:identity.link") in await denials(scene.team)
    assert (await mia.get("/identities")).json() == {"identities": []}
    (one,) = await scene.team.tree.identities.list_all()
    assert (await mia.post(f"/identities/{one.id}/unlink", {})).status_code == 404


async def test_session_of_a_narrow_key_links_nothing(scene: Scene) -> None:
    browser = await scene.browser()
    await browser.post("/login-sessions", {"key": scene.team.keys["narrowed to reading"]})
    answer = await browser.log_in(aim="link")
    assert (answer.status_code, problem(answer)) == (403, "login-refused")
    assert await scene.team.tree.identities.list_all() == []
    assert ("olga", "action:identity.link") in await denials(scene.team)


async def test_link_of_a_person_who_logged_out_or_in_as_another_is_refused(scene: Scene) -> None:
    browser = await scene.browser()
    assert (await browser.post("/identity-logins", {"aim": "link"})).status_code == 403
    await browser.post("/login-sessions", {"key": scene.team.keys["owner"]})
    back = await browser.visit(await browser.begin("link"))
    await browser.post("/login-sessions", {"key": scene.team.keys["member"]})
    assert (await browser.finish(back)).status_code == 403
    await browser.post("/login-sessions", {"key": scene.team.keys["owner"]})
    back = await browser.visit(await browser.begin("link"))
    await browser.post("/logout", {})
    assert (await browser.finish(back)).status_code == 403
    assert await scene.team.tree.identities.list_all() == []


async def test_removed_member_keeps_no_account(scene: Scene) -> None:
    await scene.link()
    await scene.team.tree.members.remove("olga")
    await scene.team.tree.members.add("olga")
    assert (await (await scene.browser()).log_in()).status_code == 403
    assert await fsck(scene.team.database.seen_by(EVERYTHING)) == []


async def test_forged_token_opens_nothing(scene: Scene) -> None:
    await scene.link()
    for name, forge in FORGERIES.items():
        scene.provider.forge = forge
        browser = await scene.browser()
        answer = await browser.log_in()
        assert (answer.status_code, problem(answer)) == (403, "login-refused"), name
        assert await browser.user() is None, name
    scene.provider.forge = None
    assert (await (await scene.browser()).log_in()).status_code == 200


async def test_state_counts_once_and_in_its_own_browser(scene: Scene) -> None:
    await scene.link()
    first, second = await scene.browser(), await scene.browser()
    url = await first.begin()
    back = await first.visit(url)
    assert (await second.finish(back)).status_code == 403, "no cookie"
    await second.begin()
    assert (await second.finish(back)).status_code == 403, "another cookie"
    cookies = httpx2.Cookies(first.http.cookies)
    assert (await first.finish({**back, "state": "f" * 64})).status_code == 403
    first.http.cookies = cookies
    assert (await first.finish(back)).status_code == 200
    assert await first.user() == "olga"
    # The provider sends the same browser back once more, with a new code for the same state.
    first.http.cookies = cookies
    answer = await first.finish(await first.visit(url))
    assert (answer.status_code, answer.json()["detail"]) == (403, "this answer was used before")


def test_login_that_a_server_with_a_faster_clock_began_can_be_finished() -> None:
    begun = PendingLogin("0" * 64, 1_000 + PENDING_S, "login")
    for behind_s in (0, 5, SKEW_S):
        assert read_pending(begun.cookie, 1_000.0 - behind_s) == begun
    for now_s in (1_000.0 + PENDING_S, 999.0 - SKEW_S):
        assert read_pending(begun.cookie, now_s) is None


async def test_cookie_is_forgotten_whatever_comes_of_a_login(scene: Scene) -> None:
    browser = await scene.browser()
    for answer in ({"state": "x", "code": "y"}, {"state": "x", "error": "access_denied"}):
        await browser.begin()
        assert any("-identity-" in name for name in browser.http.cookies)
        assert (await browser.finish(answer)).status_code == 403
        assert not any("-identity-" in name for name in browser.http.cookies)


async def test_refusal_of_the_provider_is_told(scene: Scene) -> None:
    browser = await scene.browser()
    for error, told in (("access_denied", "access_denied"), ("<b>pay here", "no reason")):
        state = parse_qs(urlsplit(await browser.begin()).query)["state"][0]
        answer = await browser.finish({"state": state, "error": error})
        assert answer.json()["detail"] == f"the identity provider refused: {told}"


async def test_code_of_another_login_is_refused(scene: Scene) -> None:
    """The victim's code, injected into a login of the attacker, fails for want of the verifier."""
    await scene.link()
    victim, attacker = await scene.browser(), await scene.browser()
    stolen = (await victim.visit(await victim.begin()))["code"]
    scene.provider.person = {"sub": "s-eve"}
    own = await attacker.visit(await attacker.begin())
    assert (await attacker.finish({**own, "code": stolen})).status_code == 403
    assert scene.provider.refusals == ["verifier"]
    # Both the code and its state: the attacker has no cookie of the victim.
    assert await attacker.user() is None


async def test_answer_of_another_provider_is_refused(scene: Scene) -> None:
    await scene.link()
    browser = await scene.browser()
    for issuer in ("https://evil.example.net", None):
        back: dict[str, str] = await browser.visit(await browser.begin())
        back.pop("iss")
        answer = await browser.finish(back if issuer is None else {**back, "iss": issuer})
        assert "another identity provider" in answer.json()["detail"]


async def test_login_in_one_workspace_does_not_count_in_another(team: Team) -> None:
    """Two workspaces, each with a provider of its own, and one browser."""
    async with strict_provider() as one, strict_provider() as two, AsyncExitStack() as stack:
        providers = [
            one.config(workspaces=(TEAM,)), two.config(name="Example", workspaces=(OTHER,)),
        ]  # fmt: skip
        url = await stack.enter_async_context(serving_here(team, providers=providers))
        one.redirect_uris = {f"{url}/w/{TEAM}/login"}
        two.redirect_uris = {f"{url}/w/{OTHER}/login"}
        scene = Scene(team, one, url, stack)
        await scene.link()
        browser, other = await scene.browser(), await scene.browser(OTHER)
        other.http.cookies = browser.http.cookies
        back = await browser.visit(await browser.begin())
        other.http.cookies = browser.http.cookies
        assert (await other.finish(back)).status_code == 403
        # The cookie of one under the name of the other.
        (cookie,) = [text for name, text in browser.http.cookies.items() if "-identity-" in name]
        await other.begin()
        (name,) = [
            name for name, text in other.http.cookies.items()
            if "-identity-" in name and text != cookie
        ]  # fmt: skip
        other.http.cookies.set(name, cookie, domain="127.0.0.1")
        assert (await other.finish(back)).status_code == 403
        assert two.asked == ["/.well-known/openid-configuration"], "no code was sent there"
        # The same subject at another provider is another account.
        two.person = {"sub": "s-olga"}
        assert (await other.log_in()).status_code == 403


async def test_workspace_that_does_not_exist_answers_like_one_that_does(scene: Scene) -> None:
    await scene.invite(CARL)
    scene.provider.person = {"sub": "s-9"}
    seen: list[tuple[int, Any]] = []
    for name in (TEAM, "nowhere"):
        browser = await scene.browser(name)
        seen.append((200, (await browser.get("/identity-provider")).json()))
        answer = await browser.log_in()
        seen.append((answer.status_code, answer.json()))
    assert seen[:2] == seen[2:]
    scene.provider.person = address(CARL)
    assert (await (await scene.browser("nowhere")).log_in()).status_code == 403
    assert (await (await scene.browser()).log_in()).status_code == 200, "the invitation is open yet"


async def test_no_request_chooses_where_a_browser_is_sent(scene: Scene) -> None:
    browser = await scene.browser()
    for more in ({"next": "https://evil.example.net"}, {"redirect_uri": "https://evil"}):
        answer = await browser.post("/identity-logins", {"aim": "login", **more})
        assert answer.status_code == 422
    answer = await browser.post("/identity-logins", {}, **{"x-forwarded-host": "evil.example.net"})
    asked = parse_qs(urlsplit(answer.json()["url"]).query)
    assert asked["redirect_uri"] == [f"{scene.url}/w/{TEAM}/login"]
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["nonce"][0]) == len(asked["state"][0]) == 64


async def test_other_site_neither_begins_nor_finishes_a_login(scene: Scene) -> None:
    await scene.link()
    browser = await scene.browser()
    back = await browser.visit(await browser.begin())
    for path, body in (("/identity-logins", {}), ("/identity-logins/finish", back)):
        for headers in ({"origin": "https://evil.example.net"}, {"sec-fetch-site": "cross-site"}):
            answer = await browser.post(path, body, **headers)
            assert answer.status_code == 403
            assert problem(answer) in {"foreign-origin", "foreign-site"}
    assert (await browser.finish(back)).status_code == 200


async def test_login_ends_the_session_that_the_browser_had(scene: Scene) -> None:
    await scene.link()
    browser = await scene.browser()
    await browser.post("/login-sessions", {"key": scene.team.keys["member"]})
    before = httpx2.Cookies(browser.http.cookies)
    assert (await browser.log_in()).status_code == 200
    assert await browser.user() == "olga"
    browser.http.cookies = before
    assert await browser.user() is None


LIMITS: tuple[tuple[dict[str, Any], dict[str, Any], int], ...] = (
    ({"email_domains": ("example.org",)}, address(CARL), 200),
    ({"email_domains": ("example.com",)}, address(CARL), 403),
    ({"email_domains": ("example.org",)}, address("eve@example.org.evil.net"), 403),
    ({"subjects": ("s-1",)}, address(CARL), 403),
    ({"subjects": ("s-carl",)}, address(CARL), 200),
    ({"email_domains": ("example.com",), "subjects": ("s-carl",)}, address(CARL), 200),
    ({"claim": "preferred_username"}, {"sub": "s", "preferred_username": "bo"}, 200),
    ({"claim": "preferred_username"}, {"sub": "s", "preferred_username": CARL}, 403),
    ({"claim": "preferred_username"}, address(CARL), 403),
)  # fmt: skip


async def test_provider_limits_who_may_log_in(team: Team) -> None:
    for allowed, person, status in LIMITS:
        async with strict_provider() as provider, AsyncExitStack() as stack:
            config = provider.config(**allowed)
            url = await stack.enter_async_context(serving_here(team, providers=[config]))
            provider.redirect_uris = {f"{url}/w/{TEAM}/login"}
            scene = Scene(team, provider, url, stack)
            for invitee in (CARL, "bo"):
                await scene.invite(invitee)
            provider.person = person
            answer = await (await scene.browser()).log_in()
            assert answer.status_code == status, (allowed, person)
        for member in await team.tree.members.list_all():
            if member.name in (CARL, "bo"):
                await team.tree.members.remove(member.name)


TABLE = 'issuer = "https://id.example.net"\nclient_id = "c"\n'


@pytest.mark.parametrize(("text", "told"), [
    ("a = 1", "is not a table"),
    ("[a", "is not TOML"),
    ("[a]\nclient_id = 'c'", "issuer: Field required"),
    (f"[a]\n{TABLE}scope = 'x'", "unknown: scope"),
    (f"[a]\n{TABLE}client_secret = 'hunter2'", "client_secret names a variable"),
    (f"[a]\n{TABLE}client_secret = '${{MISSING}}'", "MISSING is not set"),
    ("[a]\nissuer = 'http://192.0.2.1'\nclient_id = 'c'", "the issuer is an https address"),
    ("[a]\nissuer = 'https://x@y.example'\nclient_id = 'c'", "the issuer is an https address"),
    (f"[a]\n{TABLE}[b]\n{TABLE}", "two identity providers are for all workspaces"),
    (f"[a]\n{TABLE}workspaces=['t']\n[b]\n{TABLE}workspaces=['t']", "the workspace 't'"),
])  # fmt: skip
def test_file_of_providers_that_is_wrong_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidOperation, match=told) as refused:
        read_providers(text, {})
    assert "hunter2" not in str(refused.value)


def test_workspace_has_its_own_provider_or_that_of_all() -> None:
    text = f"[a]\n{TABLE}client_secret = '${{S}}'\n[b]\n{TABLE}workspaces = ['team']\n"
    configs = read_providers(text, {"S": "hunter2"})
    found = {name: find_config(configs, name) for name in ("team", "nowhere")}
    assert [one and one.name for one in found.values()] == ["b", "a"]
    assert "hunter2" not in repr(configs)
    assert find_config(configs[1:], "nowhere") is None


def _large() -> Response:
    return PlainTextResponse("{" + " " * ANSWER_BYTES_MAX + "}")


def _packed() -> Response:
    return PlainTextResponse(b"\x1f\x8b\x08\x00", headers={"content-encoding": "gzip"})


def _elsewhere() -> Response:
    return RedirectResponse("/keys", 302)


FAULTS: tuple[Callable[[], Response], ...] = (
    _large, _packed, _elsewhere, lambda: PlainTextResponse("[]"), lambda: PlainTextResponse("<p>"),
    lambda: PlainTextResponse("{}", 500),
)  # fmt: skip


async def test_provider_that_answers_otherwise_lets_no_one_in(team: Team) -> None:
    for path in ("/.well-known/openid-configuration", "/keys", "/token"):
        for make in FAULTS:
            async with strict_provider() as provider, AsyncExitStack() as stack:
                serving = serving_here(team, providers=[provider.config()])
                url = await stack.enter_async_context(serving)
                provider.redirect_uris = {f"{url}/w/{TEAM}/login"}
                browser = await stack.enter_async_context(LoginBrowser(url))
                back: dict[str, str] = {}
                if path in ("/keys", "/token"):
                    back = await browser.visit(await browser.begin())
                provider.answers[path] = make
                if back:
                    answer = await browser.finish(back)
                else:
                    answer = await browser.post("/identity-logins", {})
                assert (answer.status_code, problem(answer)) == (502, "provider-unavailable")
                assert provider.asked.count("/keys") <= 1, "no redirect was followed"


async def test_keys_that_are_none_are_the_providers_fault(team: Team) -> None:
    faults: tuple[dict[str, Any], ...] = (
        {"keys": ["x"]},
        {"keys": None},
        {"keys": {"a": 1}},
        {"keys": []},
        {},
    )
    for keys in faults:
        async with strict_provider() as provider, AsyncExitStack() as stack:
            serving = serving_here(team, providers=[provider.config()])
            url = await stack.enter_async_context(serving)
            provider.redirect_uris = {f"{url}/w/{TEAM}/login"}
            browser = await stack.enter_async_context(LoginBrowser(url))
            back = await browser.visit(await browser.begin())
            provider.answers["/keys"] = partial(JSONResponse, keys)
            answer = await browser.finish(back)
            assert (answer.status_code, problem(answer)) == (502, "provider-unavailable"), keys


async def test_description_that_is_not_safe_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turntree.server.access.oidc.provider.AGAIN_S", 0.0)
    browser = await scene.browser()
    unsafe: tuple[dict[str, Any], ...] = (
        {"issuer": "https://evil.example.net"}, {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://192.0.2.1/"}, {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "http://127.0.0.1@192.0.2.1/"}, {"jwks_uri": None},
        {"code_challenge_methods_supported": ["plain"]},
    )  # fmt: skip
    for says in unsafe:
        scene.provider.says = says
        answer = await browser.post("/identity-logins", {})
        assert (answer.status_code, problem(answer)) == (502, "provider-unavailable"), says
        assert "192.0.2" not in answer.text
    scene.provider.says = {}
    assert (await browser.post("/identity-logins", {})).status_code == 200


async def test_provider_that_fails_is_not_asked_again_at_once(scene: Scene) -> None:
    scene.provider.answers["/.well-known/openid-configuration"] = lambda: PlainTextResponse("", 500)
    browser = await scene.browser()
    for _ in range(5):
        assert (await browser.post("/identity-logins", {})).status_code == 502
    assert len(scene.provider.asked) == 1


async def test_logins_that_are_only_begun_are_not_stored(scene: Scene) -> None:
    browser = await scene.browser()
    for _ in range(20):
        await browser.begin()
    await browser.finish({"state": "guessed", "code": "guessed"})
    everything = scene.team.database.seen_by(EVERYTHING)
    rows = await everything.fetch(b"SELECT count(*) FROM turntree.login_states")
    assert rows == [(0,)]
    assert scene.provider.asked.count("/token") == 0


async def test_answers_are_counted_before_they_are_stored(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turntree.server.access.login_tries.CODES", TryLimit(3, 3_600.0))
    browser = await scene.browser()
    seen: list[int] = []
    for _ in range(5):
        state = parse_qs(urlsplit(await browser.begin()).query)["state"][0]
        answer = await browser.finish({"state": state, "error": "access_denied"})
        seen.append(answer.status_code)
    assert seen == [403, 403, 403, 429, 429]
    everything = scene.team.database.seen_by(EVERYTHING)
    assert await everything.fetch(b"SELECT count(*) FROM turntree.login_states") == [(3,)]


async def test_new_key_of_the_provider_is_fetched(scene: Scene, monkeypatch: Any) -> None:
    await scene.link()
    monkeypatch.setattr("turntree.server.access.oidc.provider.AGAIN_S", 0.0)
    scene.provider.key = type(scene.provider.key).generate_key(2048, {"kid": "k-2"})
    assert (await (await scene.browser()).log_in()).status_code == 200


async def test_client_without_a_secret_is_known_by_pkce(team: Team) -> None:
    async with strict_provider() as provider, AsyncExitStack() as stack:
        provider.is_public = True
        url = await stack.enter_async_context(serving_here(team, providers=[provider.config()]))
        provider.redirect_uris = {f"{url}/w/{TEAM}/login"}
        browser = await Scene(team, provider, url, stack).link()
        assert (await browser.log_in()).status_code == 200


async def test_login_with_a_provider_that_others_wrote(team: Team) -> None:
    async with mock_provider("--require-nonce") as issuer, AsyncExitStack() as stack:
        config = IdentityProviderConfig("Mock", issuer, "turntree", "any")
        url = await stack.enter_async_context(serving_here(team, providers=[config]))
        await team.tree.invitations.create(CARL, expires_at=later())
        browser = await stack.enter_async_context(LoginBrowser(url))
        claims = {"email": CARL, "email_verified": True}
        await browser.http.put(f"{issuer}/users/s-carl", json=claims)
        answer = await browser.log_in("s-carl")
        assert answer.status_code == 200, answer.text
        assert await browser.user() == CARL
        stranger = await stack.enter_async_context(LoginBrowser(url))
        assert (await stranger.log_in("eve@example.org")).status_code == 403


async def test_server_without_a_provider_says_so(team: Team) -> None:
    async with serving_here(team) as url, LoginBrowser(url) as browser:
        assert (await browser.get("/identity-provider")).json() == {"name": None, "issuer": None}
        for path in ("/identity-logins", "/identity-logins/finish"):
            answer = await browser.post(path, {})
            assert (answer.status_code, problem(answer)) == (404, "no-identity-provider")
