"""Where a message may be sent. Every target resolves to one head."""

from dataclasses import dataclass

from turntree.domain.ids import Label, SessionId, TurnId


@dataclass(frozen=True, slots=True)
class ToTurn:
    """Continue from this very turn, whatever came after it."""

    turn: TurnId


@dataclass(frozen=True, slots=True)
class ToSession:
    """Continue wherever this session stands."""

    label: Label


Target = ToTurn | ToSession


@dataclass(frozen=True, slots=True)
class Route:
    """What a target resolved to: the head to extend and the session to advance, if any."""

    head: TurnId | None
    session: SessionId | None
