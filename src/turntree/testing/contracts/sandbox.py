"""The contract of sandboxes: attempts to reach the host machine must fail.

An attempt is a program that tries one thing and reports what it got. ``attempt`` runs it against
real targets: a secret file, open ports, a living process. A sandbox passes if no attempt gets
anything. Public, so that third-party sandboxes can run it too.
"""

import socket
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turntree.core.canonical import Json
from turntree.core.errors import CodeError
from turntree.core.value import value
from turntree.sandbox.code import Code, CodeLimits
from turntree.sandbox.sandbox import Sandbox

LIMITS: Final = CodeLimits(wall_s=4.0, cpu_s=2, memory_bytes=134_217_728, output_bytes=100_000)
SECRET: Final = "hunter2"  # noqa: S105  (it is no secret, which is the point)
ENVIRONMENT_NAME: Final = "TURNTREE_ATTEMPT_SECRET"


@value
class Host:
    """The targets of an attempt."""

    secret: Path
    folder: Path
    tcp_port: int
    udp_port: int
    unix_path: Path
    abstract: str
    """The address of a socket that has no file."""
    victim: int

    def to_json(self) -> dict[str, Json]:
        """Return where every target is; an attacker is assumed to know."""
        return {
            "secret": str(self.secret),
            "folder": str(self.folder),
            "tcp": self.tcp_port,
            "udp": self.udp_port,
            "unix": str(self.unix_path),
            "abstract": self.abstract,
            "victim": self.victim,
            "name": ENVIRONMENT_NAME,
        }


@contextmanager
def a_host() -> Generator[Host, None, None]:
    """Yield a host with a secret, open ports and a process to harm."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-attempt-"))
    # World-readable, as on a careless machine: only the sandbox protects it.
    folder.chmod(0o777)
    secret = folder / "secret.txt"
    secret.write_text(SECRET, encoding="utf-8")
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    doors = [tcp, udp]
    # Such names are the machine's, and two hosts may exist at once.
    abstract = f"\0{folder.name}"
    for address in (str(folder / "door"), abstract):
        door = socket.socket(socket.AF_UNIX)
        door.bind(address)
        door.listen()
        doors.append(door)
    (folder / "door").chmod(0o777)
    victim = subprocess.Popen(["/bin/sleep", "600"])
    try:
        yield Host(
            secret, folder, tcp.getsockname()[1], udp.getsockname()[1], folder / "door", abstract,
            victim.pid,
        )  # fmt: skip
    finally:
        victim.kill()
        victim.wait()
        for door in doors:
            door.close()
        for left in sorted(folder.rglob("*"), reverse=True):
            left.unlink()
        folder.rmdir()


async def attempt(sandbox: Sandbox, name: str, host: Host) -> str | None:
    """Run one attempt; return what it got, or None if the sandbox held.

    Raises:
        SandboxUnavailable: It cannot start here.
    """
    try:
        answer = await sandbox.run(ATTEMPTS[name], host.to_json(), LIMITS)
    except CodeError:
        answer = None
    marks = [path for path in host.folder.iterdir() if path not in (host.secret, host.unix_path)]
    if marks:
        return f"it left {marks[0].name} behind"
    if not _lives(host.victim):
        return "it ended a process outside"
    match answer:
        case {"got": got} if got:
            return str(got)
        case _:
            return None


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def _python(body: str) -> Code:
    """Return a program whose ``go`` is the attempt."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return Code("python", _FRAME.replace("@body@", lines))


_FRAME: Final = """
import json, os, sys
asked = json.load(sys.stdin)
def go():
@body@
try:
    print(json.dumps({"got": go()}))
except BaseException as error:
    print(json.dumps({"blocked": repr(error)}))
"""
_SYSCALL: Final = """
import ctypes
library = ctypes.CDLL(None, use_errno=True)
result = library.%s
if result < 0:
    raise OSError(ctypes.get_errno(), "refused")
return "the kernel did it"
"""


def _javascript(body: str) -> Code:
    return Code("javascript", _JAVASCRIPT_FRAME.replace("@body@", body.strip()))


_JAVASCRIPT_FRAME: Final = """
const fs = require("node:fs");
const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const tell = (got) => { fs.writeSync(1, JSON.stringify({ got })); process.exit(0); };
const blocked = () => { fs.writeSync(1, "{}"); process.exit(0); };
process.on("uncaughtException", blocked);
try {
@body@
} catch (error) { blocked(); }
"""

