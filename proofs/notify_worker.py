"""A worker of the proof of notices: it sends them as ``turntree worker`` does, by a quick clock.

``python -m proofs.notify_worker CONNINFO WORKSPACE PORT BEGAN SPEED [HOST]``. It says ``ready``
when it sends. It has no runs to work on. ``HOST`` is a receiver of webhooks on this machine.
"""

import sys
import time

import anyio

from turntree.core.ids import Timestamp, WorkspaceId, instant
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database
from turntree.notifications.mail import MailServer
from turntree.notifications.preferences import WEBHOOK
from turntree.notifications.sender import NoticeSender, make_channels
from turntree.system.clock import SystemClock
from turntree.webhooks.channel import WebhookChannel
from turntree.webhooks.event_queue import EventQueue

LOOK_S = 0.05
MAIL_S_MAX = 1.0
"""A mail server that says nothing for so long has not answered."""


class QuickClock(SystemClock):
    """A clock that runs so many times as fast since it began."""

    def __init__(self, began_ms: int, speed: float) -> None:
        """Agree with every clock that began at the same time."""
        super().__init__()
        self._began_ms = began_ms
        self._speed = speed

    def now(self) -> Timestamp:
        """Return the time of this clock."""
        passed = time.time() * 1000 - self._began_ms
        return instant(self._began_ms + round(passed * self._speed))


async def work(
    conninfo: str, workspace: str, port: int, clock: QuickClock, hosts: frozenset[str]
) -> None:
    """Send what has to leave, until the process is ended."""
    server = MailServer("127.0.0.1", port, "none", "turntree@example.net", timeout_s=MAIL_S_MAX)
    async with open_database(conninfo, WorkspaceId(workspace)) as database:
        webhooks = WebhookChannel(clock, hosts, timeout_s=MAIL_S_MAX)
        channels = {**make_channels(server), WEBHOOK: webhooks.send}
        begin = EventQueue(clock).begin
        sender = NoticeSender(database.seen_by(EVERYTHING), clock, channels, begin)
        print("ready", flush=True)
        while True:
            await sender.look()
            await anyio.sleep(LOOK_S)


if __name__ == "__main__":
    _, CONNINFO, WORKSPACE, PORT, BEGAN, SPEED, *HOSTS = sys.argv
    CLOCK = QuickClock(int(BEGAN), float(SPEED))
    anyio.run(work, CONNINFO, WORKSPACE, int(PORT), CLOCK, frozenset(HOSTS))
