"""The claim: what the page shows cannot act, and no other site can use its server.

200 texts that try to run, to load or to look like a part of the page are recorded as messages,
reasoning, tool calls, results, titles and paths, beside labels and addresses that try the same. A
real Chromium opens every page that shows them: nothing may run, no request may leave this machine,
no text may have become an element, and no link may have another scheme than the web's.

Then the server is attacked, by raw requests and by pages of another site in the same browser: a
rebound name, foreign forms, frames, scripts, missing secrets. Each attack is refused, and succeeds
once its defence is taken away: a defence that could go unnoticed would be none.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, Error

import turntree
from proofs.browser import Watched, chromium, entered, settle
from proofs.figures import Proof, run
from proofs.hostile_texts import ADDRESSES, EVIL, LABELS, LONG_CHARS, hostile_texts
from proofs.ui_world import RunningUi, UiWorld, ui_world
from proofs.weakened import SLOW_S, HarmfulSite, WeakenedServer, harmful_site, weakened
from turntree.api import Tree
from turntree.core.errors import InvalidOperation, InvalidRevision
from turntree.core.message import Reasoning, ToolResult, ToolUse, assistant, tool, user
from turntree.testing.fakes import FakeClock

WITH_FILES = "hostile/files"
TEXTS_PER_TURN = 10
POSTS_PER_TALK = 40
"""No more than a page of a conversation shows at first."""
TALKS = 5
LABELLED = "<b class=hostile>\u202eAtlas</b>"
TOOLS = ("Read", "Edit", "Bash", "Grep", "Task", "<b class=hostile>tool</b>")
TEXT_S_MAX = 20.0
DOM_CHARS_MAX = 2_000_000
VISIT_S = 1.0
"""How long an attack waits for a visit of the harmful site."""
LOOK = """() => {
  const links = [...document.querySelectorAll('a[href], area[href]')];
  const made = document.querySelectorAll(
    '[class~=hostile], [id^=hostile], [name^=hostile], iframe, object, embed, base, form[action]');
  const named = links.filter(a => {
    const text = a.textContent.trim();
    if (!/^https?:\\/\\//.test(text)) return false;
    try { return !text.includes(new URL(a.href).host) } catch { return false }
  });
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let loose = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!/[\\u202a-\\u202e\\u2066-\\u2069]/.test(node.data)) continue;
    let at = node.parentElement, isolated = false;
    while (at && at !== document.body && !isolated) {
      const style = getComputedStyle(at);
      isolated = /isolate|plaintext/.test(style.unicodeBidi)
        || (!style.display.startsWith('inline') && at.childElementCount === 0);
      at = at.parentElement;
    }
    if (!isolated) loose++;
  }
  return {
    made: [...made].map(e => e.outerHTML.slice(0, 120)),
    schemes: links.map(a => a.protocol).filter(p => !['http:', 'https:', 'mailto:'].includes(p)),
    leaky: links.filter(a => a.origin !== location.origin && a.protocol !== 'mailto:'
      && !/noreferrer/.test(a.rel)).map(a => a.outerHTML.slice(0, 120)),
    pictures: [...document.images].map(i => i.currentSrc || i.src)
      .filter(s => s && !s.startsWith(location.origin) && !/^(data|blob):/.test(s)),
    named: named.map(a => a.outerHTML.slice(0, 120)),
    loose,
    chars: document.body.innerText.length,
  };
}"""


UNFOLD = """() => {
  const folded = [...document.querySelectorAll('main details:not([open]) > summary')];
  for (const summary of folded) summary.click();
  return folded.length;
}"""


async def prove(proof: Proof) -> None:
    """Take every figure."""
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    with ui_world() as world:
        async with harmful_site() as site, chromium(rules) as browser:
            if proof.begins("texts"):
                await show_texts(proof, world, site, browser)
            if proof.begins("attacks"):
                await attack(proof, world, site, browser)


async def show_texts(proof: Proof, world: UiWorld, site: HarmfulSite, browser: Browser) -> None:
    """Record the texts, open every page that shows one, and look at what became of them."""
    # Every third is another trick each time, because their number is no multiple of three.
    texts = list(hostile_texts(site.port))[:: 3 if proof.quick else 1]
    labels: list[str] = []
    folder = world.person / "shop"
    folder.mkdir()

    async def record(tree: Tree) -> None:
        await plant(tree, texts, labels)
        await plant_talk(tree, texts)
        await plant_files(tree, folder, texts)

    await world.plant(record, FakeClock(3, tick_ms=60_000))
    proof.note("hostile texts recorded", len(texts), "texts")
    calls: list[object] = []
    seen = Findings()
    with world.serving() as ui:
        async with entered(browser, ui.url) as watched:
            # By the context, so that a script in a frame would be heard as well.
            await watched.page.context.expose_function("pwned", lambda *given: calls.append(given))
            for path in paths_to_look_at(labels, quick=proof.quick):
                await look(watched, ui, path, seen)
            for key in ("v", "r"):
                await look(watched, ui, f"/s/{quote(WITH_FILES, safe='')}", seen, key)
            rows = await watched.page.locator("dialog[open] .act-files li").count()
            foreign, dialogs = watched.foreign, watched.dialogs
            errors = [one for one in watched.errors if "Content Security Policy" in one]
        complaints = ui.log()
    for line in [*seen.report(), *errors[:5], complaints[-1000:]]:
        if line:
            print(line, file=sys.stderr)
    proof.note("pages opened", seen.pages, "pages")
    proof.at_least("hostile texts that pages showed", seen.shown(texts), "texts", len(texts) * 0.8)
    proof.at_least("files with hostile names in the plan of a move", rows, "files", len(texts) / 2)
    proof.at_most("scripts of texts that ran", len(calls), "scripts", 0)
    proof.at_most("dialogs of texts that opened", len(dialogs), "dialogs", 0)
    proof.at_most("requests to other machines", len(foreign), "requests", 0)
    proof.at_most("visits of the harmful site", len(site.visits), "visits", 0)
    proof.at_most("what the policy of the page had to stop", len(errors), "attempts", 0)
    proof.at_most("elements that texts made", len(seen.made), "elements", 0)
    proof.at_most("links with another scheme than the web's", len(seen.schemes), "links", 0)
    proof.at_most("links that tell where they come from", len(seen.leaky), "links", 0)
    proof.at_most("links that name another host than they open", len(seen.named), "links", 0)
    proof.at_most("pictures of other machines", len(seen.pictures), "pictures", 0)
    proof.at_most("texts that can reorder what is beside them", seen.loose, "texts", 0)
    proof.at_most("characters of one page, beside 10 MB lines", seen.chars, "chars", DOM_CHARS_MAX)
    proof.at_most("pages that did not open", len(seen.failed), "pages", 0)


@dataclass(slots=True)
class Findings:
    """What was seen on all pages."""

    pages: int
    made: list[str]
    schemes: list[str]
    leaky: list[str]
    named: list[str]
    pictures: list[str]
    failed: list[str]
    loose: int
    chars: int
    text: list[str]

    def __init__(self) -> None:
        """Nothing yet."""
        self.pages = self.loose = self.chars = 0
        self.made, self.schemes, self.leaky, self.named = [], [], [], []
        self.pictures, self.failed, self.text = [], [], []

    def report(self) -> list[str]:
        """Return some of what should not be there."""
        groups = (self.made, self.schemes, self.leaky, self.named, self.pictures, self.failed)
        return [line for group in groups for line in group[:5]]

    def shown(self, texts: Sequence[str]) -> int:
        """Return how many texts some page showed, judged by a piece of each."""
        whole = "".join("".join(self.text).split())
        return sum(any(piece in whole for piece in pieces_of(text)) for text in texts)


def pieces_of(text: str) -> list[str]:
    """Return pieces of a text that stay together when Markdown has been read, without blanks."""
    words = ["".join(word.split()) for word in text.replace("](", " ").replace("`", " ").split()]
    return [word.strip("[]()*#|>-") for word in words if len(word.strip("[]()*#|>-")) > 5] or [
        "".join(text.split())[:20]
    ]


async def plant(tree: Tree, texts: Sequence[str], labels: list[str]) -> None:
    """Record the texts in every place that a page shows."""
    for start in range(0, len(texts), TEXTS_PER_TURN):
        label = f"hostile/{start // TEXTS_PER_TURN:02d}"
        labels.append(label)
        for number, text in enumerate(texts[start : start + TEXTS_PER_TURN], start):
            use = ToolUse(
                f"call_{number}",
                TOOLS[number % len(TOOLS)],
                {"file_path": text[:2000], "command": text[:2000], "description": text[:500]},
            )
            asked = replace(
                user(text), context={"files": [{"kind": "written", "path": text[:500]}]}
            )
            await tree.turns.record(
                label,
                [asked],
                [
                    assistant(Reasoning(text), text, use),
                    tool(ToolResult(use.call_id, "error" if number % 3 else "ok", text)),
                    assistant(text),
                ],
                model=text[:60].replace("\n", " ") or "model",
            )
    long = "x" * LONG_CHARS
    await tree.turns.record("hostile/long", [user(long)], [assistant(long)])
    labels.append("hostile/long")
    for label in LABELS:
        with contextlib.suppress(InvalidRevision):
            await tree.turns.record(label, [user(label)], [assistant(label)])
            labels.append(label)


async def plant_talk(tree: Tree, texts: Sequence[str]) -> None:
    """Say the texts in conversations that have them as titles, with an agent of such a name."""
    await tree.programs.create("agent", "hostile-agent", {"name": LABELLED})
    for number, start in enumerate(range(0, len(texts), POSTS_PER_TALK)):
        name, said = f"hostile-{number}", texts[start : start + POSTS_PER_TALK]
        title = " ".join(said[0].split())[:200] or name
        await tree.conversations.create(name, title=title, participants=["agent:hostile-agent"])
        for text in said:
            with contextlib.suppress(InvalidOperation):
                await tree.conversations.post(name, text)


async def plant_files(tree: Tree, folder: Path, texts: Sequence[str]) -> None:
    """Take two turns: one writes files that are named by the texts, the next one changes some."""
    await tree.sessions.get_or_create(WITH_FILES)
    resource = await tree.resources.ensure_directory(str(folder), WITH_FILES)
    keeper, clock = tree.resources.keeper_of(resource), tree.revisions.world
    names = list(dict.fromkeys(filter(None, map(_file_name, texts))))
    for words, content in (("write them", "one\n"), ("change them", "two\n")):
        began, before = clock.now(), keeper.snapshot(resource.place)
        for name in names:
            (folder / name).write_text(content)
        after = keeper.snapshot(resource.place)
        placed = await tree.turns.record(WITH_FILES, [user(words)], [assistant("done")])
        await tree.resources.pin(placed.turn.id, resource, before, after, began, clock.now())


def _file_name(text: str) -> str:
    """Return a text as the name of a file: without slashes, and no longer than a name can be."""
    plain = text.replace("/", "\u2215").replace("\0", "").encode("utf-8", "ignore")[:200]
    return plain.decode("utf-8", "ignore").strip(".")


def paths_to_look_at(labels: Sequence[str], *, quick: bool) -> list[str]:
    """Return every page that shows a text, and addresses that are hostile themselves."""
    pages = ["/", "/graph", "/sessions", "/costs", "/search?q=hostile", "/search?q=pwned"]
    threads = [f"/s/{quote(label, safe='')}" for label in labels]
    talks = ["/conversations", *(f"/c/hostile-{number}" for number in range(TALKS))]
    pair = "hostile%2F00...hostile%2F01"
    if quick:
        hostile = [one for one in threads if "hostile%2F" in one]
        return [*pages[:3], *talks[:2], *hostile, f"/compare/{pair}", *ADDRESSES[:2]]
    return [*pages, *talks, *threads, f"/compare/{pair}", *ADDRESSES]


async def look(
    watched: Watched, ui: RunningUi, path: str, seen: Findings, key: str | None = None
) -> None:
    """Open a page, let it show everything it folds away, and note what became of the texts.

    With a key, the dialog that it opens is looked at too.
    """
    page = watched.page
    try:
        await page.goto(f"{ui.origin}{path}", timeout=TEXT_S_MAX * 1000)
        await settle(page)
        if await page.evaluate(UNFOLD):
            await settle(page)
        if key is not None:
            await page.keyboard.press(key)
            await page.locator("dialog[open] .act-files").wait_for(timeout=TEXT_S_MAX * 1000)
            await settle(page)
        found: dict[str, Any] = await page.evaluate(LOOK)
        seen.text.append(await page.evaluate("document.body.innerText.slice(0, 400000)"))
    except Error as error:
        seen.failed.append(f"{path}: {error}")
        return
    seen.pages += 1
    seen.made += [f"{path}: {one}" for one in found["made"]]
    seen.schemes += [f"{path}: {one}" for one in found["schemes"]]
    seen.leaky += [f"{path}: {one}" for one in found["leaky"]]
    seen.named += [f"{path}: {one}" for one in found["named"]]
    seen.pictures += found["pictures"]
    seen.loose += found["loose"]
    seen.chars = max(seen.chars, found["chars"])


@dataclass(frozen=True, slots=True)
class Scene:
    """What an attack can use."""

    server: WeakenedServer
    site: HarmfulSite
    browser: Browser

    @property
    def cookie(self) -> str:
        """A cookie that the user's browser has."""
        cookie = self.server.keys.redeem_key(self.server.keys.issue_key())
        return f"{self.server.keys.cookie_name}={cookie}"

    async def send(
        self, path: str, *headers: str, method: str = "GET", body: bytes = b"", host: str = ""
    ) -> int:
        """Send a request as it is given, and return the status; 0 if none came in time."""
        host = host or f"127.0.0.1:{self.server.port}"
        lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", *headers]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        try:
            async with asyncio.timeout(SLOW_S * 4):
                first = await reader.readline()
        except (TimeoutError, ConnectionError):
            return 0
        finally:
            writer.close()
        return int(first.split()[1]) if first else 0

    async def exchange(self, key: str, *headers: str) -> int:
        """Exchange a key as our own page would, but with these headers."""
        body = json.dumps({"key": key}).encode()
        length = f"content-length: {len(body)}"
        path = "/api/v1/session-key"
        return await self.send(path, length, *headers, method="POST", body=body)

    @property
    def origin_header(self) -> str:
        """The header of a request of our own page."""
        return f"origin: {self.server.origin}"

    @contextlib.asynccontextmanager
    async def inside(self) -> Any:
        """Lend our page, entered."""
        async with entered(self.browser, self.server.url) as watched:
            yield watched.page

    @contextlib.asynccontextmanager
    async def outside(self, markup: str) -> Any:
        """Lend the harmful site's page in a browser that has our cookie."""
        async with entered(self.browser, self.server.url) as watched:
            self.site.page = f"<!doctype html><title>harm</title>{markup}"
            self.site.forget()
            page = await watched.page.context.new_page()
            await page.goto(f"http://{EVIL}:{self.site.port}/")
            yield page


