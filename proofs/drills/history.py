"""Whether a history can have happened: pure judgements over what was acknowledged and what is read.

A session is a list that is only appended to, so its history can be judged exactly: everything
acknowledged stands in the thread once, nothing else does, and what was acknowledged before
something else was begun stands above it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turntree.core.ids import TurnId
from turntree.core.session import SessionMove, undo_target
from turntree.core.thread import ThreadTurn


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledged append: when it was begun and answered, and with which turn."""

    began_ns: int
    ended_ns: int
    turn: TurnId


def judge_appends(acks: Sequence[Ack], thread: Sequence[TurnId]) -> list[str]:
    """Return what is wrong with a thread that began empty and was only appended to."""
    places = {turn: place for place, turn in enumerate(thread)}
    counts = Counter(ack.turn for ack in acks)
    problems = [f"twice in the thread: {turn}" for turn, n in Counter(thread).items() if n > 1]
    problems += [f"acknowledged twice: {turn}" for turn, n in counts.items() if n > 1]
    problems += [f"lost: {turn}" for turn in counts if turn not in places]
    problems += [f"never acknowledged: {turn}" for turn in places if turn not in counts]
    ended = sorted(acks, key=lambda ack: ack.ended_ns)
    done, latest = 0, -1
    for ack in sorted(acks, key=lambda ack: ack.began_ns):
        while done < len(ended) and ended[done].ended_ns < ack.began_ns:
            latest = max(latest, places.get(ended[done].turn, -1))
            done += 1
        if places.get(ack.turn, len(thread)) < latest:
            problems.append(f"out of order: {ack.turn} stands above a turn that was there first")
    return problems


def judge_thread(thread: Sequence[ThreadTurn]) -> list[str]:
    """Return what is wrong with a thread's own links: places, parents and digests."""
    problems: list[str] = []
    above: ThreadTurn | None = None
    for depth, placed in enumerate(thread, start=1):
        wanted = (depth, above and above.turn.id, above and above.turn.digest)
        found = (placed.depth, placed.parent, placed.turn.header.parent)
        if found != wanted:
            problems.append(f"turn {placed.turn.id} stands at {found}, not at {wanted}")
        above = placed
    return problems


def judge_reflog(
    moves: Sequence[SessionMove], head: TurnId | None, parents: Mapping[TurnId, TurnId | None]
) -> list[str]:
    """Return what is wrong with a whole reflog, oldest move first.

    Versions have no gap, each move begins where the last one ended, the newest ends at the head,
    and each went where its kind may go.
    """
    problems: list[str] = []
    at: TurnId | None = None
    for version, move in enumerate(moves, start=1):
        if move.version != version:
            problems.append(f"version {move.version} stands at place {version}")
        if move.before != at:
            problems.append(f"move {version} begins at {move.before}, but the head was {at}")
        if not _lawful(move, moves[: version - 1], parents):
            problems.append(f"move {version}, {move.kind}, cannot lead to {move.after}")
        at = move.after
    if head != at:
        problems.append(f"the head is {head}, but the last move led to {at}")
    return problems


def _lawful(
    move: SessionMove, earlier: Sequence[SessionMove], parents: Mapping[TurnId, TurnId | None]
) -> bool:
    match move.kind:
        case "create":
            return not earlier and move.after is None
        case "fork":
            return not earlier and move.after in parents
        case "advance":
            return move.after is not None and parents.get(move.after, "?") == move.before
        case "rewind":
            return move.after in _above(move.before, parents)
        case "reset" | "import" | "handoff":
            return move.after in parents
        case "undo":
            taken_back = undo_target(list(earlier))
            return taken_back is not None and taken_back.before == move.after


def _above(turn: TurnId | None, parents: Mapping[TurnId, TurnId | None]) -> set[TurnId]:
    above: set[TurnId] = set()
    while turn is not None and (turn := parents.get(turn)) is not None:
        above.add(turn)
    return above
