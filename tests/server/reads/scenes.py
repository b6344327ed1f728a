"""Turns for the tests of reads: with files, tools and models."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from turntree.api import Tree
from turntree.core.ids import TurnId
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.usage import ModelCall, Usage

CLAUDE = Principal("agent", "claude-code", on_behalf_of=Principal("human", "ana"))


async def say(tree: Tree, session: str, words: str, reply: str = "yes") -> TurnId:
    """Take a turn with a priced model call."""
    call = ModelCall("claude-sonnet-4-5", Usage(1_000, 200, 3_000), "anthropic")
    placed = await tree.turns.record(
        session, [user(words)], [assistant(reply)], calls=[call], by=CLAUDE
    )
    return placed.turn.id


async def work(tree: Tree, session: str, folder: Path, files: Mapping[str, str]) -> TurnId:
    """Take a turn that writes files and pins what it found and left."""
    await tree.sessions.get_or_create(session)
    resource = await tree.resources.ensure_directory(str(folder), session)
    keeper, world = tree.resources.keeper_of(resource), tree.revisions.world
    began, before = world.now(), keeper.snapshot(resource.place)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    after = keeper.snapshot(resource.place)
    reply = [
        message
        for number, name in enumerate(files)
        for message in (
            assistant(ToolUse(f"call-{number}", "Write", {"file_path": str(folder / name)})),
            replace(
                tool(ToolResult(f"call-{number}", "ok", "written")),
                context={"files": [TouchedFile("written", name).to_json()]},
            ),
        )
    ]
    words = f"write {', '.join(files)}"
    placed = await tree.turns.record(session, [user(words)], [*reply, assistant("done")], by=CLAUDE)
    await tree.resources.pin(placed.turn.id, resource, before, after, began, world.now())
    return placed.turn.id
