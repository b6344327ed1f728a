"""Acts: what a client may ask the server to change, what it would do, and how to undo it.

``expected_head`` is the turn at which the client saw the session. If the session is elsewhere by
now, the act is refused with the head it has.
"""

from typing import Any, Literal

from turntree.core.value import value

ConflictChoice = Literal["ask", "keep", "exact"]
"""What happens to files that a turn and another writer changed.

ask    refuse the move
keep   leave them as they are
exact  restore every file, also those that only others changed
"""
MergeChoice = Literal["ask", "keep", "exact", "mark"]
"""What happens to lines that a turn changed and that were changed again since.

ask    refuse
keep   leave them as they are
exact  restore what was there before the turn
mark   write both versions into the file, with markers
"""
HandoffTool = Literal["claude-code", "codex", "opencode", "gemini"]


@value
class ForkAct:
    """A session to create at a turn."""

    at: str
    """A revision."""
    label: str | None = None
    """Its name; null takes a free one."""
    with_files: bool = False
    """Whether it gets a folder of its own, with the files as the turn left them."""
    folder: str | None = None
    """That folder; null takes a free one beside the source's."""
    expected_head: str | None = None


@value
class ForkedPlace:
    """A folder that a fork creates."""

    source: str
    place: str
    files: int
    bytes: int


@value
class ForkPreview:
    """What a fork would do; nothing was done."""

    label: str
    """The name it would get."""
    turn: str
    digest: str
    """Short."""
    title: str
    places: tuple[ForkedPlace, ...]
    """The folders that it would create; empty without files."""
    why_no_files: str | None
    """Why it cannot have files of its own, if it cannot."""
    command: str
    """The command that does the same."""


@value
class RewindPlanAct:
    """A move of a session back to a turn, to be looked at."""

    session: str
    to: str
    before: bool = False
    """Whether it goes back to the state before that turn."""
    conflicts: ConflictChoice = "ask"


@value
class FileStep:
    """A file in the plan of a move."""

    path: str
    folder: str
    change: Literal["added", "changed", "removed"]
    """What the move does to it or, if it stays, how it differs from then."""
    plus: int | None = None
    """Lines that the move adds; null if it was not compared by line."""
    minus: int | None = None
    merged: bool = False
    """Whether it was changed since by others, and their lines stay."""


@value
class RewindPlan:
    """What a move would do; nothing was done."""

    plan: str | None
    """The id of the plan; null without files."""
    session: str
    turn: str | None
    """The head it would have; null is a session without turns."""
    digest: str
    title: str
    turns_left: int
    """Turns that it leaves behind; they stay, and keep their address."""
    goes_back: tuple[FileStep, ...]
    stays: tuple[FileStep, ...]
    """Changed since, and not by the turns that it leaves behind."""
    conflicts: tuple[FileStep, ...]
    """Changed by these turns and by another writer."""
    untouched: int
    """Files of the folder that are as they were then."""
    folder: str | None
    notes: tuple[str, ...]
    """What else happens: folders that are made anew, or cannot be brought back."""
    why_no_files: str | None
    """Why there are no files to bring back, if there are none."""
    command: str
    """The command that moves it with its files, as they are decided here."""
    command_without_files: str
    expected_head: str | None


@value
class RewindAct:
    """A move of a session to a turn: back, or with a reset to any other."""

    session: str
    to: str
    expected_head: str | None
    before: bool = False
    with_files: bool = False
    conflicts: ConflictChoice = "ask"


@value
class RevertPlanAct:
    """File changes of one turn to take back, to be looked at."""

    at: str
    """A revision."""
    files: tuple[str, ...] | None = None
    """Paths in the folder of the turn; null is all that it changed."""
    conflicts: MergeChoice = "ask"


@value
class RevertConflict:
    """A file that a turn changed and that was changed again since, in the same place."""

    path: str
    folder: str
    why: Literal["lines", "content", "removed", "added", "type", "mode", "in_the_way"]
    turns: tuple[str, ...]
    """The later turns that changed it, short."""
    outside: bool
    """Whether it was also changed outside any turn."""
    decided: bool
    """Whether the choice decides it; what is in the way of a folder is never decided."""


@value
class RevertPlan:
    """What taking back a turn would do; nothing was done."""

    turn: str
    digest: str
    """Short."""
    title: str
    files: tuple[str, ...]
    """The paths that the turn changed, of those that were asked for."""
    goes_back: tuple[FileStep, ...]
    stays: tuple[FileStep, ...]
    """Changed since by later turns or by the user, and left as they are."""
    conflicts: tuple[RevertConflict, ...]
    done: tuple[str, ...]
    """Paths that are already as they were before the turn."""
    unclear: tuple[str, ...]
    """Paths that several turns changed at the same time: they stay."""
    folder: str | None
    why_nothing: str | None
    """Why nothing can be taken back, if nothing can."""
    command: str
    """The command that does the same."""
    expected_changes: str
    """What a revert names, so that it does what this plan shows or is refused."""


@value
class RevertAct:
    """File changes of one turn to take back; everything later stays."""

    at: str
    expected_changes: str
    """As the plan gave it. If the files changed since in a way that matters, it is refused."""
    files: tuple[str, ...] | None = None
    conflicts: MergeChoice = "ask"


@value
class RevertUndoAct:
    """A revert to undo, or an undone one to redo."""

    plan: str
    """The id that the answer to the revert, or to its undo, names."""
    conflicts: MergeChoice = "ask"


@value
class UndoAct:
    """The last move of a session, to be taken back."""

    session: str
    expected_head: str | None
    conflicts: ConflictChoice = "ask"


@value
class WorktreeAct:
    """A folder to create with the files that a turn left."""

    at: str
    folder: str | None = None
    expected_head: str | None = None


@value
class WorktreeRemoval:
    """Folders that a fork created, to be removed, and its session to archive."""

    session: str
    folders: tuple[str, ...]


@value
class TagAct:
    """A tag to add to a turn, or to remove from it."""

    at: str
    name: str
    expected_head: str | None = None


@value
class RenameAct:
    """A new label of a session."""

    session: str
    label: str
    expected_head: str | None = None


@value
class StatusAct:
    """A session to archive, or to restore from the archive."""

    session: str
    expected_head: str | None = None


@value
class HandoffAct:
    """A thread to write as a session of another tool."""

    at: str
    tool: HandoffTool
    folder: str | None = None
    """The folder to work in; null takes the one in which the session worked."""
    expected_head: str | None = None


@value
class ActUndo:
    """How an act is undone: by a request, or where there is none by a command."""

    command: str
    path: str | None = None
    """Below ``/api/v1``."""
    body: dict[str, Any] | None = None


@value
class ActResult:
    """What was done, the command that does the same, and how to undo it."""

    done: str
    """A sentence."""
    command: str
    undo: ActUndo | None = None
    session: str | None = None
    """The label of the session that was created or changed."""
    turn: str | None = None
    """The turn that is its head now, or that was marked."""
    folder: str | None = None
    paste: str | None = None
    """The command that continues in the other tool."""
    notes: tuple[str, ...] = ()
    """What else the user should know."""
