"""The claim: our own agents work in a folder, their turns go back, fork and are blamed, and nothing
gets out of it.

A scripted agent writes and mends a project with ``fs.*`` and ``shell.exec``. Every line is blamed
on the turn that wrote it; the session is rewound and forked with its files, by the commands that a
person types. An agent that another person wrote, another person's message and a session without a
folder get no tools. Then attacks on the same tools: by absolute paths and parents, by links that
are there and links that are put there while a file is opened, by pipes and hard links, and from
inside of commands by files, variables, other processes, sockets, hooks and set-ID bits. Faults are
planted in the tools, to see that the same attacks would find them.

Not here: a network that a profile gives, and what a person runs of what an agent wrote.
"""

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import anyio
import anyio.lowlevel

import turntree
from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import CODE_SANDBOX, Settings, find_sandboxes
from turntree.core.canonical import Json
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, ToolUse
from turntree.core.principal import Principal
from turntree.core.value import value
from turntree.db.database import ensure_database
from turntree.programs.service import Programs
from turntree.sandbox import seccomp
from turntree.testing.contracts.sandbox import ENVIRONMENT_NAME, SECRET, Host, a_host
from turntree.tools.toolset import ToolContext, Toolset
from turntree.workbench import folder as work_folder
from turntree.workbench.profile import PLAIN, SandboxProfile
from turntree.workbench.tools import WorkbenchTools

FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
WORKSPACE: Final = "own"
RUN: Final = RunId("00000000-0000-7000-8000-000000000000")
PATIENCE_S: Final = 120.0
Calls = Sequence[tuple[str, dict[str, Json]]]
TURNS: Final[Sequence[tuple[str, Sequence[Calls]]]] = (
    ("first", (
        [("fs.write", {"path": "src/sum.py", "text": "def add(a, b):\n    return a - b\n"}),
         ("fs.write", {"path": "notes.txt", "text": "one\ntwo\n"})],
        [("shell.exec", {"cmd": "seq 3 > src/three.txt && wc -l < src/three.txt"})],
    )),
    ("second", (
        [("fs.read", {"path": "src/sum.py"}),
         ("fs.edit", {"path": "src/sum.py", "old": "a - b", "new": "a + b"})],
        [("shell.exec", {"cmd": "echo three >> notes.txt; rm src/three.txt"}),
         ("shell.exec", {"cmd": "python3 -c 'print(2 + 3)'", "cwd": "src"})],
    )),
    ("third", ([("shell.exec", {"cmd": "sed -i s/two/zwei/ notes.txt; mkdir -p deep/er; "
                                      "echo x > deep/er/x.txt"})],)),
)  # fmt: skip
BLAMED: Final = {
    "src/sum.py": ("first", "second"),
    "notes.txt": ("first", "third", "second"),
    "deep/er/x.txt": ("third",),
}
"""Of each file, the turns that wrote its lines."""


async def prove(proof: Proof) -> None:
    """Have an agent work, and attack its tools."""
    if (fault := find_sandboxes()[CODE_SANDBOX].find_fault()) is not None:
        raise RuntimeError(f"no sandbox here: {fault}")
    if proof.begins("work"):
        await _show_work(proof)
    if proof.begins("attacks"):
        await _show_attacks(proof)


# What an agent does, as a person sees it.


