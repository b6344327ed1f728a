"""How a turn is shown in little room: shortened, folded, and never silently."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.models import messages
from turntree.models.context_window import ContextWindow
from turntree.models.messages import FoldPoint, fold_reply, shorten
from turntree.models.prompt import PromptPrefix, assemble, plan_prompt
from turntree.models.token_estimate import estimate_text

BUDGET = 7_000


def steps(count: int, words: int) -> list[Message]:
    reply: list[Message] = []
    for number in range(count):
        use = ToolUse(f"c{number}", "read", {"file": f"f{number}.txt"})
        text = f"start {number} " + "word " * words + f"end {number}"
        reply += [assistant(use), tool(ToolResult(use.call_id, "ok", text))]
    return reply


def test_a_long_result_is_shown_as_its_beginning_its_end_and_its_address() -> None:
    prompt = assemble(
        ContextWindow(), PromptPrefix(), [user("go")], steps(1, 5000), budget_tokens=BUDGET
    )
    (result,) = prompt.messages[-1].parts
    assert isinstance(result, ToolResult)
    text = str(result.output)
    assert text.startswith("start 0 word")
    assert text.endswith("end 0")
    assert "tokens are not shown; address 1/1" in text
    assert estimate_text(text) < BUDGET // 30


def test_a_turn_of_many_calls_stays_within_its_budget_and_begins_anew_rarely() -> None:
    reply, before, breaks = steps(160, 300), list[bytes](), 0
    for done in range(0, len(reply) + 1, 2):
        prompt = assemble(
            ContextWindow(), PromptPrefix(), [user("go")], reply[:done], budget_tokens=BUDGET
        )
        assert prompt.estimated_tokens <= BUDGET
        breaks += prompt.lines[: len(before)] != before
        before = prompt.lines
    assert breaks <= 160 / 8
    first = prompt.messages[0].text
    assert "[Tool calls 1 to " in first
    assert "addresses 1/1 to 1/" in first


def test_the_next_prompt_of_a_long_turn_measures_only_what_is_new() -> None:
    reply, view, parts = steps(80, 300), ContextWindow(), PromptPrefix()
    plan = plan_prompt(view, parts, [user("go")], budget_tokens=BUDGET)
    for done in range(0, len(reply), 2):
        prompt = plan.assemble([], reply[:done], {})
        assert prompt == assemble(view, parts, [user("go")], reply[:done], budget_tokens=BUDGET)
    with patch.object(messages, "_step_cost", wraps=messages._step_cost) as measure:
        plan.assemble([], reply, {})
    assert len(measure.mock_calls) <= 2


def test_older_results_are_one_line_each_with_an_address() -> None:
    prompt = assemble(
        ContextWindow(), PromptPrefix(), [user("go")], steps(60, 600), budget_tokens=30_000
    )
    lines = [
        str(part.output)
        for message in prompt.messages
        for part in message.parts
        if isinstance(part, ToolResult) and str(part.output).startswith("[ok, about ")
    ]
    assert lines
    assert all("\n" not in line and "; address 1/" in line for line in lines)


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(300, 3000))
def test_what_is_folded_stays_folded(costs: list[int], room: int) -> None:
    pairs = [(cost, min(cost, 20)) for cost in costs]
    points = [fold_reply(pairs[:count], room) for count in range(len(pairs) + 1)]
    assert points[0] == FoldPoint()
    for before, after in pairwise(points):
        assert before.shown <= after.shown <= after.whole
        assert before.whole <= after.whole


def test_a_short_text_is_not_touched() -> None:
    assert shorten("a few words", 10, "1") == "a few words"
