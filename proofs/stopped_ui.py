"""``turntree`` on a clock that stands still, so that a picture of today equals one of next year.

Only what the page shows of "now" is stopped: waits and timeouts run as ever.
"""

import sys

from turntree.cli.main import main
from turntree.core.ids import Timestamp, instant
from turntree.system.clock import SystemClock

NOW_MS = 1_790_020_800_000
"""A little after the sample data, which a fake clock dates."""


def now(_: SystemClock) -> Timestamp:
    """Return the same time whenever it is asked for."""
    return instant(NOW_MS)


if __name__ == "__main__":
    SystemClock.now = now  # type: ignore[assignment, method-assign]
    sys.argv = ["turntree", *sys.argv[1:]]
    main()
