"""The claim: with a browser and a keyboard a person gets in and works with the team, until it ends.

    python -m proofs.login_page [--quick]

A Chromium opens a server that was started with the typed command, and is used with nothing but the
keyboard. A person who is not logged in follows a link to a thread, is sent to log in, accepts an
invitation and is back at the thread. They see the canopy, open the thread, fork it and undo that;
what another member writes appears by the stream. An admin ends their login session in another
process: the page says so, and leads back after the next login. Another person who logs in with the
same browser finds nothing of the first, and not the place where the first one was. A link that logs
in says as whom, and asks. Logging in leads to no address outside the workspace. In
each state axe-core looks for violations of WCAG 2.2 AA, the focus is never lost, nothing foreign is
loaded, and no error is reported but refusals.

An admin changes a role and takes that back, invites a person, makes a key and revokes it, and ends
a login session of their own; links and keys are shown once. A guest is offered no act that would
be refused. A person links an account at an identity provider, logs in with it at another link, and
unlinks it.
"""

import re
from typing import Any, Final

import httpx2
from playwright.async_api import BrowserContext, Error, Page, expect

from proofs.browser import PAGE_S_MAX, Watched, chromium, settle, watch
from proofs.figures import Proof, run, temporary_server
from proofs.http_world import OWNER, TEAM, Team, a_team, later, serving_apart
from proofs.identity_provider import CLIENT_SECRET, StrictProvider, strict_provider
from proofs.ui_keys import Hands
from proofs.ui_look import AXE, RULES, RUN_AXE
from turntree.core.message import assistant, user

QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
PASSWORD: Final = "correct horse battery"  # noqa: S105 - of a workspace that ends with the proof
THREAD: Final = "lobby"
NEWS: Final = "The depot has moved to the harbour."
ELSEWHERE: Final = (
    "//evil.example/", "/\\evil.example/", "/../../w/other/", "/%2e%2e/%2e%2e/", "https://evil.example/",
    "/login", "/api/v1/me", "/welcome",
)  # fmt: skip
"""Where a page that someone else links to wants to lead a person who logs in."""
TABS_MAX: Final = 30
LOOKS_MAX: Final = 3
FOCUSED_NAME: Final = """() => {
  const e = document.activeElement;
  return e ? (e.getAttribute('aria-label') ?? e.textContent).trim() : '';
}"""
STATES: Final = 19
GUEST_ACTS: Final = ("Fork", "Rewind", "Revert", "Rename", "Archive", "Tag")


class Visit:
    """A browser that is used with the keyboard only, and what was seen of each state."""

    def __init__(self, watched: Watched, context: BrowserContext, url: str) -> None:
        """Begin with a page that shows nothing yet."""
        self.watched = watched
        self.page: Page = watched.page
        self.context = context
        self.place = f"{url}/w/{TEAM}"
        self.hands = Hands(watched.page)
        self.states: list[str] = []
        self.violations: list[str] = []

    async def look(self, state: str) -> None:
        """Let axe-core look at the page, or at the one that it leads to just now."""
        found: list[str] = []
        for _ in range(LOOKS_MAX):
            try:
                await self.page.evaluate(AXE.read_text(encoding="utf-8"))
                found = await self.page.evaluate(RUN_AXE, RULES)
                break
            except Error as error:
                if "context was destroyed" not in str(error):
                    raise
                await self.page.wait_for_load_state()
        else:
            raise AssertionError(f"the page does not stay: {state}")
        self.violations += [f"{state}: {one}" for one in found]
        self.states.append(state)

    async def reach(self, id: str) -> None:
        """Move the focus to an element, by the tab key."""
        for _ in range(TABS_MAX):
            if await self.page.locator(":focus").count():
                focused = await self.page.locator(":focus").get_attribute("id")
                if focused == id:
                    return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"the tab key does not lead to {id}")

    async def choose(self, name: str) -> None:
        """Move the focus to a button or link by the tab key, and press it."""
        for _ in range(TABS_MAX * 3):
            if await self.page.evaluate(FOCUSED_NAME) == name:
                break
            await self.hands.press("Tab")
        else:
            raise AssertionError(f"the tab key does not lead to {name}")
        await self.hands.press("Enter")

    async def open(self, path: str) -> None:
        """Open a place by its address, and wait until it is drawn."""
        await self.page.goto(f"{self.place}{path}")
        await self.is_at(path)
        await self.watched.quiet()
        await self.hands.press("Tab")

    async def enter(self, **texts: str) -> None:
        """Type into fields of the page to log in with, and send the form of the last one."""
        for id, text in texts.items():
            await self.reach(id)
            await self.page.keyboard.press("Control+A")
            await self.page.keyboard.type(text)
        await self.page.keyboard.press("Enter")

    async def is_at(self, path: str) -> None:
        """Wait until the page is at a place of the workspace, and has drawn it."""
        await expect(self.page).to_have_url(f"{self.place}{path}")
        await settle(self.page)

    async def log_in_again(self, path: str, **texts: str) -> None:
        """Log in at a page that leads to a path."""
        await expect(self.page).to_have_url(f"{self.place}/login")
        await expect(self.page.locator("#code")).to_be_focused()
        await self.enter(**texts)
        await self.is_at(path)


