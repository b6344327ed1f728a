"""Every probe of the code sandbox in every language: none gets anything, and none takes long.

``probe`` makes one of them, for whatever counts them: it returns what a probe got, or None.
"""

import errno
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from turntree.core.canonical import Json
from turntree.core.errors import CodeError
from turntree.sandbox import bwrap_args as walls
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.code import LANGUAGES, Code, CodeLimits, Language
from turntree.sandbox.node import find_node
from turntree.sandbox.sandbox import Sandbox
from turntree.sandbox.seccomp import find_filter

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SANDBOX = Bubblewrap(node=find_node())
FAULT = SANDBOX.find_fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox here: {FAULT}")
LIMITS: Final = CodeLimits(wall_s=4.0, cpu_s=2, memory_bytes=134_217_728, output_bytes=100_000)
SECRET: Final = "leak-me-not"
NAME: Final = "TURNTREE_PROBE_SECRET"
SEEN: Final = {
    "bin", "dev", "lib", "lib32", "lib64", "libx32", "node", "program.js", "program.py", "python",
    "sbin", "usr", "etc", "proc", "tmp",
}  # fmt: skip
DEVICES: Final = {
    "console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
    "stdout", "tty", "urandom", "zero",
}  # fmt: skip
Judge = Callable[[Json], bool]
"""Says whether an answer is more than a probe may get."""


def anything(answer: Json) -> bool:
    return answer not in (None, [], {}, "")


def but(*allowed: Json) -> Judge:
    return lambda answer: answer not in allowed


def beyond(allowed: set[str]) -> Judge:
    return lambda answer: not isinstance(answer, list) or not set(map(str, answer)) <= allowed


def secret(answer: Json) -> bool:
    return SECRET in str(answer)