async def _show_work(proof: Proof) -> None:
    with temporary_server(FAST) as (server, _), TemporaryDirectory() as name:
        folder = real(name)
        conninfo = await ensure_database(server, "own_tools")
        settings = Settings(folder / "home", database_url=conninfo, workspace=WORKSPACE, user="ana")
        project = folder / "project"
        project.mkdir()
        (project / "kept.txt").write_text("a person wrote this\n")
        async with _opened(settings, project) as tree:
            turns = {}
            for text, _ in TURNS:
                posted = await tree.runs.post("work", text, agent="coder")
                placed = await tree.runs.wait(posted.run, timeout_s=PATIENCE_S)
                turns[text] = placed.turn.id
                results = [
                    part for message in placed.turn.reply for part in message.parts
                    if isinstance(part, ToolResult)
                ]  # fmt: skip
                wrong = [one for one in results if one.status != "ok" or _failed(one)]
                proof.at_most(f"calls of the {text} turn that failed", len(wrong), "calls", 0)
            (resource,) = await tree.resources.list_around(str(project))
            blamed = right = 0
            for path, writers in BLAMED.items():
                lines = (await tree.blame(resource, path)).lines
                for line, writer in zip(lines, writers, strict=True):
                    blamed += 1
                    right += [turns[writer]] == [*line.writer.turns]
            proof.at_least(
                "lines blamed on the turn that wrote them", right, f"of {blamed}", blamed
            )
            await _show_refusals(proof, tree)
        after = _files(project)
        shell = _Shell(settings, conninfo, project)
        shell.type(proof, "rewind", "work~1", "--files", "--yes")
        proof.at_least(
            "rewound files that are as the second turn left them",
            sum(_files(project).get(path) == text for path, text in SECOND.items()),
            f"of {len(SECOND)}", len(SECOND),
        )  # fmt: skip
        proof.at_most("files of the third turn left", int((project / "deep").exists()), "files", 0)
        shell.type(proof, "undo", "work", "--yes")
        proof.at_least("files undone to the third turn", int(_files(project) == after), "of 1", 1)
        shell.type(proof, "fork", "work~2", "again", "--files", str(folder / "again"), "--yes")
        forked = _files(folder / "again")
        proof.at_least(
            "forked files that are as the first turn left them",
            sum(forked.get(path) == text for path, text in FIRST.items()),
            f"of {len(FIRST)}", len(FIRST),
        )  # fmt: skip


FIRST: Final = {
    "src/sum.py": "def add(a, b):\n    return a - b\n",
    "src/three.txt": "1\n2\n3\n",
    "notes.txt": "one\ntwo\n",
    "kept.txt": "a person wrote this\n",
}
SECOND: Final = {
    "src/sum.py": "def add(a, b):\n    return a + b\n",
    "notes.txt": "one\ntwo\nthree\n",
    "kept.txt": "a person wrote this\n",
}


async def _show_refusals(proof: Proof, tree: Tree) -> None:
    """Show who gets none of these tools, and that the same eyes see when the rule is gone."""
    bob = tree.act_as(ExecutionContext.begin(Principal("human", "bob")))
    foreign: dict[str, Json] = {"default_model": "@(echo)", "sandbox": "folder"}
    await bob.programs.create("agent", "burglar", foreign)
    await tree.sessions.create("bare")
    refused = {
        "another person's agent": (tree, "desk", "burglar"),
        "another person's message": (bob, "desk", "coder"),
        "a session without a folder": (tree, "bare", "coder"),
        "an agent without a profile": (tree, "desk", "plain"),
        "an agent with an unknown profile": (tree, "desk", "lost"),
    }
    for who, (sender, label, agent) in refused.items():
        tools = await _list_offered(sender, label, agent)
        proof.at_most(f"tools for {who}", len(tools), "tools", 0)

    async def is_own(self: Programs, program: object) -> bool:
        del self, program
        return True

    with patch.object(Programs, "is_own", is_own):
        tools = await _list_offered(tree, "desk", "burglar")
    proof.at_least(
        "tools for the user's own agent",
        len(await _list_offered(tree, "desk", "coder")),
        "tools",
        6,
    )
    proof.at_least("planted and found: any author's agent", int(bool(tools)), "of 1", 1)


