"""A real Chromium for the proofs of the page: how it is opened, logged in and listened to.

Knows Playwright and how the page is entered. Must never know what a single proof looks for.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    # CI and containers run as root, for whom Chromium's own sandbox refuses to start.
    "--no-sandbox",
    "--disable-gpu",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    # Chromium's own errands would be requests that are not the page's.
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
LOCAL = {"127.0.0.1", "localhost"}
PAGE_S_MAX = 60.0
QUIET_S_MAX = 20.0
QUIET_S = 0.25
"""A page that asked for nothing for so long has all it wants; it gathers changes for less."""
REFUSED = 400
REFUSAL_CHARS_MAX = 500
Theme = Literal["light", "dark"]


@dataclass(slots=True)
class Watched:
    """A page, and everything that it did which a person would not see."""

    page: Page
    errors: list[str] = field(default_factory=list[str])
    """Console errors and exceptions."""
    foreign: list[str] = field(default_factory=list[str])
    """Requests to anything but this machine."""
    dialogs: list[str] = field(default_factory=list[str])
    refusals: list[str] = field(default_factory=list[str])
    """What the server refused, with its answer: the console says only that it did."""
    requests: list[str] = field(default_factory=list[str])
    unanswered: set[Request] = field(default_factory=set[Request])

    async def go(self, path: str) -> None:
        """Open a path of the page, and wait until it has loaded."""
        origin = urlsplit(self.page.url)
        await self.page.goto(f"{origin.scheme}://{origin.netloc}{path}")
        await settle(self.page)
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until every answer has come, and none is asked for because of the last one."""
        # "networkidle" would never come: the script of a shared worker is never told to have ended.
        end, asked = time.monotonic() + QUIET_S_MAX, -1
        while (self.unanswered or len(self.requests) != asked) and time.monotonic() < end:
            asked = len(self.requests)
            await asyncio.sleep(QUIET_S)
        await settle(self.page)


@contextlib.asynccontextmanager
async def chromium(*arguments: str) -> AsyncGenerator[Browser, None]:
    """Lend a browser; it is closed afterwards."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*ARGUMENTS, *arguments]
        )
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def entered(
    browser: Browser,
    url: str,
    *,
    width: int = 1440,
    height: int = 900,
    theme: Theme = "light",
    path: str = "/",
    now_ms: int | None = None,
    before: str = "",
    cookie: tuple[str, str] | None = None,
    **options: Any,
) -> AsyncGenerator[Watched, None]:
    """Lend a page that came in by an address of the command line, at a path, in a fresh profile.

    With ``now_ms`` its clock stands still; what waits goes on. ``before`` is a script that runs in
    every page before its own. With the name and text of a ``cookie`` it is logged in already, to
    a server for a team.
    """
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
        **options,
    )
    context.set_default_timeout(PAGE_S_MAX * 1000)
    if before:
        await context.add_init_script(before)
    if now_ms is not None:
        await context.clock.set_fixed_time(now_ms / 1000)
    try:
        if cookie is None:
            yield await enter(context, url, path)
            return
        name, text = cookie
        # For the whole host, as the server sets it: with "url" it would count for one folder.
        domain = urlsplit(url).hostname or ""
        await context.add_cookies(
            [{"name": name, "value": text, "domain": domain, "path": "/", "httpOnly": True}]
        )
        watched = watch(await context.new_page())
        await watched.page.goto(url)
        await settle(watched.page)
        yield watched
    finally:
        await context.close()


async def enter(context: BrowserContext, url: str, path: str = "/") -> Watched:
    """Return a page that exchanged the key of an address, and shows a path."""
    watched = watch(await context.new_page())
    async with watched.page.expect_response(lambda one: one.url.endswith("/session-key")):
        await watched.page.goto(url)
    await settle(watched.page)
    if path != "/":
        await watched.go(path)
    return watched


def watch(page: Page) -> Watched:
    """Listen to a page from now on; what the server refuses is printed with its answer."""
    watched = Watched(page)

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            watched.errors.append(f"{message.text} ({message.location['url']})")

    async def tell_refusal(response: Response) -> None:
        if response.status >= REFUSED:
            with contextlib.suppress(Error):
                asked = (
                    f"{response.request.method} {response.url} {response.request.post_data or ''}"
                )
                answer = (await response.text())[:REFUSAL_CHARS_MAX]
                watched.refusals.append(f"{asked} -> {response.status} {answer}")
                print(watched.refusals[-1], file=sys.stderr)

    def see(request: Request) -> None:
        watched.requests.append(request.url)
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob"} and parts.hostname not in LOCAL:
            watched.foreign.append(request.url)
        if request.resource_type != "eventsource" and "stream.worker" not in parts.path:
            watched.unanswered.add(request)

    def forget(request: Request) -> None:
        watched.unanswered.discard(request)

    async def dismiss(dialog: Any) -> None:
        watched.dialogs.append(dialog.message)
        await dialog.dismiss()

    page.on("console", hear)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("response", tell_refusal)
    page.on("request", see)
    page.on("requestfinished", forget)
    page.on("requestfailed", forget)
    page.on("dialog", dismiss)
    return watched


async def settle(page: Page) -> None:
    """Wait until the page shows something and its fonts and requests have come; streams stay."""
    await page.wait_for_load_state("load")
    await page.locator("main, [role=main], #root > *").first.wait_for()
    # "networkidle" would never come: the stream of the page stays open.
    await page.evaluate("document.fonts.ready.then(() => true)")
    # A skeleton says that it is busy; what is shown then has its final place.
    # Not "wait_for_function": it evaluates text, which the page's policy refuses.
    await expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=PAGE_S_MAX * 1000)
    await page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
    )


async def browser_major() -> int:
    """Return the major version of the Chromium of this machine."""
    told = await asyncio.to_thread(
        subprocess.run, [CHROMIUM, "--version"], capture_output=True, text=True, check=False
    )
    matched = re.search(r"Chromium (\d+)", told.stdout)
    return int(matched[1]) if matched else 0


def is_built() -> bool:
    """Whether the page of this clone has been built."""
    page = Path(__file__).parent.parent / "src" / "turntree" / "server" / "page" / "index.html"
    return page.exists()