Act = Callable[[Scene], Awaitable[bool]]
TRUSTED = frozenset({"require-trusted-types-for", "trusted-types"})


@dataclass(frozen=True, slots=True)
class Attack:
    """One way in, and the defence that closes it."""

    name: str
    defence: str
    act: Act
    """Whether it succeeded."""
    besides: frozenset[str] = frozenset()
    """Other defences that close the same way, and are taken away to see this one alone."""


async def rebind(scene: Scene) -> bool:
    """Ask by a name of another site that leads here, with the user's cookie."""
    host = f"{EVIL}:{scene.server.port}"
    return await scene.send("/api/v1/me", f"cookie: {scene.cookie}", host=host) == 200


async def ask_as_other_origin(scene: Scene) -> bool:
    """Ask as a script of another site does in a browser without fetch metadata."""
    headers = (f"cookie: {scene.cookie}", f"origin: http://{EVIL}")
    return await scene.send("/api/v1/me", *headers) == 200


async def ask_as_other_site(scene: Scene) -> bool:
    """Ask as a picture of another port of this machine does, which has the cookie."""
    headers = (f"cookie: {scene.cookie}", "sec-fetch-site: same-site", "sec-fetch-dest: image")
    return await scene.send("/api/v1/me", *headers) == 200


async def write_without_origin(scene: Scene) -> bool:
    """Write as a browser does that tells no origin."""
    media = "content-type: application/json"
    return await scene.exchange(scene.server.keys.issue_key(), media) == 204


