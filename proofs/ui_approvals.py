"""The claim: what waits for a person is decided on the page, with the keyboard alone, once.

    python -m proofs.ui_approvals [--quick]

Another coding agent asks about a command, a change of a file and a call with other arguments. The
inbox shows each by its kind, with who asks, why and until when. One is approved, one approved with
another command, one refused with a reason; each with keys. A request that comes while the page is
open appears by itself, and one that was decided elsewhere meanwhile says who did, and changes
nothing. What the database has afterwards is what was typed. In each state axe-core looks for
violations, also at 390 px and in the dark, and the focus is never lost. Then a run of our own waits
below its thread, where one of its calls is allowed and one refused; the model reads the refusal.

The whole form plants a fault in the page's requests, to see that it would be found.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page, Request, Route, expect

import turntree
from proofs.browser import entered, settle
from proofs.figures import Proof, run
from proofs.ui_conversations import Sights
from proofs.ui_keys import Hands
from proofs.ui_world import UiWorld, ui_world
from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.message import ToolResult
from turntree.hooks.judge_files import JudgeFiles
from turntree.policy.approval import Approval, ForeignCall
from turntree.system.clock import SystemClock

PICTURES: Final = Path("/tmp/turntree-ui-approvals")  # noqa: S108 - to be looked at.
COMMAND: Final = "rm -rf build && npm run build"
EDITED: Final = "npm run build"
REASON: Final = "write it to another file"
CALLS: Final[tuple[tuple[str, Mapping[str, Json]], ...]] = (
    ("Bash", {"command": COMMAND, "description": "Build it anew"}),
    ("Edit", {"file_path": "src/cart/total.ts",
              "old_string": "export function sum() {\n  return Math.round(lines);\n}\n",
              "new_string": "export function sum() {\n  const exact = lines;\n"
                            "  return Math.round(exact);\n}\n"}),
    ("mcp__mail__send", {"to": "team@example.net", "subject": "The build", "urgent": True}),
    ("Bash", {"command": "git push origin main"}),
)  # fmt: skip
SESSION: Final = "keeper:shop"
POLICY: Final = """'Ask about each call.'


def decide(request):
    return {"decision": "ask", "reason": "it looks into what others said"}

