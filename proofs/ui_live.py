"""The claim: the open page shows what happens, as it happens.

Real Claude Code takes turns in a terminal, against a scripted model on loopback, and the page that
is open in a real Chromium has to show each within seconds. Eight tabs share one stream. Then a
reply is written word by word to `turntree send`, and another to a message that was typed on a page,
and the server is stopped and started again in the middle of both: what the pages show of the
replies has to be their beginning at every moment, and all of it once in the end. A program that
watches the elements of a page notes every state of the text. A second tab, and a page that is
loaded anew, show the words so far; what is sent meanwhile waits and is answered; Escape stops a
reply, which becomes a turn that was canceled.
"""

import asyncio
import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
from playwright.async_api import Browser, BrowserContext, Error, Page, expect

import turntree
from proofs.agents import claude
from proofs.agents.programs import NotInstalled, ensure_claude
from proofs.browser import Watched, entered, is_built, watch
from proofs.corpus import Corpus
from proofs.figures import Proof, run
from proofs.sample_home import write_sample_home
from proofs.ui_world import COMMAND, RunningUi, UiWorld, ui_world
from turntree.api import Tree
from turntree.boot.open import importing_on, load_importers
from turntree.core.canonical import Json
from turntree.system.clock import SystemClock
from turntree.testing.scripted.server import Reply, Rule, ScriptedModel
from turntree.transcripts.importer import ToolPaths

TABS = 8
TURN_S_MAX = 3.0
STOP_S_MAX = 2.0
WORDS = 60
WORDS_FULL = 150
WORD_S = 0.06
CLAUDE_S_MAX = 120
TALE = "tale"
TYPED = "typed"
STORY = "tell me a story"
AT_LENGTH = "tell me a story at length"
WORDS_AT_LENGTH = 2_000
"""More than are ever told: the reply is stopped."""
SHORTLY = "tell all tabs"
"""The beginning of messages whose answer is short."""
PATHS = ("/graph", "/sessions", "/search", "/costs", "/welcome", "/sessions", "/")
NO_SHARED_WORKER = "delete globalThis.SharedWorker"
NOTE_TEXTS = """() => {
  window.heard = [];
  const note = () => {
    const texts = [...document.querySelectorAll('.live-text')].map((one) => one.textContent);
    const last = window.heard.at(-1);
    if (texts.length && JSON.stringify(texts) !== JSON.stringify(last)) window.heard.push(texts);
    if (window.heard.length > 3) document.documentElement.dataset.heard = 'enough';
  };
  new MutationObserver(note).observe(document.body,
    { subtree: true, childList: true, characterData: true });
  note();
}"""


async def prove(proof: Proof) -> None:
    """Furnish a home, open the page, and let things happen."""
    began = time.monotonic()
    if not is_built():
        print("the page is not built: run `just web`", file=sys.stderr)
        proof.at_least("pages that are built", 0, "pages", 1)
        return
    with ui_world() as world, ScriptedModel(rules=_rules()) as model:
        write_sample_home(world.person, Corpus(1), 2, 3)
        words = WORDS if proof.quick else WORDS_FULL
        await world.plant(lambda tree: furnish(tree, world, words), SystemClock())
        async with (
            world.opened_page() as (ui, browser),
            entered(browser, ui.url) as seen,
        ):
            if proof.begins("terminal"):
                await show_turns(proof, world, model, seen)
            if proof.begins("tabs"):
                await show_tabs(proof, seen.page.context, ui, "shared worker")
                for page in seen.page.context.pages[1:]:
                    await page.close()
            if proof.begins("leader"):
                await show_leader(proof, browser, ui, seen)
            if proof.begins("restart"):
                await show_restart(proof, world, ui, seen)
            proof.at_most("console errors", _count_errors(seen), "errors", 0)
            proof.at_most("requests to other machines", len(seen.foreign), "requests", 0)
    proof.note("all of it", time.monotonic() - began, "s")


