"""Bubblewrap: programs answer, attempts fail, and without a sandbox nothing runs."""

import contextlib
import os
import platform
import struct
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import orjson
import pytest
from anyio.abc import Process

from turntree.core.canonical import Json
from turntree.core.errors import CodeError, InvalidOperation, SandboxUnavailable
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.code import SOURCE_BYTES_MAX, Code, CodeLimits, CommandResult, Language
from turntree.sandbox.node import find_node
from turntree.sandbox.seccomp import find_filter
from turntree.testing.contracts.sandbox import (
    ATTEMPTS,
    ENVIRONMENT_NAME,
    LIMITS,
    Host,
    a_host,
    attempt,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SANDBOX = Bubblewrap(node=find_node())
FAULT = SANDBOX.find_fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox here: {FAULT}")
ECHO: dict[Language, str] = {
    "python": "import json, sys; d = json.load(sys.stdin); d['n'] += 1; print(json.dumps(d))",
    "javascript": """
const d = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
d.n += 1;
console.log(JSON.stringify(d));
""",
    "typescript": """
import { readFileSync } from "node:fs";
interface Counted { n: number; words: string[] }
const d: Counted = JSON.parse(readFileSync(0, "utf8")) as Counted;
d.n += 1;
console.log(JSON.stringify(d satisfies Counted));
""",
}


PATIENT = CodeLimits(wall_s=60)
HARMLESS = [
    "read a secret file", "read the environment", "write outside", "call out", "send a packet",
    "connect to a socket", "connect to a nameless socket", "fork", "start a program",
    "read another's environment", "JavaScript: read a secret file",
    "JavaScript: read the environment", "JavaScript: call out", "JavaScript: start a program",
]  # fmt: skip


@pytest.fixture(scope="module")
def host() -> Generator[Host, None, None]:
    os.environ[ENVIRONMENT_NAME] = "hunter2"
    with a_host() as lent:
        yield lent
    del os.environ[ENVIRONMENT_NAME]


@needs_sandbox
@pytest.mark.parametrize("language", ECHO)
async def test_a_document_goes_in_and_one_comes_out(language: Language) -> None:
    document: Json = {"n": 1, "words": ["é", "\u2028", '"']}
    answer = await SANDBOX.run(Code(language, ECHO[language]), document)
    assert answer == {"n": 2, "words": ["é", "\u2028", '"']}


@needs_sandbox
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_no_attempt_gets_anything(name: str, host: Host) -> None:
    started = time.monotonic()
    assert await attempt(SANDBOX, name, host) is None
    assert time.monotonic() - started < 30


@dataclass(frozen=True, slots=True)
class Bare:
    """No sandbox at all."""

    name: str = "bare"

    def find_fault(self) -> str | None:
        return None

    async def run(self, code: Code, document: Json, limits: CodeLimits = LIMITS) -> Json:
        del limits
        command = [sys.executable, "-c", code.source]
        if code.language != "python":
            command = [find_node() or "node", "-e", code.source]
        ended = await anyio.run_process(command, input=orjson.dumps(document))
        answer: Json = orjson.loads(ended.stdout)
        return answer

    async def run_command(
        self,
        command: Sequence[str],
        folder: str,
        *,
        writes: bool = False,
        limits: object = None,
        view: object = None,
    ) -> CommandResult:
        raise NotImplementedError(command, folder, writes, limits, view)

    def open_command(
        self, *given: object, **named: object
    ) -> contextlib.AbstractAsyncContextManager[Process]:
        raise NotImplementedError(given, named)


@pytest.mark.parametrize("name", HARMLESS)
async def test_without_walls_the_same_attempts_succeed(name: str, host: Host) -> None:
    assert await attempt(Bare(), name, host) is not None
    (host.folder / "mark").unlink(missing_ok=True)


@needs_sandbox
async def test_a_document_may_be_large() -> None:
    source = "import json, sys; print(json.dumps(len(json.load(sys.stdin))))"
    assert await SANDBOX.run(Code("python", source), "x" * 900_000) == 900_000
    with pytest.raises(InvalidOperation, match="at most"):
        await SANDBOX.run(Code("python", source), "x" * 2_000_000)


@needs_sandbox
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("print('{')", "no JSON document"),
        ("pass", "no JSON document"),
        ("print('{}'); print('{}')", "no JSON document"),
        ("raise ValueError('not today')", "not today"),
        ("import sys; sys.exit(3)", "it ended with 3"),
        ("print('x' * 3_000_000)", "wrote more than"),
    ],
)
async def test_a_program_that_does_not_answer_says_why(source: str, told: str) -> None:
    with pytest.raises(CodeError, match=told):
        await SANDBOX.run(Code("python", source), {})


