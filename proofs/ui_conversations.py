"""The claim: people and agents talk on the page, and who was not let in finds nothing of it.

    python -m proofs.ui_conversations [--quick] [--only stories,long,planted]

The quick form is the beginning: two people and a public agent, one who was not let in, and a phone.

A real ``turntree serve`` with a worker, and three people in three browsers, with the keyboard alone
where it is named. Ana begins a conversation and Bob hears of it. Bob mentions a public agent, which
comes in, thinks, and answers with a turn that can be opened and explained; all three pages show it
without being asked. A private agent is suggested to its owner alone: what Bob writes of it stays
text, and what Alice writes is answered. Bob mentions Alice, adds her where the page offers it,
and the next mention is counted in her side bar and highlighted. Posts are forked, erased and
archived, with the way back. Meanwhile a member who was not let in opens every page, listens to the
stream and asks the API by name: no answer has a name, a title, a count or a hit. In each state
axe-core looks for violations, also at 390 px and in the dark, and the focus is never lost.

A conversation of 100,000 posts opens as one of 100 does. Faults are planted, in the database and on
the page, to see that they would be found.
"""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx2
import psycopg
from playwright.async_api import Browser, Error, Page, Response, expect

from proofs.browser import Watched, chromium, entered, settle
from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.http_world import TEAM, ServeProcess, Team, a_team, later, serving_apart, serving_here
from proofs.ui_keys import Hands
from proofs.ui_look import AXE, RULES, RUN_AXE, SIDEWAYS
from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.db.database import ensure_database, prepare_database
from turntree.server.access.session_cookie import cookie_name
from turntree.testing.fakes import FakeClock

FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
TITLE: Final = "Where the quarry depot moves"
NAME: Final = "where-the-quarry-depot-moves"
WORDS: Final = "quarry"
"""A word of each post, and of nothing that may be found."""
PRIVATE: Final = "diary"
STRANGER: Final = "mia"
SCRIPT: Final[list[Json]] = [{"when": "", "replies": [{"text": f"The {WORDS} is by the harbour.",
                                                       "delay_s": 6}]}]  # fmt: skip
POSTS: Final = 100_000
FEW: Final = 100
ARTICLES_MAX: Final = 300
PAGES_UP: Final = 12
OPEN_S_MAX: Final = 10.0
WAIT_MS: Final = 60_000
SHOWN_MAX: Final = 12
HIDDEN_PAGES: Final = ("/", "/graph", "/conversations", "/inbox", "/sessions", f"/search?q={WORDS}")
PLANTS: Final = (
    Plant(
        "each member reads each conversation",
        ((r"THEN (turntree\.has_shared_access\(p_ws,)", r"THEN p_right = 'read' OR \1"),),
    ),
    Plant(
        "a mention is not told",
        ((r"IF became = 'person' THEN", "IF false THEN"),),
    ),
)  # fmt: skip