async def prove(proof: Proof) -> None:
    """Visit the server."""
    with temporary_server(QUICK_SERVER) as (server, home):
        async with (
            a_team(server, home / "proof") as team,
            strict_provider() as provider,
            serving_apart(
                team.settings,
                "--no-worker",
                "--identity-providers",
                provider.write_config(home),
                SECRET=CLIENT_SECRET,
            ) as served,
            chromium() as browser,
        ):
            provider.redirect_uris = {f"{served.url}/w/{TEAM}/login"}
            expect.set_options(timeout=PAGE_S_MAX * 1000)
            context = await browser.new_context()
            visit = Visit(watch(await context.new_page()), context, served.url)
            await team.tree.passwords.set(PASSWORD)
            await get_in(visit, team)
            await work(proof, visit, team)
            await end_elsewhere(visit, team)
            await share_browser(proof, visit, team)
            await stay_inside(proof, visit)
            await prove_secrets(proof, visit)
            await manage(proof, visit, team)
            await be_a_guest(proof, visit, team)
            await use_provider(proof, visit, provider)
    tell(proof, visit)


async def use_provider(proof: Proof, visit: Visit, provider: StrictProvider) -> None:
    """Link an account, log in with it at a link to a thread, and unlink it."""
    page, status = visit.page, visit.page.locator("#status")
    link = page.get_by_role("button", name="Link your Example account")
    await visit.context.clear_cookies()
    await page.goto(f"{visit.place}/login#accounts")
    await expect(page.locator("#code")).to_be_focused()
    await visit.enter(name="ana", password=PASSWORD)
    await expect(link).to_be_focused()
    await visit.look("no linked account")
    await page.keyboard.press("Enter")
    await expect(status).to_have_text("The account is linked.")
    await expect(page).to_have_url(f"{visit.place}/login")
    await expect(page.get_by_label("Your linked accounts")).to_contain_text("human:ana")
    await visit.look("a linked account")
    is_hidden = "code" not in page.url and "state" not in page.url
    await visit.context.clear_cookies()
    await page.goto(f"{visit.place}/s/{THREAD}")
    await expect(page).to_have_url(f"{visit.place}/login")
    await expect(page.locator("#provider")).to_have_text("Log in with Example")
    await visit.look("logged out, with a provider")
    await visit.reach("provider")
    await page.keyboard.press("Enter")
    await visit.is_at(f"/s/{THREAD}")
    await expect(page.locator(".here")).to_contain_text("ana")
    await page.goto(f"{visit.place}/account")
    await expect(page.locator("main")).to_contain_text("With a linked account")
    await page.get_by_role("link", name="Link or unlink accounts").press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Linked accounts")
    unlink = page.get_by_role("button", name="Unlink the account of human:ana")
    await unlink.focus()
    await page.keyboard.press("Enter")
    # This session was begun with it.
    await expect(status).to_have_text("The account is unlinked.")
    await expect(page.locator("#outside")).to_be_visible()
    await visit.reach("provider")
    await page.keyboard.press("Enter")
    await expect(status).to_contain_text("not linked to a member")
    await visit.look("an account that is not linked")
    forged = f"{visit.place}/login?state={'f' * 64}&code=guessed"
    await page.goto(forged)
    await expect(status).to_contain_text("No login was begun in this browser")
    cookies: Any = await visit.context.cookies()
    shown = [one["name"] for one in cookies if not one["httpOnly"] or one["sameSite"] != "Strict"]
    proof.at_most(f"cookies that another site or a script could use {shown}", len(shown),
                  "cookies", 0)  # fmt: skip
    proof.at_most("codes that stay in the address", int(not is_hidden), "codes", 0)
    asked = provider.asked.count("/token")
    proof.at_least("logins that the provider proved", asked, "logins", 3)


