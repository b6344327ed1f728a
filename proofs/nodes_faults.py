"""``turntree`` with one part taken away, for a proof that has to notice it.

    python -m proofs.nodes_faults no-resume,no-restart serve --port 0

The first word says what is taken away; the rest is the command.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from turntree.cli.main import main
from turntree.runs import service
from turntree.runs.live.hub import LiveHub
from turntree.runs.live.stream import LiveChunk
from turntree.runs.shared_worker import SharedWorker
from turntree.server.workspace_stream import WorkspaceStream


def forget_positions() -> None:
    """Begin each stream of a workspace now, also if its client sends a position."""
    serve = WorkspaceStream.serve

    async def serve_now(self: Any, new: Any, _: Any, *rest: Any) -> None:
        await serve(self, new, None, *rest)

    setattr(WorkspaceStream, "serve", serve_now)  # noqa: B010 - a method of a class with slots.


def leave_the_dead() -> None:
    """Never look for dead workers, nor for sessions that none serves."""

    async def sweep(*_: Any) -> None:
        pass

    setattr(SharedWorker, "_sweep", sweep)  # noqa: B010


def keep_old_words() -> None:
    """Never tell a follower that the words of an earlier epoch are dropped."""
    receive = LiveHub.receive

    def receive_on(self: LiveHub, chunk: LiveChunk) -> None:
        receive(self, chunk)
        ring = self._known.get(chunk.run)
        if ring is not None:
            kept = [one for one in ring.pieces if one.kind != "restart"]
            ring.pieces.clear()
            ring.pieces.extend(kept)

    setattr(LiveHub, "receive", receive_on)  # noqa: B010
    setattr(service, "with_restart", lambda chunk, _: (chunk,))  # noqa: B010


FAULTS: Final[dict[str, Callable[[], None]]] = {
    "no-resume": forget_positions,
    "no-takeover": leave_the_dead,
    "no-restart": keep_old_words,
}

if __name__ == "__main__":
    for name in sys.argv.pop(1).split(","):
        FAULTS[name]()
    main()
