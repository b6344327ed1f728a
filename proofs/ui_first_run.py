"""The claim: from an empty page to your own history, found, forked and rewound, in one sitting.

A home with transcripts of three tools, `turntree ui`, and a real Chromium in which everything is
done with the pointer and the keyboard: open the address, import by a click, search for a
half-sentence, open the hit, fork it, go back in a session whose turns changed files, undo, and
continue in three other tools. Afterwards the files are equal to what they were, byte by byte; no
request left the machine, and the console is empty.

In full the built wheel runs in a fresh environment, nothing there can reach Node, and the sample
data is looked at first. ``--quick`` takes the environment at hand and fewer turns.
"""

import asyncio
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

from playwright.async_api import Page

import turntree
from proofs.browser import Watched, entered, is_built
from proofs.corpus import Corpus
from proofs.figures import Proof, run
from proofs.sample_home import REMEMBERED, write_sample_home
from proofs.transcripts.codex import Rollout
from proofs.transcripts.gemini import META, Chat
from proofs.ui_world import UiWorld, ui_world
from turntree.core.ids import uuid7
from turntree.core.message import assistant, user
from turntree.system.clock import SystemClock

ROOT = Path(__file__).parent.parent
FIRST_HIT_S_MAX = 3.0
IMPORT_S_MAX = 120
TOOLS = 3
OTHERS = ("Codex", "opencode", "Gemini CLI")
"""Where a thread is continued."""
BEGAN_MS = 1_780_000_000_000
EDITS = (
    {"menu.txt": "quince jam\n", "prices.txt": "9\n"},
    {"prices.txt": "12\n", "notes/stock.txt": "three jars\n"},
    {"menu.txt": "quince jam, plum jam\n", "prices.txt": "14\n"},
)
"""What each turn writes."""
Contents = dict[str, bytes]


async def prove(proof: Proof) -> None:
    """Furnish a home, and sit down before it."""
    began = time.monotonic()
    if not is_built():
        print("the page is not built: run `just web`", file=sys.stderr)
        proof.at_least("pages that are built", 0, "pages", 1)
        return
    with ui_world() as world:
        proof.note("turns written", write_transcripts(world.person, proof), "turns")
        program = None
        if not proof.quick:
            program = await asyncio.to_thread(install, world.folder)
            found = shutil.which("node", path=str(program.parent))
            proof.at_most("programs called node in reach", found is not None, "programs", 0)
        async with (
            world.opened_page(program=program) as (ui, browser),
            entered(browser, ui.url) as seen,
        ):
            await sit_down(proof, world, seen)
    proof.note("all of it", time.monotonic() - began, "s")


def write_transcripts(home: Path, proof: Proof) -> int:
    """Leave sessions of three tools in a home, as the tools do; return the number of turns."""
    sessions, turns = (6, 10) if proof.quick else (70, 20)
    write_sample_home(home, Corpus(proof.seed), sessions, turns)
    others, length = (2, 12) if proof.quick else (15, 20)
    for number in range(others):
        began = BEGAN_MS + number * 40_000_000
        rollout = Rollout(uuid7(began, number + 100), clock=began)
        chat = Chat()
        session = uuid7(began, number + 500)
        chat.lines[0] = {**META, "sessionId": session}
        chat.clock = began
        for turn in range(length):
            rollout.exchange(f"What is on shelf {number}.{turn}?", f"Jars, {turn} of them.")
            chat.ask(f"u{number}-{turn}", f"Which of the {turn} orders is late?")
            chat.answer(f"g{number}-{turn}", f"The one of shelf {number}.")
        rollout.write(home / ".codex")
        chat.write(home / ".gemini", f"session-2026-06-{number + 1:02d}T05-31-{session}.jsonl")
    return sessions * turns + 2 * others * length


def install(folder: Path) -> Path:
    """Build the wheel, install it into a fresh environment, return its command."""
    wheels, fresh = folder / "dist", folder / "venv"
    subprocess.run(["uv", "build", "--wheel", "--quiet", "--out-dir", wheels, ROOT], check=True)
    (wheel,) = wheels.glob("turntree-*.whl")
    venv.create(fresh)
    python = fresh / "bin" / "python"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, wheel], check=True)
    return fresh / "bin" / "turntree"


async def sit_down(proof: Proof, world: UiWorld, seen: Watched) -> None:
    """Do everything that a newcomer would, in one page."""
    page = seen.page
    await page.get_by_role("link", name="See what is on this machine").click()
    await page.get_by_role("button", name="Import everything").wait_for()
    if not proof.quick:
        await look_at_sample(proof, page)
    found = await page.get_by_role("checkbox").count()
    proof.at_least("tools found", found, "tools", TOOLS)
    began = time.monotonic()
    await page.get_by_role("button", name="Import everything").click()
    search = page.get_by_role("link", name="Search for something you remember")
    await search.wait_for(timeout=IMPORT_S_MAX * 1000)
    imported = time.monotonic()
    proof.note("the import", imported - began, "s")
    await search.click()
    await page.get_by_role("searchbox").fill(REMEMBERED)
    hit = page.locator("main ol a").filter(has_text="Northgate").first
    await hit.wait_for()
    took = time.monotonic() - imported
    proof.at_most(
        "from the end of the import to the first hit", took, "s", FIRST_HIT_S_MAX, of="time"
    )
    await hit.click()
    await page.locator(".turn").get_by_text("Northgate").first.wait_for()
    await fork(proof, page)
    await rewind(proof, world, page)
    await continue_elsewhere(proof, world, page)
    for error in seen.errors:
        print(error, file=sys.stderr)
    proof.at_most("console errors", len(seen.errors), "errors", 0)
    proof.at_most("requests to other machines", len(seen.foreign), "requests", 0)