# A judge, and what a probe does in Python and in JavaScript, which has no way to call the kernel
# itself: there it asks its engine for the nearest thing.
PROBES: Final[Mapping[str, tuple[Judge, str, str]]] = {
    "environment": (secret, "return dict(os.environ)", "return process.env"),
    "list the root": (beyond(SEEN), "return os.listdir('/')", "return fs.readdirSync('/')"),
    "read a file of the host": (
        anything, "return open(asked['secret']).read()",
        "return fs.readFileSync(asked.secret, 'utf8')",
    ),
    "read the users": (
        anything, "return open('/etc/passwd').read()",
        "return fs.readFileSync('/etc/passwd', 'utf8')",
    ),
    "list processes": (anything, "return os.listdir('/proc')", "return fs.readdirSync('/proc')"),
    "list the system": (anything, "return os.listdir('/sys')", "return fs.readdirSync('/sys')"),
    "follow descriptors": (
        anything,
        "return [os.readlink(f'/proc/self/fd/{n}') for n in range(64)]",
        "return fs.readdirSync('/proc/self/fd')",
    ),
    "inherit descriptors": (
        anything,
        """
found = []
for number in range(3, 64):
    try:
        found.append([number, oct(os.fstat(number).st_mode)])
    except OSError:
        pass
return found""",
        """
const found = [];
for (let number = 3; number < 64; number++) {
  try {
    const one = fs.fstatSync(number);
    if (one.isFile() || one.isDirectory() || one.isSocket()) found.push(number);
  } catch (error) { }
}
return found""",
    ),
    "write into the root": (
        anything, "return open('/x', 'w').write('a')",
        "fs.writeFileSync('/x', 'a'); return 'wrote'",
    ),
    "write into shared memory": (
        anything,
        "return open('/dev/shm/x', 'w').write('a')",
        "fs.writeFileSync('/dev/shm/x', 'a'); return 'wrote'",
    ),
    "write into a scratch folder": (
        anything,
        "return open('/tmp/x', 'w').write('a')",
        "fs.writeFileSync('/tmp/x', 'a'); return 'wrote'",
    ),
    "connect to a port": (
        anything,
        "import socket\nreturn socket.create_connection(('127.0.0.1', 22), 1) and 'connected'",
        "return wait(require('net').connect(22, '127.0.0.1'), 'connect')",
    ),
    "connect to a path": (
        anything,
        "import socket\nsocket.socket(socket.AF_UNIX).connect(asked['door'])\nreturn 'connected'",
        "return wait(require('net').connect(asked.door), 'connect')",
    ),
    "fork": (
        anything, "return 'forked' if os.fork() else os._exit(0)",
        "return require('child_process').fork('/program.js').pid ?? null",
    ),
    "start five thousand threads": (
        but(None, *range(5000)),
        """
import threading, time
started = 0
for number in range(5000):
    try:
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
    except RuntimeError:
        return started
    started += 1
return started""",
        """
const { Worker } = require('worker_threads');
for (let n = 0; n < 5000; n++) new Worker('setTimeout(() => 0, 3000)', { eval: true });
return 5000""",
    ),
    "take two gigabytes": (
        anything, "return len(bytearray(2 << 30))", "return Buffer.alloc(2 ** 31, 1).length",
    ),
    "share two gigabytes": (
        anything,
        "import mmap\nm = mmap.mmap(-1, 2 << 30)\nm[::4096] = b'x' * (2 << 18)\nreturn 'shared'",
        "return new Uint8Array(new SharedArrayBuffer(2 ** 31 - 1)).fill(1).length",
    ),
    "make a file of memory": (
        anything, "return os.memfd_create('x') + 1",
        "return new WebAssembly.Memory({ initial: 65536 }).buffer.byteLength",
    ),
    "become another program": (
        anything, "os.execv('/usr/bin/id', ['id'])", "process.execve('/usr/bin/id', ['id'])",
    ),
    "start a program": (
        anything,
        "import subprocess\nreturn subprocess.run(['id'], capture_output=True).stdout.decode()",
        "return require('child_process').execFileSync('/usr/bin/id').toString()",
    ),
    "end the first process": (
        anything, "os.kill(1, 9)\nreturn 'killed'", "process.kill(1, 'SIGKILL'); return 'killed'",
    ),
    "trace a process": (
        anything, "return call('ptrace', 16, 1, 0, 0)",
        "require('inspector').open(0); return require('inspector').url() ?? null",
    ),
    "open a namespace": (
        anything, "return call('unshare', 0x10000000)",
        "process.seteuid(0); return process.geteuid() || 'root'",
    ),
    "call what passes by filters": (
        anything,
        """
return [n for n in (425, 435, 323, 321, 298, 272, 101)
        if library.syscall(n, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38)]""",
        "return require('fs').opendirSync('/proc/self/task').readSync()?.name ?? null",
    ),
    "limit another process": (
        anything,
        "import resource\nreturn str(resource.prlimit(1 << 20, resource.RLIMIT_CPU, (1, 1)))",
        "require('os').setPriority(1 << 20, 19); return 'changed'",
    ),
    "lift its own limits": (
        anything,
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nreturn 'lifted'",
        """
require('v8').setFlagsFromString('--max-old-space-size=8192');
const kept = [];
for (let n = 0; n < 64; n++) kept.push(new Array(4e6).fill(n));
return kept.length""",
    ),
    "list devices": (beyond(DEVICES), "return os.listdir('/dev')", "return fs.readdirSync('/dev')"),
    "write to the terminal": (
        anything, "return open('/dev/tty', 'w').write('x')",
        "fs.writeFileSync('/dev/tty', 'x'); return 'wrote'",
    ),
    "read a gigabyte of zeros": (
        anything, "return len(open('/dev/zero', 'rb').read(1 << 30))",
        "return fs.readSync(fs.openSync('/dev/zero'), Buffer.alloc(2 ** 30))",
    ),
    "list what the machine installed": (
        secret, "return os.listdir('/usr/local')", "return fs.readdirSync('/usr/local')",
    ),
    "climb out of the interpreter": (
        beyond(SEEN), "return os.listdir('/python/..')", "return fs.readdirSync('/usr/..')",
    ),
    "flood the output": (
        anything, "sys.stdout.write('x' * 50_000_000)\nreturn 1",
        "fs.writeSync(1, 'x'.repeat(5e7)); return 1",
    ),
    "flood the errors": (
        but(None, 1), "sys.stderr.write('x' * 50_000_000)\nreturn 1",
        "for (let n = 0; n < 500; n++) fs.writeSync(2, 'x'.repeat(1e5)); return 1",
    ),
    "never end": (anything, "while True:\n    pass", "for (;;) {}"),
    "sleep": (
        anything, "import time\ntime.sleep(60)\nreturn 'slept'",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60000); return 'slept'",
    ),
    "answer deeply": (
        anything, "raw('[' * 40_000 + ']' * 40_000)", "raw('['.repeat(40000) + ']'.repeat(40000))",
    ),
    "answer with no number": (anything, "raw('NaN')", "raw('NaN')"),
    "answer with an endless number": (
        lambda answer: not isinstance(answer, float | int | None), "raw('1' * 90_000)",
        "raw('1'.repeat(90000))",
    ),
    "take memory that nobody owns": (
        anything, "return call('shmget', 1234, 1 << 20, 0o1666)",
        "process.dlopen({ exports: {} }, '/lib/x86_64-linux-gnu/libc.so.6'); return 'loaded'",
    ),
    "read the kernel's keys": (
        anything, "return call('syscall', 250, 0, -3, 0, 0)",
        "process.setgroups([0]); return 'joined'",
    ),
    "name the machine": (
        but(None, "sandbox"), "return os.uname().nodename", "return require('os').hostname()",
    ),
}  # fmt: skip

