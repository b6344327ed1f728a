"""The claim: everything that matters on the page is done with the keyboard alone.

A real Chromium, no pointer: search, open a hit, fork with the name typed in one go, compare two
turns, rewind with files, undo, revert one turn, undo that, share a thread, write a message and a
fork, stop an answer, begin a conversation and mention an agent in it. After every key there is
a visible element that has the focus, and what has the focus has a name. Every row, link and button
of every page has an accessible name, as the browser's own accessibility tree tells it. The files on
the disk go back and come again byte by byte.
"""

import asyncio
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page, expect

import turntree
from proofs.browser import Watched, entered, settle
from proofs.figures import Proof, run
from proofs.ui_world import UiWorld, ui_world
from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.demo.planting import plant_demo
from turntree.system.clock import SystemClock

LABEL: Final = "cart-total"
FORK: Final = "by-keyboard"
TURNS: Final[tuple[tuple[str, Mapping[str, str | None]], ...]] = (
    ("Why do the cart and the invoice differ by a cent?", {"src/total.ts": "sum\n" * 5}),
    ("Write a failing test for the ninepence first", {"src/total.test.ts": "test\n" * 12}),
    ("Round once, at the end", {"src/total.ts": "sum\n" * 3 + "round\n", "bench.ts": "b\n" * 31}),
    ("Prove it with a property test", {"src/property.test.ts": "p\n" * 4, "bench.ts": None}),
)
BACK_TO: Final = "ninepence"
"""A word of the turn that the rewind goes back to."""
NAMED: Final = frozenset(
    {"row", "option", "treeitem", "link", "button", "tab", "textbox", "searchbox", "combobox",
     "checkbox", "radio", "article", "menuitem", "switch", "slider"}
)  # fmt: skip
SLOWLY: Final = "it slowly"
HALF_TYPED: Final = '"n in: the'
"""Each of its beginnings is asked for, and some are no query yet."""
KEY_MS: Final = 100
"""Slower than the page waits for the next key before it asks."""
WAIT_S: Final = 30.0
WALK_QUICK, WALK_FULL = 25, 120
FOCUS: Final = """() => {
  const e = document.activeElement;
  if (!e || e === document.body || e === document.documentElement) return 'nothing has it';
  const box = e.getBoundingClientRect();
  if (box.width === 0 || box.height === 0) return 'what has it has no size';
  if (e.closest('[inert], [aria-hidden=true]')) return 'what has it is hidden';
  if (!e.checkVisibility({ visibilityProperty: true })) return 'what has it is not visible';
  return null;
}"""


