"""What checking the ledger can show. What is checked, and how, is not known here."""

from dataclasses import dataclass, field
from typing import Literal

from turntree.core.ids import TurnId
from turntree.core.value import value

Severity = Literal["fault", "warning"]
"""A fault breaks a rule; a warning is for a person to judge."""


@value
class Violation:
    """One thing that is wrong with the ledger."""

    invariant: str
    sentence: str
    subject: str
    severity: Severity = "fault"


@value
class ProjectionDiff:
    """Rows of a projection that are not those that follow from the facts."""

    table: str
    subject: str
    removed: int
    """How many rows go."""
    added: int
    """How many rows come."""


@dataclass(slots=True)
class VerifyResult:
    """What hashing a thread again showed."""

    whole: int = 0
    """How many turns prove themselves to the last word."""
    erased: int = 0
    """How many prove themselves but for messages that were taken out on request."""
    broken: list[TurnId] = field(default_factory=list[TurnId])
    """The turns whose bytes are not those that were sealed, or do not follow their parents."""

    @property
    def turns(self) -> int:
        """How many turns were looked at."""
        return self.whole + self.erased + len(self.broken)