TESTS = [{"request": {"tool": "ledger.search"}, "decision": "ask"}]
"""
SCRIPT: Final[dict[str, Json]] = {
    "provider_type": "scripted",
    "rules": [{"when": "", "replies": [
        {"text": "I look for it.", "tools": [
            {"tool": "ledger.search", "args": {"query": "depot"}, "call_id": "call_1"},
            {"tool": "ledger.search", "args": {"query": "harbour"}, "call_id": "call_2"},
        ]},
        {"text": "That is all I found."},
    ]}],
}  # fmt: skip
LATE: Final[tuple[str, Mapping[str, Json]]] = ("Bash", {"command": "npm publish"})
WAIT_MS: Final = 30_000


async def prove(proof: Proof) -> None:
    """Take every figure."""
    expect.set_options(timeout=WAIT_MS)
    with ui_world() as world:
        await world.plant(partial(plant, world.home), SystemClock(), is_searched=False)
        async with world.opened_page() as (ui, browser):
            began = time.monotonic()
            hands: Hands
            sights = Sights()
            async with entered(browser, ui.url, path="/inbox") as watched:
                hands = Hands(watched.page)
                await decide(proof, world, hands, sights)
                await decide_in_thread(proof, world, hands, sights)
            async with entered(
                browser, ui.new_url(), path="/inbox", width=390, height=844, theme="dark"
            ) as phone:
                await expect(phone.page.locator(".ask-card")).to_be_visible()
                await sights.look(phone.page, "a phone, in the dark")
                await picture(phone.page, "phone-dark")
            # The browser's console tells of the answer that came too late.
            errors = [
                one
                for one in (*watched.errors, *phone.errors)
                if not ("422" in one and one.endswith("/approve)"))
            ]
            if not proof.quick:
                async with entered(browser, ui.new_url(), path="/inbox") as other:
                    await plant_fault(proof, world, other.page)
    for line in (*hands.losses, *hands.nameless, *sights.violations, *sights.sideways, *errors):
        print(line, file=sys.stderr)
    proof.note("looks for the focus", hands.looks, "looks")
    proof.at_most("times the focus was lost", len(hands.losses), "times", 0)
    proof.at_most("elements without a name", len(hands.nameless), "elements", 0)
    proof.at_least("states that axe-core looked at", len(sights.states), "states", 5)
    proof.at_most("violations in them", len(sights.violations), "violations", 0)
    proof.at_most("states that scroll sideways", len(sights.sideways), "states", 0)
    proof.at_most("errors of the page", len(errors), "errors", 0)
    proof.note("with the page", time.monotonic() - began, "s")


async def plant(home: Path, tree: Tree) -> None:
    """Ask about calls, in an order that the page keeps."""
    for number, (tool, args) in enumerate(CALLS):
        asked = await ask(tree, tool, args, f"call-{number}")
        # As the judge of the hooks has it, which asked.
        JudgeFiles(home).note_request(
            {
                "id": asked.id,
                "origin": asked.origin,
                "tool": tool,
                "args": args,
                "key": f"call-{number}",
                "args_digest": asked.args_digest,
                "at": asked.created_at,
                "session": "none",
                "answerers": [],
                "ledger_id": asked.id,
                "reason": asked.reason,
                "cwd": asked.folder,
            }
        )
    await tree.programs.create("provider", "script", SCRIPT)
    await tree.programs.create("model", "keen", {"model_id": "scripted-1", "provider": "@(script)"})
    keeper: dict[str, Json] = {
        "default_model": "@(keen)", "functions": ["ledger.search"],
        "permissions": {"allow": ["tool:ledger.search", "action:read"]},
    }  # fmt: skip
    await tree.programs.create("agent", "keeper", keeper)
    proposed = await tree.policies.propose(POLICY)
    await tree.policies.activate(proposed.number)


async def ask(tree: Tree, tool: str, args: Mapping[str, Json], key: str) -> Approval:
    """Ask a person about a call, as the hooks of a coding agent do."""
    return await tree.approvals.request_foreign(
        ForeignCall(
            "claude-code",
            tool,
            args,
            key,
            folder="/home/ana/shop",
            line=4,
            reason="it leaves the folder of the project",
        )
    )


async def decide(proof: Proof, world: UiWorld, hands: Hands, sights: Sights) -> None:
    """Decide one after the other with keys, and compare with what the database has."""
    page = hands.page
    card, rows = page.locator(".ask-card"), page.locator(".waiting-list button")
    await expect(rows).to_have_count(len(CALLS))
    shown = [await is_shown(card, COMMAND, "Asked because", "leaves the folder", "waits until")]
    await sights.look(page, "a command")
    await picture(page, "command")
    await hands.press("Tab", "j")
    await hands.check_names()

    # Edited: the command that runs is another one.
    await hands.press("e")
    await expect(card.locator("textarea")).to_be_focused()
    await sights.look(page, "a command that is edited")
    await hands.press("Control+a")
    await page.keyboard.type(EDITED)
    await hands.press("Control+Enter")
    await expect(rows).to_have_count(len(CALLS) - 1)
    await expect(page.get_by_role("status").filter(has_text="with changes")).to_be_visible()

    # Approved: the change of a file, shown line by line.
    shown.append(await is_shown(card, "src/cart/total.ts", "const exact = lines;"))
    await sights.look(page, "a change of a file")
    await picture(page, "change")
    await seen()
    await hands.press("a")
    await expect(rows).to_have_count(len(CALLS) - 2)

    # Refused, with a reason.
    shown.append(await is_shown(card, "mcp__mail__send", "team@example.net"))
    await sights.look(page, "a call with other arguments")
    await hands.press("x")
    await expect(card.locator("textarea")).to_be_focused()
    await sights.look(page, "a refusal")
    await hands.press("Escape", "x")
    await page.keyboard.type(REASON)
    await hands.press("Control+Enter")
    await expect(rows).to_have_count(len(CALLS) - 3)

    async with turntree.open(world.settings) as tree:
        last = (await tree.approvals.list_waiting())[0]
        # Decided elsewhere, in the moment in which the page is about to: it has not heard of it.
        await page.route("**/api/v1/approvals?*", _hold)
        await tree.approvals.reject(last.id, note="not today")
        await seen()
        await hands.press("a")
        await expect(page.get_by_role("status").filter(has_text="already said no")).to_be_visible()
        await page.unroute_all(behavior="ignoreErrors")
        await picture(page, "late")
        late = await ask(tree, *LATE, "late")
        came = page.locator(".waiting-line").filter(has_text="npm publish")
        await expect(came).to_be_visible()
        found = {one.id: one for one in await tree.approvals.list_all()}
    await hands.press("j")
    by_tool = sorted(found.values(), key=lambda one: one.created_at)[: len(CALLS)]
    expected = [
        ("edited", {**CALLS[0][1], "command": EDITED}, None), ("approved", None, None),
        ("rejected", None, REASON), ("rejected", None, "not today"),
    ]  # fmt: skip
    equal = sum(
        (one.state, one.answer, one.note) == wanted
        for one, wanted in zip(by_tool, expected, strict=True)
    )
    proof.at_least("requests shown by their kind, with why", sum(shown), "of 3", 3)
    proof.at_least("decisions in the database as they were typed", equal, "of 4", 4)
    told = [JudgeFiles(world.home).find_decided(one.id) for one in by_tool[:3]]
    states = [None if one is None else one["state"] for one in told]
    proof.at_least("of them told to the judge of the hooks at once",
                   states.count("edited") + states.count("approved") + states.count("rejected"),
                   "of 3", 3)  # fmt: skip
    proof.at_least("requests that came by themselves", int(late.id in found), "of 1", 1)


async def decide_in_thread(proof: Proof, world: UiWorld, hands: Hands, sights: Sights) -> None:
    """Decide below the thread in which a run waits, and read how it goes on."""
    page = hands.page
    async with turntree.open(world.settings) as tree:
        posted = await tree.runs.post(SESSION, "Where is the depot?")
        card = page.locator("article.live .ask-card")
        await page.goto(f"{page.url.partition('/inbox')[0]}/s/{SESSION}")
        await expect(card).to_have_count(2)
        await expect(card.first).to_contain_text("looks into what others said")
        await sights.look(page, "a thread that waits")
        await picture(page, "thread")
        await card.first.get_by_role("button", name="Approve once").focus()
        await hands.press("Enter")
        await expect(card).to_have_count(1)
        await card.first.get_by_role("button", name="Say no").focus()
        await hands.press("Enter")
        await page.keyboard.type("not now")
        await hands.press("Control+Enter")
        await expect(page.locator("main article").last).to_contain_text("That is all I found")
        turn = await tree.runs.wait(posted.run, timeout_s=WAIT_MS / 1000)
        found = await tree.approvals.of_run(posted.run)
    states = {call: one.state for call, one in found.items()}
    proof.at_least(
        "calls of a run decided in its thread",
        int(states == {"call_1": "used", "call_2": "rejected"}) * 2,
        "of 2",
        2,
    )
    parts = [part for message in turn.turn.reply for part in message.parts]
    results = [str(part.output) for part in parts if isinstance(part, ToolResult)]
    proof.at_least("refusals that the model read", sum("not now" in one for one in results),
                   "of 1", 1)  # fmt: skip


async def plant_fault(proof: Proof, world: UiWorld, page: Page) -> None:
    """Let the page approve what the person refuses; the database tells."""

    async def betray(route: Route, request: Request) -> None:
        await route.continue_(url=request.url.replace("/reject", "/approve"))

    await page.route("**/reject", betray)
    await expect(page.locator(".ask-card")).to_be_visible()
    await page.keyboard.press("x")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("status").filter(has_text="You said no")).to_be_visible()
    async with turntree.open(world.settings) as tree:
        newest = (await tree.approvals.list_all(limit=1))[0]
    proof.at_least("planted faults found", int(newest.state != "rejected"), "of 1", 1)


async def _hold(_: Route) -> None:
    """Answer nothing, so that the page keeps what it has."""


async def is_shown(card: Any, *words: str) -> bool:
    """Return whether a request has words, once it is shown."""
    for one in words:
        await expect(card).to_contain_text(one)
    return True


async def seen() -> None:
    """Wait until a key may decide what is shown: a person reads it first."""
    await asyncio.sleep(0.5)


async def picture(page: Page, name: str) -> None:
    """Keep a picture to look at."""
    await settle(page)
    PICTURES.mkdir(exist_ok=True)
    await page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    run(prove, __doc__ or "")
