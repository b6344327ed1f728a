"""Commands inside bubblewrap: they work in a folder, together within limits, and nowhere else."""

import contextlib
import subprocess
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from subprocess import PIPE

import anyio
import pytest

from turntree.core.errors import InvalidOperation, SandboxUnavailable
from turntree.sandbox import bubblewrap
from turntree.sandbox import bwrap_args as walls
from turntree.sandbox.bubblewrap import Bubblewrap, find_places
from turntree.sandbox.cgroup import a_group
from turntree.sandbox.code import CommandLimits, CommandResult, CommandView
from turntree.sandbox.seccomp import find_denials
from turntree.testing.contracts.sandbox import a_host

pytestmark = pytest.mark.anyio

SANDBOX = Bubblewrap()
FAULT = SANDBOX.find_fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox here: {FAULT}")
LIMITS = CommandLimits(wall_s=10, cpu_s=5, memory_bytes=209_715_200, processes=20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text("one two three\n", encoding="utf-8")
    return tmp_path


async def sh(folder: Path, script: str, *, writes: bool = False) -> CommandResult:
    return await SANDBOX.run_command(
        ["/bin/sh", "-c", script], str(folder), writes=writes, limits=LIMITS
    )


@needs_sandbox
async def test_a_command_works_in_its_folder(folder: Path) -> None:
    ended = await SANDBOX.run_command(["wc", "-w", "words.txt"], str(folder))
    assert (ended.rc, ended.stdout, ended.stderr, ended.why) == (0, "3 words.txt\n", "", None)
    assert ended.duration_ms >= 0


@needs_sandbox
async def test_a_command_says_how_it_ended(folder: Path) -> None:
    ended = await sh(folder, "echo out; echo err >&2; exit 3")
    assert (ended.rc, ended.stdout, ended.stderr) == (3, "out\n", "err\n")
    missing = await SANDBOX.run_command(["no-such-program"], str(folder))
    assert missing.rc == 127


@needs_sandbox
async def test_a_folder_is_changed_only_by_those_who_may(folder: Path) -> None:
    assert (await sh(folder, "echo x > new.txt")).rc != 0
    assert not (folder / "new.txt").exists()
    assert (await sh(folder, "echo x > new.txt", writes=True)).rc == 0
    assert (folder / "new.txt").read_text(encoding="utf-8") == "x\n"


@needs_sandbox
async def test_there_is_nothing_else_to_see(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNTREE_ATTEMPT_SECRET", "hunter2")
    with a_host() as host:
        script = f"cat {host.secret}; ls /root /home /etc/shadow; env; cat /proc/*/environ"
        ended = await sh(folder, script)
    assert "hunter2" not in ended.stdout
    assert "/etc/shadow" not in ended.stdout


@needs_sandbox
@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.create_connection(('127.0.0.1', {tcp}), 1)",
        "import socket; socket.socket(socket.AF_UNIX).connect('\\0turntree-attempt')",
        "import os; os.kill({victim}, 9)",
        "open('/usr/mark', 'w')",
        "open('/mark', 'w')",
    ],
)
async def test_there_is_nobody_else_to_reach(folder: Path, program: str) -> None:
    with a_host() as host:
        source = program.format(tcp=host.tcp_port, victim=host.victim)
        ended = await SANDBOX.run_command(["python3", "-c", source], str(folder))
        assert is_alive(host.victim)
    # A machine may have no Python of its own; ours is not shown to commands.
    assert (ended.rc == 1 and "Error" in ended.stderr) or ended.rc == 127


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize("script", ["while sleep 60 & do :; done", "f() { f | f & }; f; sleep 3"])
async def test_no_crowd_gathers(folder: Path, script: str) -> None:
    before = sleepers()
    ended = await sh(folder, script)
    # The kernel refuses the next one, or whoever counts from outside ends them all.
    refused = "fork" in ended.stderr
    assert refused or ended.why == "it started more than 20 processes"
    await gone(before)


@needs_sandbox
async def test_a_command_that_takes_too_long_is_ended(folder: Path) -> None:
    before = sleepers()
    limits = CommandLimits(wall_s=1)
    ended = await SANDBOX.run_command(["sleep", "60"], str(folder), limits=limits)
    assert (ended.rc, ended.why) == (137, "it took longer than 1 s")
    await gone(before)