@dataclass(slots=True)
class Reader:
    """A person in a browser of their own, and what was noticed of it."""

    name: str
    watched: Watched
    place: str
    hands: Hands
    answers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each address of the API that the browser asked, with the answer."""
    _reading: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def page(self) -> Page:
        """The page of the browser."""
        return self.watched.page

    def record(self, response: Response) -> None:
        """Keep an answer of the API."""
        if "/api/v1/" in response.url and not response.url.split("?")[0].endswith("/stream"):
            task = asyncio.create_task(self._keep(response))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _keep(self, response: Response) -> None:
        with contextlib.suppress(Error):
            self.answers.append((response.url, await response.text()))

    async def open(self, path: str) -> None:
        """Open a place of the workspace."""
        await self.page.goto(f"{self.place}{path}")
        await settle(self.page)

    async def write(self, *parts: str) -> None:
        """Write a post with the keyboard: a part that begins with ``@`` is chosen from the list."""
        await self.page.locator(".talk-scroller").focus()
        await self.hands.press("m")
        for part in parts:
            await self.page.keyboard.type(part, delay=20)
            if part.startswith("@"):
                await expect(self.page.get_by_role("option").first).to_be_visible()
                await self.hands.press("Enter")
        await self.hands.press("Enter")
        await expect(self.page.locator(".composer textarea")).to_have_value("")

    async def sees(self, words: str, *, name: str = "") -> None:
        """Wait until the last posts have words, by an author."""
        post = self.page.locator("article.post").filter(has_text=words)
        await expect((post.filter(has_text=name) if name else post).last).to_be_visible()


@dataclass(slots=True)
class Sights:
    """What was looked at, and what axe-core found there."""

    states: list[str] = field(default_factory=list[str])
    violations: list[str] = field(default_factory=list[str])
    sideways: list[str] = field(default_factory=list[str])

    async def look(self, page: Page, state: str) -> int:
        """Look at a page as it is now; return how much is wrong with it."""
        await page.evaluate(AXE.read_text(encoding="utf-8"))
        violations: list[str] = await page.evaluate(RUN_AXE, RULES)
        is_sideways = bool(await page.evaluate(SIDEWAYS))
        self.states.append(state)
        self.violations += [f"{state}: {one}" for one in violations]
        self.sideways += [state] if is_sideways else []
        return len(violations) + is_sideways


async def prove(proof: Proof) -> None:
    """Tell the stories, open a long conversation, and plant faults."""
    expect.set_options(timeout=WAIT_MS)
    with temporary_server(FAST) as (server, home):
        async with (
            _talking_team(server, home / "sound") as team,
            serving_apart(team.settings) as served,
            chromium() as browser,
        ):
            if proof.quick:
                await tell_briefly(proof, team, served, browser)
                return
            if proof.begins("stories"):
                await tell_stories(proof, team, served, browser)
            if proof.begins("long"):
                await read_long(proof, team, served, browser)
        if proof.begins("planted"):
            await plant_faults(proof, server, home)


@asynccontextmanager
async def _talking_team(conninfo: str, home: Path) -> AsyncGenerator[Team, None]:
    """Open a team with three people and four agents, one of them private."""
    async with a_team(conninfo, home) as team:
        for person in ("bob", "alice"):
            await team.tree.members.add(person, "member")
        ana, alice = team.of("ana"), team.of("alice")
        provider: dict[str, Json] = {"provider_type": "scripted", "rules": SCRIPT}
        await ana.programs.create("provider", "script", provider)
        await ana.programs.create(
            "model", "keen", {"model_id": "scripted-1", "provider": "@(script)"}
        )
        for name in ("Atlas", "Planner", "Echo"):
            config: dict[str, Json] = {"default_model": "@(keen)", "name": name}
            await ana.programs.create("agent", name.lower(), config)
        config = {"default_model": "@(keen)", "name": "Diary"}
        await alice.programs.create("agent", PRIVATE, config, visibility="private")
        for person in ("ana", "bob", "alice", STRANGER):
            await team.log_in(person, person)
            _, team.keys[person] = await team.of(person).keys.create(person, expires_at=later())
        yield team


@asynccontextmanager
async def _reading(
    browser: Browser, team: Team, served: ServeProcess, name: str, path: str, **options: Any
) -> AsyncGenerator[Reader, None]:
    """Lend a browser in which a person is logged in."""
    cookie = (cookie_name("login", served.url.removeprefix("http://"), TEAM), team.logins[name])
    place = f"{served.url}/w/{TEAM}"
    async with entered(browser, f"{place}{path}", cookie=cookie, **options) as watched:
        reader = Reader(name, watched, place, Hands(watched.page))
        watched.page.context.on("response", lambda one: reader.record(one))  # noqa: PLW0108 - slots
        yield reader


async def tell_stories(proof: Proof, team: Team, served: ServeProcess, browser: Browser) -> None:
    """Let three people talk, and a fourth one look for it."""
    seen, began = Sights(), time.monotonic()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        people = [
            await enter(_reading(browser, team, served, name, "/conversations"))
            for name in ("ana", "bob", "alice", STRANGER)
        ]
        ana, bob, alice, stranger = people
        listening = _Listening(served.url, team.keys[STRANGER])
        await enter(listening.begun())
        await begin(seen, ana, bob)
        await ask_public_agent(seen, ana, bob)
        await ask_private_agent(proof, team, bob)
        await call_alice(proof, seen, ana, bob, alice)
        await ask_own_agent(proof, team, bob, alice)
        proof.note("seconds until the stories of three people were told",
                   time.monotonic() - began, "s")  # fmt: skip
        await change(proof, seen, team, ana, bob)
        await be_narrow(seen, browser, team, served)
        secrets = await list_secrets(team.of("ana"))
        found = await find_nothing(team, served.url, stranger, secrets)
        found += [f"the stream tells {one}" for one in secrets if one in listening.heard]
        proof.at_least("answers to one who was not let in", len(stranger.answers), "answers", 15)
        proof.at_least("bytes of the stream that they heard", len(listening.heard), "bytes", 100)
        _show(found)
        proof.at_most("answers that say something of it", len(found), "answers", 0)
        await find_page_faults(proof, alice)
        tell(proof, seen, people)


async def tell_briefly(proof: Proof, team: Team, served: ServeProcess, browser: Browser) -> None:
    """Let two people ask an agent, and a third one look for it."""
    seen, began = Sights(), time.monotonic()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        people = [
            await enter(_reading(browser, team, served, name, "/conversations"))
            for name in ("ana", "bob", STRANGER)
        ]
        ana, bob, stranger = people
        listening = _Listening(served.url, team.keys[STRANGER])
        await enter(listening.begun())
        await begin(seen, ana, bob)
        await ask_public_agent(seen, ana, bob)
        await ask_private_agent(proof, team, bob)
        phone = await enter(
            _reading(browser, team, served, "ana", f"/c/{NAME}", width=390, height=844,
                     theme="dark")
        )  # fmt: skip
        await phone.sees("by the harbour")
        await seen.look(phone.page, "a conversation at 390 px, dark")
        secrets = await list_secrets(team.of("ana"))
        found = await find_nothing(team, served.url, stranger, secrets)
        found += [f"the stream tells {one}" for one in secrets if one in listening.heard]
        proof.at_least("answers to one who was not let in", len(stranger.answers), "answers", 15)
        _show(found)
        proof.at_most("answers that say something of it", len(found), "answers", 0)
        tell(proof, seen, [*people, phone])
        proof.note("seconds until it was told", time.monotonic() - began, "s")


async def begin(seen: Sights, ana: Reader, bob: Reader) -> None:
    """Begin a conversation with the keyboard; the other person hears of it."""
    await expect(ana.page.locator(".state")).to_contain_text("No conversation yet")
    await seen.look(ana.page, "no conversation")
    await ana.hands.press("Tab", "n")
    await ana.page.locator("#talk-title").wait_for()
    await ana.hands.type(TITLE)
    await ana.hands.press("Tab", "Tab")
    await ana.hands.type("bob planner echo")
    await seen.look(ana.page, "a conversation is begun")
    await ana.hands.press("Enter")
    await expect(ana.page).to_have_url(f"{ana.place}/c/{NAME}")
    await expect(ana.page.locator(".people li")).to_have_count(4)
    await seen.look(ana.page, "nothing was said yet")
    await ana.write(f"The {WORDS} depot is too small. What do we do?")
    await ana.sees("is too small", name="ana")
    count = bob.page.locator(".nav .unread-count")
    await expect(count).to_have_text("1 unread")
    await expect(bob.page.locator(".talk-row")).to_contain_text(TITLE)
    await seen.look(bob.page, "the list, with what is unread")
    await bob.hands.press("Tab")
    await bob.hands.type("gi")
    notice = bob.page.locator(".notice a").first
    await expect(notice).to_contain_text("added you")
    await seen.look(bob.page, "the inbox")
    await notice.focus()
    await bob.hands.press("Enter")
    await bob.sees("is too small", name="ana")
    await expect(count).to_have_count(0)


async def ask_public_agent(seen: Sights, ana: Reader, bob: Reader) -> None:
    """Mention a public agent that takes no part: it comes in, and its answer is a turn."""
    await bob.page.locator(".talk-scroller").focus()
    await bob.hands.press("m")
    await bob.page.keyboard.type("Ask @", delay=20)
    option = bob.page.get_by_role("option")
    await expect(option.first).to_be_visible()
    await seen.look(bob.page, "suggestions")
    await bob.page.keyboard.type("atl", delay=20)
    await expect(option).to_have_count(1)
    await expect(option).to_contain_text("comes in")
    # Escape closes the list, and another @ opens it again.
    await bob.hands.press("Escape")
    await expect(option).to_have_count(0)
    await bob.hands.press(*["Backspace" for _ in "@atl"])
    await bob.page.keyboard.type("@atl", delay=20)
    await expect(option).to_have_count(1)
    await bob.hands.press("ArrowDown", "ArrowUp", "Enter")
    await bob.page.keyboard.type(f"where the {WORDS} can go.", delay=0)
    await bob.hands.press("Enter")
    await bob.sees("can go", name="bob")
    await expect(ana.page.locator(".talk-thinking")).to_contain_text("Atlas is thinking")
    await seen.look(ana.page, "an agent is thinking")
    for reader in (ana, bob):
        await reader.sees("by the harbour", name="Atlas")
        await expect(reader.page.locator(".talk-thinking")).to_have_text("")
        await expect(reader.page.locator(".people")).to_contain_text("Atlas")
    await ana.watched.quiet()
    await seen.look(ana.page, "an answer")
    answer = ana.page.locator("article.post.by-agent").last
    await answer.get_by_role("link", name="Open the turn").focus()
    await ana.hands.press("Enter")
    await expect(ana.page).to_have_url(re.compile("/t/[0-9a-f-]+"))
    await expect(ana.page.locator("main article").first).to_contain_text("by the harbour")
    await ana.page.go_back()
    await ana.sees("by the harbour", name="Atlas")
    await ana.page.locator("article.post.by-agent").last.get_by_role("link", name="Why").click()
    await expect(ana.page).to_have_url(re.compile("tab=why"))
    await expect(ana.page.locator("main article").first).to_be_visible()
    await ana.open(f"/c/{NAME}")


async def ask_private_agent(proof: Proof, team: Team, bob: Reader) -> None:
    """Type the name of another member's private agent: it is not suggested, and not asked."""
    await bob.page.locator(".talk-scroller").focus()
    await bob.hands.press("m")
    await bob.page.keyboard.type(f"@{PRIVATE}", delay=20)
    await bob.watched.quiet()
    offered = await bob.page.get_by_role("option").count()
    proof.at_most("suggestions of a private agent to another one", offered, "suggestions", 0)
    await bob.page.keyboard.press("Control+A")
    await bob.page.keyboard.type(f"@[Diary](agent:{PRIVATE}) do you know the {WORDS}?")
    await bob.hands.press("Enter")
    await bob.sees("do you know")
    present = await team.of("ana").conversations.list_participants(NAME)
    came = [one for one in present if one.principal == f"agent:{PRIVATE}"]
    proof.at_most("private agents that another one's mention brought in", len(came), "agents", 0)


