"""What other tools left on this machine, and the imports of it."""

from typing import Literal

from turntree.core.value import value
from turntree.wire.stream import ImportJob

SourceState = Literal["absent", "found", "partly", "imported"]


@value
class Source:
    """The transcripts of one tool."""

    tool: str
    name: str
    folder: str | None
    """Where they are; None if the tool has no usual folder."""
    sessions: int
    turns_estimate: int
    """About this many turns, by what a few of the transcripts hold."""
    bytes: int
    imported: int
    """The number of transcripts that were imported before."""
    state: SourceState


@value
class SourceList:
    """What was found on this machine, per tool."""

    tools: tuple[Source, ...]
    demo: bool
    """Whether sample data can be shown instead."""


@value
class ImportRequest:
    """The tools whose transcripts to import."""

    tools: tuple[str, ...]


@value
class ImportStarted:
    """The import that was started."""

    job: str


@value
class ImportList:
    """The imports since the server started, newest last."""

    jobs: tuple[ImportJob, ...]


@value
class DemoRequest:
    """Whether to show the sample data, or to leave it."""

    leaves: bool = False


@value
class DemoShown:
    """What is shown now."""

    turns: int
    """The turns of the sample data; 0 if it was left."""
