"""Watching agents: what has changed is shown, and reading stays within its share of the time."""

import time
from decimal import Decimal
from pathlib import Path

import pytest

from proofs.transcripts.claude_code import A
from proofs.transcripts.live import LIVE, LiveTranscript
from turntree.boot.open import load_importers
from turntree.core.ids import Timestamp
from turntree.core.usage import ModelCall
from turntree.hooks import agents_at_work
from turntree.hooks.agents_at_work import CREDIT_MAX_S, AgentWatch, ReadingPace
from turntree.hooks.board import Board
from turntree.transcripts.importer import ToolPaths

TOOL = "claude-code"


def no_cost(_: ModelCall, __: Timestamp) -> Decimal:
    return Decimal(0)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "board")


@pytest.fixture
def watch(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentWatch:
    monkeypatch.setattr(agents_at_work, "SESSION_SHARE", 1e9)
    return AgentWatch(board, load_importers(), ToolPaths(tmp_path, {}), no_cost)


def begin(board: Board, folder: Path, session: str) -> LiveTranscript:
    told = LIVE[TOOL](folder / session, session, "/shop")
    board.note("begin", TOOL, session, now_ms(), "/shop", str(told.file))
    told.ask(f"First of {session}")
    return told


def titles(watch: AgentWatch) -> dict[str, str | None]:
    return {agent.entry.session: agent.title for agent in watch.look()}


def test_look_returns_the_same_list_until_something_changes(
    board: Board, watch: AgentWatch, tmp_path: Path
) -> None:
    told = begin(board, tmp_path, A)
    found = watch.look()
    assert [agent.title for agent in found] == [f"First of {A}"]
    assert watch.look() is found
    told.edit("/shop/cart.py")
    edited = watch.look()
    assert edited is not found
    assert [agent.files for agent in edited] == [("/shop/cart.py",)]
    board.note("wait", TOOL, A, now_ms() + 1, None, None)
    waiting = watch.look()
    assert [agent.entry.state for agent in waiting] == ["waiting"]
    assert watch.look() is waiting


def test_sessions_share_the_time_for_reading_and_the_one_read_first_comes_first(
    board: Board, watch: AgentWatch, tmp_path: Path
) -> None:
    sessions: dict[str, LiveTranscript] = {}
    for name in ("s3", "s1", "s2"):
        sessions[name] = begin(board, tmp_path, name)
        assert titles(watch)[name] == f"First of {name}"
    for name, told in sessions.items():
        told.answer("Done.")
        told.ask(f"Second of {name}")
    # After one reading there is no time left for another.
    watch.short_pace.share = 1e-9
    for count in (1, 2, 3):
        watch.short_pace.free_at = 0.0
        watch.look()
        found = titles(watch)
        read = [name for name in sessions if found[name] == f"Second of {name}"]
        assert read == [*sessions][:count]


def test_state_is_shown_while_there_is_no_time_to_read(
    board: Board, watch: AgentWatch, tmp_path: Path
) -> None:
    told = begin(board, tmp_path, A)
    watch.look()
    watch.short_pace.free_at = watch.long_pace.free_at = time.monotonic() + 3600
    told.edit("/shop/cart.py")
    board.note("end", TOOL, A, now_ms() + 1, None, None)
    (agent,) = watch.look()
    assert agent.entry.state == "done"
    assert agent.files == ()
    new = begin(board, tmp_path, "new")
    assert titles(watch)["new"] == "First of new", "each is read once without delay"
    new.answer("Done.")


def test_long_reading_leaves_time_for_short_ones(
    board: Board, watch: AgentWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = begin(board, tmp_path, A)
    watch.look()
    told.edit("/shop/cart.py")
    with monkeypatch.context() as short:
        short.setattr(agents_at_work, "SHORT_READ_MAX_S", 0.0)
        watch.long_pace.share = 1e-9
        watch.look()
    assert watch.long_pace.free_at > time.monotonic()
    assert watch.short_pace.free_at == 0.0
    other = begin(board, tmp_path, "other")
    watch.look()
    other.edit("/shop/till.py")
    found = {agent.entry.session: agent.files for agent in watch.look()}
    assert found["other"] == ("/shop/till.py",)


def test_transcript_that_was_just_read_is_not_read_again(
    board: Board, watch: AgentWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = begin(board, tmp_path, A)
    watch.look()
    told.edit("/shop/till.py")
    assert [agent.files for agent in watch.look()] == [("/shop/till.py",)]
    monkeypatch.setattr(agents_at_work, "SESSION_SHARE", 1e-9)
    told.edit("/shop/cart.py")
    assert [agent.files for agent in watch.look()] == [("/shop/till.py",)]
    monkeypatch.setattr(agents_at_work, "SESSION_SHARE", 1e9)
    assert [agent.files for agent in watch.look()] == [("/shop/till.py", "/shop/cart.py")]


def test_what_is_written_in_a_turn_is_read_before_what_follows_it(
    board: Board, watch: AgentWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = begin(board, tmp_path, A)
    watch.look()
    told.edit("/shop/cart.py")
    assert [agent.files for agent in watch.look()] == [("/shop/cart.py",)]
    monkeypatch.setattr(agents_at_work, "REST_AFTER_TURN", 1e18)
    board.note("end", TOOL, A, now_ms() + 1, None, None)
    watch.look()
    told.ask("Second")
    assert titles(watch) == {A: f"First of {A}"}
    board.note("begin", TOOL, A, now_ms() + 2, None, None)
    assert titles(watch) == {A: f"First of {A}"}
    told.edit("/shop/till.py")
    assert titles(watch) == {A: "Second"}


def test_pace_keeps_readings_within_their_share_of_the_time() -> None:
    pace, now, spent = ReadingPace(1 / 100), 1000.0, 0.0
    while now < 2000:
        if now >= pace.free_at:
            pace.charge(now, 0.02)
            spent += 0.02
        now += 0.5
    assert 9.9 <= spent <= 10 + CREDIT_MAX_S / 100 + 0.02
