"""A worker in a process of its own that begins one run and then does nothing more, for ever.

    python lone_worker.py CONNINFO WORKSPACE NAME

It says ``ready`` when it serves and ``holding`` when it has begun a run.
"""

import asyncio
import sys

from turntree.core.event import Event
from turntree.core.ids import SessionId, Timestamp, WorkspaceId
from turntree.core.run import RunEvent
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database, sqlalchemy_url
from turntree.runs.engines.dbos import DbosEngine
from turntree.runs.inbox import StartRun
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore


async def work(conninfo: str, workspace: WorkspaceId, name: str) -> None:
    """Serve under a name until the process is killed."""
    engine = DbosEngine(sqlalchemy_url(conninfo), workspace)
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        inbox = InboxStore(database, engine)

        async def handle(session: SessionId) -> None:
            found = await inbox.next_work(session, worker=name)
            assert isinstance(found, StartRun)
            (first,) = found.messages
            started = Event(first.run, 0, "run.started", Timestamp("2026-11-15T09:30:00.000Z"), {})
            fact = RunEvent.of(started, first.message)
            await inbox.begin(first.run, session, [fact], [first.seq], worker=name)
            say("holding")
            await asyncio.Event().wait()

        workers = WorkerStore(database, engine)
        await workers.lease(name)
        await engine.serve(name, handle, at_once=4, ready=lambda: say("ready"))


def say(word: str) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], WorkspaceId(sys.argv[2]), sys.argv[3]))