async def _list_offered(sender: Tree, label: str, agent: str) -> list[str]:
    posted = await sender.runs.post(label, "hello", agent=agent)
    await sender.runs.wait(posted.run, timeout_s=PATIENCE_S)
    facts = await sender.ledger.facts(posted.run)
    (request,) = [one.event.data for one in facts if one.event.kind == "model_call.started"]
    tools = request["tools"]
    assert isinstance(tools, list | tuple), "names"
    return [str(name) for name in tools if str(name).startswith(("fs.", "shell."))]


@asynccontextmanager
async def _opened(settings: Settings, project: Path) -> AsyncGenerator[Tree]:
    """Open a workspace with an agent whose session works in a folder."""
    rules: list[Json] = [
        {
            "when": text,
            "replies": [
                *({"tools": [{"tool": name, "args": args} for name, args in calls]}
                  for calls in replies),
                {"text": "Done."},
            ],
        }
        for text, replies in TURNS
    ]  # fmt: skip
    async with turntree.open(settings, worker=True) as tree:
        script: dict[str, Json] = {"provider_type": "scripted", "rules": rules}
        await tree.programs.create("provider", "script", script)
        model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
        await tree.programs.create("model", "echo", model)
        for name, sandbox in (("coder", "folder"), ("plain", None), ("lost", "nowhere")):
            config: dict[str, Json] = {"default_model": "@(echo)"}
            config |= {} if sandbox is None else {"sandbox": sandbox}
            await tree.programs.create("agent", name, config)
        await tree.members.add("human:bob")
        for label in ("work", "desk"):
            await tree.sessions.create(label)
            await tree.resources.ensure_directory(str(project), label)
        yield tree


@value
class _Shell:
    """The command line of the same person."""

    settings: Settings
    conninfo: str
    folder: Path

    def type(self, proof: Proof, *words: str) -> None:
        """Type a command, and show that it worked."""
        environment = {
            "PATH": os.environ["PATH"],
            "TURNTREE_DATABASE_URL": self.conninfo,
            "TURNTREE_HOME": str(self.settings.home),
            "TURNTREE_WORKSPACE": WORKSPACE,
            "TURNTREE_USER": "ana",
        }
        ended = subprocess.run(
            [sys.executable, "-m", "turntree", *words],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ended.returncode:
            print(ended.stderr, file=sys.stderr)
        proof.at_most(f"status of {words[0]}", ended.returncode, "status", 0)


def real(place: str) -> Path:
    """Return a folder by a path without links."""
    return Path(os.path.realpath(place))


def _failed(result: ToolResult) -> bool:
    return isinstance(result.output, Mapping) and result.output.get("rc", 0) != 0


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".turntree" not in path.parts
    }


# Attacks, each of which reports what it got.


@value
class Scene:
    """The tools of an agent, its folder and the targets outside of it."""

    host: Host
    folder: Path
    tools: Toolset
    end: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    """Ends what runs the tools, where a call does not end it."""

    async def call(self, tool: str, **args: Json) -> str:
        """Return the words of a result."""
        context = ToolContext(RUN, None, "c")
        result = await self.tools.call(ToolUse("c", tool, args), context)
        assert isinstance(result, ToolResult), "these tools return no files"
        return str(result.output)

    async def read(self, path: str) -> str | None:
        """Read a file; return the secret, if it is there."""
        said = await self.call("fs.read", path=path)
        return said if SECRET in said else None

    async def exec(self, command: str) -> str | None:
        """Run a command; return what it printed, if the secret or a sign of success is there."""
        said = await self.call("shell.exec", cmd=command, timeout_ms=8000)
        return said if SECRET in said or "GOT" in said else None

    async def python(self, source: str) -> str | None:
        """Run a program that prints GOT if it reached its target."""
        (self.folder / "attack.py").write_text(source)
        return await self.exec("python3 attack.py")


Attack = Callable[[Scene], Any]


async def _absolute(scene: Scene) -> str | None:
    return await scene.read(str(scene.host.secret))


