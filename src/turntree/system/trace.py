"""Traces of W3C: which request a message came with, and the ids of what a run does in it.

The ids of spans follow from the run and a position in it. So any worker gives the same call the
same id, and what one process tells of a run has its parent in what another one told.
"""

import hashlib
import re
from contextvars import ContextVar
from typing import Final

from turntree.core.ids import RunId
from turntree.core.value import value

_FORM: Final = re.compile(
    r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
_SAMPLED: Final = 1

TRACEPARENT: Final[ContextVar[str | None]] = ContextVar("traceparent", default=None)
"""The span within which this task acts, as the header of that name has it."""


@value
class TraceParent:
    """A span elsewhere, of which something here is a part."""

    trace: int
    span: int
    is_sampled: bool

    def __str__(self) -> str:
        """Return it as the header ``traceparent`` has it."""
        return f"00-{self.trace:032x}-{self.span:016x}-{int(self.is_sampled):02x}"


def read_traceparent(text: object) -> TraceParent | None:
    """Return what a header says; None if it says nothing that counts."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    trace, span = int(found["trace"], 16), int(found["span"], 16)
    if not trace or not span:
        return None
    return TraceParent(trace, span, bool(int(found["flags"], 16) & _SAMPLED))


def trace_of_run(run: RunId) -> int:
    """Return the id of the trace of a run whose message came with none."""
    return int.from_bytes(_derive("trace", run, -1)[:16])


def span_of_run(run: RunId, seq: int) -> int:
    """Return the id of the span that begins at a position of a run."""
    return int.from_bytes(_derive("span", run, seq)[:8])


def _derive(kind: str, run: RunId, seq: int) -> bytes:
    return hashlib.sha256(f"turntree.{kind}\0{run}\0{seq}".encode()).digest()