@needs_sandbox
async def test_whoever_counts_from_outside_ends_a_crowd(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where the kernel keeps no count: twice as many start as the watch lets live.
    monkeypatch.setattr(bubblewrap, "a_group", partial(a_group, root=folder / "no-groups"))
    monkeypatch.setattr(bubblewrap, "inside", lambda *_: [])
    before = sleepers()
    ended = await sh(folder, f"for n in {' '.join(map(str, range(40)))}; do sleep 60 & done; wait")
    assert (ended.rc, ended.why) == (137, "it started more than 20 processes")
    await gone(before)


async def test_a_group_counts_and_goes_again(tmp_path: Path) -> None:
    # Not the kernel's, but a folder like it.
    (tmp_path / "pids").mkdir()
    async with a_group(20, tmp_path) as words:
        (group,) = (tmp_path / "pids").iterdir()
        assert words[-1] == str(group)
        assert (group / "pids.max").read_text(encoding="ascii") == "22"
        (group / "pids.max").unlink()
    assert not group.exists()
    async with a_group(20, tmp_path / "nowhere") as words:
        assert words == []


@needs_sandbox
async def test_memory_counts_together(folder: Path) -> None:
    hog = "head -c 60000000 /dev/zero | tail -c 60000000 | sleep 5"
    ended = await sh(folder, f"({hog}) & ({hog}) & ({hog}) & ({hog}) & wait")
    assert ended.why == "it took more than 209715200 bytes of memory"


@needs_sandbox
async def test_a_loud_command_is_cut_and_not_stopped(folder: Path) -> None:
    limits = CommandLimits(output_bytes=1000)
    command = ["/bin/sh", "-c", "head -c 300000 /dev/zero; exit 4"]
    ended = await SANDBOX.run_command(command, str(folder), limits=limits)
    assert (ended.rc, ended.stdout.count("\0")) == (4, 1000)
    # The end of a log says more than its middle.
    assert ended.stdout == "\0" * 500 + "\n[299000 bytes left out]\n" + "\0" * 500


@needs_sandbox
async def test_its_own_scratch_is_small(folder: Path) -> None:
    ended = await sh(folder, "head -c 100000000 /dev/zero > /tmp/big")
    assert ended.rc != 0
    assert "No space left" in ended.stderr


PLANT = """
import socket, sys
door = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[1]))
door.bind("door")
if sys.argv[1] != "SOCK_DGRAM":
    door.listen()
print("open", flush=True)
sys.stdin.read()
"""


@needs_sandbox
@pytest.mark.parametrize(
    ("kind", "program"),
    [
        ("SOCK_STREAM", "socket.socket(socket.AF_UNIX).connect('door')"),
        ("SOCK_SEQPACKET", "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('door')"),
        ("SOCK_DGRAM", "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', 'door')"),
        # One end of a pair of datagram sockets can be turned to any other door.
        (
            "SOCK_DGRAM",
            "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', 'door')",
        ),
        ("SOCK_STREAM", "socket.socketpair()[0].connect('door')"),
    ],
)
async def test_a_socket_in_the_folder_is_no_way_out(folder: Path, kind: str, program: str) -> None:
    with a_door(folder, kind):
        source = f"import socket; {program}; print('connected')"
        ended = await SANDBOX.run_command(["python3", "-c", source], str(folder))
    assert "connected" not in ended.stdout
    assert "PermissionError" in ended.stderr or "already connected" in ended.stderr


@needs_sandbox
async def test_a_command_may_open_a_pair_of_sockets(folder: Path) -> None:
    source = "import socket; a, b = socket.socketpair(); a.send(b'hello'); print(b.recv(9))"
    ended = await SANDBOX.run_command(["python3", "-c", source], str(folder))
    assert ended.stdout == "b'hello'\n"


@needs_sandbox
@pytest.mark.parametrize(
    "call",
    [
        "os.memfd_create('x')",
        "ctypes.CDLL(None, use_errno=True).syscall(447, 0)",
        "ctypes.CDLL(None, use_errno=True).shmget(1234, 1 << 20, 0o1666)",
    ],
)
async def test_memory_that_no_limit_counts_cannot_be_had(folder: Path, call: str) -> None:
    source = f"import ctypes, os; got = {call}; print('got', got, ctypes.get_errno())"
    ended = await SANDBOX.run_command(["python3", "-c", source], str(folder))
    assert "PermissionError" in ended.stderr or ended.stdout == "got -1 1\n"


@pytest.mark.parametrize("where", [".", "above", "above/home", "above/home/run", "link"])
async def test_no_command_runs_where_it_would_see_the_home(tmp_path: Path, where: str) -> None:
    (tmp_path / "above/home/run").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "above")
    sandbox = Bubblewrap(home=tmp_path / "above/home")
    with pytest.raises(InvalidOperation, match="where Turntree keeps its keys"):
        await sandbox.run_command(["true"], str(tmp_path / where))
    if FAULT is None:
        assert (await sandbox.run_command(["true"], str(tmp_path / "elsewhere"))).rc == 0