async def call_alice(proof: Proof, seen: Sights, ana: Reader, bob: Reader, alice: Reader) -> None:
    """Mention an absent person, add them where that is offered, and mention them again."""
    await bob.write("Has ", "@alic", f"seen the {WORDS}?")
    note = bob.page.locator(".talk-absent")
    await expect(note).to_contain_text("takes no part")
    await expect(bob.page.locator(".talk-side").first).to_contain_text("Called, but not here")
    await seen.look(bob.page, "one who is called is absent")
    await expect(alice.page.locator(".state")).to_contain_text("No conversation yet")
    await note.get_by_role("button", name="Add alice").focus()
    await bob.hands.press("Enter")
    await expect(bob.page.locator(".undo-bar")).to_contain_text("alice takes part now")
    await seen.look(bob.page, "a person was added")
    await expect(alice.page.locator(".talk-row")).to_contain_text(TITLE)
    await bob.write("@alic", f"welcome to the {WORDS}.")
    count = alice.page.locator(".nav .unread-count")
    await expect(count).to_have_text("2 unread")
    await alice.hands.press("Tab")
    await alice.hands.type("gi")
    await expect(alice.page.locator(".notice.unread")).to_have_count(2)
    mention = alice.page.locator(".notice a").filter(has_text="mentioned you")
    await mention.focus()
    await alice.hands.press("Enter")
    await expect(alice.page.locator("article.marked")).to_contain_text("welcome")
    await expect(count).to_have_count(0)
    proof.at_most("highlights that are missing", await missing_highlights(alice), "highlights", 0)
    await seen.look(alice.page, "a post that calls the reader")
    await ana.sees("welcome", name="bob")
    others = await ana.page.locator("article.for-reader").count()
    proof.at_most("highlights for one who was not called", others, "highlights", 0)


