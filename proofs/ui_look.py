"""The claim: every page reads well for everyone, and looks as it did when it was last looked at.

Every route is opened in a light and a dark theme, 390, 1,024 and 1,440 px wide, with the sample
data, an erased turn and a clock that stands still; the canopy and a thread 2,560 px wide too, and a
thread with two of its dialogs. The pages of a team are those of ``turntree serve``, as an admin of
a workspace without turns sees them. Then messages are sent, and threads are opened in the same
sizes: one without turns, one where a message begins a fork, one whose answer is being written while
two messages wait, one whose message failed, and one where nothing can answer. On each, axe-core
finds no violation of WCAG 2.2 AA or of its best practices, and nothing scrolls sideways. The
pictures are compared with those in ``proofs/pictures``: pixel by pixel where Chromium has the
recorded major version, else by where elements are.

The quick form opens each route once, in three sizes and both themes, and compares where elements
are: it holds on machines that draw letters differently. ``--accept`` takes new pictures, and with
``--only graph,welcome`` those of some routes. Look at each of them before it is committed.
"""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, Page

import turntree
from proofs.browser import Theme, Watched, browser_major, chromium, entered
from proofs.figures import Proof, run
from proofs.stopped_ui import NOW_MS
from proofs.ui_world import RunningUi, UiWorld, ui_world
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, actions
from turntree.core.canonical import Json
from turntree.core.ids import instant
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.demo.planting import plant_demo
from turntree.server.access.session_cookie import cookie_name
from turntree.testing.fakes import FakeClock