async def _parents(scene: Scene) -> str | None:
    up = "../" * 12
    for path in (
        f"{up}{scene.host.secret}",
        f"{work_folder.INSIDE}/{up}{scene.host.secret}",
        f"./x/{up}etc",
    ):
        if (got := await scene.read(path)) is not None:
            return got
    return None


async def _link(scene: Scene) -> str | None:
    (scene.folder / "link").symlink_to(scene.host.secret)
    (scene.folder / "way").symlink_to(scene.host.folder)
    return (await scene.read("link")) or await scene.read(f"way/{scene.host.secret.name}")


async def _link_made_inside(scene: Scene) -> str | None:
    await scene.call("shell.exec", cmd=f"ln -s {scene.host.secret} made; ln -s / root")
    return (await scene.read("made")) or await scene.read(f"root{scene.host.secret}")


async def _write_through(scene: Scene) -> str | None:
    (scene.folder / "link").symlink_to(scene.host.folder / "mark")
    (scene.folder / "way").symlink_to(scene.host.folder)
    await scene.call("fs.write", path="link", text="x")
    await scene.call("fs.write", path="way/mark", text="x")
    await scene.call("fs.edit", path="way/secret.txt", old=SECRET, new="x")
    return _left(scene)


async def _hard_link(scene: Scene) -> str | None:
    outside = scene.host.folder / "linked"
    outside.write_text("as it was")
    try:
        os.link(outside, scene.folder / "linked")
        await scene.call("fs.write", path="linked", text="changed")
        await scene.call("fs.edit", path="linked", old="changed", new="again")
        return None if outside.read_text() == "as it was" else "it changed a file that is linked"
    finally:
        outside.unlink()


async def _pipe(scene: Scene) -> str | None:
    os.mkfifo(scene.folder / "pipe")
    with anyio.move_on_after(20) as scope:
        await scene.call("fs.read", path="pipe")
        await scene.call("fs.write", path="pipe", text="x")
    return "it waited for a pipe" if scope.cancelled_caught else None


async def _hooks(scene: Scene) -> str | None:
    hook = scene.folder / ".git/hooks/pre-commit"
    hook.parent.mkdir(parents=True)
    await scene.call("fs.write", path=".git/hooks/pre-commit", text="x")
    await scene.exec("echo x > .git/hooks/pre-commit; mv .git .gone; rm -rf .git")
    got = hook.exists() or not hook.parent.exists()
    return "it wrote what another program runs" if got else None


async def _hooks_spelled_otherwise(scene: Scene) -> str | None:
    await scene.call("fs.write", path="sub/.GIT/config", text="x")
    got = (scene.folder / "sub/.GIT/config").exists()
    return "it wrote what another program runs" if got else None


async def _race(scene: Scene) -> str | None:
    """Swap a folder with a link, as fast as this machine can, while files below it are opened."""
    place, link = scene.folder / "swapped", scene.folder / "bait"
    place.mkdir()
    (place / scene.host.secret.name).write_text("nothing")
    link.symlink_to(scene.host.folder)
    ends = threading.Event()
    exchange = ctypes.CDLL(None).renameat2
    # AT_FDCWD and RENAME_EXCHANGE: there is never a moment without either of them.
    words = (-100, bytes(place), -100, bytes(link), 2)

    def swap() -> None:
        while not ends.is_set():
            assert exchange(*words) == 0, "they were exchanged"

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        until = time.monotonic() + RACE_S
        while time.monotonic() < until:
            if (got := await scene.read(f"swapped/{scene.host.secret.name}")) is not None:
                return got
            await scene.call("fs.write", path="swapped/mark", text="x")
    finally:
        ends.set()
        thread.join()
    return _left(scene)


async def _exec_reads(scene: Scene) -> str | None:
    secret = scene.host.secret
    up = f"{work_folder.INSIDE}/.."
    return await scene.exec(f"cat {secret} {up}{secret} /proc/1/root{secret}; cat ~/.ssh/*")


