"""Values: findings of checks, and results of repair and verification."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from turntree.core.ids import TurnId
from turntree.core.value import value

Report = Callable[[str, int, int], None]
"""Receives the stage of a long check, the amount done and the total."""

Severity = Literal["fault", "warning"]
"""A fault breaks a rule; a warning is for a person to judge."""


@value
class Violation:
    """One violation of an invariant."""

    invariant: str
    sentence: str
    subject: str
    severity: Severity = "fault"


@value
class ProjectionDiff:
    """Rows of a projection that differ from those derived from the events."""

    table: str
    subject: str
    removed: int
    """Number of rows removed."""
    added: int
    """Number of rows added."""


@dataclass(slots=True)
class VerifyResult:
    """The result of hashing a thread again."""

    whole: int = 0
    """Number of turns whose digest is proven completely."""
    erased: int = 0
    """Number of turns whose digest is proven except for erased messages."""
    broken: list[TurnId] = field(default_factory=list[TurnId])
    """Turns whose bytes differ from those sealed, or that do not follow their parents."""

    @property
    def turns(self) -> int:
        """Number of turns checked."""
        return self.whole + self.erased + len(self.broken)
