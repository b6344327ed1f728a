"""Pages of threads, turns, and the whole text of a part."""

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say
from turntree.api import Tree
from turntree.core.message import Reasoning, Text, ToolResult, ToolUse, assistant, tool, user
from turntree.core.session import Spawn
from turntree.core.usage import ModelCall, Usage
from turntree.server.reads.parts import TEXT_BYTES_MAX, cut_text

pytestmark = pytest.mark.anyio


async def test_thread_without_bounds_gives_newest_turns(tree: Tree, reader: Reader) -> None:
    turns = [await say(tree, "main", f"turn {number}") for number in range(1, 8)]
    page = await reader.get("threads", "main", limit=3)
    assert [turn["depth"] for turn in page["turns"]] == [5, 6, 7]
    assert (page["head"], page["session"], page["turns_total"]) == (turns[-1], "main", 7)
    assert (page["older"], page["newer"]) == (5, None)
    assert page["turns"][-1]["title"] == "turn 7"
    assert page["turns"][-1]["sessions"] == ["main"]


@pytest.mark.parametrize(
    ("before", "after", "depths", "older", "newer"),
    [
        (5, None, [2, 3, 4], 2, 4),
        (3, None, [1, 2], None, 2),
        (1, None, [], None, None),
        (None, 0, [1, 2, 3], None, 3),
        (None, 5, [6, 7], 6, None),
        (None, 9, [], None, None),
    ],
)
async def test_thread_pages_by_depth(
    tree: Tree, reader: Reader, before: int | None, after: int | None, depths: list[int],
    older: int | None, newer: int | None,
) -> None:  # fmt: skip
    for number in range(1, 8):
        await say(tree, "main", f"turn {number}")
    page = await reader.get("threads", "main", before=before, after=after, limit=3)
    assert [turn["depth"] for turn in page["turns"]] == depths
    assert (page["older"], page["newer"]) == (older, newer)


async def test_thread_of_empty_session_has_no_turns(tree: Tree, reader: Reader) -> None:
    await tree.sessions.create("empty")
    page = await reader.get("threads", "empty")
    assert (page["head"], page["session"], page["turns"]) == (None, "empty", [])


async def test_thread_names_branches_beside_it(tree: Tree, reader: Reader) -> None:
    first = await say(tree, "main", "one")
    await say(tree, "main", "two")
    await tree.sessions.fork(first, "side/way")
    other = await say(tree, "side/way", "another way")
    page = await reader.get("threads", "main")
    assert page["turns"][0]["branches"] == [
        {"turn": other, "label": "side/way", "title": "another way"}
    ]
    assert page["turns"][1]["branches"] == []
    from_side = await reader.get("threads", "side/way", limit=1)
    assert [turn["title"] for turn in from_side["turns"]] == ["another way"]
    on_the_page_before = await reader.get("threads", "main", before=2)
    assert [one["label"] for one in on_the_page_before["turns"][0]["branches"]] == ["side/way"]


async def test_turn_carries_tokens_costs_tags_and_agent(tree: Tree, reader: Reader) -> None:
    turn = await say(tree, "main", "one")
    await tree.turns.tag(turn, "good")
    document = await reader.get("turns", turn)
    assert document["tokens"] == document["usage"]["total"] == 4_200
    assert document["cost"] == pytest.approx(0.0069)
    assert (document["agent"], document["by"]) == ("claude-code", "ana")
    assert document["tags"] == ["good"]


async def test_turn_without_known_price_has_no_cost(tree: Tree, reader: Reader) -> None:
    calls = [ModelCall("nobody-knows-1", Usage(10, 10))]
    placed = await tree.turns.record("main", [user("hm")], [assistant("ok")], calls=calls)
    document = await reader.get("turns", placed.turn.id)
    assert (document["tokens"], document["cost"]) == (20, None)


