"""Resolves revisions that people type to turns, or raises an error with alternatives."""

import re
import unicodedata
from collections.abc import Awaitable, Callable
from typing import assert_never

from turntree.core.clock import Clock
from turntree.core.errors import Ambiguous, Hint, InvalidRevision, NotFound
from turntree.core.ids import SHORT_ID_LENGTH, Digest, SessionId, Timestamp, TurnId, find_long_id
from turntree.core.program import Program
from turntree.core.revision import (
    Ancestor,
    AtMove,
    AtTime,
    Head,
    Name,
    Part,
    ProgramRef,
    Range,
    Revision,
    TextMatch,
    TurnRef,
    parse_range,
    parse_revision,
)
from turntree.core.session import Session, SessionMove
from turntree.core.thread import ThreadTurn
from turntree.core.time_phrases import EXAMPLES, find_moment
from turntree.core.value import Facet, value
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.thread_store import ThreadStore, TurnIndex

# A shorter prefix would match a turn by accident, as in git.
PREFIX_CHARS_MIN = 4
CANDIDATES_SHOWN_MAX = 5
NAMES_READ_MAX = 2000
"""Number of names that a mistyped one is compared with."""
_HEX = re.compile(r"[0-9a-f]{4,64}")
_CROCKFORD = re.compile(r"[0-9a-hjkmnp-tv-z]{4,26}")
_UUID_PREFIX = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{0,27}|[0-9a-f]{4,32}")
_EXACT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MESSAGE_ID = re.compile(r"([0-9A-Za-z-]{26,36})/[0-9]{1,9}")
"""A message's id: the turn's id and the message's position in it."""


@value
class ResolvedRevision:
    """The turn that a revision names, the session it was reached by, and a part of it."""

    turn: TurnId
    session: Session | None = None
    part: Part | None = None


