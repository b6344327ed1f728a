"""Write a thread as a session that another tool can continue.

Knows the folders of this machine. The exporters know what a session looks like. Files that a tool
wrote itself are never touched.
"""

import os
from dataclasses import replace
from pathlib import Path

from turntree.boot.open import checkouts_on
from turntree.boot.thread_objects import WholeThread
from turntree.core.clock import Clock
from turntree.core.errors import TurntreeError
from turntree.core.message import ToolUse
from turntree.core.value import value
from turntree.db.database import Database
from turntree.hooks.launcher import launcher_path
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.hooks.spool import Spool
from turntree.models.portable_thread import flatten, without_system
from turntree.system.shell_words import joined
from turntree.transcripts.exporter import Exporter, HandoffFiles, HandoffRequest
from turntree.transcripts.exporters.shared import write_new
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.incoming import Handoff


@value
class SessionCopy:
    """A thread as a session of another tool: its files, and how to continue it."""

    exporter: Exporter
    thread: WholeThread
    order: HandoffRequest
    plan: HandoffFiles
    messages: int
    tool_calls: int
    folders: tuple[Path, ...] = ()
    """Folders that were created for the files, deepest first."""
    complaint: str | None = None
    """Why its origin was not recorded, if it was not."""

    def command_from(self, here: Path | None) -> str:
        """Return the command that continues it in a shell; None is a shell of any folder."""
        steps = [] if here == self.order.folder else [["cd", str(self.order.folder)]]
        steps += [] if self.plan.prepare is None else [[*self.plan.prepare]]
        return " && ".join(map(joined, [*steps, self.plan.resume]))

    def removal(self, then: str | None = None) -> str:
        """Return the command that removes what was written, and runs another one after that."""
        removal = joined(["rm", *(str(file.path) for file in self.plan.files)])
        if then is not None:
            removal += f" && {then}"
        if self.folders:
            # Last, and on its own: a folder in which another session was written since stays.
            removal += f"; {joined(['rmdir', *map(str, self.folders)])}"
        return removal


def plan_copy(
    exporter: Exporter,
    thread: WholeThread,
    folder: Path,
    title: str,
    clock: Clock,
    *,
    flat: bool = False,
) -> SessionCopy:
    """Return a thread as a session of another tool that works in a folder. Nothing is written.

    With ``flat``, tool calls are text.

    Raises:
        InvalidOperation: The tool would not find the files.
    """
    told = thread.told()
    if thread.origin is not None:
        told = without_system(told)
    calls = sum(isinstance(part, ToolUse) for said in told for part in said.parts)
    if flat:
        told, calls = flatten(told), 0
    order = HandoffRequest(session=clock.new_id(), at=clock.now(), folder=folder, title=title)
    plan = exporter.plan(told, order, ToolPaths(Path.home(), os.environ))
    return SessionCopy(exporter, thread, order, plan, len(told), calls)


async def write_copy(copy: SessionCopy, database: Database, home: Path, by: str) -> SessionCopy:
    """Write the files and record them in one go: an import may be looking."""
    first = copy.plan.files[0]
    noted = Handoff(
        origin=copy.exporter.tool,
        session=copy.plan.session,
        turn=copy.thread.head.turn.id,
        file=first.path.name,
        bytes=len(first.text.encode()),
        mark=copy.plan.mark,
        last=copy.plan.last,
        continues=copy.thread.session,
    )
    done = replace(copy, folders=tuple(write_new(copy.plan.files)))
    if launcher_path(home).is_file():
        # A transcript that we wrote is no sign of a tool whose hooks are silent.
        Spool(home / SPOOL).note_heard(copy.exporter.tool)
    try:
        await checkouts_on(database).note(noted, by=by, at=copy.order.at)
    except TurntreeError as error:
        return replace(done, complaint=str(error))
    return done