@needs_sandbox
async def test_a_program_that_does_not_end_is_ended() -> None:
    with pytest.raises(CodeError, match="longer than 1 s"):
        await SANDBOX.run(Code("python", "import time; time.sleep(60)"), {}, CodeLimits(wall_s=1))


@needs_sandbox
async def test_what_is_no_typescript_is_told() -> None:
    with pytest.raises(CodeError, match=r"SyntaxError|ERR_"):
        await SANDBOX.run(Code("typescript", "enum Colour { Red }"), {})


@needs_sandbox
async def test_somebody_who_stops_waiting_leaves_no_process_behind() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(SANDBOX.run, Code("python", "import time; time.sleep(60)"), {}, PATIENT)
        # Nobody can tell us; the kernel knows.
        while not (seen := programs()):  # noqa: ASYNC110
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    with anyio.fail_after(30):
        # Other tests may be running programs of their own, which end soon.
        while seen & programs():  # noqa: ASYNC110
            await anyio.sleep(0.05)


@needs_sandbox
async def test_several_run_beside_each_other() -> None:
    answers: list[Json] = []

    async def one(number: int) -> None:
        answers.append(await SANDBOX.run(Code("python", ECHO["python"]), {"n": number}))

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(one, number)
    assert sorted(answers, key=str) == [{"n": number} for number in range(1, 5)]


async def test_without_bubblewrap_nothing_runs() -> None:
    for missing in (Bubblewrap(bwrap=None), Bubblewrap(prlimit=None)):
        assert missing.find_fault() is not None
        with pytest.raises(SandboxUnavailable, match="no sandbox can start here"):
            await missing.run(Code("python", ECHO["python"]), {"n": 1})


@needs_sandbox
async def test_a_bubblewrap_that_cannot_put_up_its_walls_runs_nothing() -> None:
    # It ends as a program would, with a code; but it never said that the program began.
    broken = Bubblewrap(bwrap="/bin/false")
    with pytest.raises(SandboxUnavailable):
        await broken.run(Code("python", ECHO["python"]), {"n": 1})
    pretending = Bubblewrap(bwrap="/bin/true")
    with pytest.raises(SandboxUnavailable):
        await pretending.run(Code("python", ECHO["python"]), {"n": 1})


@needs_sandbox
async def test_without_node_javascript_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="JavaScript needs Node"):
        await Bubblewrap(node=None).run(Code("javascript", ECHO["javascript"]), {"n": 1})


def test_a_program_of_no_language_or_no_length_is_refused() -> None:
    for language, source in (
        ("perl", "1"),
        ("python", " \n"),
        ("python", "#" * SOURCE_BYTES_MAX + "#"),
    ):
        with pytest.raises(InvalidOperation):
            Code(language, source)  # type: ignore[arg-type]
    with pytest.raises(InvalidOperation):
        CodeLimits(wall_s=0)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_a_filter_lands_inside_it(machine: str) -> None:
    filter = find_filter(machine)
    assert filter is not None
    steps = list(struct.iter_unpack("=HBBI", filter))
    for place, (code, yes, no, _) in enumerate(steps):
        assert place + 1 + max(yes, no) < len(steps) or code == 0x06
    assert steps[-1][0] == 0x06
    assert find_filter("pdp11") is None


def test_this_machine_has_a_filter() -> None:
    if sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"}:
        assert find_filter(platform.machine())


def programs() -> set[str]:
    """Return the processes that run somebody's program."""
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            found |= {path.parent.name} if words[-2:-1] == [b"/program.py"] else set()
    return found