@value
class RevisionResolver(Facet):
    """Resolves revisions against the ledger."""

    sessions: SessionStore
    reflog: ReflogStore
    threads: ThreadStore
    index: TurnIndex
    world: Clock
    current: str | None = None
    """The session that ``HEAD`` names."""
    find_program: Callable[[str], Awaitable[Program | None]] | None = None
    abbreviates: bool = False
    """Whether a part of a label will do if it is the beginning or the end of only one."""

    async def resolve(self, text: str) -> ResolvedRevision:
        """Return the turn that a revision names.

        Raises:
            InvalidRevision: It is not a revision.
            NotFound: It names nothing.
            Ambiguous: It names several turns.
        """
        return await self.resolve_parsed(parse_revision(text))

    async def resolve_range(self, text: str) -> tuple[TurnId | None, TurnId, bool] | TurnId:
        """Return both ends of a range and whether it is symmetric, or the one turn named.

        Raises:
            InvalidRevision, NotFound, Ambiguous: As ``resolve``.
        """
        parsed = parse_range(text)
        if isinstance(parsed, Revision):
            return (await self.resolve_parsed(parsed)).turn
        assert isinstance(parsed, Range), "a range has two ends"
        left = None if parsed.left is None else (await self.resolve_parsed(parsed.left)).turn
        right = (await self.resolve_parsed(parsed.right)).turn
        return left, right, parsed.kind == "..."

    async def resolve_parsed(self, revision: Revision) -> ResolvedRevision:
        """Return the turn that a parsed revision names."""
        at, session = await self._base(revision)
        for step in revision.steps:
            match step:
                case Ancestor(n):
                    at = await self._ancestor(at, n, revision)
                case AtMove(n):
                    at = (await self._move_back(session, n, revision)).after
                case AtTime(words):
                    timestamp = parse_time(words, self.world.now())
                    at = (await self._move_at(session, timestamp, revision)).after
                case _:
                    assert_never(step)
        if at is None:
            raise NotFound(f"{revision} has no turns yet")
        return ResolvedRevision(at, session, revision.part)

    async def get_session(self, name: str) -> Session:
        """Return the session that a name, or ``HEAD``, points to.

        Raises:
            NotFound: No such session.
        """
        if name == "HEAD":
            if self.current is None:
                if not await self.sessions.list_page(limit=1):
                    raise NotFound("there is no session yet", hint=Hint("demo"))
                raise NotFound("HEAD is not set", hint=Hint("session.switch"))
            name = self.current
        session = await self.sessions.find(name)
        if session is not None:
            return session
        session = await self._abbreviated(name)
        if session is not None:
            return session
        await self.sessions.note_missed(name)
        raise NotFound(
            f"there is no session {name!r}{await self._suggest(name)}", hint=Hint("session.list")
        )

    async def _abbreviated(self, text: str) -> Session | None:
        """Return the session whose label begins or ends with a text, if abbreviations will do.

        A dot leader stands for what a list has cut off: ``claude-code/-home…``.

        Raises:
            Ambiguous: There are several.
        """
        part = unicodedata.normalize("NFC", text.strip("…"))
        if not self.abbreviates or len(part) < PREFIX_CHARS_MIN:
            return None
        names = await self.sessions.list_names(
            part,
            begins=not text.startswith("…"),
            ends=not text.endswith("…"),
            limit=CANDIDATES_SHOWN_MAX * 2,
        )
        labels = list(dict.fromkeys(label for _, label in names))
        if len(labels) > 1:
            lines = [f"{text!r} could be several sessions:"]
            lines += [f"  {label}" for label in labels[:CANDIDATES_SHOWN_MAX]]
            lines += ["  …"] if len(labels) > CANDIDATES_SHOWN_MAX else []
            raise Ambiguous("\n".join(lines), hint=Hint("session.list"))
        return await self.sessions.find(labels[0]) if labels else None

    async def _suggest(self, text: str) -> str:
        """Return the names that were probably meant, as the end of an error, or nothing."""
        if not self.abbreviates:
            return ""
        import difflib  # noqa: PLC0415 - only for a mistyped name

        names = {name: name for name, _ in await self.sessions.list_names("", limit=NAMES_READ_MAX)}
        # Also by the last word of a label: what stands before it is often the same for many.
        names |= {name.rpartition("/")[2]: name for name in names}
        near = difflib.get_close_matches(text, names, CANDIDATES_SHOWN_MAX, cutoff=0.7)
        meant = list(dict.fromkeys(names[one] for one in near))
        return f"\ndid you mean {' or '.join(meant)}?" if meant else ""

    async def _base(self, revision: Revision) -> tuple[TurnId | None, Session | None]:
        match revision.base:
            case Head():
                session = await self.get_session("HEAD")
                return session.head, session
            case Name(text):
                return await self._named(text)
            case TurnRef(text, label):
                holder = None if label is None else await self.get_session(label)
                turn = await self._by_prefix(text.removeprefix("sha256:"), holder)
                if holder is not None:
                    await self._check_held(turn, holder)
                return turn, holder
            case TextMatch(text):
                turn_with_words = await self.index.find_by_words(text)
                if turn_with_words is None:
                    raise NotFound(f"no turn says {text!r}")
                return turn_with_words, None
            case ProgramRef(id):
                session = await self._session_of(id)
                return session.head, session
            case _:
                assert_never(revision.base)

    async def _session_of(self, name: str) -> Session:
        """Return a program's session: itself, its current one, or its main one."""
        program = None if self.find_program is None else await self.find_program(name)
        if program is None:
            raise NotFound(f"there is no program @({name})")
        if program.kind == "session":
            return await self.sessions.get(SessionId(program.id))
        now = program.details.get("current_session") or program.details.get("session")
        session = await self.sessions.find(str(now or f"{program.name}:main"))
        if session is None:
            raise NotFound(f"@({name}) has no session, so there is no turn to mean")
        return session

    async def _named(self, text: str) -> tuple[TurnId | None, Session | None]:
        if "-" in text and find_long_id(text) is not None:
            # A label cannot be a whole id, so there is no session to look up.
            return await self._by_prefix(text), None
        session = await self.sessions.find(text)
        if session is not None:
            return session.head, session
        message = _MESSAGE_ID.fullmatch(text)
        if message is not None and find_long_id(message[1]) is not None:
            return await self._by_prefix(message[1]), None
        try:
            return await self._by_prefix(text), None
        except Ambiguous:
            raise
        except NotFound as error:
            session = await self._abbreviated(text)
            if session is not None:
                return session.head, session
            await self.sessions.note_missed(text)
            raise NotFound(f"{error}{await self._suggest(text)}", hint=error.hint) from None

    async def _check_held(self, turn: TurnId, session: Session) -> None:
        if not await self._holds(session, turn):
            raise NotFound(f"{session.label} has never held the turn {turn}")

    async def _holds(self, session: Session, turn: TurnId) -> bool:
        return session.id in await self.threads.list_sessions_holding(turn)

    async def _by_prefix(self, text: str, holder: Session | None = None) -> TurnId:
        folded = text.lower()
        found: list[TurnId] = []
        full_id = find_long_id(folded)
        if full_id is not None:
            found = await self.index.list_by_id(full_id, full_id, limit=1)
        # The first 26 or 32 digits of a digest look like an id, but may not be one.
        if not found and len(folded) >= PREFIX_CHARS_MIN:
            found = await self._candidates(folded)
        what = "the beginning"
        if not found:
            # Last, because only a text that is nothing else costs this look-up. As it was typed:
            # providers distinguish capital letters.
            found = await self.index.list_by_response(text, limit=CANDIDATES_SHOWN_MAX + 1)
            what = "a response"
        if holder is not None and len(found) > 1:
            held = [turn for turn in found if await self._holds(holder, turn)]
            found = held or found
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"{text!r} is neither a session nor the beginning of a turn's digest")
        turns = [await self.threads.get_turn(turn) for turn in found[:CANDIDATES_SHOWN_MAX]]
        more = len(found) > CANDIDATES_SHOWN_MAX
        raise Ambiguous(_list_candidates(text, turns, what, more=more))

    async def _candidates(self, prefix: str) -> list[TurnId]:
        limit = CANDIDATES_SHOWN_MAX + 1
        turns: dict[TurnId, None] = {}
        if _HEX.fullmatch(prefix):
            low, high = (Digest("sha256:" + prefix.ljust(64, fill)) for fill in "0f")
            turns.update(dict.fromkeys(await self.index.list_by_digest(low, high, limit=limit)))
        for low_id, high_id in _id_bounds(prefix):
            turns.update(dict.fromkeys(await self.index.list_by_id(low_id, high_id, limit=limit)))
        return list(turns)

    async def _ancestor(self, turn: TurnId | None, n: int, revision: Revision) -> TurnId:
        if turn is None:
            raise NotFound(f"{revision} has no turns yet")
        depth = (await self.threads.get_turn(turn)).depth
        ancestor = None if n >= depth else await self.threads.find_at_depth(turn, depth - n)
        if ancestor is None:
            raise NotFound(f"{revision} goes back {n} turns, but the thread has only {depth}")
        return ancestor

    async def _move_back(self, session: Session | None, n: int, revision: Revision) -> SessionMove:
        if session is None:
            raise InvalidRevision(f"{revision}: only a session has a reflog to look back in")
        version = session.version - n
        moves = await self.reflog.list_moves(session.id, before=version + 1, limit=1)
        if not moves:
            raise NotFound(f"{session.label} has moved {session.version} times, not {n}")
        return moves[0]

    async def _move_at(
        self, session: Session | None, at: Timestamp, revision: Revision
    ) -> SessionMove:
        if session is None:
            raise InvalidRevision(f"{revision}: only a session has a reflog to look back in")
        move = await self.reflog.find_move_at(session.id, at)
        if move is None:
            raise NotFound(f"{session.label} began after {at}, at {session.created_at}")
        return move