async def furnish(tree: Tree, world: UiWorld, words: int) -> None:
    """Import a little of Claude Code, which is followed from then on; make a model that talks."""
    importer = load_importers()["claude-code"]
    database: Any = tree._on.database  # noqa: SLF001 - the tree's own, as the command line has it.
    found = importer.discover(ToolPaths(world.person, {}))
    await importing_on(database, SystemClock()).run([(importer, one) for one in found])
    script: dict[str, Json] = {
        "provider_type": "scripted",
        "word_delay_s": WORD_S,
        "rules": [
            {"when": SHORTLY, "replies": [{"text": "Heard."}]},
            {"when": "at length", "replies": [{"text": _story(WORDS_AT_LENGTH)}]},
            {"when": "", "replies": [{"text": _story(words)}]},
        ],
    }
    await tree.programs.create("provider", "script", script)
    await tree.programs.create("model", "teller", {"modelId": "scripted-1", "provider": "script"})
    await tree.sessions.create(TALE)
    await tree.sessions.create(TYPED)


async def show_turns(proof: Proof, world: UiWorld, model: ScriptedModel, seen: Watched) -> None:
    """Measure how long after its end a turn of the terminal is on the page."""
    try:
        program = ensure_claude()
    except NotInstalled as error:
        print(error, file=sys.stderr)
        proof.at_least("agents that could be installed", 0, "agents", 1)
        return
    page = seen.page
    variables = claude.SCENE.settings(model.url)
    ended = await asyncio.to_thread(run_claude, world, program, variables, ["OPEN the quince shop"])
    await page.get_by_text("OPEN the quince shop").first.wait_for()
    took = time.monotonic() - ended
    proof.at_most("a new session is in the list", took, "s", TURN_S_MAX, of="time")
    await page.get_by_role("link", name="OPEN the quince shop").first.click()
    await page.get_by_text("The shop is open.").first.wait_for()
    words = ["--continue", "COUNT the quinces"]
    ended = await asyncio.to_thread(run_claude, world, program, variables, words)
    await page.get_by_text("There are nine.").first.wait_for()
    took = time.monotonic() - ended
    proof.at_most("the next turn is in the open thread", took, "s", TURN_S_MAX, of="time")


