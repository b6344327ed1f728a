"""The log of a thread, whatever the clocks of those said who took its turns."""

from pathlib import Path

import anyio

from tests.cli.conftest import Call
from turntree.boot.open import Settings, connect, tree_on
from turntree.core.message import assistant, user
from turntree.testing.fakes import FakeClock

DAY_MS = 86_400_000
OFFSETS_DAYS = (0, -1, -400, 365, 2)


def test_a_turn_is_shown_above_those_it_was_built_on_whatever_the_clocks_say(
    turntree: Call, conninfo: str, tmp_path: Path
) -> None:
    async def tell() -> None:
        world = FakeClock(3)
        settings = Settings(tmp_path, conninfo, workspace="tests", user="ana")
        async with connect(settings, world) as database:
            tree = tree_on(database, settings, world)
            start_ms = world.ms
            for place, days in enumerate(OFFSETS_DAYS):
                world.ms = start_ms + days * DAY_MS
                await tree.turns.record("skewed", [user(f"turn {place}")], [assistant("yes")])

    anyio.run(tell)
    newest_first = [f"turn {place}" for place in reversed(range(len(OFFSETS_DAYS)))]
    for words in (("log", "skewed"), ("log",), ("log", "--all"), ("log", "skewed", "-n", "3")):
        shown = [one["title"] for one in turntree("--json", *words).documents]
        assert shown == newest_first[: len(shown)], words
        assert len(shown) >= 3