async def write_as_form(scene: Scene) -> bool:
    """Write in a type that a form can send."""
    media = "content-type: text/plain"
    return await scene.exchange(scene.server.keys.issue_key(), scene.origin_header, media) == 204


async def ask_without_cookie(scene: Scene) -> bool:
    """Ask as a program of another user of this machine."""
    return await scene.send("/api/v1/me") == 200


async def use_key_twice(scene: Scene) -> bool:
    """Exchange the key that a terminal still shows."""
    key, media = scene.server.keys.issue_key(), "content-type: application/json"
    first = await scene.exchange(key, scene.origin_header, media)
    return first == 204 == await scene.exchange(key, scene.origin_header, media)


async def send_much(scene: Scene) -> bool:
    """Send 3 MB where a key is expected."""
    media = "content-type: application/json"
    return await scene.exchange("x" * 3_000_000, scene.origin_header, media) != 413


async def send_slowly(scene: Scene) -> bool:
    """Begin a body and never end it."""
    headers = ("content-length: 1000", "content-type: application/json", scene.origin_header)
    path = "/api/v1/session-key"
    return await scene.send(path, *headers, method="POST", body=b"{") != 408


async def read_cookie(scene: Scene) -> bool:
    """Read the cookie by a script of the page."""
    async with scene.inside() as page:
        return "turntree-" in await page.evaluate("document.cookie")


