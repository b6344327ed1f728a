"""``tag find``: list turns and programs by their tags."""

from typing import Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, digits, table, title
from turntree.core.ids import ProgramId, TurnId
from turntree.core.program import Program, name_in
from turntree.core.thread import ThreadTurn
from turntree.core.value import value


@value
class ListedNode:
    """A turn or a program."""

    id: TurnId | ProgramId
    kind: str
    name: str
    """What people call it: a short digest, or an address."""
    title: str

    @classmethod
    def of_turn(cls, placed: ThreadTurn) -> "ListedNode":
        """Return a turn as a node."""
        turn = placed.turn
        return cls(turn.id, "turn", digits(turn.digest), title(turn)[:60])

    @classmethod
    def of_program(cls, program: Program) -> "ListedNode":
        """Return a program as a node."""
        said = program.config.get("title") or program.config.get("description") or ""
        return cls(program.id, program.kind, program.address, clean(str(said))[:60])


async def get_node(opened: CliContext, text: str) -> ListedNode:
    """Return the node that a text names: a program by name, or else a turn by revision.

    Raises:
        NotFound: It names nothing.
    """
    programs = opened.tree.programs
    if text.startswith("@("):
        return ListedNode.of_program(await programs.get(text))
    # Not by a session's label: `main` means the turn at its head.
    found = await programs.store.find(name_in(text), by=str(programs.by))
    if found is not None:
        return ListedNode.of_program(found)
    return ListedNode.of_turn(await opened.tree.turns.get(text))


@verb("find")
@click.option("--tag", "tags", multiple=True, help="Required tag; repeatable.")
@click.option("--kind", help="Kind to include: turn, or a kind of program.")
def find_nodes(terminal: Terminal, tags: tuple[str, ...], kind: str | None) -> None:
    """Find programs, and turns that have tags."""

    async def act(opened: CliContext) -> list[tuple[ListedNode, list[str]]]:
        found: list[tuple[ListedNode, list[str]]] = []
        if kind != "turn":
            listed = opened.tree.programs.list_all(kind=kind, tags=tags)
            found += [(ListedNode.of_program(one), list(one.tags)) async for one in listed]
        if kind in (None, "turn"):
            words: dict[TurnId, list[str]] = {}
            for turn, word in await opened.tree.turns.marks.list_tags():
                words.setdefault(turn, []).append(word)
            for turn, told in words.items():
                if set(tags) <= set(told):
                    found.append((ListedNode.of_turn(await opened.tree.turns.get(turn)), told))
        return found

    found = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(_document(node, words) for node, words in found)
    elif found:
        terminal.page(
            table(
                [
                    (
                        node.name,
                        node.kind,
                        " ".join(f"#{clean(word)}" for word in words),
                        node.title,
                    )
                    for node, words in found
                ]
            )
        )
    else:
        terminal.note("nothing has these tags.")
        terminal.note("next: turntree tag add NODE WORD")


def _document(node: ListedNode, words: list[str]) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind,
        "name": node.name,
        "title": node.title,
        "tags": words,
    }
