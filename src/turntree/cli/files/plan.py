"""``plan``: list unfinished forks and moves with files, and complete them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.progress import spinner
from turntree.cli.output.text import age, clean, table
from turntree.core.ids import Timestamp, instant
from turntree.resources.plans.plan import PlanState
from turntree.resources.plans.saga import PlanOutcome
from turntree.resources.plans.steps import (
    CreateForkSession,
    ForkResource,
    MoveHead,
    RecordMerge,
    RestoreResource,
    Step,
    TakeSnapshot,
)

PLANS_DEFAULT = 20


@click.group()
def plan() -> None:
    """List and resume forks and moves with files that did not finish.

    A plan is completed as a whole or rolled back. If its process died, the next command that
    touches the same files completes it or rolls it back, and so do `turntree on` and
    `turntree plan resume`.
    """


@verb("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Finished plans too.")
@click.option("-n", "limit", metavar="N", type=click.IntRange(1, 1000), default=PLANS_DEFAULT,
              show_default=True, help="Maximum number of plans with --all.")  # fmt: skip
def list_(terminal: Terminal, everything: bool, limit: int) -> None:
    """List unfinished plans."""
    found, now = with_ledger(terminal, partial(_read, everything=everything, limit=limit))
    if terminal.as_json:
        terminal.documents(_document(state) for state in found)
    elif found:
        terminal.page(table(_row(state, now) for state in found))
        if any(state.end is None for state in found):
            terminal.note("next: turntree plan resume")
    else:
        terminal.note("nothing was left unfinished.")
        terminal.note(
            "next: turntree fork REV LABEL --plan     turntree rewind REV --files --dry-run"
        )


async def _read(
    opened: CliContext, *, everything: bool, limit: int
) -> tuple[list[PlanState], Timestamp]:
    tree = opened.tree
    found = await (tree.plans.list_newest(limit) if everything else tree.plans.list_open())
    return found, opened.now


@verb()
def resume(terminal: Terminal) -> None:
    """Complete unfinished plans, or roll them back."""

    async def act(opened: CliContext) -> list[PlanOutcome]:
        return await opened.tree.plans.reconcile()

    with spinner(terminal, "reconciling"):
        outcomes = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(_outcome_document(outcome) for outcome in outcomes)
        return
    for outcome in outcomes:
        ended = "finished" if outcome.end == "completed" else "taken back"
        terminal.say(f"{outcome.plan.id}  {outcome.plan.kind}  {ended}")
        for path in outcome.left:
            terminal.note(f"  left as it is, because it was changed meanwhile: {clean(path)}")
    if not outcomes:
        terminal.note("nothing was left unfinished.")


def _row(state: PlanState, now: Timestamp) -> tuple[str, ...]:
    started = age(_started(state), now)
    done = f"{len(state.observed)} of {len(state.plan.steps)} steps"
    ended = {"completed": "done", "rolled_back": "taken back", None: "unfinished"}[state.end]
    return (state.plan.id, state.plan.kind, ended, done, clean(state.plan.by), started)


def _started(state: PlanState) -> Timestamp:
    # A plan's id is created with the plan, and an id begins with its time.
    return instant(int(state.plan.id.replace("-", "")[:12], 16))


def _document(state: PlanState) -> dict[str, Any]:
    return {
        "plan": state.plan.id,
        "kind": state.plan.kind,
        "host": state.plan.host,
        "by": state.plan.by,
        "started_at": _started(state),
        "outcome": state.end,
        "error": state.error,
        "steps": list(_steps(state)),
    }


def _steps(state: PlanState) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(state.plan.steps):
        seen = state.observed.get(number)
        yield {
            "action": _name(step),
            "location": step.site.place
            if isinstance(step, TakeSnapshot | ForkResource | RestoreResource)
            else None,
            "begun": number in state.begun or seen is not None,
            "outcome": None if seen is None else seen.answer,
            "taken_back": number in state.undone,
        }


def _name(step: Step) -> str:
    match step:
        case TakeSnapshot():
            return "snapshot"
        case ForkResource():
            return "fork"
        case RestoreResource():
            return "restore"
        case CreateForkSession():
            return "create_session"
        case MoveHead():
            return "move_session"
        case RecordMerge():
            return "record_merge"


def _outcome_document(outcome: PlanOutcome) -> dict[str, Any]:
    return {
        "plan": outcome.plan.id,
        "kind": outcome.plan.kind,
        "outcome": outcome.end,
        "error": outcome.error,
        "left": list(outcome.left),
    }


for command in (list_, resume):
    plan.add_command(command)