@needs_sandbox
async def test_no_namespace_can_be_opened_inside(folder: Path) -> None:
    assert "Operation not permitted" in (await sh(folder, "unshare -U true")).stderr
    assert "Operation not permitted" in (await sh(folder, "unshare -n true")).stderr


async def test_without_a_sandbox_or_a_folder_nothing_runs(folder: Path) -> None:
    with pytest.raises(SandboxUnavailable):
        await Bubblewrap(bwrap=None).run_command(["true"], str(folder))
    for command, where in (([], folder), (["true"], folder / "nowhere")):
        with pytest.raises(InvalidOperation, match="no command, or no folder"):
            await SANDBOX.run_command(command, str(where))
    with pytest.raises(InvalidOperation):
        CommandLimits(processes=0)


@needs_sandbox
async def test_walls_that_do_not_stand_are_no_ended_command(folder: Path) -> None:
    with pytest.raises(SandboxUnavailable):
        await Bubblewrap(bwrap="/bin/true").run_command(["true"], str(folder))


OPENAT2 = (
    "import ctypes; how = (ctypes.c_uint64 * 3)(0o101, 0o4755, 0);"
    " ctypes.CDLL(None).syscall(437, -100, b'mine', how, 24)"
)


async def look(folder: Path, script: str, view: CommandView) -> CommandResult:
    return await SANDBOX.run_command(
        ["/bin/sh", "-c", script], str(folder), writes=True, limits=LIMITS, view=view
    )