async def follow_link(scene: Scene) -> bool:
    """Have a link of another site followed to data, with the user's cookie."""
    async with scene.outside("") as page:
        scene.server.cookies.clear()
        await page.goto(f"http://{EVIL}:{scene.site.port}/")
        async with page.expect_navigation():
            await page.evaluate(f"location.href = '{scene.server.origin}/api/v1/me'")
        return any("turntree-" in cookie for cookie in scene.server.cookies)


def inside(script: str, path: str = "") -> Act:
    """Return an attack by a script in our page: it succeeds by returning true, or by a visit."""

    async def act(scene: Scene) -> bool:
        scene.site.forget()
        async with scene.inside() as page:
            evil = f"http://{EVIL}:{scene.site.port}"
            try:
                done = await page.evaluate(f"async evil => {{ {script} }}", evil)
            except Error:
                done = False
            return bool(done) or (bool(path) and await scene.site.wait_for(path, VISIT_S))

    return act


async def frame(scene: Scene) -> bool:
    """Show our page in a frame of another site."""
    async with scene.outside(f"<iframe src='{scene.server.origin}/'></iframe>") as page:
        await page.wait_for_load_state("load")
        # A frame that was refused shows an error of the browser, from another origin.
        return bool(page.frames[1].url.startswith(scene.server.origin))


