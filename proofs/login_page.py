"""The claim: with a browser and a keyboard a person gets in, makes a key and leaves, and no more.

    python -m proofs.login_page [--quick]

A Chromium opens the page of a server that was started with the typed command, and is used with
nothing but the keyboard: a person logs in with an invitation, then with a key, then with a
password, creates and revokes a key, and logs out. In each state axe-core looks for violations of
WCAG 2.2 AA. The page must load nothing foreign, and report no error but refusals. Afterwards the
cookie of the session and the key open nothing.
"""

from typing import Any, Final

import httpx2
from playwright.async_api import BrowserContext, Page, expect

from proofs.browser import PAGE_S_MAX, Watched, chromium, watch
from proofs.figures import Proof, run, temporary_server
from proofs.http_world import OWNER, TEAM, Team, a_team, later, serving_apart
from proofs.ui_look import AXE, RULES, RUN_AXE

QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
PASSWORD: Final = "correct horse battery"  # noqa: S105 - of a workspace that ends with the proof
TABS_MAX: Final = 30
STATES: Final = 7


class Visit:
    """A browser that is used with the keyboard only, and what was seen of each state."""

    def __init__(self, watched: Watched, context: BrowserContext) -> None:
        """Begin with a page that shows nothing yet."""
        self.watched = watched
        self.page: Page = watched.page
        self.context = context
        self.states: list[str] = []
        self.violations: list[str] = []

    async def look(self, state: str) -> None:
        """Let axe-core look at the page as it is."""
        await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: list[str] = await self.page.evaluate(RUN_AXE, RULES)
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

    async def enter(self, **texts: str) -> None:
        """Type into fields, and send the form of the last one."""
        for id, text in texts.items():
            await self.reach(id)
            await self.page.keyboard.press("Control+A")
            await self.page.keyboard.type(text)
        await self.page.keyboard.press("Enter")

    async def leave(self) -> None:
        """Log out."""
        await self.reach("leave")
        await self.page.keyboard.press("Enter")
        await expect(self.page.locator("#status")).to_have_text("Logged out.")

    async def is_in_as(self, name: str) -> None:
        """Wait until the page shows who is logged in."""
        await expect(self.page.locator("h1")).to_have_text(f"{TEAM}: logged in as {name}")


async def prove(proof: Proof) -> None:
    """Visit the page."""
    with temporary_server(QUICK_SERVER) as (server, home):
        async with (
            a_team(server, home / "proof") as team,
            serving_apart(team.settings, "--no-worker") as served,
            chromium() as browser,
        ):
            context = await browser.new_context()
            visit = Visit(watch(await context.new_page()), context)
            await prove_visit(proof, visit, team, served.url)


async def prove_visit(proof: Proof, visit: Visit, team: Team, url: str) -> None:
    """Go through all states of the page."""
    page = visit.page
    expect.set_options(timeout=PAGE_S_MAX * 1000)
    await team.tree.passwords.set(PASSWORD)
    _, code = await team.tree.invitations.create("bo", expires_at=later())
    await page.goto(f"{url}/w/{TEAM}/login#code={code}")
    await expect(page.locator("#code")).to_be_focused()
    is_hidden = "code" not in page.url
    await visit.look("logged out")
    await page.keyboard.press("Enter")
    await visit.is_in_as("bo")
    await visit.look("logged in by an invitation")
    await visit.leave()
    await visit.enter(code=code)
    await expect(page.locator("#status")).to_contain_text("was accepted already")
    await visit.look("refused")
    await visit.enter(code=team.keys["owner"])
    await visit.is_in_as(OWNER)
    await visit.enter(purpose="laptop")
    made = page.locator("#made")
    await expect(made).to_be_focused()
    key = await made.inner_text()
    await visit.look("a key is shown")
    await page.reload()
    await visit.is_in_as(OWNER)
    is_shown_once = await made.inner_text() == ""
    await visit.look("logged in by a key")
    revoke = page.get_by_role("button", name="Revoke the key laptop")
    await revoke.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#status")).to_have_text("The key laptop is revoked.")
    cookies: Any = await visit.context.cookies()
    (cookie,) = [one for one in cookies if "login" in one["name"]]
    await visit.leave()
    await visit.enter(name="ana", password=PASSWORD)
    await visit.is_in_as("ana")
    await visit.look("logged in by a password")
    await visit.leave()
    await visit.look("logged out again")
    async with httpx2.AsyncClient(base_url=url) as http:
        path = f"/w/{TEAM}/api/v1/me"
        answers = [
            await http.get(path, headers={"cookie": f"{cookie['name']}={cookie['value']}"}),
            await http.get(path, headers={"authorization": f"Bearer {key}"}),
        ]
    still_open = sum(answer.status_code != httpx2.codes.UNAUTHORIZED for answer in answers)
    proof.at_least("states that were looked at", len(visit.states), "states", STATES)
    proof.at_most(f"violations that axe-core finds {visit.violations}", len(visit.violations),
                  "violations", 0)  # fmt: skip
    proof.at_most(f"foreign requests {visit.watched.foreign}", len(visit.watched.foreign),
                  "requests", 0)  # fmt: skip
    # The console reports every refusal: those of `/me` say that no person is logged in.
    errors = [one for one in visit.watched.errors if "Failed to load resource" not in one]
    proof.at_most(f"errors of the page {errors}", len(errors), "errors", 0)
    proof.at_most("keys and cookies that still open something", still_open, "secrets", 0)
    exposed = [not is_hidden, not is_shown_once, not cookie["httpOnly"],
               cookie["sameSite"] != "Strict"]  # fmt: skip
    proof.at_most("secrets that stay in the page or its address", sum(exposed), "secrets", 0)


if __name__ == "__main__":
    run(prove, __doc__ or "")