async def missing_highlights(reader: Reader) -> int:
    """Return how many of the two signs of a mention the called reader lacks."""
    post = reader.page.locator("article.for-reader").filter(has_text="welcome")
    return 2 - await post.count() - await post.locator(".mention.reader").count()


async def ask_own_agent(proof: Proof, team: Team, bob: Reader, alice: Reader) -> None:
    """Mention a private agent as its owner, and then as another one once more."""
    await alice.write("@diar", f"what did I write of the {WORDS}?")
    await alice.sees("by the harbour", name="Diary")
    await bob.sees("by the harbour", name="Diary")
    await bob.write(f"So, @[Diary](agent:{PRIVATE}), and of the other {WORDS}?")
    await alice.sees("and of the other", name="bob")
    tree = team.of("ana")
    posts = await tree.conversations.list_posts(NAME, limit=500)
    pending = [run for one in posts for run in await tree.conversations.list_pending(NAME, one.seq)]
    answers = [one for one in posts if one.author == f"agent:{PRIVATE}"]
    proof.at_least("answers of a private agent to its owner", len(answers), "answers", 1)
    proof.at_most("answers of it in all, and to come", len(answers) + len(pending), "answers", 1)


async def change(proof: Proof, seen: Sights, team: Team, ana: Reader, bob: Reader) -> None:
    """Erase, fork, remove and archive, and take back what can be taken back."""
    wrong: list[str] = []
    own = bob.page.locator("article.post").filter(has_text="do you know")
    number = await own.get_attribute("data-post")
    await own.focus()
    await bob.page.get_by_role("button", name=f"Erase post {number}", exact=True).focus()
    await bob.hands.press("Enter")
    await seen.look(bob.page, "a post is to be erased")
    await bob.hands.press("Enter")
    for reader in (ana, bob):
        erased = reader.page.locator(f"#post-{number} .post-erased")
        await expect(erased).to_be_visible()
    await ana.page.get_by_role("button", name="Fork the conversation at post 1", exact=True).focus()
    await ana.hands.press("Enter")
    await ana.page.locator("#talk-fork").fill("quarry-apart")
    await seen.look(ana.page, "a fork")
    await ana.page.locator("#talk-fork").press("Enter")
    await expect(ana.page).to_have_url(f"{ana.place}/c/quarry-apart")
    await expect(ana.page.locator("article.post")).to_have_count(1)
    await ana.open(f"/c/{NAME}")
    await ana.page.get_by_role("button", name="Remove Echo").click()
    await seen.look(ana.page, "a participant is removed")
    await ana.page.locator("dialog[open]").get_by_role("button", name="Remove Echo").click()
    bar = ana.page.locator(".undo-bar")
    await expect(bar).to_contain_text("Echo takes part no longer")
    await bar.get_by_role("button", name="Add again").click()
    await expect(bar).to_contain_text("Echo takes part now")
    await ana.page.get_by_role("button", name="Archive", exact=True).click()
    await expect(bob.page.locator(".talk-closed")).to_contain_text("archived")
    await bar.get_by_role("button", name="Make it active again").click()
    await expect(bob.page.locator(".composer textarea")).to_be_visible()
    found = await team.of("ana").conversations.get(NAME)
    wrong += [] if found.state == "active" else [f"it is {found.state}"]
    await ana.watched.quiet()
    for reader in (ana, bob):
        await reader.hands.check_names()
    proof.at_most(f"changes that did something else {wrong}", len(wrong), "changes", 0)