ATTEMPTS: Final[Mapping[str, Code]] = {
    "read a secret file": _python("return open(asked['secret']).read()"),
    "read the passwords": _python("return open('/etc/shadow').read(8)"),
    "list a home": _python("return os.listdir('/root') + os.listdir('/home')"),
    "read the environment": _python("return os.environ.get(asked['name'])"),
    "read another's environment": _python(
        "return open(f\"/proc/{asked['victim']}/environ\", 'rb').read().decode()"
    ),
    "write outside": _python("open(asked['folder'] + '/mark', 'w').write('x')\nreturn 'wrote'"),
    "write anywhere": _python(
        """
for folder in ('/tmp', '/', '/dev/shm', '/dev', '/python', '/usr', '/run', '/var/tmp'):
    try:
        with open(folder + '/mark', 'w') as file:
            file.write('x')
        return folder
    except OSError:
        pass
"""
    ),
    "call out": _python(
        """
import socket
return socket.create_connection(('127.0.0.1', asked['tcp']), 2) and 'connected'
"""
    ),
    "send a packet": _python(
        """
import socket
door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
return door.sendto(b'x', ('127.0.0.1', asked['udp']))
"""
    ),
    "connect to a socket": _python(
        "import socket\nsocket.socket(socket.AF_UNIX).connect(asked['unix'])\nreturn 'connected'"
    ),
    "connect to a nameless socket": _python(
        """
import socket
socket.socket(socket.AF_UNIX).connect(asked['abstract'])
return 'connected'
"""
    ),
    "end a process": _python("os.kill(asked['victim'], 9)\nreturn 'killed'"),
    "end everything": _python("os.kill(-1, 9)\nreturn 'killed'"),
    "fork": _python("return 'forked' if os.fork() else os._exit(0)"),
    "fork for ever": _python("while True:\n    if os.fork():\n        asked['got'] = True"),
    "start a program": _python(
        """
import subprocess
return subprocess.run(['/bin/sh', '-c', 'id'], capture_output=True).stdout.decode()
"""
    ),
    "start threads for ever": _python(
        """
import threading, time
for number in range(1000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
return 'a thousand threads'
"""
    ),
    "take memory": _python("return len([bytearray(1 << 24) for _ in range(64)])"),
    "take memory in one piece": _python("return len(bytearray(1 << 30))"),
    "take shared memory": _python(
        """
import mmap
taken = [mmap.mmap(-1, 1 << 26) for _ in range(8)]
for piece in taken:
    piece[:] = bytes(1 << 26)
return len(taken)
"""
    ),
    "never end": _python("while True:\n    pass"),
    "sleep for ever": _python("import time\ntime.sleep(600)\nreturn 'slept'"),
    "flood the output": _python(
        "for _ in range(64):\n    sys.stdout.write('x' * (1 << 20))\nreturn 'flooded'"
    ),
    "flood the errors": _python(
        "while True:\n    sys.stderr.write('x' * (1 << 20))"
    ),
    "open a user namespace": _python(_SYSCALL % "unshare(0x10000000)"),
    "use io_uring": _python(_SYSCALL % "syscall(425, 8, ctypes.create_string_buffer(120))"),
    "trace a process": _python(_SYSCALL % "ptrace(16, asked['victim'], 0, 0)"),
    "mount": _python(_SYSCALL % "mount(b'none', b'/usr', b'tmpfs', 0, None)"),
    "load a program into the kernel": _python(_SYSCALL % "syscall(321, 0, None, 0)"),
    "lift a limit": _python(
        """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))
return 'lifted'
"""
    ),
    "inherit a descriptor": _python(
        """
found = []
for number in range(3, 64):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
return found
"""
    ),
    "JavaScript: read a secret file": _javascript("tell(fs.readFileSync(asked.secret, 'utf8'));"),
    "JavaScript: read the environment": _javascript("tell(process.env[asked.name]);"),
    "JavaScript: write outside": _javascript(
        "fs.writeFileSync(asked.folder + '/mark', 'x'); tell('wrote');"
    ),
    "JavaScript: call out": _javascript(
        "require('net').connect(asked.tcp, '127.0.0.1').on('connect', () => tell('connected'))"
        ".on('error', blocked);"
    ),
    "JavaScript: start a program": _javascript(
        "tell(require('child_process').execFileSync('/bin/sh', ['-c', 'id']).toString());"
    ),
    "JavaScript: take memory": _javascript(
        "const kept = []; for (let n = 0; n < 64; n++) kept.push(Buffer.alloc(1 << 24, 1));"
        " tell(kept.length);"
    ),
    "JavaScript: take a heap": _javascript(
        "const kept = []; for (let n = 0; n < 1e8; n++) kept.push({ n, s: 'x'.repeat(9) + n });"
        " tell(kept.length);"
    ),
    "JavaScript: never end": _javascript("for (;;) {}"),
    "JavaScript: end a process": _javascript(
        "process.kill(asked.victim, 'SIGKILL'); tell('killed');"
    ),
}  # fmt: skip