async def embed(scene: Scene) -> bool:
    """Show a picture of ours on a page of another site."""
    async with scene.outside(f"<img src='{scene.server.origin}/icon.svg'>") as page:
        await page.wait_for_load_state("load")
        return bool(await page.evaluate("document.images[0].naturalWidth > 0"))


async def hold_window(scene: Scene) -> bool:
    """Keep a hand on a window of ours that another site opened."""
    async with scene.outside("<button>open</button>") as page:
        await page.evaluate(
            "at => document.querySelector('button').onclick = () => { window.held = open(at) }",
            f"{scene.server.origin}/",
        )
        async with page.context.expect_page() as opened:
            await page.click("button")
        window = await opened.value
        await window.wait_for_url(f"{scene.server.origin}/")
        await settle(window)
        return not await page.evaluate("window.held.closed")


async def read_referrer(scene: Scene) -> bool:
    """Learn from a followed link where the user was."""
    async with scene.inside() as page:
        scene.site.forget()
        await page.evaluate(f"location.href = 'http://{EVIL}:{scene.site.port}/referred'")
        await page.wait_for_url("**/referred")
    return any(path == "/referred" and referer for path, referer in scene.site.visits)


async def sniff(scene: Scene) -> bool:
    """Have a file without a type taken for what it looks like."""
    async with scene.inside() as page:
        answer = await page.request.get(f"{scene.server.origin}/icon.svg")
        return bool(answer.headers.get("x-content-type-options") != "nosniff")


INLINE_SCRIPT = """
  const made = document.createElement('script'); made.textContent = 'window.ran = true';
  document.body.append(made); return window.ran === true;"""
INLINE_STYLE = """
  const made = document.createElement('style'); made.textContent = 'body { --hostile: yes }';
  document.head.append(made);
  return getComputedStyle(document.body).getPropertyValue('--hostile') === 'yes';"""
PICTURE = "const made = new Image(); made.src = evil + '/picture'; document.body.append(made);"
FONT = "try { await new FontFace('x', `url(${evil}/font)`).load() } catch {}"
CONNECT = "try { await fetch(evil + '/connect') } catch {} "
WORKER = """
  const code = URL.createObjectURL(new Blob(['postMessage(1)'], {type: 'text/javascript'}));
  return await new Promise(done => {
    const worker = new Worker(code);
    worker.onmessage = () => done(true); worker.onerror = () => done(false);
    setTimeout(() => done(false), 2000);
  });"""