async def be_narrow(seen: Sights, browser: Browser, team: Team, served: ServeProcess) -> None:
    """Look at the pages as a phone shows them, in both themes."""
    for theme in ("light", "dark"):
        async with _reading(
            browser, team, served, "ana", f"/c/{NAME}", width=390, height=844, theme=theme
        ) as reader:
            await reader.sees("welcome")
            await seen.look(reader.page, f"a conversation at 390 px, {theme}")
            await reader.page.get_by_role("button", name="People and more").click()
            await seen.look(reader.page, f"the people at 390 px, {theme}")
            for path in ("/conversations", "/inbox?view=all"):
                await reader.open(path)
                await reader.page.locator(".talk-row, .notice").first.wait_for()
                await seen.look(reader.page, f"{path} at 390 px, {theme}")


async def list_secrets(tree: Tree) -> list[str]:
    """Return what no answer to a stranger may have: names, titles, ids, digests and words."""
    found = await tree.conversations.get(NAME)
    posts = await tree.conversations.list_posts(NAME, limit=500)
    present = await tree.conversations.list_participants(NAME)
    turns = [one.turn for one in posts if one.turn is not None]
    digests = [one.turn_digest for one in posts if one.turn_digest is not None]
    return [
        NAME, TITLE, WORDS, found.id, "quarry-apart", *(one.id for one in posts),
        *map(str, turns), *(one.removeprefix("sha256:") for one in digests),
        *(str(one.session) for one in present if one.session), "Diary", f"agent:{PRIVATE}",
    ]  # fmt: skip