PYTHON: Final = """
import ctypes, json, os, sys
asked = json.load(sys.stdin)
library = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    if getattr(library, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "the kernel did it"
def raw(text):
    sys.stdout.write(text)
    sys.stdout.flush()
    os._exit(0)
def go():
@body@
try:
    got = go()
except BaseException:
    got = None
print(json.dumps(got))
"""
JAVASCRIPT: Final = """
const fs = require("node:fs");
const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const tell = (got) => { fs.writeSync(1, JSON.stringify(got ?? null)); process.exit(0); };
const raw = (text) => { fs.writeSync(1, text); process.exit(0); };
const wait = (door, name) => new Promise((done) => {
  door.on(name, () => done("connected")); door.on("error", () => done(null)); });
process.on("uncaughtException", () => tell(null));
const go = async () => {
@body@
};
go().then(tell, () => tell(null));
"""
TYPESCRIPT: Final = """
import * as fs from "node:fs";
import * as net from "node:net";
import * as child_process from "node:child_process";
import * as inspector from "node:inspector";
import * as os from "node:os";
import * as v8 from "node:v8";
import * as worker_threads from "node:worker_threads";
const parts: Record<string, any> = { fs, net, child_process, inspector, os, v8, worker_threads };
const require = (name: string): any => parts[name];
""" + JAVASCRIPT.partition("\n")[2].partition("\n")[2].replace(
    "(got) =>", "(got: unknown): void =>"
)


def code(language: Language, name: str) -> Code:
    """Return a probe as a program of a language."""
    _, python, javascript = PROBES[name]
    if language == "python":
        return Code("python", PYTHON.replace("@body@", textwrap.indent(python.strip(), "    ")))
    frame = JAVASCRIPT if language == "javascript" else TYPESCRIPT
    return Code(language, frame.replace("@body@", javascript))


async def probe(sandbox: Sandbox, language: Language, name: str, folder: Path) -> str | None:
    """Make a probe; return what it got, or None if it got nothing.

    Raises:
        NoSandbox: It cannot start here.
    """
    asked: Json = {"secret": str(folder / "secret"), "door": str(folder / "door")}
    try:
        answer = await sandbox.run(code(language, name), asked, LIMITS)
    except CodeError:
        return None
    judge = PROBES[name][0]
    return str(answer) if judge(answer) or secret(answer) else None


@pytest.fixture(scope="module")
def folder() -> Path:
    os.environ[NAME] = SECRET
    place = Path(tempfile.mkdtemp(prefix="turntree-probe-"))
    (place / "secret").write_text(SECRET, encoding="utf-8")
    return place


@needs_sandbox
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PROBES)
async def test_no_probe_gets_anything(language: Language, name: str, folder: Path) -> None:
    if language != "python" and SANDBOX.node is None:
        pytest.skip("no Node here that runs JavaScript")
    started = time.monotonic()
    assert await probe(SANDBOX, language, name, folder) is None
    assert time.monotonic() - started < 30


@needs_sandbox
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_frame_of_a_probe_tells_what_it_gets(language: Language, folder: Path) -> None:
    if language != "python" and SANDBOX.node is None:
        pytest.skip("no Node here that runs JavaScript")
    # A probe that always fails by itself would prove nothing.
    for name, got in (("name the machine", "sandbox"), ("list the root", "usr")):
        answer = await SANDBOX.run(code(language, name), {}, LIMITS)
        assert got in str(answer)
    answer = await SANDBOX.run(code(language, "environment"), {}, LIMITS)
    assert isinstance(answer, dict)
    assert NAME not in answer


def test_there_are_forty_one_probes() -> None:
    assert len(PROBES) == 41


BEHIND_THE_FILTER: Final = """
import socket
for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM),
                     (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM),
                     (socket.AF_NETLINK, socket.SOCK_RAW)):
    try:
        socket.socket(family, kind)
    except OSError as error:
        print(error.errno)
    else:
        print("opened")
try:
    socket.socketpair()
except OSError as error:
    print(error.errno)
else:
    print("opened")
import ctypes
library = ctypes.CDLL(None, use_errno=True)
# A descriptor that was handed in would not have to be opened.
for name in ("connect", "bind", "listen", "accept", "sendto"):
    getattr(library, name)(0, 0, 0, 0, 0, 0)
    print(ctypes.get_errno())
"""


@needs_sandbox
def test_the_filter_alone_denies_every_socket_though_the_network_is_shared() -> None:
    assert SANDBOX.bwrap is not None
    with walls.holding(find_filter(platform.machine()) or b"") as rules:
        # No namespace and no other wall: only the filter stands between this and the network.
        words = [SANDBOX.bwrap, "--dev-bind", "/", "/", "--seccomp", str(rules.fileno()), "--"]
        ended = subprocess.run(
            [*words, sys.executable, "-I", "-S", "-c", BEHIND_THE_FILTER],
            pass_fds=(rules.fileno(),), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ended.stdout.split() == [str(int(errno.EPERM))] * 11, ended.stderr