async def _exec_link(scene: Scene) -> str | None:
    (scene.folder / "way").symlink_to(scene.host.folder)
    got = await scene.exec("cat way/secret.txt; echo x > way/mark")
    said = await scene.call("fs.grep", pattern=SECRET, path="way")
    return got or (said if SECRET in said and "no such" not in said.lower() else _left(scene))


async def _environment(scene: Scene) -> str | None:
    return await scene.exec("env; cat /proc/*/environ | tr '\\0' '\\n'")


async def _cwd(scene: Scene) -> str | None:
    said = ""
    (scene.folder / "way").symlink_to(scene.host.folder)
    for place in ("/", "..", str(scene.host.folder), "way"):
        said += await scene.call("shell.exec", cmd="cat secret.txt", cwd=place)
    return said if SECRET in said else None


async def _other_users(scene: Scene) -> str | None:
    return await scene.exec(
        "for d in /root /home /var /etc/shadow /etc/passwd; do ls -d $d/* && echo GOT $d; done 2>&1"
        " | grep GOT"
    )


async def _kill(scene: Scene) -> str | None:
    await scene.exec(f"kill -9 {scene.host.victim}; kill -9 -1")
    return "it ended a process outside" if _state(scene.host.victim) in {"Z", "X"} else None


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def _network(scene: Scene) -> str | None:
    return await scene.python(
        f"import socket\nsocket.create_connection(('127.0.0.1', {scene.host.tcp_port}), 2)\n"
        "print('GOT')"
    )


async def _sockets(scene: Scene) -> str | None:
    for address in (str(scene.host.unix_path), "\\0turntree-attempt"):
        got = await scene.python(
            f"import socket\nsocket.socket(socket.AF_UNIX).connect('{address}')\nprint('GOT')"
        )
        if got is not None:
            return got
    return None


async def _set_id(scene: Scene) -> str | None:
    await scene.exec("cp /bin/true mine; chmod 4755 mine; chmod u+s mine; chmod g+s mine")
    await scene.python("import os\nos.open('other', os.O_CREAT | os.O_WRONLY, 0o4755)")
    made = [path for path in scene.folder.iterdir() if path.lstat().st_mode & 0o6000]
    return f"{made[0].name} has the rights of its owner" if made else None


async def _device(scene: Scene) -> str | None:
    return await scene.exec("mknod disk b 8 0 && echo GOT; mount -t tmpfs x /tmp && echo GOT")


async def _lingering(scene: Scene) -> str | None:
    await scene.exec("(setsid sh -c 'sleep 4; echo late > late.txt' &) ; nohup sleep 77 & true")
    await scene.end()
    await anyio.sleep(5)
    return "a process outlived its call" if (scene.folder / "late.txt").exists() else None


async def _canceled(scene: Scene) -> str | None:
    # Started before, so that the command is at work when it is canceled.
    await scene.call("shell.exec", cmd="true")
    with anyio.move_on_after(1.5):
        await scene.call("shell.exec", cmd="sleep 4; echo late > canceled.txt")
    await scene.end()
    await anyio.sleep(4)
    return "a canceled command went on" if (scene.folder / "canceled.txt").exists() else None


ATTACKS: Final[Mapping[str, Attack]] = {
    "an absolute path": _absolute,
    "parents of the folder": _parents,
    "links in the folder": _link,
    "links that a command made": _link_made_inside,
    "writing through links": _write_through,
    "writing into a hard link": _hard_link,
    "a pipe": _pipe,
    "hooks of other programs": _hooks,
    "hooks, spelled otherwise": _hooks_spelled_otherwise,
    "a race against a link": _race,
    "files, read by a command": _exec_reads,
    "links, followed by a command": _exec_link,
    "the worker's environment": _environment,
    "a working folder outside": _cwd,
    "home folders and other users' data": _other_users,
    "a process outside": _kill,
    "the network": _network,
    "sockets by path and by name": _sockets,
    "set-ID bits": _set_id,
    "devices and mounts": _device,
    "a process that outlives its call": _lingering,
    "a command that was canceled": _canceled,
}
OF_OUR_TOOLS: Final = frozenset({"writing into a hard link", "a pipe", "hooks, spelled otherwise"})
"""Attacks on what ``fs.*`` does outside of the sandbox, of which a process inside has no part."""
QUICK: Final = frozenset(ATTACKS) - {"a process that outlives its call", "the network"}
RACE_S = 4.0


