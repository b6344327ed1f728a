"""Attacks on a login with an identity provider; each returns what got in."""

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final
from unittest import mock
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from proofs.http_world import OTHER, Team, later
from proofs.identity_provider import FORGERIES, LoginBrowser, StrictProvider
from turntree.auth.identities.service import Identities
from turntree.boot.open import tree_on
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.server.access.oidc import claims, provider
from turntree.server.access.oidc.pending_login import LoginSecrets
from turntree.system.clock import SystemClock

CARL: Final = "carl@example.org"
ATTACKS_OF_MOCK: Final = 5
ATTACKS_OF_STRICT: Final = 5
NOT_THIS_BROWSER: Final = "this is not the answer to the login of this browser"


async def log_in_with_mock(team: Team, issuer: str, url: str) -> int:
    """Let a person in who was invited, and out again; 1 if all of it went as it should."""
    everything = team.database.seen_by(EVERYTHING)
    ids = {name: id for id, name in await everything.list_workspaces()}
    database = team.database.in_workspace(WorkspaceId(ids[OTHER]))
    zoe = tree_on(database, replace(team.settings, workspace=OTHER, user="zoe"), SystemClock())
    await zoe.invitations.create(CARL, expires_at=later())
    async with LoginBrowser(url, OTHER) as browser:
        told = {"email": CARL, "email_verified": True}
        await browser.http.put(f"{issuer}/users/s-carl", json=told)
        answer = await browser.log_in("s-carl")
        is_in = answer.status_code == httpx2.codes.OK and await browser.user() == CARL
        await browser.post("/logout", {})
        is_out = await browser.user() is None
        # Linked now: without an invitation, and with another address.
        await browser.http.put(f"{issuer}/users/s-carl", json={"email": "new@example.org"})
        await browser.log_in("s-carl")
        is_again = await browser.user() == CARL
    return int(is_in and is_out and is_again)


async def attack_mock(url: str) -> list[str]:
    """Log in as the person who is linked, otherwise than a person does."""
    found: list[str] = []

    async def note(name: str, browser: LoginBrowser, answer: Mapping[str, str]) -> None:
        status = (await browser.finish(answer)).status_code
        if status != httpx2.codes.FORBIDDEN or await browser.user() is not None:
            found.append(f"mock: {name} ({status})")

    async with LoginBrowser(url, OTHER) as browser, LoginBrowser(url, OTHER) as other:
        back = await browser.visit(await browser.begin(), "s-carl")
        await note("forged state", browser, {**back, "state": "f" * 64})
        back = await browser.visit(await browser.begin(), "s-carl")
        await note("a callback in another browser", other, back)
        changed = _change(await browser.begin(), nonce="guessed")
        await note("forged nonce", browser, await browser.visit(changed, "s-carl"))
        changed = _change(await browser.begin(), client_id="another-client")
        await note("code of another client", browser, await browser.visit(changed, "s-carl"))
        cookies = httpx2.Cookies()
        begun = await browser.begin()
        cookies.update(browser.http.cookies)
        await browser.finish(await browser.visit(begun, "s-carl"))
        await browser.post("/logout", {})
        browser.http.cookies = cookies
        await note("replayed state", browser, await browser.visit(begun, "s-carl"))
    return found


async def attack_logins(
    team: Team, strict: StrictProvider, url: str, *, is_brief: bool = False
) -> list[str]:
    """Log in as the owner of a linked account, otherwise than a person does.

    ``is_brief`` ends with the first token that gets in.
    """
    found: list[str] = []
    strict.forge, strict.person = None, {"sub": f"s-{secrets.token_hex(4)}"}
    async with LoginBrowser(url) as browser:
        await browser.post("/login-sessions", {"key": team.keys["owner"]})
        answer = await browser.log_in(aim="link")
        if answer.status_code != httpx2.codes.OK:
            raise RuntimeError(f"the account was not linked: {answer.text}")
    for name, forge in FORGERIES.items():
        async with LoginBrowser(url) as browser:
            strict.forge = forge
            if (await browser.log_in()).status_code == httpx2.codes.OK:
                found.append(name)
                if is_brief:
                    return found
    strict.forge = None
    async with LoginBrowser(url) as browser:
        begun = await browser.begin()
        cookies = httpx2.Cookies()
        cookies.update(browser.http.cookies)
        back = await browser.visit(begun)
        async with LoginBrowser(url) as other:
            await other.begin()
            answer = await other.finish(back)
            # Its nonce and verifier do not fit either: it must not come to those.
            if answer.json().get("detail") != NOT_THIS_BROWSER:
                found.append("a callback in another browser")
        # The browser's own login counts, but only once.
        if (await browser.finish(back)).status_code != httpx2.codes.OK:
            found.append("an honest login is refused")
        browser.http.cookies = cookies
        if (await browser.finish(await browser.visit(begun))).status_code == httpx2.codes.OK:
            found.append("replayed state")
    async with LoginBrowser(url) as victim, LoginBrowser(url) as attacker:
        stolen = (await victim.visit(await victim.begin()))["code"]
        own = await attacker.visit(await attacker.begin())
        strict.refusals.clear()
        if (await attacker.finish({**own, "code": stolen})).status_code == httpx2.codes.OK:
            found.append("a code of another login")
        elif strict.refusals != ["verifier"]:
            found.append("PKCE is not what refused a code of another login")
        changed = _change(await attacker.begin(), code_challenge="A" * 43)
        if (await attacker.finish(await attacker.visit(changed))).status_code == httpx2.codes.OK:
            found.append("a code without its verifier")
        back = await victim.visit(await victim.begin())
        answer = await victim.finish({**back, "iss": "https://evil.example.net"})
        if answer.status_code == httpx2.codes.OK:
            found.append("an answer of another provider")
    return found


def _change(url: str, **changes: str) -> str:
    parts = urlsplit(url)
    asked = {name: texts[0] for name, texts in parse_qs(parts.query).items()}
    return parts._replace(query=urlencode({**asked, **changes})).geturl()


async def _use_again(self: Identities, digest: bytes, *, expires_at: object) -> bool:
    del self, digest, expires_at
    return True


_CHECK: Final = claims.check_claims


def _skip(name: str, given: Callable[[claims.ExpectedToken], object]) -> Any:
    """Return the check of claims without one of them."""

    def check(
        said: Mapping[str, Any], algorithm: str, expected: claims.ExpectedToken, now_s: float
    ) -> str:
        return _CHECK({**said, name: given(expected)}, algorithm, expected, now_s)

    return mock.patch.object(provider, "check_claims", check)


LOGIN_PLANTS: Final[Mapping[str, Callable[[], AbstractContextManager[object]]]] = {
    "the nonce is not compared": lambda: _skip("nonce", lambda expected: expected.nonce),
    "the audience is not compared": lambda: _skip("aud", lambda expected: expected.client_id),
    "the expiry is not compared": lambda: _skip("exp", lambda _: 10**10),
    "an answer counts again": lambda: mock.patch.object(Identities, "use_state", _use_again),
    "the state is not compared": lambda: mock.patch(
        "turntree.server.access.identities.secrets.compare_digest", return_value=True
    ),
    "no verifier of its own": lambda: mock.patch.object(
        LoginSecrets, "verifier", property(lambda _: "v" * 64, lambda *_: None), create=True
    ),
}
"""Omissions in how a server logs people in, each by what it lacks."""
