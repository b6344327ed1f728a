"""A person who pushes when another one does: a process of its own, for the tests beside it.

    python -m tests.transfer.pusher REMOTE SIGNALS ME OTHER SESSION ROUNDS [--as-it-is]

In each round it takes a turn, unless the session is to be pushed as it is, waits for the other
process, and pushes. They meet again before they record where the session stands. ROUND in the names
of the remote and the session is the number of the round.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio

from turntree.boot.open import Settings, open_tree
from turntree.boot.remotes import Remote, open_remote, push
from turntree.core.message import assistant, user

POLL_S: Final = 0.0005
MEET_TIMEOUT_S: Final = 60


async def main(
    place: str, signals: Path, names: tuple[str, str], session: str, rounds: int, flags: list[str]
) -> None:
    """Push as often as asked, each time at the moment when the other one does."""
    settings = Settings.from_environment()
    async with open_tree(settings) as tree:
        for number in range(rounds):
            there = place.replace("ROUND", str(number))
            label = session.replace("ROUND", str(number))
            if "--as-it-is" not in flags:
                await tree.turns.record(label, [user(f"{names[0]} {number}")], [assistant("yes")])
            async with open_remote(there, settings) as remote:
                meet(signals, names, f"{number}-push")
                meeting = cast("Remote", _Meeting(remote, signals, names, number))
                await push(tree, meeting, "team", label)


class _Meeting:
    """A remote that waits for the other process before it records a head."""

    def __init__(self, remote: Remote, signals: Path, names: tuple[str, str], number: int) -> None:
        self._remote = remote
        self._meet = partial(meet, signals, names, f"{number}-head")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)

    async def set_head(self, *told: Any) -> Any:
        self._meet()
        return await self._remote.set_head(*told)


def meet(signals: Path, names: tuple[str, str], what: str) -> None:
    """Wait until both are here."""
    mine, other = (signals / f"{name}-{what}" for name in names)
    mine.touch()
    until = time.monotonic() + MEET_TIMEOUT_S
    while not other.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{names[1]} did not come")
        time.sleep(POLL_S)


if __name__ == "__main__":
    remote, folder, me, other, label, times, *flags = sys.argv[1:]
    anyio.run(main, remote, Path(folder), (me, other), label, int(times), flags)
