"""The first two hours: everything that a new user types, and what the screen has to show for it.

A person with transcripts of Claude Code and Codex, real ones, installs Turntree and looks around:
imports, installs hooks, reads long turns, tries the demo in the home folder,
chats, erases, exports, imports again, backs up, continues in Codex and leaves. Everything is typed
into a real terminal; each step notes what was missing on the screen, and none may be.

The agents run against a scripted model on loopback.
"""

import getpass
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofs.agents import claude, codex
from proofs.agents.programs import PROGRAMS, NotInstalled
from proofs.corpus import Corpus
from proofs.figures import Proof, run
from proofs.first_run import Screen
from proofs.sample_home import write_sample_home
from proofs.terminal import Terminal
from turntree.testing.scripted.server import MODEL, Call, Reply, Rule, ScriptedModel

LIMIT_QUICK_S = 120
LONG = "\n".join(f"line {number} of a long question" for number in range(400)) + "\nthe very end"
"""Over 8 KB, so that it is stored as an object."""
WRITE = Call("Write", {"file_path": "shop.py", "content": "print('open')\n"})
SHELL = Call("Bash", {"command": "ls -a"})
RULES = [
    Rule(
        (
            Reply("Writing.", (WRITE,)),
            Reply("Looking.", (SHELL,)),
            Reply("The shop is open."),
        ),
        prompt="OPEN the shop",
        offers="Write",
        name="open",
    ),
    Rule(
        (Reply("Listing.", (codex.shell("ls"),)), Reply("There is one file.")),
        prompt="COUNT the files",
        offers="exec_command",
        name="count",
    ),
    Rule((Reply("Gladly."),), name="plain"),
]
COLUMNS = 80
PERSON = getpass.getuser()


async def prove(proof: Proof) -> None:
    """Do it; nothing here waits for anything but other programs."""
    first_hours(proof)


def first_hours(proof: Proof) -> None:
    """Furnish a home, type, check."""
    place = Path(tempfile.mkdtemp(prefix="turntree-first-hours-"))
    # The embedded server's account may be another than ours, and must pass through.
    place.chmod(0o755)
    began = time.monotonic()
    with ScriptedModel(rules=RULES) as model:
        person = Person(place, model=model)
        try:
            person.move_in(proof)
            for name, part in PARTS.items():
                if proof.begins(name):
                    before = len(person.wrong)
                    part(person)
                    proof.at_most(
                        f"{name}: steps that fell short", len(person.wrong) - before, "steps", 0
                    )
        except NotInstalled as error:
            print(error, file=sys.stderr)
            proof.at_least("agents that could be installed", 0, "agents", 1)
        finally:
            person.close()
            shutil.rmtree(place, ignore_errors=True)
    spent = time.monotonic() - began
    # It belongs to no part: the last one alone says nothing about it, and cannot be taken alone.
    proof.part = None
    if proof.quick:
        proof.at_most("all of it", spent, "s", LIMIT_QUICK_S, of="time")
    else:
        proof.note("all of it", spent, "s")