ROOT = Path(__file__).parent.parent
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(__file__).parent / "pictures"
RECORD = PICTURES / "recorded.json"
FOLDER = Path("/tmp/turntree-ui-look")  # noqa: S108 - the same path in every picture that shows one.
PORT = 18_733
TEAM_PORT = 18_744
TEAM = "team"
HOUR_MS = 3_600_000
SESSION = "demo/shop/discount"
FORK = "demo/shop/discount-other-way"
ERASED = "notes/password"
EMPTY, ANSWERING, FAILED, UNWIRED = (f"notes/{name}" for name in ("new", "plan", "refused", "mute"))
TALK = "invoices"
STOPPED_S = 290
"""How long the reply pauses in the middle of its words: longer than this takes."""
ANSWER = (
    "The cart rounds each line, and the invoice rounds their sum once. With three lines of a third "
    "of a penny the two differ by one. I would round once, at the end, and keep exact"
)
SCRIPT: dict[str, Json] = {
    "provider_type": "scripted",
    "models": ["claude-sonnet-4-5"],
    "rules": [
        {"when": "refuse", "replies": [{"failures": [{"kind": "denied"}]}]},
        {"when": "", "replies": [
            {"reasoning": "Two places round.", "text": "I look for where it is rounded.",
             "tools": [{"tool": "Grep", "args": {"pattern": "round", "path": "src"},
                        "call_id": "call_1"}]},
            {"text": f"{ANSWER} pennies until then.", "failures": [
                {"kind": "rate_limited", "after_words": 37, "retry_after_s": STOPPED_S}]},
        ]},
    ],
}  # fmt: skip
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDTHS = {390: 844, 1024: 768, 1440: 900, 2560: 1440}
WIDE = 2560
WIDE_ROUTES = ("canopy", "thread")
SIZES: tuple[tuple[Theme, int], ...] = tuple(
    (theme, width) for theme in THEMES for width in WIDTHS if width != WIDE
)
QUICK_SIZES: tuple[tuple[Theme, int], ...] = (("light", 1440), ("dark", 390), ("light", 1024))
LAST_TO_COME = {
    "canopy": ".canopy-head dd >> text=$",
    "graph": ".graph-row .graph-text",
    "thread": "article .turn-acts",
    "turn": "article .turn-acts",
    "compare": "article",
    "search": ".hit",
    "sessions": ".session",
    "costs": ".cost-table td",
    "erased": "article .turn-acts",
    "revert": "dialog[open] .act-files",
    "share": "dialog[open] .act-removed",
    "team": ".state .command",
    "members": ".team-roles dd",
    "invitations": ".team-ended",
    "keys": ".team-ended",
    "account": ".team-roles .command",
    "new": ".composer-model",
    "fork": "main:has(article .turn-acts) .composer-fork",
    "answering": ".live-text >> text=keep exact",
    "failed": ".composer-end",
    "mute": ".composer-cannot .command",
    "conversations": ".talk-row",
    "notices": ".notice",
    "talk": ".talk-thinking >> text=thinking",
}
"""What a route shows last. A server that has just started can take longer for it than a page that
loads is silent: the canopy asks for costs only after its picture."""
DIALOGS = {"revert": "v", "share": "s"}
"""Routes that are looked at with a dialog open, and the key that opens it."""
BESIDE_EACH_OTHER = 3
"""Pages that are open at once: two processors draw no more in the same time."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
PIXELS_MAX = 0.5
"""Percent of the pixels that may differ: canvases and text are drawn by many threads."""
CHANNEL_MAX = 24
"""A pixel is another one if a channel differs by more than this, of 255."""
BOX_PX = 8
BOXES_MAX = 5.0
RUN_AXE = """tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})
  .then(found => found.violations.flatMap(rule => rule.nodes.map(
    node => `${rule.id}: ${node.target.join(' ')} ${node.html.slice(0, 160)}`)))"""
SIDEWAYS = """() => document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth"""
BOXES = """() => [...document.querySelectorAll('h1, h2, h3, nav, main, aside, header, button, a')]
  .map(e => [e.tagName, e.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0 && box.height > 0 && box.top < innerHeight)
  .map(([tag, box]) => [tag, box.x, box.y, box.width, box.height].map(
    one => typeof one === 'number' ? Math.round(one) : one))"""
DIFFER = """async ([one, other, limit]) => {
  const read = async text => {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await read(one), await read(other)];
  if (a.width !== b.width || a.height !== b.height) return 100;
  let count = 0;
  for (let at = 0; at < a.data.length; at += 4) {
    for (let channel = 0; channel < 3; channel++) {
      if (Math.abs(a.data[at + channel] - b.data[at + channel]) > limit) { count++; break }
    }
  }
  return 400 * count / a.data.length;
}"""


@dataclass(frozen=True, slots=True)
class View:
    """A route, and how it is looked at."""

    name: str
    path: str
    theme: Theme
    width: int
    is_of_team: bool = False

    @property
    def key(self) -> str:
        """The name of its picture."""
        return f"{self.name}-{self.theme}-{self.width}"


@dataclass(slots=True)
class Verdicts:
    """What all views together showed."""

    violations: list[str]
    sideways: list[str]
    errors: list[str]
    foreign: list[str]
    changed: list[str]
    worst: float


async def prove(proof: Proof) -> None:
    """Take every figure."""
    major = await browser_major()
    recorded: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    is_same = recorded.get("chromium") == major and not proof.quick
    accepts = "accept" in proof.flags
    seen = Verdicts([], [], [], [], [], 0.0)
    boxes: dict[str, list[list[Any]]] = {}
    with ui_world(FOLDER) as world:
        await world.plant(partial(plant, folder=world.home / "demo"))
        cookie = await plant_team(world)
        with (
            world.serving(PORT, command=("-m", "proofs.stopped_ui", "ui")) as ui,
            serving_team(world) as team_url,
        ):
            doors = Doors(ui, team_url, cookie)
            quick = proof.quick and not accepts
            listed = list_views({**list_routes(ui), **TEAM_ROUTES}, quick=quick)
            views = [view for view in listed if proof.wants(view.key)]
            written = [
                view for view in list_views(list_written(ui), quick=quick) if proof.wants(view.key)
            ]
            async with chromium() as browser:
                blank = await (await browser.new_context()).new_page()
                looked = await look(browser, doors, views)
                if written:
                    # Only now: what was sent is in the pictures of everything else from here on.
                    await world.plant(send, FakeClock(8), is_searched=False)
                    looked += await look(browser, doors, written)
                for view, picture in looked:
                    boxes[view.key] = picture.boxes
                    seen.violations += [f"{view.key}: {one}" for one in picture.violations]
                    seen.sideways += [view.key] if picture.is_sideways else []
                    seen.errors += [f"{view.key}: {one}" for one in picture.errors]
                    seen.foreign += picture.foreign
                    if accepts:
                        (PICTURES / f"{view.key}.png").write_bytes(picture.png)
                    elif is_same:
                        await compare_pixels(blank, view, picture, seen)
                    else:
                        compare_boxes(view, picture, recorded.get("boxes", {}), seen)
    if accepts:
        boxes = {**recorded.get("boxes", {}), **boxes}
        RECORD.write_text(json.dumps({"chromium": major, "boxes": boxes}, separators=(",", ":")))
    tell(proof, seen, len(views) + len(written), is_same=is_same or accepts)


async def plant(tree: Tree, folder: Path) -> None:
    """Write the sample data, and a session whose first turn was erased."""
    await plant_demo(tree, folder)
    query, reply = [user("My password is hunter2.")], [assistant("I have used it.")]
    turn = await tree.turns.record(ERASED, query, reply)
    await tree.turns.record(ERASED, [user("Forget it, please.")], [assistant("It is erased.")])
    for message in (0, 1):
        await tree.turns.erase(turn.turn.id, message, reason="a secret was pasted")
    await tree.programs.create("provider", "script", SCRIPT)
    model = {"model_id": "claude-sonnet-4-5", "provider": "script"}
    claude = await tree.programs.create("model", "claude", model)
    by, at = str(tree.turns.by), tree.turns.world.now()
    await tree.turns.marks.set_tag(claude.id, "default", on=True, by=by, at=at)


async def send(tree: Tree) -> None:
    """Send what is answered, refused and queued, and make a session that no provider answers."""
    await tree.sessions.create(EMPTY)
    unwired = await tree.programs.create("model", "unwired", {"model_id": "gpt-6"})
    await tree.programs.create("session", UNWIRED, {"default_model": unwired.address})
    await tree.turns.record(UNWIRED, [user("Which of the two rounds?")], [assistant("Both do.")])
    await tree.turns.record(FAILED, [user("What is due today?")], [assistant("Two reviews.")])
    await tree.runs.post(FAILED, "Please refuse this one.")
    for words in (
        "Why do the cart and the invoice differ by a penny?",
        "Then write the test for it.",
        "And tell Ana when it is green.",
    ):
        await tree.runs.post(ANSWERING, words)


async def plant_team(world: UiWorld) -> tuple[str, str]:
    """Write a workspace with people, invitations and keys; return the cookie of its admin."""
    clock = FakeClock(8)
    clock.ms = NOW_MS - HOUR_MS
    settings = replace(world.settings, workspace=TEAM, user="ana")
    async with turntree.open(settings, world=clock) as tree:
        await tree.members.store.ensure(at=clock.now())
        await tree.members.add("bo", "member")
        await tree.members.add("carl@example.org", "guest")
        until = instant(NOW_MS + 30 * 24 * HOUR_MS)
        await tree.invitations.create("dee", expires_at=until)
        ended, _ = await tree.invitations.create("eve@example.org", "guest", expires_at=until)
        await tree.invitations.revoke(ended.id)
        reading = Permissions(actions("read"))
        await tree.keys.create("nightly report", expires_at=until, scopes=reading)
        await tree.keys.create("laptop", expires_at=until)
        lost, _ = await tree.keys.create("old laptop", expires_at=until)
        await tree.keys.revoke(lost.id, reason="lost on a train")
        ana = Principal("human", "ana")
        begin = partial(tree.login_sessions.begin, ana, method="invitation")
        await begin(verified_at=clock.now())
        _, code = await begin(verified_at=clock.now())
        await talk(tree)
    return cookie_name("login", f"127.0.0.1:{TEAM_PORT}", TEAM), code


async def talk(tree: Tree) -> None:
    """Let people and agents talk, and leave one of them at work."""
    bo = tree.act_as(ExecutionContext.begin(Principal("human", "bo")))
    await tree.programs.create("provider", "script", SCRIPT)
    model = {"model_id": "claude-sonnet-4-5", "provider": "script"}
    await tree.programs.create("model", "claude", model)
    for name in ("Atlas", "Planner"):
        agent: dict[str, Json] = {"default_model": "@(claude)", "name": name}
        await tree.programs.create("agent", name.lower(), agent)
    said = tree.conversations.post
    about = "Why the cart and the invoice differ"
    await tree.conversations.create(TALK, title=about, participants=["bo", "planner"])
    await said(
        TALK, "Since Tuesday the cart and the invoice differ by a cent. Does someone know why?"
    )
    await bo.conversations.post(TALK, "I saw it in `total.ts`. @[Ana](user:ana) shall I change it?")
    secret = await said(TALK, "My password is hunter2.")
    await tree.conversations.erase(TALK, secret.seq, reason="a secret was pasted")
    await said(TALK, "> I saw it in `total.ts`\n\n@[Carl](user:carl@example.org) wrote that.")
    await bo.conversations.post(TALK, "@[Atlas](agent:atlas) where do we **round**?")
    # Opening the conversation reads it: the inbox must not depend on which page is opened first.
    await tree.inbox.read()
    await tree.conversations.create("depot", title="Where the depot moves", visibility="public")
    await bo.conversations.post("depot", "@[Ana](user:ana), have you heard?")


@contextmanager
def serving_team(world: UiWorld) -> Generator[str, None, None]:
    """Lend a server for the team, and say where its page is; it is stopped afterwards."""
    environment = {**world.environment, "TURNTREE_WORKSPACE": TEAM}
    words = ("serve", "--no-worker", "--json", "--port", str(TEAM_PORT))
    with subprocess.Popen(
        [sys.executable, "-m", "proofs.stopped_ui", *words],
        cwd=world.work, env=environment, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None, "its output is piped"
        try:
            if not process.stdout.readline():
                raise RuntimeError("the server for the team did not start")
            yield f"http://127.0.0.1:{TEAM_PORT}/w/{TEAM}/"
        finally:
            process.terminate()


@dataclass(frozen=True, slots=True)
class Doors:
    """The two servers, and how a browser gets in."""

    ui: RunningUi
    team_url: str
    cookie: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Picture:
    """What one view looks like, and what was found in it."""

    png: bytes
    boxes: list[list[Any]]
    violations: list[str]
    is_sideways: bool
    errors: list[str]
    foreign: list[str]


def tell(proof: Proof, seen: Verdicts, views: int, *, is_same: bool) -> None:
    """Show the figures."""
    for line in (*seen.violations[:40], *seen.sideways, *seen.errors[:20], *seen.changed):
        print(line, file=sys.stderr)
    proof.note("views: a route, a theme and a width", views, "views")
    proof.at_most("violations that axe-core finds", len(seen.violations), "violations", 0)
    proof.at_most("views that scroll sideways", len(seen.sideways), "views", 0)
    proof.at_most("errors in the console", len(seen.errors), "errors", 0)
    proof.at_most("requests to other machines", len(seen.foreign), "requests", 0)
    what = "pixels" if is_same else "elements"
    proof.at_most(f"views whose {what} are not where they were", len(seen.changed), "views", 0)
    proof.note(f"{what} that differ, in the worst view", seen.worst, "%")


def list_views(routes: Mapping[str, str], *, quick: bool) -> Iterator[View]:
    """Yield every view; the quick form takes each route once, and every width and theme."""
    for place, (name, path) in enumerate(routes.items()):
        sizes = QUICK_SIZES[place % len(QUICK_SIZES) :][:1] if quick else SIZES
        if name in WIDE_ROUTES and not quick:
            sizes = (*sizes, ("light", WIDE))
        for theme, width in sizes:
            yield View(name, path, theme, width, name in TEAM_ROUTES)


def list_routes(ui: RunningUi) -> Mapping[str, str]:
    """Return the routes, with a session of the sample data that was forked and changed files."""
    _, second, third, *_ = ui.world.documents("log", SESSION, "--json")
    session, fork = quote(SESSION, safe=""), quote(FORK, safe="")
    return {
        "canopy": "/",
        "graph": "/graph",
        "thread": f"/s/{session}",
        "turn": f"/t/{second['id']}",
        "compare": f"/compare/{session}...{fork}",
        "search": "/search?q=password",
        "sessions": "/sessions",
        "costs": "/costs",
        "welcome": "/welcome",
        "erased": f"/s/{quote(ERASED, safe='')}",
        "revert": f"/s/{session}?turn={third['id']}",
        "share": f"/s/{session}?turn={third['id']}",
    }


TEAM_ROUTES: Mapping[str, str] = {
    "team": f"/w/{TEAM}/",
    **{
        name: f"/w/{TEAM}/{name}"
        for name in ("members", "invitations", "keys", "account", "conversations")
    },
    "notices": f"/w/{TEAM}/inbox?view=all",
    "talk": f"/w/{TEAM}/c/{TALK}",
}


def list_written(ui: RunningUi) -> Mapping[str, str]:
    """Return the routes of threads that are written to, and of one where a fork would begin."""
    _, second, *_ = ui.world.documents("log", SESSION, "--json")
    return {
        "fork": f"/t/{second['id']}",
        "new": f"/s/{quote(EMPTY, safe='')}",
        "answering": f"/s/{quote(ANSWERING, safe='')}",
        "failed": f"/s/{quote(FAILED, safe='')}",
        "mute": f"/s/{quote(UNWIRED, safe='')}",
    }


async def look(browser: Browser, doors: Doors, views: list[View]) -> list[tuple[View, Picture]]:
    """Return each view with its picture; a few sizes are looked at beside each other."""
    by_size: dict[tuple[Theme, int, bool], list[View]] = {}
    for view in views:
        by_size.setdefault((view.theme, view.width, view.is_of_team), []).append(view)
    turns = asyncio.Semaphore(BESIDE_EACH_OTHER)

    async def look_in_turn(views: list[View]) -> list[tuple[View, Picture]]:
        async with turns:
            if views[0].is_of_team:
                return await look_at_size(browser, doors.team_url, views, doors.cookie)
            return await look_at_size(browser, await asyncio.to_thread(doors.ui.new_url), views)

    seen = await asyncio.gather(*(look_in_turn(alike) for alike in by_size.values()))
    return [one for group in seen for one in group]


async def look_at_size(
    browser: Browser, url: str, views: list[View], cookie: tuple[str, str] | None = None
) -> list[tuple[View, Picture]]:
    """Return the views of one theme and width, in one page."""
    theme, width = views[0].theme, views[0].width
    async with entered(
        browser, url, width=width, height=WIDTHS[width], theme=theme, now_ms=NOW_MS, cookie=cookie
    ) as watched:
        pictures: list[tuple[View, Picture]] = []
        for view in views:
            watched.errors.clear()
            await watched.go(view.path)
            if view.name in DIALOGS:
                await watched.page.keyboard.press(DIALOGS[view.name])
            if view.name == "fork":
                # Where nothing was typed, nothing tells the command that sends it.
                await watched.page.locator(".composer textarea").fill("Round once, at the end.")
            if view.name in LAST_TO_COME:
                # A narrow page holds some of it without showing it.
                last = watched.page.locator(LAST_TO_COME[view.name]).first
                await last.wait_for(state="attached")
                await watched.quiet()
            pictures.append((view, await take(watched)))
        return pictures


async def take(watched: Watched) -> Picture:
    """Return what the page looks like now, and what axe-core finds in it."""
    page = watched.page
    # Evaluated as the developer tools do: the policy of the page stays as it is.
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    violations: list[str] = await page.evaluate(RUN_AXE, RULES)
    png = await page.screenshot(animations="disabled", caret="hide")
    return Picture(
        png,
        await page.evaluate(BOXES),
        violations,
        bool(await page.evaluate(SIDEWAYS)),
        list(watched.errors),
        list(watched.foreign),
    )


async def compare_pixels(blank: Page, view: View, picture: Picture, seen: Verdicts) -> None:
    """Compare a picture with the committed one, in the browser that drew it."""
    path = PICTURES / f"{view.key}.png"
    if not path.exists():
        seen.changed.append(f"{view.key}: there is no picture of it")
        return
    texts = [base64.b64encode(one).decode() for one in (picture.png, path.read_bytes())]
    share: float = await blank.evaluate(DIFFER, [*texts, CHANNEL_MAX])
    seen.worst = max(seen.worst, share)
    if share > PIXELS_MAX:
        seen.changed.append(f"{view.key}: {share:.2f} % of its pixels")


def compare_boxes(
    view: View, picture: Picture, recorded: Mapping[str, list[list[Any]]], seen: Verdicts
) -> None:
    """Compare where elements are: another Chromium draws letters a little differently."""
    before = recorded.get(view.key, [])
    moved = abs(len(before) - len(picture.boxes)) + sum(
        one[0] != other[0]
        or any(abs(a - b) > BOX_PX for a, b in zip(one[1:], other[1:], strict=True))
        for one, other in zip(before, picture.boxes, strict=False)
    )
    share = 100 * moved / max(len(before), 1)
    seen.worst = max(seen.worst, share)
    if share > BOXES_MAX:
        seen.changed.append(f"{view.key}: {share:.1f} % of its elements")


if __name__ == "__main__":
    run(prove, __doc__ or "", {"accept": "take new pictures, to be looked at before a commit"})