async def find_nothing(team: Team, url: str, stranger: Reader, secrets: Sequence[str]) -> list[str]:
    """Return the answers to a stranger that say something, after they have looked everywhere."""
    for path in (*HIDDEN_PAGES, f"/c/{NAME}", f"/s/{NAME}:atlas"):
        await stranger.open(path)
        await stranger.watched.quiet()
    await stranger.page.keyboard.press("Control+k")
    await stranger.page.keyboard.type(WORDS, delay=20)
    await stranger.watched.quiet()
    found = [
        f"{address}: {said}" for address, text in stranger.answers
        for said in said_in(address, text, secrets)
    ]  # fmt: skip
    return found + await ask_as_stranger(team, url, secrets)


async def ask_as_stranger(team: Team, url: str, secrets: Sequence[str]) -> list[str]:
    """Return the answers of the API to a stranger who knows the names that say something."""
    turns = [one for one in secrets if len(one) == len(NAME_OF_TURN)][1:]
    paths = [
        "conversations", "conversations?archived=true", f"conversations/{NAME}",
        f"conversations/{NAME}/posts", f"conversations/{NAME}/suggestions?typed=a", "inbox",
        f"search?q={WORDS}", "sessions", "shape", f"sessions/{NAME}:atlas", "runs", "members",
        *(f"turns/{turn}" for turn in turns),
    ]  # fmt: skip
    found: list[str] = []
    async with httpx2.AsyncClient(base_url=f"{url}/w/{TEAM}/api/v1/", timeout=60) as http:
        for path in paths:
            answer = await http.get(path, headers=team.headers(STRANGER, url))
            found += [f"{path}: {one}" for one in said_in(path, answer.text, secrets)]
            if path in {"conversations", "inbox"} and answer.is_success:
                lists = [one for one in answer.json().values() if isinstance(one, list) and one]
                found += [f"{path}: a list that is not empty"] * len(lists)
    return found


NAME_OF_TURN: Final = "00000000-0000-7000-8000-000000000000"


def said_in(address: str, text: str, secrets: Sequence[str]) -> list[str]:
    """Return the secrets that an answer tells, beside those that the question named."""
    asked = unquote(address)
    return [one for one in secrets if one in text and one not in asked]