def find_exact_id(revision: str) -> TurnId | None:
    """Return the id that a revision is, as it is written everywhere; None if it is anything else.

    A label cannot be one, so a turn with this id is what the revision names. Without such a turn it
    may still be the beginning of a digest.
    """
    return TurnId(revision) if _EXACT_ID.fullmatch(revision) else None


def _id_bounds(prefix: str) -> list[tuple[str, str]]:
    bounds: list[tuple[str, str]] = []
    if _CROCKFORD.fullmatch(prefix) and prefix[0] in "01234567":
        low = find_long_id(prefix.ljust(SHORT_ID_LENGTH, "0"))
        high = find_long_id(prefix.ljust(SHORT_ID_LENGTH, "z"))
        if low is not None and high is not None:
            bounds.append((low, high))
    if _UUID_PREFIX.fullmatch(prefix):
        digits = prefix.replace("-", "")
        low, high = (find_long_id(digits.ljust(32, fill)) for fill in "0f")
        if low is not None and high is not None:
            bounds.append((low, high))
    return bounds


def _list_candidates(text: str, turns: list[ThreadTurn], what: str, *, more: bool) -> str:
    lines = [f"{text!r} is {what} of several turns:"]
    lines += [f"  {entry.turn.digest[7:19]}  {entry.turn.title[:60]}" for entry in turns]
    return "\n".join([*lines, "  …"] if more else lines)


def parse_time(words: str, now: Timestamp) -> Timestamp:
    """Return the time that words describe: ``yesterday``, ``2 hours ago``, ``2026-11-15 09:30``.

    Raises:
        InvalidRevision: They describe none.
    """
    timestamp = find_moment(words, now)
    if timestamp is None:
        raise InvalidRevision(f"{words!r} is not a time; say {EXAMPLES}")
    return timestamp