async def get_in(visit: Visit, team: Team) -> None:
    """Follow a link, accept an invitation, and be where the link leads."""
    page = visit.page
    _, code = await team.tree.invitations.create("bo", expires_at=later())
    await page.goto(f"{visit.place}/s/{THREAD}?tab=why")
    await expect(page).to_have_url(f"{visit.place}/login")
    await expect(page.locator("#code")).to_be_focused()
    await visit.look("logged out")
    await visit.enter(code=team.keys["expired"])
    await expect(page.locator("#status")).to_contain_text("opens nothing")
    await visit.look("refused")
    await visit.enter(code=code)
    await visit.is_at(f"/s/{THREAD}?tab=why")
    await expect(page.locator("main article").first).to_be_visible()
    await visit.look("a thread")


async def work(proof: Proof, visit: Visit, team: Team) -> None:
    """See the canopy, fork, undo, and see what another member writes."""
    page, hands = visit.page, visit.hands
    await hands.press("Tab", "g", "c")
    await visit.is_at("/")
    await expect(page.locator(".canopy-head dd").first).to_be_visible()
    await visit.watched.quiet()
    await visit.look("the canopy")
    await hands.check_names()
    await hands.search("hello")
    await hands.type("fby-keyboard\n")
    bar = page.locator(".undo-bar")
    await expect(bar).to_contain_text("Forked")
    await expect(bar).to_contain_text(f"--server {visit.place}")
    await hands.look("a fork")
    made = await team.tree.sessions.ledger.find("by-keyboard")
    await visit.look("a fork")
    await page.goto(f"{visit.place}/s/{THREAD}")
    await expect(page.locator("main article").first).to_be_visible()
    await visit.watched.quiet()
    await team.of(OWNER).turns.record(THREAD, [user(NEWS)], [assistant("Noted.")])
    await expect(page.locator("main")).to_contain_text(NEWS)
    await visit.watched.quiet()
    await visit.look("a turn of another member")
    proof.at_least("forks by keyboard", int(made is not None), "forks", 1)
    offered = [name for name in ("Revert", "Worktree", "Codex") if await _offers(page, name)]
    proof.at_most(f"acts of another machine {offered}", len(offered), "acts", 0)


async def _offers(page: Page, name: str) -> bool:
    return await page.locator("main").get_by_role("button", name=re.compile(f"^{name}")).count() > 0


async def end_elsewhere(visit: Visit, team: Team) -> None:
    """End the session in another process; the page says so, and leads back."""
    page = visit.page
    (session,) = [
        one for one in await team.tree.login_sessions.list_all() if one.holder == "human:bo"
    ]
    await team.tree.login_sessions.end(session.id)
    await expect(page.get_by_role("heading", name="You are logged out")).to_be_visible()
    await expect(page.get_by_role("link", name="Log in")).to_be_focused()
    await visit.look("the session has ended")
    await page.keyboard.press("Enter")
    # Another person than the one who was there.
    await visit.log_in_again("/", code=team.keys["owner"])
    await expect(page.locator(".here")).to_contain_text(OWNER)