@dataclass(slots=True)
class Hands:
    """Two hands on a keyboard, and what they noticed."""

    page: Page
    looks: int = 0
    losses: list[str] = field(default_factory=list[str])
    nameless: list[str] = field(default_factory=list[str])
    named: int = 0

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, and look for the focus after each."""
        for key in keys:
            await self.page.keyboard.press(key)
            await self.look(key)

    async def type(self, words: str) -> None:
        """Type without waiting for the page, as a person does who knows the keys."""
        await self.page.keyboard.type(words, delay=0)

    async def look(self, after: str) -> None:
        """Check that a visible element has the focus."""
        self.looks += 1
        lost: str | None = None
        # A dialog that closes gives the focus back in the next frame.
        for _ in range(10):
            lost = await self.page.evaluate(FOCUS)
            if lost is None:
                return
            await asyncio.sleep(0.05)
        self.losses.append(f"after {after} at {self.page.url}: {lost}")

    async def check_names(self) -> None:
        """Check that all that one can meet on this page has a name."""
        await settle(self.page)
        session = await self.page.context.new_cdp_session(self.page)
        tree: dict[str, Any] = await session.send("Accessibility.getFullAXTree")
        await session.detach()
        for node in tree["nodes"]:
            role = node.get("role", {}).get("value", "")
            if node.get("ignored") or role not in NAMED or (role == "row" and not _is_met(node)):
                continue
            self.named += 1
            if not str(node.get("name", {}).get("value", "")).strip():
                self.nameless.append(f"a {role} at {self.page.url}")

    async def search(self, words: str) -> None:
        """Find words from anywhere, and open the first hit."""
        await self.press("/")
        field = self.page.locator("dialog[open] input, [role=dialog] input").first
        await expect(field).to_be_focused(timeout=WAIT_S * 1000)
        await self.type(words)
        # An exact address of the page comes first; a hit is what has the words.
        hit = self.page.locator("[role=option]").filter(has_text=words).first
        await hit.wait_for(timeout=WAIT_S * 1000)
        for _ in range(30):
            if await hit.get_attribute("aria-selected") == "true":
                break
            await self.page.keyboard.press("ArrowDown")
        await self.page.keyboard.press("Enter")
        await expect(self.page).to_have_url(re.compile("/[st]/"), timeout=WAIT_S * 1000)
        await expect(self.page.locator("main article").first).to_be_visible(timeout=WAIT_S * 1000)
        await settle(self.page)
        await self.look(f"a search for {words}")


async def prove(proof: Proof) -> None:
    """Take every figure."""
    began = time.monotonic()
    with ui_world() as world:
        folder = world.person / "shop"
        folder.mkdir()
        turns: list[TurnId] = []
        await world.plant(
            lambda tree: plant(tree, folder, turns, with_demo=not proof.quick), SystemClock()
        )
        async with (
            world.opened_page() as (ui, browser),
            entered(browser, ui.url) as watched,
        ):
            hands = Hands(watched.page)
            await walk(proof, world, watched, hands, folder, turns[1])
            await revert_and_share(proof, watched, hands, folder, turns[2])
            await write_and_stop(proof, watched, hands)
            await talk(proof, watched, hands)
            await look_around(proof, watched, hands)
    for line in (*hands.losses, *hands.nameless[:20], *watched.errors):
        print(line, file=sys.stderr)
    proof.note("looks for the focus", hands.looks, "looks")
    proof.at_most("times the focus was lost", len(hands.losses), "times", 0)
    proof.at_least("rows, links and controls seen", hands.named, "elements", 60)
    proof.at_most("of them without an accessible name", len(hands.nameless), "elements", 0)
    proof.at_most("errors of the page", len(watched.errors), "errors", 0)
    proof.note("whole walk", time.monotonic() - began, "s")


async def walk(
    proof: Proof, world: UiWorld, watched: Watched, hands: Hands, folder: Path, turn: TurnId
) -> None:
    """Search, fork, compare, rewind and undo, without a pointer."""
    page = hands.page
    await hands.press("Tab")
    await hands.check_names()
    await hands.press("/")
    await page.keyboard.type(HALF_TYPED, delay=KEY_MS)
    await watched.quiet()
    proof.at_most("refusals while a query was typed", len(watched.refusals), "refusals", 0)
    await hands.press("Control+a", "Delete", "Escape")
    await hands.search(BACK_TO)
    proof.at_least("hits opened by keys", int(BACK_TO in await page.inner_text("main")), "hits", 1)
    await hands.check_names()

    await hands.type(f"f{FORK}\n")
    bar = page.locator(".undo-bar")
    await bar.wait_for(timeout=WAIT_S * 1000)
    await hands.look("a fork")
    async with turntree.open(world.settings) as tree:
        made = await tree.sessions.ledger.find(FORK)
    proof.at_least("forks with every letter of their name", int(made is not None), "forks", 1)

    await hands.press("c")
    await hands.press("j")
    await hands.press("c")
    await page.wait_for_url("**/compare/**", timeout=WAIT_S * 1000)
    await hands.check_names()
    await hands.look("a comparison")
    proof.at_least("comparisons opened by keys", int("/compare/" in page.url), "pages", 1)

    start = contents(folder)
    # By its address: the fork holds the same turn, and a search may open either.
    await watched.go(f"/s/{LABEL}?turn={turn}")
    await expect(page.locator("main")).to_contain_text(BACK_TO, timeout=WAIT_S * 1000)
    await hands.press("Tab", "r")
    go = page.get_by_role("button", name="Go back with files")
    await expect(go).to_be_focused(timeout=WAIT_S * 1000)
    await hands.check_names()
    await hands.press("Enter")
    await expect(bar).to_contain_text(f"Moved {LABEL}", timeout=WAIT_S * 1000)
    await hands.look("a rewind")
    wanted = {name: text for _, files in TURNS[:2] for name, text in files.items()}
    proof.at_most("files that a rewind left wrong", wrong(contents(folder), wanted), "files", 0)
    await hands.press("u")
    await expect(bar).to_contain_text("Undone", timeout=WAIT_S * 1000)
    await hands.look("an undo")
    proof.at_most("files that an undo left wrong", wrong(contents(folder), start), "files", 0)


async def revert_and_share(
    proof: Proof, watched: Watched, hands: Hands, folder: Path, turn: TurnId
) -> None:
    """Take back one turn in the middle and bring it back, then share the thread up to it."""
    page = hands.page
    bar = page.locator(".undo-bar")
    (folder / "notes.md").write_text("by hand\n")
    start = contents(folder)
    await watched.go(f"/s/{LABEL}?turn={turn}")
    await expect(page.locator("main")).to_contain_text(TURNS[2][0], timeout=WAIT_S * 1000)
    await hands.press("Tab", "v")
    take = page.get_by_role("button", name="Take back 1 file")
    await expect(take).to_be_focused(timeout=WAIT_S * 1000)
    await hands.check_names()
    await hands.press("Enter")
    await expect(bar).to_contain_text("Took back", timeout=WAIT_S * 1000)
    await hands.look("a revert")
    wanted = {**start, "src/total.ts": TURNS[0][1]["src/total.ts"]}
    proof.at_most("files that a revert left wrong", wrong(contents(folder), wanted), "files", 0)
    await hands.press("u")
    await expect(bar).to_contain_text("Brought back", timeout=WAIT_S * 1000)
    await hands.look("the undo of a revert")
    found = wrong(contents(folder), start)
    proof.at_most("files that the undo of a revert left wrong", found, "files", 0)

    await hands.press("s")
    save = page.get_by_role("button", name="Download")
    await expect(save).to_be_focused(timeout=WAIT_S * 1000)
    await hands.check_names()
    async with page.expect_download(timeout=WAIT_S * 1000) as waits:
        await page.keyboard.press("Enter")
    shared = await (await waits.value).path()
    words = [one in shared.read_text() for one, _ in TURNS]
    proof.at_least("threads shared up to the turn", int(words == [True] * 3 + [False]), "pages", 1)
    await expect(bar).to_contain_text("Saved", timeout=WAIT_S * 1000)
    await hands.look("a share")


async def write_and_stop(proof: Proof, watched: Watched, hands: Hands) -> None:
    """Write two lines, queue a message, stop an answer, and begin a fork with a message."""
    page = hands.page
    await watched.go(f"/s/{LABEL}")
    await hands.press("m")
    field = page.locator(".composer textarea")
    await expect(field).to_be_focused(timeout=WAIT_S * 1000)
    await hands.check_names()
    await hands.type("Is the cent")
    await hands.press("Shift+Enter")
    await hands.type("really gone?")
    await hands.press("Enter")
    asked = page.locator(".turn:not(.live) .ask").filter(has_text="Is the cent\nreally gone?")
    await asked.wait_for(timeout=WAIT_S * 1000)
    await hands.look("an answer")
    # The focus is still in the field.
    await hands.type(f"Tell {SLOWLY}")
    await hands.press("Enter")
    await page.locator(".live-text").wait_for(timeout=WAIT_S * 1000)
    await hands.press("Escape")
    await page.locator(".composer-end.stopped").wait_for(timeout=WAIT_S * 1000)
    await hands.look("a stopped answer")
    # Nothing is written now: the same key leads back to the thread.
    await hands.press("Escape", "k", "k", "m")
    fork = page.get_by_role("button", name=re.compile("Fork at turn"))
    await fork.wait_for(timeout=WAIT_S * 1000)
    for _ in range(10):
        await hands.press("Tab")
        if await fork.evaluate("one => one === document.activeElement"):
            break
    await hands.press("Enter")
    promised = await page.locator(".composer-fork b").inner_text(timeout=WAIT_S * 1000)
    await hands.look("the choice of a fork")
    await hands.press("Escape", "m")
    await hands.type("Another way")
    await hands.press("Enter")
    await expect(page).to_have_url(re.compile(f"/s/{re.escape(promised)}$"), timeout=WAIT_S * 1000)
    await (
        page.locator(".turn:not(.live) .ask")
        .filter(has_text="Another way")
        .wait_for(timeout=WAIT_S * 1000)
    )
    await hands.look("a fork by a message")
    proof.at_least("forks by a message, under the name that the page promised",
                   int(promised.endswith("-fork")), "forks", 1)  # fmt: skip


async def look_around(proof: Proof, watched: Watched, hands: Hands) -> None:
    """Look for names and for the focus on every other page."""
    for path in ("/graph", "/sessions", f"/search?q={BACK_TO}", "/costs"):
        await watched.go(path)
        await hands.check_names()
    await watched.go(f"/s/{LABEL}")
    for _ in range(WALK_QUICK if proof.quick else WALK_FULL):
        await hands.press("Tab")


async def talk(proof: Proof, watched: Watched, hands: Hands) -> None:
    """Begin a conversation, have an agent answer in it, and look into the inbox."""
    page = hands.page
    await watched.go("/conversations")
    await hands.press("Tab", "n")
    await page.locator("#talk-title").wait_for(timeout=WAIT_S * 1000)
    await hands.check_names()
    await hands.type("The cent")
    await hands.press("Enter")
    await expect(page).to_have_url(re.compile("/c/the-cent$"), timeout=WAIT_S * 1000)
    await page.locator(".talk-scroller").wait_for(timeout=WAIT_S * 1000)
    await page.locator(".talk-scroller").focus()
    await hands.press("m")
    # The name is taken before the list of names has come.
    await hands.type("Is it gone, @help")
    await hands.press("Enter")
    field = page.locator(".composer textarea")
    await expect(field).to_have_value("Is it gone, @Helper ", timeout=WAIT_S * 1000)
    await hands.press("?", "Enter")
    answer = page.locator("article.post").filter(has_text="It is.")
    await expect(answer).to_be_visible(timeout=WAIT_S * 1000)
    await hands.look("an answer in a conversation")
    await hands.check_names()
    posts = await page.locator("article.post").count()
    proof.at_least("posts of a conversation that was held by keys", posts, "posts", 2)
    await hands.press("Escape")
    await hands.type("gi")
    await expect(page).to_have_url(re.compile("/inbox$"), timeout=WAIT_S * 1000)
    await hands.check_names()


async def plant(tree: Tree, folder: Path, turns: list[TurnId], *, with_demo: bool) -> None:
    """Take turns that change files, pin what each found and left, and note them in a list."""
    if with_demo:
        await plant_demo(tree)
    told: Json = {"text": " ".join(f"word{number}" for number in range(2_000))}
    script: dict[str, Json] = {
        "provider_type": "scripted",
        "word_delay_s": 0.05,
        "rules": [
            {"when": SLOWLY, "replies": [told]},
            {"when": "", "replies": [{"text": "It is."}]},
        ],
    }
    await tree.programs.create("provider", "script", script)
    await tree.programs.create("model", "teller", {"model_id": "scripted-1", "provider": "script"})
    helper: dict[str, Json] = {"default_model": "@(teller)", "name": "Helper"}
    await tree.programs.create("agent", "helper", helper)
    await tree.sessions.get_or_create(LABEL)
    resource = await tree.resources.ensure_directory(str(folder), LABEL)
    keeper, clock = tree.resources.keeper_of(resource), tree.revisions.world
    for words, files in TURNS:
        began, before = clock.now(), keeper.snapshot(resource.place)
        for name, text in files.items():
            path = folder / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        after = keeper.snapshot(resource.place)
        placed = await tree.turns.record(LABEL, [user(words)], [assistant(f"{words}: done.")])
        turns.append(placed.turn.id)
        await tree.resources.pin(placed.turn.id, resource, before, after, began, clock.now())


def _is_met(node: Mapping[str, Any]) -> bool:
    """Whether the focus can come to an element; a row of plain figures is only read."""
    return any(
        one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", ())
    )


def contents(folder: Path) -> dict[str, str | None]:
    """Return what every file of a folder holds."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def wrong(found: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> int:
    """Return how many files differ, are missing, or should not be there."""
    return sum(found.get(name) != wanted.get(name) for name in {*found, *wanted})


if __name__ == "__main__":
    run(prove, __doc__ or "")