@dataclass(slots=True)
class Person(Screen):
    """A new user, with agents that are set up and have worked."""

    model: ScriptedModel = field(kw_only=True)

    def __post_init__(self) -> None:
        """Take a terminal of the usual width."""
        self.terminal = Terminal(self.place, columns=COLUMNS)

    @property
    def project(self) -> Path:
        """The folder in which the agents work."""
        return self.person / "shop"

    @property
    def environment(self) -> dict[str, str]:
        """What the person's programs see."""
        return {
            **Screen.environment.fget(self),  # type: ignore[attr-defined]
            **claude.SCENE.settings(self.model.url),
            **codex.SCENE.settings(self.model.url),
            "NO_PROXY": "127.0.0.1,localhost",
            "COLUMNS": str(COLUMNS),
        }

    def move_in(self, proof: Proof) -> None:
        """Install the agents, let each take a turn, and open the terminal."""
        for folder in (self.person, self.project, self.place / "bin"):
            folder.mkdir(parents=True, exist_ok=True)
        write_sample_home(self.person, Corpus(proof.seed), 6, 5)
        for program in PROGRAMS:
            if program.name in ("claude", "codex"):
                (self.place / "bin" / program.name).symlink_to(program.ensure())
        hook = self.place / "bin" / "turntree-hook"
        python = shlex.quote(sys.executable)
        hook.write_text(f'#!/bin/sh\nexec {python} -m turntree.cli.hook_process.entry "$@"\n')
        hook.chmod(0o755)
        settings = self.person / ".codex" / "config.toml"
        settings.parent.mkdir()
        settings.write_text(codex.CONFIG.format(model=MODEL, url=self.model.url))
        self.open()
        self.shell(f"cd {self.project}")
        (self.project / "long.txt").write_text(LONG)
        self.shell(
            f'claude -p "OPEN the shop. $(cat long.txt)" --allowedTools {claude.TOOLS}',
            shows=["The shop is open."],
        )
        self.shell(
            "codex exec --skip-git-repo-check 'COUNT the files' 2>/dev/null",
            shows=["There is one file."],
        )

    def check_width(self, command: str, shown: str) -> None:
        """Note a command that prints lines wider than the terminal."""
        # The first line is what was typed.
        if wide := [line for line in shown.splitlines()[1:] if len(line.rstrip()) > COLUMNS]:
            print(f"wider than {COLUMNS} columns: {wide}", file=sys.stderr)
            self.wrong = (*self.wrong, f"{command}: width")

    def shell(self, command: str, shows: Sequence[str] = (), hides: Sequence[str] = ()) -> str:
        """Type any command, and note what the screen lacks, or shows although it must not."""
        self.terminal.type(command)
        shown = self.wait_for_prompt(command)
        # Not in the line that was typed.
        below = shown.partition("\n")[2]
        self.check(command, below, [*shows])
        for words in hides:
            self.expect(words not in below, f"{command}: {words!r} is hidden")
        return shown

    def expect(self, holds: object, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            print(f"does not hold: {what}", file=sys.stderr)
            self.wrong = (*self.wrong, what)

    def tell(self, *words: str) -> list[dict[str, Any]]:
        """Run a command beside the terminal and return the documents that it prints."""
        done = subprocess.run(
            [self.place / "bin" / "turntree", *words, "--json"], env=self.environment, check=True,
            cwd=self.project, capture_output=True, text=True,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]

    def digest_of(self, words: str) -> str:
        """Return the digest of the newest turn whose title begins with some words, as printed."""
        for line in self.tell("log", "--all"):
            if str(line["title"]).startswith(words):
                return str(line["digest"]).removeprefix("sha256:")[:12]
        raise TimeoutError(f"no turn is called {words!r}")

    def label_of(self, digest: str) -> str:
        """Return the session whose head a turn is."""
        for turn in self.tell("log", "--all"):
            if str(turn["digest"]).startswith(f"sha256:{digest}") and turn["sessions"]:
                return str(turn["sessions"][0])
        raise TimeoutError(f"no session is at {digest}")


def begin(person: Person) -> None:
    """`log` points to `on`, which installs hooks and imports; then there is a home screen."""
    person.shell("turntree log", shows=["turntree on"])
    terminal = person.terminal
    terminal.type("turntree on")
    terminal.wait(lambda text: "import them" in text, "the first question")
    terminal.type("y")
    shown = person.wait_for_prompt("turntree on")
    person.check("on", shown, ["undo with: turntree off"])
    person.shell("turntree", shows=["OPEN the shop", "Claude Code", "Codex", "file"])
    person.shell("turntree hook install codex --trust", shows=["codex"])
    person.shell("turntree hook status", shows=["claude-code", "codex"], hides=["wait for your"])


def read(person: Person) -> None:
    """Everything that was said can be read, at any size, and is shown as what it is."""
    shown = person.shell("turntree session list --here", shows=["OPEN the shop", "COUNT the files"])
    person.check_width("session list", shown)
    opened = person.digest_of("OPEN the shop")
    shown = person.shell(f"turntree show {opened}", shows=["Claude Code", "shop.py", "ls -a"])
    person.check("show names the person", shown, [PERSON])
    person.shell(f"turntree show {opened} --full", shows=["line 0 of", "the very end"])
    person.shell(f"turntree show {opened}:msg/0", shows=["line 0 of", "the very end"])
    person.shell(f"turntree tail {person.label_of(opened)}", shows=["line 0 of"])
    counted = person.digest_of("COUNT the files")
    person.shell(f"turntree show {counted}", shows=["Codex", "ls"], hides=["SKILL.md"])
    person.check_width("log", person.shell("turntree log --all | cat", shows=["OPEN the shop"]))
    person.check_width("stats", person.shell("turntree stats | cat", shows=["$"]))
    person.shell("turntree search 'open the shop'", shows=["OPEN the shop", "turntree show"])


def stand(person: Person) -> None:
    """HEAD is the session of this folder, whatever was typed in a folder above."""
    person.shell("cd && turntree demo && turntree demo && cd shop", shows=["sample data"])
    person.expect(not (person.person / ".turntree" / "HEAD").exists(), "demo wrote no HEAD")
    person.shell("turntree status", shows=["codex/"], hides=["demo/"])
    person.shell("turntree search redirect", hides=["sample data"])
    person.shell("cd && turntree demo --remove && cd shop")
    label = person.label_of(person.digest_of("OPEN the shop"))
    person.shell(f"turntree switch {label.split('/')[-1]}", shows=[label[:40]])
    person.shell("turntree switch --none", shows=["turntree switch"])
    person.shell(f"turntree switch {label[:-1]}x", shows=["did you mean", label[:40]])
    person.shell("turntree session rename HEAD größe", shows=["größe"])


def talk(person: Person) -> None:
    """A paste of several lines is one message; without a model, that is said before the prompt."""
    person.shell("env -u ANTHROPIC_API_KEY turntree chat plain", shows=["turntree"])
    person.shell("turntree session list --all", hides=["plain"])
    rules = [{"when": "", "replies": [{"text": "I have read it."}]}]
    person.tell("provider", "create", "script", "--type", "scripted", "--set",
                f"rules={json.dumps(rules)}")  # fmt: skip
    person.tell("model", "create", "first", "--backend", "scripted-1", "--provider", "script")
    terminal = person.terminal
    terminal.type("turntree chat talk --model first")
    terminal.wait(lambda text: text.rstrip().endswith("talk>"), "the prompt")
    terminal.paste("one line\nanother line\na third")
    terminal.press("Enter")
    terminal.wait(lambda text: "I have read it." in text, "the answer")
    terminal.wait(lambda text: text.rstrip().endswith("talk>"), "the next prompt")
    terminal.type("/quit")
    person.wait_for_prompt("turntree chat talk --model first")
    shown = person.shell("turntree show talk --full", shows=["one line", "another line", "a third"])
    person.check("one turn", shown, ["root"])


def own(person: Person) -> None:
    """Everything can be taken along: exported, imported again, backed up and verified."""
    person.shell("turntree export --all -o ../all.jsonl")
    person.shell("TURNTREE_WORKSPACE=copy turntree import ../all.jsonl", shows=["turns"])
    person.shell("TURNTREE_WORKSPACE=copy turntree export --all -o ../again.jsonl")
    person.shell("cmp ../all.jsonl ../again.jsonl && echo byte-equal", shows=["byte-equal"])
    person.shell("turntree backup create ../all.backup", shows=["all.backup"])
    person.shell("turntree backup verify ../all.backup", shows=["all.backup"])


def ask_wrongly(person: Person) -> None:
    """Errors say what is wrong and what to do; what cannot be undone is asked first."""
    person.shell("turntree sql 'delete from turns'", shows=["read-only"])
    person.shell(
        "TURNTREE_DATABASE_URL=postgresql://ana:wrong@127.0.0.1:1/x turntree log",
        shows=["127.0.0.1"], hides=["wrong"],
    )  # fmt: skip
    talk = person.digest_of("one line")
    person.terminal.type(f"turntree erase {talk}:msg/0")
    person.terminal.wait(lambda text: text.rstrip().endswith("[y/N]:"), "a question")
    person.terminal.type("y")
    shown = person.wait_for_prompt(f"turntree erase {talk}:msg/0")
    person.check("erase", shown, ["receipt", "stays"])
    person.shell("turntree search '\"a third\"'", shows=["nothing was found"])


def hand_over(person: Person) -> None:
    """Continue in Codex, on its own screen, with a provider in its configuration."""
    opened = person.digest_of("OPEN the shop")
    shown = person.shell(f"turntree handoff {opened} --to codex", shows=["codex resume"])
    resume = next(line for line in shown.splitlines() if "codex resume" in line)
    person.terminal.type(resume[resume.index("codex resume") :].strip())
    person.terminal.wait(lambda text: "The shop is open." in text.split("codex resume")[-1], "it")
    person.terminal.paste_until_shown("Go on.")
    person.terminal.press("Enter")
    person.terminal.wait(lambda text: "Gladly." in text, "an answer")
    person.terminal.paste_until_shown("/quit")
    person.terminal.press("Enter")
    person.wait_for_prompt("codex resume")


def leave(person: Person) -> None:
    """Leave nothing behind that was not asked for."""
    person.shell("turntree down", shows=["the server has stopped", "hook"])
    person.shell("turntree uninstall --dry-run", shows=["claude", "codex"])
    person.shell("turntree uninstall --yes", shows=["pip uninstall turntree", "--data"])
    settings = person.person / ".claude" / "settings.json"
    has_hook = settings.exists() and "turntree" in settings.read_text()
    person.expect(not has_hook, "no hook is left")


PARTS: Mapping[str, Callable[[Person], None]] = {
    "begin": begin,
    "read": read,
    "stand": stand,
    "talk": talk,
    "own": own,
    "ask wrongly": ask_wrongly,
    "hand over": hand_over,
    "leave": leave,
}

if __name__ == "__main__":
    run(prove, __doc__ or "")