async def share_browser(proof: Proof, visit: Visit, team: Team) -> None:
    """Let another person log in with the same browser, while a page of the first one is open."""
    page, place = visit.page, visit.place
    owner = team.of(OWNER)
    await owner.sessions.create("diary", visibility="private")
    await owner.turns.record("diary", [user("Dear diary")], [assistant("I listen.")])
    await owner.programs.create("provider", "script", {"provider_type": "scripted"})
    model = {"model_id": "scripted-1", "provider": "script"}
    for person in (OWNER, "mia"):
        await team.of(person).programs.create("model", f"teller-{person}", model)
    await visit.context.clear_cookies()
    await page.goto(f"{place}/s/diary")
    await expect(page).to_have_url(f"{place}/login")
    await page.goto(f"{place}/login")
    # The person who was on the way to the diary gave up.
    await visit.log_in_again("/", code=team.keys["member"])
    await page.goto(f"{place}/login#code={team.keys['owner']}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"Log in as {OWNER}?")
    await expect(page.locator("#yes")).to_be_focused()
    whom = f"logs you in as {OWNER} in the workspace {TEAM}, until 20"
    await expect(page.locator("#yes")).to_have_accessible_description(re.compile(whom))
    await expect(page.locator("#now")).to_contain_text("as mia. That login session ends.")
    await visit.look("a link that logs in as another person")
    await visit.reach("no")
    await page.keyboard.press("Enter")
    await visit.is_at("/")
    await expect(page.locator(".here")).to_contain_text("mia")
    await page.goto(f"{place}/login#code={team.keys['owner']}")
    await expect(page.locator("#yes")).to_be_focused()
    await page.keyboard.press("Enter")
    await visit.is_at("/")
    await page.goto(f"{place}/search?q=salary")
    await expect(page.locator("main")).to_contain_text("salary")
    await visit.watched.quiet()
    await page.goto(f"{place}/s/{THREAD}")
    await page.locator(".composer textarea").fill("between you and me")
    other = await visit.context.new_page()
    await other.goto(f"{place}/s/diary")
    await expect(other.locator("main")).to_contain_text("Dear diary")
    await page.goto(f"{place}/login#code={team.keys['member']}")
    await page.locator("#yes").click()
    await visit.is_at("/")
    # The page of the first person does not go on as one of the second.
    await expect(other.locator("body")).not_to_contain_text("Dear diary")
    await other.close()
    await page.goto(f"{place}/s/{THREAD}")
    field = page.locator(".composer textarea")
    await expect(field).to_be_visible()
    left = [await field.input_value()]
    await page.goto(f"{place}/search")
    await expect(page.locator("main input[type=search]")).to_be_visible()
    left += await page.get_by_text("salary").all_inner_texts()
    texts = [one for one in left if one]
    proof.at_most(f"words that the next person in a browser finds {texts}", len(texts), "words", 0)


async def stay_inside(proof: Proof, visit: Visit) -> None:
    """Log in with a link that wants to lead elsewhere."""
    page, left = visit.page, list[str]()
    for address in ELSEWHERE:
        await page.goto("about:blank")
        await page.goto(f"{visit.place}/login#to={address.replace('%', '%25')}")
        await expect(page.locator(".canopy-head, .state, .page").first).to_be_visible()
        if not page.url.startswith(f"{visit.place}/") or page.url.endswith(("login", "me")):
            left.append(f"{address} -> {page.url}")
    proof.at_most(f"addresses outside the workspace {left}", len(left), "addresses", 0)


async def prove_secrets(proof: Proof, visit: Visit) -> None:
    """Log out; what was in the browser opens nothing, and was out of reach of scripts."""
    cookies: Any = await visit.context.cookies()
    (cookie,) = [one for one in cookies if "login" in one["name"]]
    seen: str = await visit.page.evaluate("document.cookie + JSON.stringify({...localStorage})")
    origin = visit.place.partition("/w/")[0]
    async with httpx2.AsyncClient(base_url=visit.place) as http:
        headers = {"cookie": f"{cookie['name']}={cookie['value']}", "origin": origin}
        assert (await http.post("api/v1/logout", json={}, headers=headers)).is_success
        answer = await http.get("api/v1/me", headers=headers)
    await visit.page.goto(f"{visit.place}/graph")
    await visit.log_in_again("/graph", name="ana", password=PASSWORD)
    exposed = [not cookie["httpOnly"], cookie["sameSite"] != "Strict", cookie["value"] in seen]
    still_open = int(answer.status_code != httpx2.codes.UNAUTHORIZED)
    proof.at_most("cookies that still open something", still_open, "cookies", 0)
    proof.at_most("secrets that a script could read", sum(exposed), "secrets", 0)


async def manage(proof: Proof, visit: Visit, team: Team) -> None:
    """Decide who gets in, as the admin who is logged in."""
    page, hands = visit.page, visit.hands
    bar, once = page.locator(".undo-bar"), page.locator(".once > code")
    wrong: list[str] = []
    await hands.press("Tab", "g", "m")
    await visit.is_at("/members")
    await visit.watched.quiet()
    await visit.look("members")
    await hands.check_names()
    await visit.choose("Change role of bo")
    await hands.press("ArrowDown")
    await visit.look("a role is changed")
    await hands.press("Enter")
    await expect(bar).to_contain_text("bo is a guest now")
    wrong += [] if await team.tree.members.find_role("bo") == "guest" else ["no role was changed"]
    await visit.choose("Make a member again")
    await expect(bar).to_contain_text("bo is a member now")
    wrong += [] if await team.tree.members.find_role("bo") == "member" else ["nothing was undone"]

    await visit.open("/invitations")
    await visit.choose("Invite a person")
    await page.keyboard.type("cleo")
    await hands.press("Enter")
    await expect(once).to_contain_text(f"{visit.place}/login#code=tti_")
    await hands.look("a link is shown")
    await visit.look("a link is shown")
    await visit.choose("I have it")
    await visit.choose("Revoke the invitation of cleo")
    await visit.choose("Revoke")
    await expect(bar).to_contain_text("The invitation of cleo is revoked")
    await hands.check_names()

    await visit.open("/keys")
    await visit.choose("New key")
    await page.keyboard.type("laptop")
    await hands.press("Enter")
    key = await once.inner_text()
    await visit.look("a key is shown")
    wrong += [] if await _opens(visit, key) else ["the key opens nothing"]
    await visit.open("/keys")
    wrong += [] if await once.count() == 0 else ["the key is shown twice"]
    await visit.choose("Revoke the key laptop of ana")
    await visit.choose("Revoke")
    await expect(bar).to_contain_text("The key laptop is revoked")
    wrong += ["the key still opens something"] if await _opens(visit, key) else []
    await visit.look("keys")
    await hands.check_names()

    other = await team.log_in("elsewhere", "ana")
    await visit.open("/account")
    await visit.look("the account")
    await visit.choose(f"End the login session {other}")
    await visit.choose("End it")
    await expect(bar).to_contain_text("has ended")
    left = [one.id for one in await team.tree.login_sessions.list_all()]
    wrong += ["the other login session goes on"] if other in left else []
    await visit.choose("Log out")
    await expect(page).to_have_url(f"{visit.place}/login")
    proof.at_most(f"acts of an admin that did something else {wrong}", len(wrong), "acts", 0)


async def _opens(visit: Visit, key: str) -> bool:
    async with httpx2.AsyncClient(base_url=visit.place) as http:
        answer = await http.get("api/v1/me", headers={"authorization": f"Bearer {key}"})
    return answer.is_success


async def be_a_guest(proof: Proof, visit: Visit, team: Team) -> None:
    """Read a thread as a guest, who may change nothing."""
    page = visit.page
    await page.goto(f"{visit.place}/s/{THREAD}")
    await visit.log_in_again(f"/s/{THREAD}", code=team.keys["guest"])
    await expect(page.locator("main article").first).to_be_visible()
    await visit.watched.quiet()
    await visit.hands.press("Tab", "f")
    offered = [name for name in GUEST_ACTS if await _offers(page, name)]
    offered += ["a dialog"] if await page.locator("dialog[open]").count() else []
    await visit.open("/members")
    offered += ["a role"] if await _offers(page, "Change role") else []
    await visit.look("members, as a guest")
    proof.at_most(f"acts that a guest is offered {offered}", len(offered), "acts", 0)


def tell(proof: Proof, visit: Visit) -> None:
    """Show what was seen on the way."""
    proof.at_least("states that were looked at", len(visit.states), "states", STATES)
    proof.at_most(f"violations that axe-core finds {visit.violations}", len(visit.violations),
                  "violations", 0)  # fmt: skip
    proof.at_most(f"foreign requests {visit.watched.foreign}", len(visit.watched.foreign),
                  "requests", 0)  # fmt: skip
    # The console reports every refusal: those of `/me` say that no person is logged in.
    errors = [one for one in visit.watched.errors if "Failed to load resource" not in one]
    proof.at_most(f"errors of the page {errors}", len(errors), "errors", 0)
    losses, nameless = visit.hands.losses, visit.hands.nameless
    proof.at_most(f"times the focus was lost {losses}", len(losses), "times", 0)
    proof.at_most(f"controls without a name {nameless}", len(nameless), "controls", 0)


if __name__ == "__main__":
    run(prove, __doc__ or "")
