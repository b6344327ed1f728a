"""The tools with which an agent searches and reads its thread, called by a model in a run."""

from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

import orjson
import pytest

from turntree.boot.open import Settings, open_tree
from turntree.core.message import ObjectRef, ToolResult, ToolUse, assistant, tool, user
from turntree.tools.ledger import ThreadEntry, find_passages

pytestmark = pytest.mark.anyio
LONG = "gravel " * 900 + "The gate code of the north depot is 4711. " + "gravel " * 900


def script(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    tools = [{"tool": name, "args": args} for name, args in calls]
    return {
        "provider_type": "scripted",
        "rules": [{"when": "find", "replies": [{"tools": tools}, {"text": "Found."}]}],
    }


def test_passages_with_the_rarest_words_come_first() -> None:
    entries = [ThreadEntry(n, None, "answer", f"the depot {n} is open") for n in range(1, 20)]
    entries.append(ThreadEntry(20, 1, "read", LONG))
    (entry, passage), *_ = find_passages(entries, "gate code of the north depot")
    assert entry.address == "20/1"
    assert "4711" in passage


def test_a_search_for_whole_pages_counts_their_first_words_only() -> None:
    entries = [ThreadEntry(1, None, "answer", "the gate code is 4711. " * 2_000)]
    pages = " ".join(f"word{number}" for number in range(20_000))
    begun = process_time()
    assert find_passages(entries, f"{pages} gate") == []
    assert process_time() - begun < 5
    assert find_passages(entries, f"gate {pages}") != []


async def call_all(
    conninfo: str, place: Path, *calls: tuple[str, dict[str, Any]], erases: bool = False
) -> list[Any]:
    """Return the results of calls that a model makes after a turn with a long tool result."""
    settings = Settings(place, database_url=conninfo, workspace="recall", user="ana")
    async with open_tree(settings, worker=True) as tree:
        await tree.programs.create("provider", "script", script(*calls))
        await tree.programs.create(
            "model", "echo", {"model_id": "scripted-1", "provider": "@(script)"}
        )
        await tree.programs.create("agent", "atlas", {"system_prompt": "Be brief.", "tools": []})
        reply = [
            assistant(ToolUse("c1", "survey", {})),
            tool(ToolResult("c1", "ok", LONG)),
            assistant("All surveyed."),
        ]
        await tree.turns.record("main", [user("Survey the depots")], reply)
        if erases:
            assert await tree.turns.erase("main", 2, reason="a code")
        posted = await tree.runs.post("main", "find it", agent="atlas")
        turn = (await tree.runs.wait(posted.run, timeout_s=30)).turn
        results: list[Any] = []
        for message in turn.reply:
            for part in message.parts:
                if isinstance(part, ObjectRef):
                    results.append(orjson.loads(await tree.ledger.get_object(part.object)))
                elif isinstance(part, ToolResult):
                    results.append({"output": part.output, "status": part.status})
        return results


async def test_a_model_recalls_and_reads_what_stands_inside_a_long_result(
    conninfo: str, tmp_path: Path
) -> None:
    results = await call_all(
        conninfo,
        tmp_path,
        ("ledger.recall", {"words": "gate code north depot"}),
        ("ledger.read", {"address": "1/1", "start": len(LONG) // 2 - 100, "chars": 300}),
        ("ledger.read", {"address": "9"}),
    )
    recalled, read, absent = sorted(results, key=lambda one: "hits" not in str(one["output"]))
    assert isinstance(recalled["output"], Mapping)
    hit = recalled["output"]["hits"][0]
    assert (hit["address"], hit["in"]) == ("1/1", "survey")
    assert "4711" in hit["text"]
    if read["status"] == "error":
        read, absent = absent, read
    assert "4711" in read["output"]["text"]
    assert "nothing at 9" in str(absent["output"])


async def test_no_model_recalls_or_reads_what_was_erased(conninfo: str, tmp_path: Path) -> None:
    results = await call_all(
        conninfo,
        tmp_path,
        ("ledger.recall", {"words": "gate code north depot 4711 gravel"}),
        ("ledger.read", {"address": "1/1"}),
        ("ledger.read", {"address": "1"}),
        erases=True,
    )
    assert len(results) == 3
    assert not any(word in str(results) for word in ("4711", "gravel gravel"))