@needs_sandbox
async def test_a_view_gives_folders_variables_and_a_place_to_start(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelf, desk = tmp_path_factory.mktemp("shelf"), tmp_path_factory.mktemp("desk")
    (shelf / "book").write_text("lore\n")
    (folder / "sub").mkdir()
    view = CommandView(
        (str(shelf),), (str(desk),), working="sub", environment={"WORD": "two words"}
    )
    script = f'pwd; echo "$WORD"; cat {shelf}/book; echo x > {desk}/new; echo x > {shelf}/new'
    ended = await look(folder, script, view)
    assert ended.stdout == f"{walls.WORK}/sub\ntwo words\nlore\n"
    assert (desk / "new").exists()
    assert not (shelf / "new").exists()
    lost = await look(folder, "true", CommandView(working="nowhere"))
    assert lost.rc != 0
    assert "nowhere" in lost.stderr


@needs_sandbox
async def test_a_guarded_name_is_read_and_not_changed(folder: Path) -> None:
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/config").write_text("[core]\n")
    view = CommandView(guarded=(".git", ".hg"))
    script = "cat .git/config; echo x >> .git/config; touch .git/hooks/pre-commit; mv .git g; ls -A"
    ended = await look(folder, script, view)
    assert ended.stdout == "[core]\n.git\nwords.txt\n"
    assert (folder / ".git/config").read_text() == "[core]\n"
    (folder / ".hg").symlink_to("/etc")
    with pytest.raises(InvalidOperation, match="is a link"):
        await look(folder, "true", view)


@needs_sandbox
async def test_a_guarded_name_in_another_folder_is_read_and_not_changed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = tmp_path_factory.mktemp("desk")
    (desk / ".git/hooks").mkdir(parents=True)
    view = CommandView(writes=(str(desk),), guarded=(".git", ".hg"))
    script = f"cd {desk}; touch .git/hooks/pre-commit; mv .git g; rm -rf .git; touch new; ls -A"
    ended = await look(folder, script, view)
    assert ended.stdout == ".git\nnew\n"
    assert list((desk / ".git/hooks").iterdir()) == []
    (desk / ".hg").symlink_to("/etc")
    with pytest.raises(InvalidOperation, match="is a link"):
        await look(folder, "true", view)


@needs_sandbox
async def test_a_link_put_in_the_place_of_a_folder_shows_nothing(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path_factory.mktemp("secret")
    (secret / "key").write_text("hunter2")
    (secret / ".git").mkdir()
    (folder / "inner/.git").mkdir(parents=True)

    def swap(where: Path, names: tuple[str, ...]) -> dict[str, str]:
        """Look at the places, and then have another process put links there."""
        found = find_places(where, names)
        target.rename(target.with_name("away"))
        target.symlink_to(secret)
        return found

    monkeypatch.setattr(bubblewrap, "find_places", swap)
    target = folder / "inner/.git"
    for target in (folder / "inner/.git", folder / "inner"):
        view = CommandView(guarded=(".git",), environment={"PATH": "/work", "LD_PRELOAD": "x"})
        with pytest.raises(InvalidOperation, match=r"changed while a command|Can't "):
            await look(folder / "inner", "cat key .git/key", view)
        target.unlink()
        target.with_name("away").rename(target)


@needs_sandbox
@pytest.mark.parametrize(
    "script",
    [
        "cp /bin/true mine; chmod 4755 mine",
        "cp /bin/true mine; chmod u+s mine",
        "cp /bin/true mine; chmod g+s mine",
        "python3 -c \"import os; os.close(os.open('mine', os.O_CREAT | os.O_WRONLY, 0o4755))\"",
        "python3 -c \"import os; os.mknod('mine', 0o104755)\"",
        "python3 -c \"import os; f = open('mine', 'w'); os.fchmod(f.fileno(), 0o6755)\"",
        # creat and openat2 by their numbers.
        "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(85, b'mine', 0o4755)\"",
        f'python3 -c "{OPENAT2}"',
    ],
)
async def test_no_file_gets_the_rights_of_its_owner(folder: Path, script: str) -> None:
    await look(folder, script, CommandView())
    assert not (folder / "mine").exists() or (folder / "mine").stat().st_mode & 0o6000 == 0
    assert (
        await look(folder, "cp /bin/true mine; chmod 755 mine && ./mine", CommandView())
    ).rc == 0


@needs_sandbox
async def test_the_network_is_there_only_if_the_view_gives_it(folder: Path) -> None:
    with a_host() as host:
        source = f"import socket; socket.create_connection(('127.0.0.1', {host.tcp_port}), 2)"
        for view, expected in ((CommandView(), 1), (CommandView(network=True), 0)):
            command = ["python3", "-c", source]
            ended = await SANDBOX.run_command(command, str(folder), view=view)
            assert ended.rc == expected, ended.stderr


@needs_sandbox
async def test_what_a_command_leaves_running_ends_with_it(folder: Path) -> None:
    before = sleepers()
    ended = await look(
        folder, "sleep 60 & setsid sleep 60 & nohup sleep 60 & echo on", CommandView()
    )
    assert (ended.rc, ended.stdout) == (0, "on\n")
    await gone(before)


def test_a_machine_without_a_filter_has_none() -> None:
    assert find_denials("pdp11") is None
    assert all(len(find_denials(machine) or b"") % 8 == 0 for machine in ("x86_64", "aarch64"))


@contextlib.contextmanager
def a_door(folder: Path, kind: str) -> Generator[None, None, None]:
    """Open a socket in a folder, by a process that lives there: its path is then short enough."""
    command = [sys.executable, "-c", PLANT, kind]
    with subprocess.Popen(command, cwd=folder, stdin=PIPE, stdout=PIPE) as planter:
        assert planter.stdout is not None
        assert planter.stdout.readline() == b"open\n"
        yield
        planter.communicate()


def sleepers() -> set[str]:
    """Return the processes that sleep, on a machine where others may sleep too."""
    if sys.platform != "linux":
        return set()
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found |= {path.parent.name} if path.read_bytes() == b"sleep\x0060\0" else set()
    return found


async def gone(before: set[str]) -> None:
    """Wait until the kernel has ended them, which takes it a moment."""
    with anyio.fail_after(30):
        while sleepers() - before:  # noqa: ASYNC110
            await anyio.sleep(0.05)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@needs_sandbox
async def test_walls_alone_clear_the_environment(folder: Path) -> None:
    """Whoever starts the walls with variables of their own passes none of them on."""
    assert SANDBOX.bwrap is not None
    around = walls.around_command(SANDBOX.bwrap, folder, writes=False, scratch_bytes=1 << 20)
    ended = await anyio.run_process([*around, "env"], env={"TURNTREE_PROBE": "hunter2"})
    assert b"hunter2" not in ended.stdout


@needs_sandbox
async def test_walls_alone_allow_no_user_namespace_inside(folder: Path) -> None:
    """The filter of system calls refuses one too; this is what holds without it."""
    assert SANDBOX.bwrap is not None
    around = walls.around_command(SANDBOX.bwrap, folder, writes=False, scratch_bytes=1 << 20)
    ended = await anyio.run_process([*around, "unshare", "--user", "true"], check=False)
    assert ended.returncode != 0
    assert (await anyio.run_process([*around, "true"])).returncode == 0
