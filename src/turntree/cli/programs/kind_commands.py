"""Commands that only one kind of program has: an agent is assigned, a person approves.

Each is an invocation under a name of its own.
"""

from collections.abc import Mapping
from typing import Any, Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, table
from turntree.cli.param_types import PROGRAM, SESSION
from turntree.cli.programs.assign import assign
from turntree.cli.programs.connector import accept_tools, list_tools
from turntree.cli.programs.program import invoke_program, move_program
from turntree.core.canonical import Json
from turntree.core.program import name_in
from turntree.programs.lifecycles import DELETED
from turntree.programs.model_choice import Choice, choose_model


def _call(
    terminal: Terminal, name: str, message: str | None = None, /, **request: Json
) -> dict[str, Json]:
    return invoke_program(terminal, name, message, None, None, stream=False, **request)


def _note_absence(terminal: Terminal, name: str, result: Mapping[str, Json]) -> None:
    """Print that a person is away, so that the caller does not wait for a quick answer."""
    if "state" in result and not terminal.as_json:
        terminal.note(f"{clean(name_in(name))} is {result['state']}; it waits in their inbox")


@verb()
@click.argument("name", metavar="AGENT", type=PROGRAM)
def status(terminal: Terminal, name: str) -> None:
    """Show what an agent is doing: its state, its task, its session."""
    found = with_ledger(terminal, lambda opened: opened.tree.programs.get(name))
    if terminal.as_json:
        terminal.document({"agent": found.name, "state": found.state, **found.details})
        return
    rows = [("agent", clean(found.address)), ("state", found.state)]
    rows += [(clean(word), clean(str(value))) for word, value in found.details.items()]
    if "current_task" not in found.details:
        rows.append(("current_task", "none"))
    terminal.page(table(rows))


@verb()
@click.argument("name", metavar="AGENT", type=PROGRAM)
def delete(terminal: Terminal, name: str) -> None:
    """Delete an agent, as its owner: lists leave it out, and its turns stay."""
    move_program(terminal, name, DELETED)


@verb()
@click.argument("name", metavar="TASK", type=PROGRAM)
def start(terminal: Terminal, name: str) -> None:
    """Start a task."""
    _call(terminal, name, action="start")


@verb()
@click.argument("name", metavar="TASK", type=PROGRAM)
def report(terminal: Terminal, name: str) -> None:
    """Check a task's criteria, print the results, and complete it if all are met."""
    _call(terminal, name, action="report")


@verb()
@click.argument("name", metavar="TASK", type=PROGRAM)
def complete(terminal: Terminal, name: str) -> None:
    """Complete a task; refused while one of its criteria is not met."""
    _call(terminal, name, action="complete")


@verb()
@click.argument("name", metavar="TASK", type=PROGRAM)
@click.option("--reason", default="", help="Reason.")
def fail(terminal: Terminal, name: str, reason: str) -> None:
    """Fail a task that cannot be done."""
    _call(terminal, name, action="fail", reason=reason)


@verb()
@click.argument("name", metavar="INFORMATION", type=PROGRAM)
def validate(terminal: Terminal, name: str) -> None:
    """Validate a fact against its schema; a valid draft becomes validated."""
    _call(terminal, name)


@verb()
@click.argument("name", metavar="HUMAN", type=PROGRAM)
@click.argument("text")
def notify(terminal: Terminal, name: str, text: str) -> None:
    """Put a message into a person's inbox, which their status shows."""
    _note_absence(terminal, name, _call(terminal, name, text))


@verb("read")
@click.argument("name", metavar="HUMAN", type=PROGRAM)
def read_inbox(terminal: Terminal, name: str) -> None:
    """Show the messages of a person's inbox and empty it, as that person."""
    _call(terminal, name, read=True)


@verb()
@click.argument("name", metavar="HUMAN", type=PROGRAM)
@click.argument("what")
def ask(terminal: Terminal, name: str, what: str) -> None:
    """Ask a person for approval."""
    _note_absence(terminal, name, _call(terminal, name, ask=what))
    if not terminal.as_json:
        terminal.note(f"answered with: turntree human approve {name_in(name)} REQUEST, or reject")


@verb()
@click.argument("name", metavar="HUMAN", type=PROGRAM)
@click.argument("request")
def approve(terminal: Terminal, name: str, request: str) -> None:
    """Approve a request, as that person."""
    _call(terminal, name, decide=request, approve=True)


@verb()
@click.argument("name", metavar="HUMAN", type=PROGRAM)
@click.argument("request")
def reject(terminal: Terminal, name: str, request: str) -> None:
    """Reject a request, as that person."""
    _call(terminal, name, decide=request, approve=False)


@verb()
@click.argument("name", metavar="[MODEL]", required=False, type=PROGRAM)
@click.option("--session", type=SESSION, help="Session in which it would be asked.")
@click.option("--agent", type=PROGRAM, help="Agent that would ask it.")
@click.option("--situation", help="Situation to apply.")
def resolve(
    terminal: Terminal,
    name: str | None,
    session: str | None,
    agent: str | None,
    situation: str | None,
) -> None:
    """Show which model would reply with which parameters, and where each value comes from."""
    turn: dict[str, Json] = {} if name is None else {"model": name}

    async def act(opened: CliContext) -> Choice:
        return await choose_model(
            opened.tree.programs, turn=turn, session=session, agent=agent, situation=situation
        )

    choice = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.document(choice.to_json())
        return
    rows: list[tuple[Any, ...]] = [
        (clean(member), clean(str(chosen.value)), chosen.level, clean(chosen.address or ""))
        for member, chosen in choice.values.items()
    ]
    terminal.page(table(rows))


VERBS: Final[Mapping[str, tuple[click.Command, ...]]] = {
    "connector": (list_tools, accept_tools),
    "model": (resolve,),
    "agent": (assign, status, delete),
    "task": (start, report, complete, fail),
    "information": (validate,),
    "human": (notify, read_inbox, ask, approve, reject),
}
