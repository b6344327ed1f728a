"""Estimates of tokens: within a tenth of what a tokenizer gives, and better once it was heard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import Digest
from turntree.core.message import (
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    user,
)
from turntree.models.token_estimate import (
    FACTOR_MAX,
    FACTOR_MIN,
    MESSAGE_TOKENS,
    estimate_messages,
    estimate_part,
    estimate_text,
    learn_factor,
)

# Counted once with the o200k vocabulary.
SAMPLES = {
    "english": (
        "A turn that failed is shown as far as it came, and one sentence behind it says how it "
        "ended: the model must not believe that it finished. Please read the file again and tell "
        "me why the tests are red; I would rather know the cause than see a quick workaround.\n"
        * 4,
        228,
    ),
    "python": (
        "async def read_view(threads: Threads, head: TurnId | None, room: int) -> View:\n"
        '    """Return the end of a thread."""\n'
        "    if head is None:\n        return View()\n"
        "    last = await threads.get_turn(head)\n"
        "    return make_view([last], first=1)\n" * 4,
        248,
    ),
    "json": (
        '{"call_id":"toolu_01ABcd","kind":"tool_use","args":{"path":"src/main.py","limit":200},'
        '"status":"ok","usage":{"input":1834,"output":97}}\n' * 4,
        172,
    ),
    "german": (
        "Der Fehler tritt nur auf, wenn zwei Arbeiter gleichzeitig über dieselbe Sitzung "
        "nachdenken; danach läuft alles wieder, als wäre nichts geschehen.\n" * 4,
        116,
    ),
    "russian": (
        "Ошибка появляется только тогда, когда два процесса одновременно работают над одной "
        "сессией; потом всё снова работает, как будто ничего не случилось.\n" * 4,
        112,
    ),
    "japanese": (
        "二つのワーカーが同時に同じセッションを処理すると、この間違いが起こります。ファイルを読んでください。\n"
        * 4,
        136,
    ),
    "log": (
        "2026-11-15T09:30:00.123Z INFO worker-3 handled 0192f3a4-7abc-7def in 12.48 ms\n" * 4,
        160,
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_estimate_is_near_what_a_tokenizer_gives(name: str) -> None:
    text, counted = SAMPLES[name]
    within = 0.35 if name in ("russian", "japanese") else 0.1
    assert estimate_text(text) == pytest.approx(counted, rel=within)


@given(st.text(), st.text())
def test_longer_is_never_cheaper(left: str, right: str) -> None:
    both = estimate_text(f"{left}\n{right}")
    assert both >= max(estimate_text(left), estimate_text(right)) - 1
    assert estimate_text("") == 0


def test_every_kind_of_part_costs_something() -> None:
    digest = Digest("sha256:" + "0" * 64)
    parts: list[Part] = [
        Text("words"),
        Reasoning("words", "signature"),
        Media("image", "image/png", object=digest),
        ToolUse("a", "read", {"path": "x"}),
        ToolResult("a", "ok", {"lines": 3}),
        ObjectRef("text", digest, 9000),
        OpaquePart({"kind": "acme.secret"}),
    ]
    costs = [estimate_part(part) for part in parts]
    assert min(costs) > 0
    assert costs[5] >= 9000 // 4
    assert estimate_messages([Message("assistant", tuple(parts))]) == sum(costs) + MESSAGE_TOKENS
    assert estimate_messages([user("a"), user("a")]) == 2 * estimate_messages([user("a")])


def test_a_factor_is_learnt_from_what_was_reported() -> None:
    assert learn_factor(1.0, [(1000, 1300), (2000, 2600), (10, 90)]) == 1.3


def test_a_factor_that_is_nearly_right_is_left_alone() -> None:
    assert learn_factor(1.3, [(1000, 1390)]) == 1.3
    assert learn_factor(1.3, []) == 1.3
    assert learn_factor(1.3, [(0, 100), (100, 0)]) == 1.3


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))))
def test_nonsense_cannot_empty_a_context(pairs: list[tuple[int, int]]) -> None:
    assert FACTOR_MIN <= learn_factor(1.0, pairs) <= FACTOR_MAX