async def look_at_sample(proof: Proof, page: Page) -> None:
    """Look at the sample data, and come back to what was found."""
    await page.get_by_role("button", name="Look around in sample data").click()
    note = page.get_by_text("This is sample data")
    await note.wait_for(timeout=IMPORT_S_MAX * 1000)
    await page.locator(".recent a").first.wait_for()
    shown = await page.locator(".recent a").count()
    proof.at_least("sessions of the sample data that are listed", shown, "sessions", 1)
    await page.get_by_role("button", name="Back to my own history").click()
    await note.wait_for(state="detached")
    await page.get_by_role("button", name="Import everything").wait_for()


async def continue_elsewhere(proof: Proof, world: UiWorld, page: Page) -> None:
    """Write the session for other tools, and see that each has a new file and a command."""
    ready = 0
    for name in OTHERS:
        before = read_folder(world.person).keys()
        ways = page.get_by_role("region", name="Go on from here")
        await ways.get_by_role("button", name=name).click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name=f"Continue in {name}").click()
        await dialog.get_by_role("heading", name=f"Ready in {name}").wait_for()
        command = await dialog.locator(".command code").first.inner_text()
        await dialog.get_by_role("button", name="Done").click()
        await dialog.wait_for(state="detached")
        written = read_folder(world.person).keys() - before
        print(f"{name}: {command} ({len(written)} files)", file=sys.stderr)
        ready += name.split()[0].lower() in command and len(written) > 0
    proof.at_least("other tools that have the session", ready, "tools", len(OTHERS))


async def fork(proof: Proof, page: Page) -> None:
    """Fork the turn that was found, and open the fork."""
    await page.keyboard.press("f")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("rounding-again")
    await dialog.get_by_role("button", name="Fork", exact=True).click()
    await page.get_by_role("link", name="Open it").click()
    await page.wait_for_url("**/s/rounding-again*")
    await page.locator(".turn").get_by_text("Northgate").first.wait_for()
    proof.at_least("forks that were opened", 1, "forks", 1)


async def rewind(proof: Proof, world: UiWorld, page: Page) -> None:
    """Go back to the first turn of a session with files, and undo it."""
    folder = world.work / "shop"
    await asyncio.to_thread(folder.mkdir)
    states = await work(world, folder)
    (folder / "mine.txt").write_bytes(b"not a turn's\n")
    present = read_folder(folder)
    await page.goto(page.url.split("/s/")[0] + "/s/shop")
    first = page.locator(".turn").filter(has_text="Write the menu").first
    await first.wait_for()
    await first.click()
    await page.keyboard.press("Home")
    await page.keyboard.press("r")
    await page.get_by_role("dialog").get_by_role("button", name="Go back with files").click()
    done = page.get_by_role("region", name="What was done")
    await done.get_by_role("button", name="Undo").wait_for()
    proof.at_most(
        "files that are not as the turn left them",
        count_different(read_folder(folder), {**states[0], "mine.txt": present["mine.txt"]}),
        "files",
        0,
    )
    await done.get_by_role("button", name="Undo").click()
    await done.get_by_role("button", name="Do it again").wait_for()
    different = count_different(read_folder(folder), present)
    proof.at_most("files that differ after the undo", different, "files", 0)


async def work(world: UiWorld, folder: Path) -> list[Contents]:
    """Record turns that change files, as hooks do; return what each left."""
    states: list[Contents] = []
    clock = SystemClock()
    async with turntree.open(world.settings) as tree:
        await tree.sessions.create("shop")
        resource = await tree.resources.ensure_directory(str(folder), "shop")
        keeper = tree.resources.keeper_of(resource)
        for number, edits in enumerate(EDITS):
            began, before = clock.now(), await asyncio.to_thread(keeper.snapshot, resource.place)
            for name, text in edits.items():
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            after = await asyncio.to_thread(keeper.snapshot, resource.place)
            asked = "Write the menu" if number == 0 else f"Change the prices, {number}"
            placed = await tree.turns.record("shop", [user(asked)], [assistant("It is written.")])
            await tree.resources.pin(placed.turn.id, resource, before, after, began, clock.now())
            states.append(read_folder(folder))
    return states


def read_folder(folder: Path) -> Contents:
    """Return the bytes of every file."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".turntree" not in path.parts
    }


def count_different(here: Contents, there: Contents) -> int:
    """Count the files that two folders do not have alike."""
    names = [name for name in here.keys() | there.keys() if here.get(name) != there.get(name)]
    for name in names:
        print(f"{name}: {here.get(name)!r} is not {there.get(name)!r}", file=sys.stderr)
    return len(names)


if __name__ == "__main__":
    run(prove, __doc__ or "")
