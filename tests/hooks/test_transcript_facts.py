"""What a growing transcript says: read as it grows, it says the same as read whole."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from proofs.transcripts import codex
from proofs.transcripts.claude_code import A, Tape, call, save
from proofs.transcripts.live import LIVE, LiveTranscript
from proofs.transcripts.samples import SAMPLES
from turntree.boot.open import load_importers
from turntree.core.ids import Timestamp
from turntree.core.usage import ModelCall
from turntree.hooks import transcript_facts
from turntree.hooks.board import BoardEntry, TurnTimes
from turntree.hooks.transcript_facts import FileEdit, FollowedTranscript, TranscriptFacts
from turntree.transcripts.importer import ToolPaths

STEPS: tuple[Callable[[LiveTranscript], None], ...] = (
    lambda told: told.ask("What is here?"),
    lambda told: told.answer("A shop."),
    lambda told: told.ask("Round the total"),
    lambda told: told.edit("/shop/cart.py"),
    lambda told: told.edit("/shop/till.py"),
    lambda told: told.answer("Done."),
    lambda told: told.ask("Once more"),
    lambda told: told.edit("/shop/cart.py"),
    lambda told: told.answer("Done."),
    lambda told: told.ask("And again"),
)


def cost_of(call: ModelCall, _: Timestamp) -> Decimal:
    return Decimal(1) + call.usage.total


def follow(tool: str, folder: Path) -> FollowedTranscript:
    return FollowedTranscript(load_importers()[tool], ToolPaths(folder, {}), cost_of)


def entry_of(tool: str, file: Path) -> BoardEntry:
    return BoardEntry(tool, A, "working", 1, 1, (), "/shop", str(file))


@pytest.mark.parametrize("tool", LIVE)
def test_followed_transcript_says_what_it_says_when_read_whole(tool: str, tmp_path: Path) -> None:
    told = LIVE[tool](tmp_path, A, "/shop")
    entry, followed = entry_of(tool, told.file), follow(tool, tmp_path)
    for step in STEPS:
        step(told)
        assert followed.read(entry) == follow(tool, tmp_path).read(entry)
        assert followed.records_kept > 0
    facts = followed.read(entry)
    assert facts.title == "And again"
    paths = [edit.path for edit in facts.edits]
    assert paths == ["/shop/cart.py", "/shop/till.py", "/shop/cart.py"]


@pytest.mark.parametrize("tool", LIVE)
def test_followed_transcript_keeps_only_the_last_turn(tool: str, tmp_path: Path) -> None:
    told = LIVE[tool](tmp_path, A, "/shop")
    entry, followed = entry_of(tool, told.file), follow(tool, tmp_path)
    kept: list[int] = []
    for _ in range(5):
        told.ask("Round the total")
        told.edit("/shop/cart.py")
        told.answer("Done.")
        followed.read(entry)
        kept.append(followed.records_kept)
    assert kept[-1] == kept[2]
    assert kept[-1] < len(told.file.read_bytes().splitlines()) / 2


@pytest.mark.parametrize("tool", LIVE)
def test_sample_says_the_same_however_far_it_has_grown(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SAMPLES[tool](tmp_path / "sample")
    files = [
        file
        for file in (tmp_path / "sample").rglob("*.jsonl")
        if "subagents" not in file.parts and len(file.read_bytes().splitlines()) > 3
    ]
    assert files
    for number, file in enumerate(files):
        # Alone, so that it is a transcript of one file.
        copy = tmp_path / str(number) / file.relative_to(tmp_path / "sample")
        copy.parent.mkdir(parents=True)
        lines = file.read_bytes().splitlines(keepends=True)
        followed = follow(tool, tmp_path)
        copy.write_bytes(lines[0])
        for line in lines[1:]:
            with copy.open("ab") as end:
                end.write(line)
            if b"$rewindTo" in line:
                # It leads back to a turn that was left out.
                monkeypatch.setattr(transcript_facts, "WHOLE_MIN_S", 0)
                monkeypatch.setattr(transcript_facts, "WHOLE_SHARE", 1e9)
                followed = follow(tool, tmp_path)
            entry = entry_of(tool, copy)
            facts, whole = followed.read(entry), follow(tool, tmp_path).read(entry)
            assert facts == whole, (file, line)


def test_line_that_is_being_written_is_read_again(tmp_path: Path) -> None:
    told = LIVE["claude-code"](tmp_path, A, "/shop")
    for step in STEPS[:4]:
        step(told)
    whole = told.file.read_bytes()
    entry, followed = entry_of("claude-code", told.file), follow("claude-code", tmp_path)
    expected = follow("claude-code", tmp_path).read(entry)
    assert [edit.path for edit in expected.edits] == ["/shop/cart.py"]
    # In the middle of the last line, and before and after its line break.
    told.file.write_bytes(whole[:-40])
    assert followed.read(entry).edits == ()
    for end in (-1, len(whole)):
        told.file.write_bytes(whole[:end])
        assert followed.read(entry) == expected


def test_transcript_that_was_written_anew_is_read_whole(tmp_path: Path) -> None:
    told = LIVE["claude-code"](tmp_path, A, "/shop")
    for step in STEPS:
        step(told)
    entry, followed = entry_of("claude-code", told.file), follow("claude-code", tmp_path)
    assert len(followed.read(entry).edits) == 3
    shorter = LIVE["claude-code"](tmp_path, A, "/shop")
    shorter.ask("Begin again")
    assert followed.read(entry) == TranscriptFacts("Begin again", (), Decimal(0))


def test_transcript_that_was_replaced_by_a_longer_one_is_read_whole(tmp_path: Path) -> None:
    told = LIVE["claude-code"](tmp_path, A, "/shop")
    for step in STEPS:
        step(told)
    entry, followed = entry_of("claude-code", told.file), follow("claude-code", tmp_path)
    assert len(followed.read(entry).edits) == 3
    other = LIVE["claude-code"](tmp_path, A, "/shop")
    for _ in range(20):
        other.ask("Begin once more")
        other.answer("Fine.")
    assert followed.read(entry) == follow("claude-code", tmp_path).read(entry)


def test_transcript_that_is_gone_says_nothing_and_is_read_when_it_comes_back(
    tmp_path: Path,
) -> None:
    told = LIVE["claude-code"](tmp_path, A, "/shop")
    for step in STEPS:
        step(told)
    entry, followed = entry_of("claude-code", told.file), follow("claude-code", tmp_path)
    before = followed.read(entry)
    told.file.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        followed.read(entry)
    (tmp_path / "away").rename(told.file)
    assert followed.read(entry) == before


def test_session_that_goes_on_in_another_file_is_read_there(tmp_path: Path) -> None:
    first = LIVE["claude-code"](tmp_path / "1", A, "/shop")
    second = LIVE["claude-code"](tmp_path / "2", A, "/shop")
    first.ask("Round the total")
    second.ask("Go on")
    followed = follow("claude-code", tmp_path)
    assert followed.read(entry_of("claude-code", first.file)).title == "Round the total"
    assert followed.read(entry_of("claude-code", second.file)).title == "Go on"


def test_edits_of_a_subagent_are_found_when_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_facts, "REOPEN_MIN_S", 0)
    monkeypatch.setattr(transcript_facts, "REOPEN_SHARE", 1e9)
    told = LIVE["claude-code"](tmp_path, A, "/shop")
    told.ask("Have another agent round the total")
    entry, followed = entry_of("claude-code", told.file), follow("claude-code", tmp_path)
    assert followed.read(entry).edits == ()
    side = Tape(A, isSidechain=True, agentId="a9")
    side.prompt("x?", "Round the total")
    side.answer("x1", "msg_x", call("t1", "Edit", file_path="/shop/cart.py"))
    done = {"filePath": "/shop/cart.py", "oldString": "a", "newString": "b"}
    side.result("x2", "t1", toolUseResult=done)
    save(tmp_path / ".claude", side, agent="a9")
    assert [edit.path for edit in followed.read(entry).edits] == ["/shop/cart.py"]
    assert followed.records_kept == 0


def test_edits_belong_to_the_turn_that_had_begun() -> None:
    facts = TranscriptFacts(edits=(FileEdit(5, "/a"), FileEdit(15, "/b"), FileEdit(25, "/c")))
    turns = [TurnTimes(10, 20), TurnTimes(25, None)]
    assert facts.edits_by_turn(turns) == {10: ("/b",), 25: ("/c",)}
    assert facts.since(15).edits == facts.edits[1:]


def test_cost_is_unknown_if_that_of_one_part_is() -> None:
    known, unknown = TranscriptFacts(cost=Decimal(2)), TranscriptFacts(cost=None)
    assert known.followed_by(known).cost == Decimal(4)
    assert known.followed_by(unknown).cost is None
    assert unknown.followed_by(known).cost is None


def test_transcript_whose_turns_need_those_before_is_read_whole(tmp_path: Path) -> None:
    told = codex.Rollout(A)
    file = told.write(tmp_path)
    entry, followed = entry_of("codex", file), follow("codex", tmp_path)
    for turn in (1, 2, 3):
        told.start()
        told.ask("Go on")
        # Only the sum over all turns: what one has used is the difference to the one before.
        used = {"input_tokens": 10 * turn, "output_tokens": 0}
        told.event("token_count", info={"total_token_usage": used})
        told.answer("Done.")
        told.complete()
        told.write(tmp_path)
        assert followed.read(entry).cost == Decimal(11 * turn)
    assert followed.records_kept == 0
