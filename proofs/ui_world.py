"""A home of its own with sample data, and a running ``turntree ui``: what the ui proofs share.

Everything goes the way of a person: the embedded server, the command line as a process, the address
that it prints. The data comes from a clock that does not run, so that two runs show the same.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

import turntree
from proofs.browser import chromium
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.core.clock import Clock
from turntree.db.embedded.server import EmbeddedServer
from turntree.demo.planting import plant_demo
from turntree.testing.fakes import FakeClock

COMMAND = "from turntree.cli.main import main; main()"
STOP_S_MAX = 20.0
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""What these proofs show is not what survives a power cut."""
Plant = Callable[[Tree], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class UiWorld:
    """A person's home, a folder to work in, and the data directory."""

    folder: Path

    @property
    def home(self) -> Path:
        """The data directory."""
        return self.folder / "home"

    @property
    def person(self) -> Path:
        """The person's home directory, where tools leave their transcripts."""
        return self.folder / "person"

    @property
    def work(self) -> Path:
        """The folder in which commands are run."""
        return self.folder / "work"

    @property
    def settings(self) -> Settings:
        """As the commands of this world read them."""
        return Settings.from_environment({"TURNTREE_HOME": str(self.home)})

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.person),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TURNTREE_HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    async def plant(
        self,
        plant: Plant = plant_demo,
        clock: Clock | None = None,
        *,
        is_searched: bool = True,
    ) -> None:
        """Write data through the library, by default the sample data at a fixed time."""
        async with turntree.open(self.settings, world=clock or FakeClock(7)) as tree:
            await plant(tree)
            if is_searched:
                await tree.search.fill(everything=True)

    def run(self, *words: str) -> str:
        """Run a command as a person would, and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words], cwd=self.work, env=self.environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def documents(self, *words: str) -> list[dict[str, Any]]:
        """Run a command that prints a JSON document per line, and return them."""
        return [json.loads(line) for line in self.run(*words).splitlines()]

    @contextmanager
    def serving(
        self,
        port: int = 0,
        *,
        command: Sequence[str] = ("-c", COMMAND, "ui"),
        program: Path | None = None,
    ) -> Generator["RunningUi", None, None]:
        """Lend a running server; it is stopped as by Ctrl-C afterwards.

        ``program`` is the command of another installation, which sees nothing of this one.
        """
        words = [sys.executable, *command, "--no-open", "--json", "--port", str(port)]
        environment = self.environment
        if program is not None:
            words[: 1 + len(command)] = [str(program), "ui"]
            environment = {**environment, "PATH": str(program.parent)}
            del environment["PYTHONPATH"]
        log = self.folder / "ui.log"
        with (
            log.open("ab") as errors,
            subprocess.Popen(
                words, cwd=self.work, env=environment, stdout=subprocess.PIPE, stderr=errors,
                text=True,
            ) as process,
        ):  # fmt: skip
            assert process.stdout is not None, "its output is piped"
            first = process.stdout.readline()
            if not first:
                raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
            told = json.loads(first)
            running = RunningUi(self, process, told["port"], told["url"])
            try:
                yield running
            finally:
                running.stop()

    @asynccontextmanager
    async def opened_page(
        self, *arguments: str, program: Path | None = None
    ) -> AsyncGenerator[tuple["RunningUi", Browser], None]:
        """Lend a running server and a browser; each starts while the other does."""
        async with AsyncExitStack() as stack:
            serving = partial(stack.enter_context, self.serving(program=program))
            starting = asyncio.create_task(asyncio.to_thread(serving))
            try:
                browser = await stack.enter_async_context(chromium(*arguments))
            finally:
                running = await starting
            yield running, browser


@dataclass(frozen=True, slots=True)
class RunningUi:
    """A server that runs, and the first address that it printed."""

    world: UiWorld
    process: "subprocess.Popen[str]"
    port: int
    url: str

    @property
    def origin(self) -> str:
        """The address without its key."""
        return f"http://127.0.0.1:{self.port}"

    def new_url(self) -> str:
        """Return another address, as the same command prints it in another terminal."""
        told: str = self.world.documents("ui", "--no-open", "--json")[-1]["url"]
        return told

    def stop(self) -> None:
        """Stop the server, and wait until it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        """Return what the server complained about."""
        return (self.world.folder / "ui.log").read_text(errors="replace")


@contextmanager
def ui_world(at: Path | None = None) -> Generator[UiWorld, None, None]:
    """Lend a world without data; its database server and its files are gone afterwards."""
    with ExitStack() as stack:
        if at is not None:
            stack.enter_context(_alone_in(at))
        folder = at or Path(tempfile.mkdtemp(prefix="turntree-ui-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield stack.enter_context(kept_world(folder))


@contextmanager
def _alone_in(folder: Path) -> Generator[None, None, None]:
    """Refuse to share a folder with another run, and clear what one that was killed left there."""
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {folder}: wait until it has ended")
        home = UiWorld(folder).home
        if home.exists():
            EmbeddedServer(home, QUICK).stop()
        shutil.rmtree(folder, ignore_errors=True)
        yield


@contextmanager
def kept_world(folder: Path) -> Generator[UiWorld, None, None]:
    """Lend the world of a folder, with what an earlier run left there; its server is stopped."""
    world = UiWorld(folder)
    for part in (folder, world.person, world.work):
        part.mkdir(parents=True, exist_ok=True)
    # The database server's account may be another than ours, and must pass through.
    folder.chmod(0o755)
    server = EmbeddedServer(world.home, QUICK)
    try:
        server.ensure_running()
        yield world
    finally:
        server.stop()