async def test_turn_says_what_its_calls_are_about(tree: Tree, reader: Reader) -> None:
    reply = [
        assistant(Reasoning("think"), ToolUse("c1", "Bash", {"command": "ls -l"})),
        tool(ToolResult("c1", "error", '{"output":"no such file","metadata":{"exit_code":2}}')),
        assistant(ToolUse("c2", "Task", {"prompt": "look"})),
        tool(ToolResult("c2", "ok", [{"type": "text", "text": "found"}])),
        assistant("done"),
    ]
    asked = user("<system-reminder>be nice</system-reminder>please list")
    placed = await tree.turns.record("main", [asked], reply)
    parent = await tree.sessions.get("main")
    await tree.sessions.create("sub", spawn=Spawn(parent.id, placed.turn.id, "c2"))
    document = await reader.get("turns", "main")
    injected, words = document["query"][0]["parts"]
    assert (injected["is_injected"], words["is_injected"]) == (True, False)
    assert (injected["number"], words["number"], words["text"]) == (0, 0, "please list")
    parts = [part for message in document["reply"] for part in message["parts"]]
    assert [part["kind"] for part in parts] == [
        "reasoning", "tool_use", "tool_result", "tool_use", "tool_result", "text",
    ]  # fmt: skip
    assert (parts[1]["about"], parts[1]["args"]) == ("ls -l", {"command": "ls -l"})
    assert (parts[2]["status"], parts[2]["output"]) == ("error", "no such file")
    assert parts[3]["spawned"] == "sub"
    assert parts[4]["output"] == "found"
    assert document["title"] == "please list"


async def test_result_that_is_a_json_file_stays_as_it_is(tree: Tree, reader: Reader) -> None:
    file = '{"output": "x", "message": "hello", "more": 1}'
    reply = [
        assistant(ToolUse("c", "Read", {"file_path": "a.json"})),
        tool(ToolResult("c", "ok", file)),
        assistant("done"),
    ]
    await tree.turns.record("main", [user("read")], reply)
    document = await reader.get("turns", "main")
    assert document["reply"][1]["parts"][0]["output"] == file


@pytest.mark.parametrize("size", [9_000, TEXT_BYTES_MAX + 5, 3 * TEXT_BYTES_MAX, 4_000_000])
async def test_long_texts_are_cut_and_can_be_read_whole(
    tree: Tree, reader: Reader, size: int
) -> None:
    text = "é\n" * (size // 3)
    reply = [
        assistant(ToolUse("c", "Write", {"content": text, "file_path": "/a"})),
        tool(ToolResult("c", "ok", text)),
        assistant(Text(text)),
    ]
    await tree.turns.record("main", [user("go")], reply)
    document = await reader.get("turns", "main")
    call, result, answer = (message["parts"][0] for message in document["reply"])
    shown = [call["args"]["content"], result["output"], answer["text"]]
    is_long = size > TEXT_BYTES_MAX
    for place, (part, beginning) in enumerate(zip((call, result, answer), shown, strict=True)):
        assert part["is_cut"] is is_long, place
        assert text.startswith(beginning)
        assert len(beginning.encode()) <= TEXT_BYTES_MAX
        assert is_long or beginning == text
    assert document["is_cut"] is is_long
    for number in (2, 3):
        response = await reader.send("turns", "main", "text", str(number), "0")
        assert response.headers["content-type"].startswith("text/plain")
        assert response.text == text


async def test_text_of_missing_part_is_not_found(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "one")
    for message, part in (("9", "0"), ("0", "7"), ("-1", "0")):
        assert (await reader.send("turns", "main", "text", message, part)).status_code == 404


async def test_erased_message_has_no_parts(tree: Tree, reader: Reader) -> None:
    turn = await say(tree, "main", "secret words")
    await tree.turns.erase(turn, 0, reason="asked for")
    document = await reader.get("turns", turn)
    assert document["query"] == [
        {"number": 0, "role": "erased", "source": None, "at": None, "parts": [], "erased": True}
    ]


@pytest.mark.parametrize("text", ["", "a", "é" * TEXT_BYTES_MAX, "a" + "😀" * TEXT_BYTES_MAX])
def test_cut_text_keeps_whole_characters(text: str) -> None:
    shown, is_cut = cut_text(text)
    assert text.startswith(shown)
    assert is_cut == (len(text.encode()) > TEXT_BYTES_MAX)
    assert len(shown.encode()) > TEXT_BYTES_MAX - 4 or shown == text