class _Listening:
    """One who was not let in and listens to the stream from the beginning to the end."""

    def __init__(self, url: str, key: str) -> None:
        self.heard = ""
        self._url = f"{url}/w/{TEAM}/api/v1/stream"
        self._headers = {"authorization": f"Bearer {key}"}

    @asynccontextmanager
    async def begun(self) -> AsyncGenerator[None, None]:
        """Listen until the block ends."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _listen(self) -> None:
        async with (
            httpx2.AsyncClient(timeout=None) as http,
            http.stream("GET", self._url, headers=self._headers) as answer,
        ):
            async for text in answer.aiter_text():
                self.heard += text


async def read_long(proof: Proof, team: Team, served: ServeProcess, browser: Browser) -> None:
    """Open a long conversation and a short one, and read upwards in the long one."""
    tree = team.of("ana")
    for name, posts in (("short-talk", FEW), ("long-talk", POSTS)):
        made = await tree.conversations.create(name)
        await tree.conversations.post(name, "The first of many.")
        await _fill(team, made.id, posts)
    seconds: dict[str, list[float]] = {"short-talk": [], "long-talk": []}
    async with _reading(browser, team, served, "ana", "/conversations") as reader:
        page = reader.page
        for name in (*seconds, *seconds, *seconds):
            await reader.open("/conversations")
            began = time.monotonic()
            await page.goto(f"{reader.place}/c/{name}")
            await page.locator("article.post").last.wait_for()
            seconds[name].append(time.monotonic() - began)
        await expect(page.locator("article.post").last).to_contain_text(f"number {POSTS}")
        first = page.locator("article.post").first
        for _ in range(PAGES_UP):
            before = await first.get_attribute("data-post")
            await page.get_by_role("button", name="Earlier posts").press("Enter")
            await expect(first).not_to_have_attribute("data-post", before or "")
        articles = await page.locator("article.post").count()
        await page.goto(f"{reader.place}/c/long-talk?post=5000")
        await expect(page.locator("article.marked")).to_contain_text("number 5000")
        await page.get_by_role("button", name="Newest posts").press("Enter")
        await expect(page.locator("article.post").last).to_contain_text(f"number {POSTS}")
        asked = len(reader.watched.requests)
        posted = await team.of("ana").conversations.post("long-talk", "One more.")
        await expect(page.locator(f"#post-{posted.seq}")).to_be_visible()
        await reader.watched.quiet()
        reads = [one for one in reader.watched.requests[asked:] if "/posts?" in one]
    proof.at_most("posts on the page after reading far up", articles, "posts", ARTICLES_MAX)
    proof.at_most("questions for posts because of one new post", len(reads), "questions", 2)
    long, short = min(seconds["long-talk"]), min(seconds["short-talk"])
    proof.at_most(f"seconds until a conversation of {POSTS:,} posts is shown", long, "s",
                  OPEN_S_MAX, of="time")  # fmt: skip
    proof.at_most("the same, as a multiple of one of 100", long / short, "times", 1.5, of="time")


async def _fill(team: Team, conversation: str, posts: int) -> None:
    """Add posts as they would be stored, without waiting for each."""
    conninfo = team.settings.database_url or ""
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        # Only the ledger's own functions write posts; here they would take an hour.
        await connection.execute(b"SET LOCAL session_replication_role = replica")
        await connection.execute(_FILL, {"posts": posts, "conversation": conversation})
        await connection.execute(_COUNT, {"posts": posts, "conversation": conversation})


_FILL: Final = b"""
INSERT INTO turntree.posts
    (workspace_id, conversation_id, seq, id, kind, author, digest, body, posted_at)
  SELECT p.workspace_id, p.conversation_id, n, gen_random_uuid(), p.kind, p.author, p.digest,
      jsonb_build_object('content', 'Post number ' || n || ' of a long **talk**.')::text,
      p.posted_at
    FROM turntree.posts p, generate_series(2, %(posts)s::int) n
    WHERE p.conversation_id = %(conversation)s::uuid AND p.seq = 1"""
_COUNT: Final = b"""
UPDATE turntree.conversations SET post_seq = %(posts)s WHERE id = %(conversation)s::uuid"""


_PALE: Final = """for (const e of document.querySelectorAll('.prose'))
  e.style.setProperty('color', '#b9b3a8')"""
_WIDE: Final = "document.body.style.minWidth = '620px'"
_FAINT: Final = """for (const e of document.querySelectorAll('.mention.reader'))
  e.classList.remove('reader')"""


async def find_page_faults(proof: Proof, alice: Reader) -> None:
    """Spoil the page in the browser, and look whether the checks see it."""
    missed: list[str] = []
    page = alice.page
    await page.evaluate(_PALE)
    missed += [] if await Sights().look(page, "pale words") else ["words that are too pale"]
    await page.reload()
    await alice.sees("welcome")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.evaluate(_WIDE)
    missed += [] if await Sights().look(page, "too wide") else ["a page that is too wide"]
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.reload()
    await alice.sees("welcome")
    await page.evaluate(_FAINT)
    missed += [] if await missing_highlights(alice) else ["a mention that is not highlighted"]
    hands = Hands(page)
    await page.locator(".composer textarea").focus()
    await page.evaluate("document.querySelector('.talk-write').setAttribute('inert', '')")
    await hands.look("a fault")
    missed += [] if hands.losses else ["a focus that is lost"]
    await page.reload()
    proof.at_most(f"faults of the page that are not found {missed}", len(missed), "faults", 0)


async def plant_faults(proof: Proof, server: str, home: Path) -> None:
    """Break the database, and look whether the checks see it."""
    missed: list[str] = []
    for number, plant in enumerate(PLANTS):
        broken = await ensure_database(server, f"broken_{number}")
        await prepare_database(broken, TEAM, FakeClock(number).new_id())
        await install(broken, plant)
        async with _talking_team(broken, home / f"broken_{number}") as team:
            missed += [] if await _is_found(team) else [plant.name]
    proof.at_most(f"faults of the database that are not found {missed}", len(missed), "faults", 0)


async def _is_found(team: Team) -> bool:
    """Return whether something is wrong with what three people say, or a fourth one hears."""
    bob = team.of("bob").conversations
    talk = team.of("ana").conversations
    await talk.create(NAME, title=TITLE, participants=["bob", "alice"])
    await bob.post(NAME, f"@[Alice](user:alice), the {WORDS}")
    await bob.post(NAME, f"@[Diary](agent:{PRIVATE}) {WORDS}")
    came = [one.principal for one in await talk.list_participants(NAME)]
    told = await team.of("alice").inbox.list_page(everything=True)
    secrets = [NAME, TITLE, WORDS]
    async with serving_here(team) as url:
        found = await ask_as_stranger(team, url, secrets)
    return bool(
        found or f"agent:{PRIVATE}" in came or not any(one.kind == "mention" for one in told)
    )


def tell(proof: Proof, seen: Sights, people: Sequence[Reader]) -> None:
    """Show what was seen on the way."""
    _show([*seen.violations, *seen.sideways])
    proof.at_least("states that were looked at", len(seen.states), "states",
                   9 if proof.quick else 18)  # fmt: skip
    proof.at_most("violations that axe-core finds", len(seen.violations), "violations", 0)
    proof.at_most(f"states that scroll sideways {seen.sideways}", len(seen.sideways), "states", 0)
    losses = [one for reader in people for one in reader.hands.losses]
    nameless = [one for reader in people for one in reader.hands.nameless]
    foreign = [one for reader in people for one in reader.watched.foreign]
    # Each refusal is an error of the console too: a stranger's questions are refused.
    errors = [one for reader in people for one in reader.watched.errors
              if "Failed to load resource" not in one]  # fmt: skip
    proof.at_most(f"times the focus was lost {losses}", len(losses), "times", 0)
    proof.at_most(f"controls without a name {nameless}", len(nameless), "controls", 0)
    proof.at_most(f"requests to other machines {foreign}", len(foreign), "requests", 0)
    proof.at_most(f"errors of the pages {errors}", len(errors), "errors", 0)


def _show(lines: Sequence[str]) -> None:
    for line in lines[:SHOWN_MAX]:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    run(prove, __doc__ or "")
