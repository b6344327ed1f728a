"""The page "The life of a turn" lists the modules that a message really passes."""

import asyncio
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from anyio import wait_all_tasks_blocked

import turntree
from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.core.canonical import Json
from turntree.runs.engines.retry import handle_until_done

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parent.parent.parent / "docs/life-of-a-turn.md"
SOURCE = f"{Path(turntree.__file__).parent}/"
ROW = re.compile(r"^\| `([\w.]+)` \|", re.MULTILINE)
MODULES_MAX = 30
"""Modules outside ``core`` from ``post`` to the sealed turn. It may only fall."""

BACKGROUND = {
    "Runs.wait",  # The sender looks for the turn; the message does not pass here.
    "Worker._again",
    "Worker._beat",
    "Worker._sweep",
    "_in_background.<locals>.run",
    "WorkerRuntime._look",
    "TaskSupervisor.oversee",
    "_ShownVariables.__getitem__",  # Any library may read a variable at any time.
}
MODEL: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
CALL: Json = {"tool": "weather", "args": {"city": "Oslo"}}
SCRIPT: dict[str, Json] = {
    "provider_type": "scripted",
    "rules": [{"when": "warm", "replies": [{"tools": [CALL]}]}],
}
SOON_S = 30.0


def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"4 degrees in {city}"


class Walk:
    """The modules of the package whose functions are called, in the order of their first call."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.is_recording = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if not self.is_recording or event != "call":
            return
        module = module_of(frame)
        if module and module not in self.modules and not is_background(frame):
            self.modules.append(module)

    @contextmanager
    def recording(self) -> Generator[list[str], None, None]:
        self.modules = []
        self.is_recording = True
        try:
            yield self.modules
        finally:
            self.is_recording = False


def module_of(frame: FrameType) -> str | None:
    """Return the module of the package that a function is in, or None if it is elsewhere."""
    path = frame.f_code.co_filename
    return path[len(SOURCE) : -len(".py")].replace("/", ".") if path.startswith(SOURCE) else None


def is_background(frame: FrameType | None) -> bool:
    """Return whether a call belongs to an import or to a background task."""
    while frame is not None:
        code = frame.f_code
        if code.co_qualname in BACKGROUND or (code.co_name == "<module>" and module_of(frame)):
            return True
        frame = frame.f_back
    return False


@pytest.fixture
def walk() -> Generator[Walk, None, None]:
    """A recorder in this thread and in every thread that starts from now on."""
    recorder = Walk()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    yield recorder
    sys.setprofile(None)
    threading.setprofile(None)


async def ask(tree: Tree, text: str) -> None:
    message = await tree.runs.post("main", text)
    thread_turn = await tree.runs.wait(message.run, timeout_s=SOON_S)
    assert thread_turn.turn.header.outcome == "completed"
    # The worker looks for more work before it goes idle; that must not enter the next walk.
    await asyncio.gather(*(task for task in asyncio.all_tasks() if is_wake_up(task)))
    await wait_all_tasks_blocked()


def is_wake_up(task: "asyncio.Task[object]") -> bool:
    return getattr(task.get_coro(), "__name__", None) == handle_until_done.__name__


def outside_core(modules: list[str]) -> list[str]:
    return [module for module in modules if not module.startswith("core.")]


def listed(heading: str) -> list[str]:
    """Return the modules in the table below a heading of the page."""
    _, section = PAGE.read_text(encoding="utf-8").split(f"\n{heading}\n", 1)
    modules = ROW.findall(section.split("\n#", 1)[0])
    assert modules, heading
    return modules


async def test_life_of_a_turn_lists_the_modules_that_a_message_passes(
    conninfo: str, walk: Walk, tmp_path: Path
) -> None:
    settings = Settings(tmp_path, database_url=conninfo, workspace="walks")
    async with open_tree(settings, worker=True) as tree:
        await tree.programs.create("provider", "script", SCRIPT)
        await tree.programs.create("model", "echo", MODEL)
        with walk.recording() as first:
            await ask(tree, "Hello")
        with walk.recording() as second:
            await ask(tree, "And in Bergen?")
    async with open_tree(settings, worker=True, tools=[weather]) as tree:
        await ask(tree, "Hello again")
        with walk.recording() as with_tool:
            await ask(tree, "Is it warm?")
    page = listed("### The modules it passes")
    assert outside_core(second) == page
    assert len(page) <= MODULES_MAX
    assert set(outside_core(first)) - set(page) == set(listed("### The first message also passes"))
    assert set(outside_core(with_tool)) - set(page) == set(listed("### A tool call also passes"))