BASE = """
  const made = document.createElement('base'); made.href = evil; document.head.append(made);
  return document.baseURI.startsWith(evil);"""
FORM = """
  const made = document.createElement('form'); made.action = evil + '/form';
  document.body.append(made); made.submit();"""
VIDEO = "const made = document.createElement('video'); made.src = evil + '/video'; made.load();"
MARKUP = "document.createElement('div').innerHTML = '<b>x</b>'; return true;"
POLICY = "trustedTypes.createPolicy('evil', {createHTML: text => text}); return true;"
CAMERA = "return document.featurePolicy.allowsFeature('camera');"

ATTACKS: tuple[Attack, ...] = (
    Attack("a rebound name", "check_host", rebind),
    Attack("a script of another origin", "check_origin", ask_as_other_origin),
    Attack("a picture of another port", "check_fetch_site", ask_as_other_site),
    Attack("a write without an origin", "check_write", write_without_origin),
    Attack("a form of another site", "check_media", write_as_form),
    Attack("a program without the secret", "check_cookie", ask_without_cookie),
    Attack("a key that was used", "key once", use_key_twice),
    Attack("a body of 3 MB", "body size", send_much),
    Attack("a body that never ends", "body time", send_slowly),
    Attack("a script that reads the cookie", "HttpOnly", read_cookie),
    Attack(
        "a link of another site to data", "SameSite", follow_link, frozenset({"check_fetch_site"})
    ),
    Attack("inline script", "script-src", inside(INLINE_SCRIPT), TRUSTED),
    Attack("inline style", "style-src", inside(INLINE_STYLE)),
    Attack("a remote picture", "img-src", inside(PICTURE, "/picture")),
    Attack("a remote font", "font-src", inside(FONT, "/font")),
    Attack("a remote connection", "connect-src", inside(CONNECT, "/connect")),
    Attack("a worker made of text", "worker-src", inside(WORKER), TRUSTED),
    Attack("another base of links", "base-uri", inside(BASE)),
    Attack("a form to another site", "form-action", inside(FORM, "/form")),
    Attack("a remote video", "default-src", inside(VIDEO, "/video")),
    Attack("markup made of text", "require-trusted-types-for", inside(MARKUP)),
    Attack("a policy of one's own", "trusted-types", inside(POLICY)),
    Attack("a frame", "frame-ancestors", frame, frozenset({"check_fetch_site"})),
    Attack("a picture of ours elsewhere", "cross-origin-resource-policy", embed,
           frozenset({"check_fetch_site"})),
    Attack("a window that another site holds", "cross-origin-opener-policy", hold_window),
    Attack("the address in a referrer", "referrer-policy", read_referrer),
    Attack("a type that is guessed", "x-content-type-options", sniff),
    Attack("the camera", "permissions-policy", inside(CAMERA)),
)  # fmt: skip
QUICK = frozenset(
    {
        "check_host",
        "check_write",
        "check_cookie",
        "key once",
        "img-src",
        "require-trusted-types-for",
    }
)


async def attack(proof: Proof, world: UiWorld, site: HarmfulSite, browser: Browser) -> None:
    """Try every attack with all defences, then without the one that it names."""
    wanted = [one for one in ATTACKS if not proof.quick or one.defence in QUICK]
    succeeded: list[str] = []
    unnoticed: list[str] = []
    async with turntree.open(world.settings) as tree:
        for besides in sorted({one.besides for one in wanted}, key=sorted):
            async with weakened(tree, world.settings, besides) as server:
                scene = Scene(server, site, browser)
                alike = [one for one in wanted if one.besides == besides]
                succeeded += [one.name for one in alike if await one.act(scene)]
        for one in wanted:
            async with weakened(tree, world.settings, one.besides | {one.defence}) as server:
                if not await one.act(Scene(server, site, browser)):
                    unnoticed.append(one.defence)
    for line in (*succeeded, *unnoticed):
        print(line, file=sys.stderr)
    proof.note("attacks", len(wanted), "attacks")
    proof.at_most("attacks that succeeded", len(succeeded), "attacks", 0)
    proof.at_least("defences whose absence was noticed", len(wanted) - len(unnoticed), "defences",
                   len(wanted))  # fmt: skip


if __name__ == "__main__":
    run(prove, __doc__ or "")