async def _show_attacks(proof: Proof) -> None:
    wanted = [name for name in ATTACKS if not proof.quick or name in QUICK]
    for name in wanted:
        got = await attack(name)
        if got is not None:
            print(f"{name}: {got[:300]}", file=sys.stderr)
        proof.at_most(f"attack: {name}", int(got is not None), "got something", 0)
    proof.note("attacks", len(wanted), "attacks")
    for fault, (name, plant) in PLANTS.items():
        with plant() as profile:
            got = await attack(name, profile)
        proof.at_least(f"planted and found: {fault}", int(got is not None), "of 1", 1)


async def attack(name: str, profile: SandboxProfile = PLAIN) -> str | None:
    """Return what an attack got in a folder of its own."""
    # It lies in the worker's environment, as a real one would.
    os.environ[ENVIRONMENT_NAME] = SECRET
    with a_host() as host, TemporaryDirectory() as place:
        folder = real(place)
        sandbox = find_sandboxes()[CODE_SANDBOX]

        async def find_folder(context: ToolContext) -> str:
            del context
            return str(folder)

        scene = Scene(host, folder, WorkbenchTools(profile, sandbox, find_folder))
        return await got_by(name, scene)


async def got_by(name: str, scene: Scene) -> str | None:
    """Return what an attack got."""
    got: str | None = await ATTACKS[name](scene)
    return got or _left(scene)


def _left(scene: Scene) -> str | None:
    """Return what was left outside of the folder."""
    host, known = scene.host, {scene.host.secret, scene.host.unix_path}
    marks = [path for path in host.folder.iterdir() if path not in known]
    for mark in marks:
        mark.unlink()
    if host.secret.read_text() != SECRET:
        return "it changed the secret"
    return f"it left {marks[0].name} behind" if marks else None


Planting = Callable[[], Any]


@contextmanager
def _following_links() -> Generator[SandboxProfile]:
    with ExitStack() as stack:
        for flags in ("_WAY", "_FOLDER", "_READ", "_CREATE"):
            stack.enter_context(
                patch.object(work_folder, flags, getattr(work_folder, flags) & ~os.O_NOFOLLOW)
            )
        yield PLAIN


@contextmanager
def _allowing_set_id() -> Generator[SandboxProfile]:
    with patch.object(seccomp, "_SET_ID", 0):
        yield PLAIN


@contextmanager
def _guarding_nothing() -> Generator[SandboxProfile]:
    with patch.object(SandboxProfile, "guarded", ()):
        yield PLAIN


@contextmanager
def _giving_the_network() -> Generator[SandboxProfile]:
    yield replace(PLAIN, has_network=True)


@contextmanager
def _giving_another_folder() -> Generator[SandboxProfile]:
    yield replace(PLAIN, reads=("/var",))


PLANTS: Final[Mapping[str, tuple[str, Planting]]] = {
    "links are followed": ("links that a command made", _following_links),
    "links are followed, in a race": ("a race against a link", _following_links),
    "set-ID bits are allowed": ("set-ID bits", _allowing_set_id),
    "nothing is guarded": ("hooks of other programs", _guarding_nothing),
    "the network is there": ("the network", _giving_the_network),
    "another folder is there": ("home folders and other users' data", _giving_another_folder),
}


if __name__ == "__main__":
    run(prove, __doc__ or "")
