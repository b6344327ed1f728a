"""Where a message may be sent. Every target resolves to one head."""

from dataclasses import dataclass

from turntree.domain.ids import Label, TurnId


@dataclass(frozen=True, slots=True)
class ToTurn:
    """Continue from this very turn, whatever came after it."""

    turn: TurnId


@dataclass(frozen=True, slots=True)
class ToSession:
    """Continue wherever this session stands."""

    label: Label


Target = ToTurn | ToSession