def run_claude(
    world: UiWorld, program: Path, variables: Mapping[str, str], words: list[str]
) -> float:
    """Have Claude Code take a turn in a terminal; return when it had ended."""
    environment = {
        **world.environment, **variables, "TERM": "xterm-256color",
        "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip
    environment.pop("PYTHONPATH")
    child = pexpect.spawn(
        str(program), ["-p", *words, "--allowedTools", claude.TOOLS], cwd=str(world.work),
        env=environment, timeout=CLAUDE_S_MAX, encoding="utf-8",
    )  # fmt: skip
    child.expect(pexpect.EOF)
    ended = time.monotonic()
    child.close()
    if child.exitstatus != 0:
        raise RuntimeError(f"Claude Code ended with {child.exitstatus}: {child.before}")
    return ended


async def show_tabs(
    proof: Proof, context: BrowserContext, ui: RunningUi, by: str, others: int = 0
) -> None:
    """Count the streams of eight tabs beside others, and see that all tabs hear of a turn."""
    tabs = [watch(await context.new_page()) for _ in range(TABS - 1)]
    for tab, path in zip(tabs, PATHS, strict=True):
        await tab.page.goto(f"{ui.origin}{path}")
        await tab.page.locator("main").wait_for()
    streams = await count_streams(context.pages[0]) - others
    proof.at_most(f"streams of eight tabs, by a {by}", streams, "streams", 1)
    words = f"{SHORTLY} by a {by}"
    await say(ui.world, words)
    heard = await count_hearing(context.pages, words)
    proof.at_least(f"tabs that heard of a turn, by a {by}", heard, "tabs", TABS)
    errors = sum(len(tab.errors) for tab in tabs)
    proof.at_most(f"console errors of the tabs, by a {by}", errors, "errors", 0)


async def show_leader(proof: Proof, browser: Browser, ui: RunningUi, seen: Watched) -> None:
    """Open eight tabs in a browser without shared workers, and close the one that leads."""
    others = await count_streams(seen.page)
    address = await asyncio.to_thread(ui.new_url)
    async with entered(browser, address, before=NO_SHARED_WORKER) as first:
        context = first.page.context
        await show_tabs(proof, context, ui, "leading tab", others)
        # The first tab asked first for the lock, so it leads.
        await first.page.close()
        words = f"{SHORTLY} without the first"
        await say(ui.world, words)
        heard = await count_hearing(context.pages, words)
        proof.at_least("tabs that heard of a turn without it", heard, "tabs", TABS - 1)
        streams = await count_streams(context.pages[0]) - others
        proof.at_most("streams of seven tabs without it", streams, "streams", 1)


async def say(world: UiWorld, words: str) -> None:
    """Send a message to a new session; the server's own worker answers."""
    async with turntree.open(world.settings) as tree:
        await tree.runs.post(words.replace(" ", "-"), words)


async def count_hearing(pages: Sequence[Page], words: str) -> int:
    """Return how many tabs come to list a turn."""

    async def hears(page: Page) -> bool:
        shown = page.locator(".recent").get_by_text(words).first
        with contextlib.suppress(Error):
            await shown.wait_for(state="attached")
            return True
        return False

    return sum(await asyncio.gather(*map(hears, pages)))


async def count_streams(page: Page) -> int:
    """Return how many streams the server has open."""
    # A client of our own is told how many listen, itself included.
    hello = await page.evaluate(
        """() => new Promise((done) => {
          const source = new EventSource('/api/v1/stream');
          source.addEventListener('hello', (message) => {
            source.close();
            done(JSON.parse(message.data));
          });
        })"""
    )
    return int(hello["clients"]) - 1


async def show_restart(proof: Proof, world: UiWorld, ui: RunningUi, seen: Watched) -> None:
    """Restart the server while replies are written, and hold every state of the pages against them.

    One is written to a command, and one to a message that is typed on a page.
    """
    story, page = _story(WORDS if proof.quick else WORDS_FULL), seen.page
    typed = watch(await page.context.new_page())
    for tab, session in ((page, TALE), (typed.page, TYPED)):
        await tab.goto(f"{ui.origin}/s/{session}")
        await tab.get_by_text("This session has no turns yet").wait_for()
        await tab.evaluate(NOTE_TEXTS)
    turntree = [sys.executable, "-c", COMMAND, "send", TALE, STORY]
    sending = await asyncio.create_subprocess_exec(
        *turntree, cwd=world.work, env=world.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        await page.locator("html[data-heard=enough]").wait_for()
        await write(typed.page, STORY)
        await typed.page.locator("html[data-heard=enough]").wait_for()
        began = time.monotonic()
        await asyncio.to_thread(ui.stop)
        proof.at_most("the server stops", time.monotonic() - began, "s", STOP_S_MAX, of="time")
        with world.serving(ui.port):
            said, _ = await sending.communicate()
            for tab, by in ((page, "command"), (typed.page, "page")):
                await tab.locator(".turn").get_by_text(story).first.wait_for()
                await tab.locator(".live-text").first.wait_for(state="detached")
                await judge(proof, tab, story, by)
            printed = said.decode().count(story)
            proof.at_least("replies that the command printed whole", printed, "replies", 1)
            await show_answers(proof, ui, typed.page)
            proof.at_most("console errors of its tab", _count_errors(typed), "errors", 0)
    finally:
        if sending.returncode is None:
            sending.kill()


async def write(page: Page, words: str) -> None:
    """Type a message as a person does who knows the keys, and send it."""
    field = page.locator(".composer textarea")
    await field.wait_for()
    await page.keyboard.press("m")
    await expect(field).to_be_focused()
    await page.keyboard.type(words)
    await expect(page.locator(".composer-send")).to_be_enabled()
    await page.keyboard.press("Enter")


async def show_answers(proof: Proof, ui: RunningUi, page: Page) -> None:
    """Write more: look at it from another tab and anew, send while it is answered, and stop it."""
    story, began = _story(WORDS_AT_LENGTH), time.monotonic()
    await write(page, AT_LENGTH)
    words, live = page.locator(".live-text"), page.locator(".turn.live")
    await words.wait_for()
    proof.at_most("first word after a message is sent", time.monotonic() - began, "s", TURN_S_MAX,
                  of="time")  # fmt: skip
    run = await live.get_attribute("data-run")
    other = await page.context.new_page()
    looks = [await _read_words(other, f"{ui.origin}/s/{TYPED}"), await _read_words(other, None)]
    shown = [one for one in looks if one and story.startswith(one)]
    proof.at_least("looks of another tab at the words so far, one anew", len(shown), "looks", 2)
    await page.keyboard.type("unsent", delay=0)
    await expect(page.locator(".composer-command")).to_contain_text("unsent")
    await page.keyboard.press("Control+a")
    await page.keyboard.type(f"{SHORTLY} in line")
    await page.keyboard.press("Enter")
    for tab in (page, other):
        await tab.locator(".composer-queue").get_by_text("in line").wait_for()
    await page.keyboard.press("Escape")
    await page.locator("article:not(.live)").get_by_text(f"{SHORTLY} in line").wait_for()
    await other.locator("article:not(.live)").get_by_text(f"{SHORTLY} in line").wait_for()
    ended = await (await page.request.get(f"{ui.origin}/api/v1/runs/{run}")).json()
    is_stopped = ended["outcome"] == "canceled"
    proof.at_least("replies that Escape stopped", int(is_stopped), "replies", 1)
    await other.close()


async def _read_words(page: Page, address: str | None) -> str:
    """Return the words in progress on a page that is opened, or loaded anew."""
    await (page.reload() if address is None else page.goto(address))
    words = page.locator(".live-text")
    await words.wait_for()
    return await words.inner_text()


async def judge(proof: Proof, page: Page, story: str, by: str) -> None:
    """Hold what a page showed against the reply to a message, which was sent by a command or it."""
    heard: list[list[str]] = await page.evaluate("window.heard")
    wrong = [texts for texts in heard if not story.startswith("".join(texts))]
    for texts in wrong[:3]:
        print(f"not a beginning of the reply: {texts}", file=sys.stderr)
    proof.note(f"states of the text, sent by a {by}", len(heard), "states")
    proof.at_most(f"no beginning of the reply, sent by a {by}", len(wrong), "states", 0)
    shown = await page.locator(".turn").last.inner_text()
    lost = [word for word in story.split() if word not in shown]
    proof.at_most(f"words lost, sent by a {by}", len(lost), "words", 0)
    doubled = [word for word in story.split() if shown.count(f"{word} ") > 1]
    proof.at_most(f"words doubled, sent by a {by}", len(doubled), "words", 0)


def _story(words: int) -> str:
    return " ".join(f"word{number:03d}x" for number in range(words))


def _count_errors(seen: Watched) -> int:
    """Count errors besides those of a server that was away on purpose."""
    errors = [error for error in seen.errors if "ERR_CONNECTION" not in error]
    for error in errors:
        print(error, file=sys.stderr)
    return len(errors)


def _rules() -> list[Rule]:
    return [
        Rule((Reply("The shop is open."),), prompt="OPEN", offers="Bash", name="open"),
        Rule((Reply("There are nine."),), prompt="COUNT", offers="Bash", name="count"),
        Rule((Reply("Scripted."),), name="plain"),
    ]


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        print("chromium is missing: apt-get install chromium", file=sys.stderr)
    run(prove, __doc__ or "")
