"""Takes the pictures of the documentation: the page with sample data, in a real Chromium.

The data comes from a clock that does not run, and the page is told the same time, so that a picture
changes only when the page does. ``just pictures`` runs it; look at each before you commit it.
"""

import argparse
import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from playwright.async_api import Browser, Page

from proofs.browser import Theme, chromium, entered, settle
from proofs.ui_world import RunningUi, ui_world
from turntree.demo.planting import FILES_FOLDER, plant_demo
from turntree.testing.fakes import FakeClock

FOLDER = Path(__file__).parent.parent / "docs" / "images"
WIDTH, HEIGHT = 1360, 850
SCALE = 1.5
SESSION = "demo/shop/discount"
OTHER = "demo/shop/discount-other-way"
WORDS = "discount"
LATER = timedelta(minutes=20)
"""How long after the last turn the pictures are taken."""
DRAW_MS = 1500
"""What is drawn on a canvas comes a little after the page has settled."""


async def take_all(only: str | None) -> None:
    """Plant the sample data, serve it, and take every picture."""
    clock = FakeClock(7)
    with ui_world() as world:
        await world.plant(lambda tree: plant_demo(tree, world.home / FILES_FOLDER), clock)
        now = datetime.fromtimestamp(clock.ms / 1000, UTC) + LATER
        with world.serving() as ui:
            async with chromium() as browser:
                for theme in ("light", "dark"):
                    await take(browser, ui, theme, now, only)


async def take(
    browser: Browser, ui: RunningUi, theme: Theme, now: datetime, only: str | None
) -> None:
    """Take the pictures of one theme."""
    thread = f"/s/{quote(SESSION, safe='')}"
    paths = {
        "canopy": "/",
        "thread": thread,
        "graph": "/graph",
        "search": f"/search?q={WORDS}",
        "compare": f"/compare/{quote(SESSION, safe='')}...{quote(OTHER, safe='')}",
        "costs": "/costs",
    }
    async with entered(
        browser, ui.new_url(), width=WIDTH, height=HEIGHT, theme=theme, device_scale_factor=SCALE
    ) as seen:
        await seen.page.clock.set_fixed_time(now)
        for name, path in paths.items():
            # The dark theme is shown where it is compared with the light one.
            if (theme == "dark" and name not in ("canopy", "thread")) or (only and only != name):
                continue
            await seen.go(path)
            await show(seen.page, name)
            file = FOLDER / f"ui-{name}-{theme}.png"
            await seen.page.screenshot(path=file)
            print(f"{file.relative_to(FOLDER.parent.parent)}  {file.stat().st_size // 1024} KB")


async def show(page: Page, name: str) -> None:
    """Bring a page into the state that its picture shows."""
    await page.wait_for_timeout(DRAW_MS)
    if name == "thread":
        # A turn that wrote a file.
        for key in ("j", "j", "j"):
            await page.keyboard.press(key)
            await page.wait_for_timeout(DRAW_MS)
    await settle(page)


def main() -> None:
    """Read the command line, and take pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one picture: canopy, thread, graph, search, compare, costs")
    asyncio.run(take_all(parser.parse_args().only))


if __name__ == "__main__":
    main()
