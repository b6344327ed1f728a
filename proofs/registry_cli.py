"""The claim: everything that programs can do has a command under its own name.

Each command of the list must exist, take ``--json``, say what it does and be offered by completion.
Then a person's walk through all kinds is typed line by line: what needs no model must end well, and
what needs one must end with the name of the variable that is missing, and change nothing; ``walks``
types the same with a gateway that answers. Afterwards ``fsck`` must find nothing. ``--quick`` types
all lines in one process, otherwise each has its own.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import click
from anyio.to_thread import run_sync
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from proofs.figures import Proof, run, temporary_server
from turntree.cli.root import root

COMMAND = "from turntree.cli.main import main; main()"
NAMES = (
    "provider create", "provider list",
    "model create", "model configure", "model invoke",
    "session create", "send", "log",
    "agent create", "agent assign", "agent status",
    "task create", "task list",
    "tag add", "tag remove", "tag list", "tag find",
    "index embed", "search", "index status",
    "program list", "program show", "program invoke",
)  # fmt: skip
WALK = """
provider create cf-gateway --type cloudflare-ai-gateway
provider list
model create claude-fast --backend claude-sonnet-4-5 --provider cf-gateway
model create gemini-flash --backend gemini-2.5-flash
model configure claude-fast --temperature 0 --situation coding
! model invoke claude-fast --message "Hello"
! model invoke claude-fast --message "Hello" --stream
session create chat --model claude-fast
! send chat "Hello"
! send chat "What does gemini think?" --model gemini-flash
log --messages chat
agent create researcher --prompt "You are a researcher." --model claude-fast
task create "Research quantum computing" --assignee researcher
task create "Write it up" --criterion '{"type": "file_exists", "path": "report.md"}'
agent assign researcher task-write-it-up
agent status researcher
task start task-research-quantum-computing
task list --status in_progress
tag add claude-fast tag1 tag2 trusted
tag remove claude-fast tag1
tag list claude-fast
tag find --tag trusted
program list --type model
program show claude-fast
program show researcher
! program invoke claude-fast
! program invoke researcher --message "Hello"
task complete task-research-quantum-computing
program invoke task-write-it-up
human create ana --channel terminal --permission approve
program invoke ana --message "It is done."
information create qubits --type fact --content '{"qubits": 5}'
program invoke qubits
provider set-state cf-gateway published
program versions claude-fast
program refs claude-fast
program visibility gemini-flash private
program invite gemini-flash bob
program kinds
fsck
"""
REFUSALS = ("error: the credential CLOUDFLARE_ACCOUNT_ID is neither", "error: no provider wired")
"""No account of a gateway, and a model without a provider."""


async def prove(proof: Proof) -> None:
    """Look at every command, then take the walk."""
    with (
        temporary_server() as (server, _),
        tempfile.TemporaryDirectory(prefix="turntree-walk-") as folder,
    ):
        # Completion asks the ledger too, which must not be that of whoever runs this.
        os.environ.update(
            TURNTREE_DATABASE_URL=server,
            TURNTREE_WORKSPACE="walk",
            TURNTREE_USER="ana",
            TURNTREE_CONFIG=str(Path(folder) / "config.toml"),
        )
        os.environ.pop("CLOUDFLARE_ACCOUNT_ID", None)
        await run_sync(look, proof)
        await run_sync(walk, proof, Path(folder))


def look(proof: Proof) -> None:
    """Show that every name is a command with JSON, help and completion."""
    found = {name: find(name) for name in NAMES}
    lacks = [name for name, command in found.items() if command is None]
    if lacks:
        print(f"there is no {', '.join(lacks)}", file=sys.stderr)
    known = {name: command for name, command in found.items() if command is not None}
    proof.at_least("commands under their own names", len(known), f"of {len(NAMES)}", len(NAMES))
    with_json = sum(takes_json(command) for command in known.values())
    proof.at_least("commands that take --json", with_json, f"of {len(NAMES)}", len(NAMES))
    with_help = sum(bool(command.help) for command in known.values())
    proof.at_least("commands that say what they do", with_help, f"of {len(NAMES)}", len(NAMES))
    completed = sum(is_completed(name) for name in NAMES)
    proof.at_least("commands that completion offers", completed, f"of {len(NAMES)}", len(NAMES))


def find(name: str) -> click.Command | None:
    """Return a command by the words that are typed, or None."""
    command: click.Command | None = root
    for word in name.split():
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(click.Context(command), word)
    return command


def takes_json(command: click.Command) -> bool:
    """Say whether a command can print JSON."""
    return any("--json" in param.opts for param in command.params)


def is_completed(name: str) -> bool:
    """Say whether a shell offers the last word of a command after its first letters."""
    *before, last = name.split()
    shell = ShellComplete(root, {}, "turntree", "_TURNTREE_COMPLETE")
    return last in {item.value for item in shell.get_completions(before, last[:3])}


def walk(proof: Proof, folder: Path) -> None:
    """Type every line and compare how it ends."""
    lines = [line for line in WALK.strip().splitlines() if line]
    typed = Typist(folder, alone=not proof.quick).type
    right = 0
    for line in lines:
        needs_model = line.startswith("! ")
        ended = typed(line.removeprefix("! "))
        refused = ended.code == 1 and ended.err.startswith(REFUSALS) and not ended.out
        is_right = refused if needs_model else ended.code == 0
        right += is_right
        if not is_right:
            print(f"turntree {line}: {ended.code} {ended.err}", file=sys.stderr)
    proof.at_least(
        "lines of the walk that ended as they should", right, f"of {len(lines)}", len(lines)
    )
    said = typed("log --messages chat --json").out
    proof.at_most("messages that a refused call left behind", len(said.splitlines()), "messages", 0)
    task = json.loads(typed("program show task-write-it-up --json").out)
    proof.at_least("a task that was invoked is", int(task["state"] == "active"), "active", 1)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a line ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Typist:
    """Types lines in a folder, each in a process of its own, or all in this one."""

    folder: Path
    alone: bool

    def type(self, line: str) -> Ended:
        """Run one command."""
        words = shlex.split(line)
        if not self.alone:
            with chdir(self.folder):
                ended = CliRunner().invoke(root, words, prog_name="turntree")
            return Ended(ended.exit_code, ended.stdout, ended.stderr)
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)


if __name__ == "__main__":
    run(prove, __doc__ or "")
