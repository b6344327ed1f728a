"""``connector tools`` and ``connector accept``: what a server offers, and what a person accepts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import with_ledger
from turntree.cli.output.text import clean, counted, table
from turntree.cli.param_types import PROGRAM
from turntree.core.program import name_in

if TYPE_CHECKING:
    from turntree.tools.mcp.description import ListedTool


@verb("tools")
@click.argument("name", metavar="CONNECTOR", type=PROGRAM)
def list_tools(terminal: Terminal, name: str) -> None:
    """Ask a connector's server for its tools, and compare them with what was accepted."""
    tools = with_ledger(terminal, lambda opened: opened.tree.connectors.list_tools(name))
    _show(terminal, name, tools)


@verb("accept")
@click.argument("name", metavar="CONNECTOR", type=PROGRAM)
@click.argument("tools", metavar="[TOOL]...", nargs=-1)
def accept_tools(terminal: Terminal, name: str, tools: tuple[str, ...]) -> None:
    """Accept tools as the server describes them now: those named, or all."""
    listed = with_ledger(terminal, lambda opened: opened.tree.connectors.accept(name, tools))
    _show(terminal, name, listed)


def _show(terminal: Terminal, name: str, tools: "Sequence[ListedTool]") -> None:
    if terminal.as_json:
        terminal.document({"connector": name_in(name), "tools": [_document(one) for one in tools]})
        return
    rows = [
        (
            clean(one.offered_as),
            one.state,
            "undeclared" if one.effects is None else ", ".join(one.effects) or "none",
            clean(_first_line(one.description)),
        )
        for one in tools
    ]
    terminal.page(table(rows) if rows else ["the server has no tools."])
    for one in tools:
        if one.state == "changed":
            terminal.note(f"when it was accepted, {clean(one.name)} was described as:")
            terminal.note(f"  {clean(_first_line(one.accepted_description or ''))}")
    waiting = [one for one in tools if one.state in ("new", "changed")]
    if waiting:
        terminal.note(f"{counted(len(waiting), 'tool')} not offered to agents until you accept")
        terminal.note(f"next: turntree connector accept {clean(name_in(name))}")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _document(tool: "ListedTool") -> dict[str, Any]:
    return {
        "name": tool.name,
        "offered_as": tool.offered_as,
        "state": tool.state,
        "effects": None if tool.effects is None else [*tool.effects],
        "description": tool.description,
        "accepted_description": tool.accepted_description,
    }
