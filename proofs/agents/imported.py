"""What an import made of an agent's history, to be compared with what the agent did."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from proofs.agents.deeds import Deeds
from proofs.figures import Proof, load_statements
from turntree.boot.open import importing_on, load_importers
from turntree.core.usage import Usage
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.integrity.fsck import fsck
from turntree.system.clock import SystemClock
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.imports import Progress

STATEMENTS = load_statements(Path(__file__).with_name("imported.sql"))
ORIGINS = {"claude": "claude-code", "codex": "codex", "opencode": "opencode", "gemini": "gemini"}
"""The importer that reads each agent's history."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a database holds after an import into an empty one."""

    turns: int
    compactions: int
    spawns: int
    forks: int
    tool_calls: Counter[str]
    usage: list[tuple[str | None, Usage]]
    """What each model call used, with its provider's id where the history holds it."""
    faults: int
    added_again: int


async def bring(server: str, deeds: Deeds) -> Imported:
    """Import an agent's home into a database of its own, twice, and return what is there."""
    conninfo = await ensure_database(server, f"imported_{deeds.agent}")
    workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        await _import(database, deeds)
        again = await _import(database, deeds)
        faults = [found for found in await fsck(database) if found.severity == "fault"]
    connection: psycopg.AsyncConnection[Any]
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        calls = await (await connection.execute(STATEMENTS["tool_calls"])).fetchall()
        used = await (await connection.execute(STATEMENTS["model_calls"])).fetchall()
        ((turns, compactions, spawns, forks),) = await (
            await connection.execute(STATEMENTS["counts"])
        ).fetchall()
    return Imported(
        turns,
        compactions,
        spawns,
        forks,
        Counter(tool for _, tool in calls),
        [(id, Usage(*numbers)) for id, *numbers in used],
        len(faults),
        again.turns_added,
    )


async def _import(database: Database, deeds: Deeds) -> Progress:
    importer = load_importers()[ORIGINS[deeds.agent]]
    found = [(importer, bundle) for bundle in importer.discover(ToolPaths(deeds.home, {}))]
    assert found, f"{deeds.agent} left nothing in {deeds.home}"
    return await importing_on(database, SystemClock()).run(found)


def compare(proof: Proof, deeds: Deeds, found: Imported) -> None:
    """Hold what was imported against what was done."""
    name = deeds.agent
    for told, is_there, done in (
        ("turns", found.turns, len(deeds.steps)),
        ("forks", found.forks, deeds.forks),
        ("subagents", found.spawns, deeds.count("subagent")),
        ("compactions", found.compactions, deeds.count("compaction")),
        ("tool calls", found.tool_calls.total(), len(deeds.tool_calls)),
    ):
        proof.note(f"{name}, {told} that were imported", is_there, told)
        proof.at_most(f"{name}, {told} that differ", abs(is_there - done), told, 0)
    # A summary's own call may be in no history; every other one is, and is counted once.
    sent = {call.id: call.usage for call in deeds.model_calls}
    wrong = [id for id, usage in found.usage if id in sent and usage != sent[id]]
    nameless = sum(id not in sent for id, _ in found.usage)
    missing = len(deeds.model_calls) - len(found.usage)
    total = sum((usage for _, usage in found.usage), Usage())
    summaries = deeds.count("compaction")
    proof.at_most(f"{name}, model calls with another usage", len(wrong), "calls", 0)
    proof.note(f"{name}, model calls without their provider's id", nameless, "calls")
    proof.at_most(f"{name}, model calls missing", missing, "calls", summaries)
    proof.at_most(f"{name}, model calls counted twice", max(-missing, 0), "calls", 0)
    if not missing:
        differ = abs(total.total - deeds.usage.total)
        proof.at_most(f"{name}, tokens that differ", differ, "tokens", 0)
    proof.at_most(f"{name}, turns added by importing again", found.added_again, "turns", 0)
    proof.at_most(f"{name}, faults that fsck finds", found.faults, "faults", 0)
