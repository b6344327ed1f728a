"""Follows every hint that a test makes the command line print.

A hint is what stands after ``next:`` or ``undo with:``, and the member ``undo`` of a document. A
real shell splits it into words, as it would for a person who pastes it. A command that only reads
runs at once, where the hint was printed; one that changes something runs when the test has ended,
on what the test leaves behind. A hint fails if it is prose, if the shell or the command line does
not understand it, if it names something that does not exist, or if it is refused. What the test did
after a hint may be the reason for a refusal, so of earlier commands only usage is judged then; each
kind of hint has to work once, and those that never ran are listed when all tests have ended. A
scripted model answers where a hint asks one, and what never ends is ended once it has begun.
"""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import click
import pytest
from click.testing import CliRunner

from tests.hint_report import HINTS
from turntree.cli.context import load_settings
from turntree.cli.root import root
from turntree.db.embedded.account import find_account
from turntree.db.embedded.server import EmbeddedServer

HINT = re.compile(
    r"(?:\A|\s{3,}|; )(?P<sign>next|undo with|its owner|[a-z][a-z ,]* with): (?P<text>.*)\Z"
)
# Hints stand beside each other, or before an explanation, with a gap between them.
OF_OTHERS = "its owner"
"""Says who types a command: the reader of the hint would be refused, so that it is only parsed."""
GAP = re.compile(r"\s{3,}")
CONTINUATION = "      turntree "
"""Further steps stand below the first one, as far in."""
STUBS = ("turntree", "claude", "codex", "gemini", "opencode", "pip", "chmod")
"""Commands that the shell only takes down. The tools are not installed where tests run."""
PLACEHOLDER = re.compile(r"(?<![\w$'/@-])(?!TURNTREE_)[A-Z][A-Z_]+\b(?![='@.])(?<!HEAD)(?<!HEAD~)")
FREE_WORDS = {
    "LABEL": "hinted", "NAME": "hinted", "TITLE": "hinted", "WORD": "hinted", "WORDS": "hinted",
    "MESSAGE": "hinted", "SECONDS": "5", "QUERY": "'SELECT 1'", "AUDIENCE": "hinted",
    "TYPE": "scripted", "URL": "http://127.0.0.1:1", "NODE": "HEAD",
    "MODEL": "hinted-choice", "PROVIDER": "hinted-choice", "AGENT": "hinted-choice",
    "TOOL": "codex", "BASE": "hinted", "SHORTER_PATH": "hinted", "ELSEWHERE": "hinted",
    "VALUE": "hinted", "PROFILE": "folder", "ANSWER": "hinted",
}  # fmt: skip
"""What a reader may put for a word in capitals; a choice may not exist where the test runs."""
TALK = (("chat",), ("send",), ("rerun",), ("agent", "assign"))
"""Commands that a model answers."""
ENDLESS = (("tail", "-f"), ("worker",), ("serve",), ("ui",))
DRAINED = ("worker", "serve")
"""Commands that run until they are ended; each runs in a process of its own."""
READ_ONLY = (
    ("log",), ("show",), ("search",), ("diff",), ("blame",), ("why",), ("verify",), ("files",),
    ("status",), ("doctor",), ("stats",), ("sql",), ("reflog",), ("audit",), ("replay",), ("fsck",),
    ("config", "list"), ("config", "get"), ("session", "list"), ("session", "show"), ("help",),
    ("program", "list"), ("program", "show"), ("program", "kinds"), ("tag", "list"), ("--help",),
    ("plan", "list"), ("token", "list"), ("hook", "status"), ("index", "status"), ("tail",),
    ("worktree", "--list"), ("import", "--dry-run"), ("member", "list"),
    ("invitation", "list"), ("key", "list"), ("conversation", "list"), ("conversation", "log"),
    ("conversation", "show"), ("webhook", "list"), ("webhook", "show"), ("webhook", "deliveries"),
    ("trigger", "list"), ("trigger", "show"),
)  # fmt: skip
WITHOUT_DATABASE = (
    ("config",), ("hook", "install"), ("hook", "uninstall"), ("hook", "status"), ("mcp",),
    ("down",), ("uninstall",),
)  # fmt: skip
"""Commands that only change files of the test's home, or end what runs there."""
SHARED = "demo_to_read"
"""A database that many tests read."""
DOWN, USAGE = 5, 2
FINDINGS = ("verify", "fsck", "doctor", "diff", "replay", "search")
"""Commands that end with 1 to report what they found."""
SCRIPTED_FAILURE = "the script says that this request fails"
"""What a model answers where the test wants it to; asked again, it does so again."""
UNSET = re.compile(r"unset (TURNTREE_[A-Z_]+)")
UNANSWERED = "no database answers"
"""What is wrong with a hint that could not show whether it works."""
BEFORE = -1
"""Stands for the number of a command that was not the last one."""
BEGIN_MAX_S, END_MAX_S = 20, 60
SETTLE_S = 1.0
"""How long a command that has printed something may take to fail after all."""


@dataclass(frozen=True, slots=True)
class Hint:
    """One command of a hint."""

    sign: str
    text: str

    @property
    def shape(self) -> str:
        """The hint without what differs from test to test."""
        return re.sub(
            r"/tmp/[^ ']*|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{6,64}\b|\b\d+\b",  # noqa: S108
            "#",
            self.text,
        )


def finish_hints(item: pytest.Function, runner: object, records: Path) -> None:
    """Follow what a test leaves to follow, also the hints of the processes that it started."""
    if isinstance(runner, HintRunner):
        runner.remember(records)
        runner.finish()
        return
    seen, unproven = item.config.stash.setdefault(HINTS, (set(), {}))
    with tempfile.TemporaryDirectory(prefix="turntree-hints-") as folder:
        alone = HintRunner(records.parent, make_stubs(Path(folder)), seen, unproven)
        alone.remember(records)
        alone.finish()
    assert not alone.failures, alone.tell()


def list_hints(out: str, err: str) -> list[Hint]:
    """Return the hints of what a command printed."""
    hints: list[Hint] = []
    for text in (err, out):
        entry = ""
        for line in text.splitlines():
            plain = click.unstyle(line)
            if plain.startswith("{") and '"undo"' in plain:
                undo = _member(plain, "undo")
                hints += [Hint("undo with", undo)] if isinstance(undo, str) else []
                continue
            if entry and plain.startswith(CONTINUATION):
                step = GAP.split(plain.strip())[0]
                hints.append(Hint("next", f"{entry}; {step}" if entry.startswith("cd ") else step))
                continue
            entry = plain.removeprefix("next: ") if plain.startswith("next: ") else ""
            hints += _list_hints_of_line(plain)
    return hints


def _list_hints_of_line(plain: str) -> list[Hint]:
    hints: list[Hint] = []
    # From the right: an undo and a next may stand in one line.
    while match := HINT.search(plain):
        first, *others = GAP.split(match["text"])
        if match["sign"] in ("next", "undo with") or first.startswith("turntree "):
            hints.append(Hint(match["sign"], first))
        hints += [Hint(match["sign"], one) for one in others if one.startswith("turntree ")]
        plain = plain[: match.start()]
    return hints


def _member(line: str, name: str) -> object:
    try:
        return json.loads(line).get(name)
    except ValueError:
        return None


class Printed(Protocol):
    """What a command printed."""

    @property
    def out(self) -> str: ...
    @property
    def err(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as the shell made it of a line, and where it would run."""

    folder: Path
    workspace: str
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Pending:
    """A hint to run when the test has ended, and where it was printed."""

    key: str
    hint: Hint
    words: Sequence[str]
    call: int
    folder: Path
    environment: dict[str, str]


@dataclass(slots=True)
class HintRunner:
    """Runs the hints of one test; the kinds of hints that ran are shared by all tests."""

    folder: Path
    """All that the test may write: the working folder, the home and the settings."""
    stubs: Path
    seen: set[str]
    unproven: dict[str, str]
    """Kinds of hints that did not run yet, each with a place where one was printed."""
    failures: list[str] = field(default_factory=list[str])
    pending: list[Pending] = field(default_factory=list[Pending])
    calls: int = 0

    def follow(self, words: Sequence[str], code: int, out: str, err: str) -> None:
        """Run what a command hints at, or remember it for the end of the test."""
        self.calls += 1
        for earlier in self.pending if code == 0 else ():
            if earlier.hint.text == shlex.join(["turntree", *words]):
                self._prove(earlier.key)  # The test itself followed it.
        for hint in list_hints(out, err):
            key = f"{words[0] if words else ''}|{hint.shape}"
            if key in self.seen:
                continue
            commands, fault = self._split(hint)
            if hint.sign == OF_OTHERS:
                fault = fault or next(filter(None, (parse(one.words) for one in commands)), None)
                if fault is not None:
                    self._fail(words, hint, fault)
                continue
            if commands and all(
                _is_in(one.words, READ_ONLY) and _can_run(one.words) for one in commands
            ):
                fault = fault or self._run(commands)
                if fault is None:
                    self._prove(key)
            else:
                fault = fault or next(filter(None, (parse(one.words) for one in commands)), None)
                where = Path.cwd(), dict(os.environ)
                if fault is None:
                    self.pending.append(Pending(key, hint, words, self.calls, *where))
            if fault in (None, UNANSWERED):
                if key not in self.seen:
                    self.unproven.setdefault(key, os.environ.get("PYTEST_CURRENT_TEST", ""))
            else:
                self.seen.add(key)
                self._fail(words, hint, fault)

    def follow_in_shell(self, printed: Printed, line: str, *, by: str | None = None) -> None:
        """Type a hint that was printed just now, where that was, and see that it works.

        ``by`` is the command that printed it, if it ran in a process of its own.
        """
        assert line in [hint.text for hint in list_hints(printed.out, printed.err)], printed
        ended = subprocess.run(
            ["bash", "-c", f'turntree() {{ "{sys.executable}" -m turntree "$@"; }}; {line}'],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        if by is not None:
            self._prove(f"{by}|{Hint('next', line).shape}")
        for same in [one for one in self.pending if one.hint.text == line]:
            self._prove(same.key)

    def remember(self, records: Path) -> None:
        """Remember the hints of the processes that the test started.

        What the test did afterwards may be the reason for a refusal, as with earlier commands. They
        run last, because they may change what the hints of the last command are about.
        """
        found: list[Pending] = []
        for line in records.read_text().splitlines() if records.exists() else ():
            told = json.loads(line)
            words: list[str] = told["words"]
            for hint in list_hints("", told["printed"]):
                key = f"{words[0] if words else ''}|{hint.shape}"
                if key in self.seen:
                    continue
                with contextlib.chdir(told["folder"] if Path(told["folder"]).is_dir() else "."):
                    commands, fault = self._split(hint, is_here=False)
                    faults = (parse(one.words) for one in commands)
                    fault = fault or next(filter(None, faults), None)
                if fault is not None:
                    self.seen.add(key)
                    self._fail(words, hint, fault)
                if fault is not None or hint.sign == OF_OTHERS:
                    continue
                where = Path(told["folder"]), told["environment"]
                found.append(Pending(key, hint, words, BEFORE, *where))
                self.unproven.setdefault(key, os.environ.get("PYTEST_CURRENT_TEST", ""))
        self.pending[:0] = found

    def finish(self) -> None:
        """Run what is left, the newest first, as undoing asks for."""
        start = Path.cwd()
        # An undo may remove the folder in which the test ends.
        os.chdir(self.folder)
        try:
            self._run_pending()
        finally:
            os.chdir(start if start.is_dir() else self.folder)

    def _run_pending(self) -> None:
        for left in reversed(self.pending):
            if left.key in self.seen or not left.folder.is_dir():
                continue
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(left.folder)
                for name in [name for name in os.environ if name.startswith("TURNTREE_")]:
                    patch.delenv(name)
                for name, value in left.environment.items():
                    if name.startswith("TURNTREE_"):
                        patch.setenv(name, value)
                home = left.environment.get("HOME", "/")
                is_own = Path(home).is_relative_to(self.folder)
                patch.setenv("HOME", home if is_own else str(self.folder / "home-of-hints"))
                commands, fault = self._split(left.hint, is_real=True)
                if cleared := UNSET.fullmatch(left.hint.text):
                    # It changes only the shell, so what was refused has to work in it.
                    patch.delenv(cleared[1], raising=False)
                    commands = [Typed(left.folder, "", left.words)]
                with contextlib.ExitStack() as stack:
                    if not all(_can_run(one.words) for one in commands):
                        if not self._has_server_of_its_own():
                            continue
                        stack.enter_context(serving_for_hints(patch))
                    fault = fault or self._run(commands)
                if cleared and fault is not None and cleared[0] not in fault:
                    fault = None  # It was refused for another reason now.
            if fault is None:
                # Another command may have hinted at the same line.
                for same in [one for one in self.pending if one.hint.text == left.hint.text]:
                    self._prove(same.key)
            elif fault == UNANSWERED or SCRIPTED_FAILURE in fault:
                continue
            elif left.call == self.calls:
                self._prove(left.key)
                self._fail(left.words, left.hint, fault)

    def _has_server_of_its_own(self) -> bool:
        """Whether the embedded server would be one that no other test uses."""
        if os.environ.get("TURNTREE_DATABASE_URL") or os.environ.get("TURNTREE_SERVER"):
            return False
        home = load_settings().home
        own = (self.folder, Path(tempfile.gettempdir()), Path("/var/lib/turntree"))
        return any(home.is_relative_to(folder) for folder in own)

    def tell(self) -> str:
        """Return which hints do not work."""
        return "hints that do not work:\n" + "\n".join(self.failures)

    def _prove(self, key: str) -> None:
        self.seen.add(key)
        self.unproven.pop(key, None)

    def _fail(self, words: Sequence[str], hint: Hint, fault: str) -> None:
        self.failures.append(
            f"after `turntree {' '.join(words)}`: {hint.sign}: {hint.text}\n    {fault}"
        )

    def _split(
        self, hint: Hint, *, is_here: bool = True, is_real: bool = False
    ) -> tuple[list[Typed], str | None]:
        """Return the commands of a hint, or what is wrong with it.

        Other commands, such as ``rm``, only run if it is real; ``cd`` where the folder is.
        """
        text = hint.text
        for name in PLACEHOLDER.findall(text) if "SELECT" not in text else ():
            value = self._find(name) if name in ("SESSION", "REV") else FREE_WORDS.get(name)
            if name == "AGENT" and is_real:
                value = self._hire()
            if name in ("PATH", "DIR"):
                value = str(self.stubs / name / "hinted-choice")
            if value is None:
                return [], f"there is no {name} to put there"
            text = re.sub(rf"(?<![\w$]){name}\b", value, text, count=1)
        log = self.stubs / "log"
        log.write_bytes(b"")
        # Nothing is removed that is not the test's own, nor folders that others write into.
        is_real &= "rmdir" not in text
        is_real &= all(path.startswith(str(self.folder)) for path in re.findall(r"/[^ ']+", text))
        unreal = "" if is_real else "rm() { :; }; rmdir() { :; }; "
        unreal += "" if is_real or is_here else "cd() { :; }; "
        ended = subprocess.run(
            ["bash", "-c", unreal + text], capture_output=True, text=True, check=False,
            env={"PATH": f"{self.stubs}:/usr/bin:/bin", "HINT_LOG": str(log), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        if ended.returncode:
            return [], f"the shell says: {ended.stderr.strip()}"
        records = [record.split("\0") for record in log.read_text().split("\0\n\0")[:-1]]
        typed = [
            Typed(Path(folder), workspace, words)
            for folder, workspace, name, *words in records
            if name == "turntree"
        ]
        return typed, None

    def _run(self, commands: Sequence[Typed]) -> str | None:
        """Run commands in this process, and return what is wrong with the first that fails."""
        for typed in commands:
            with contextlib.chdir(typed.folder):
                fault = self._run_one(typed.workspace, typed.words)
            if fault is not None:
                return fault
        return None

    def _run_one(self, workspace: str, words: Sequence[str]) -> str | None:
        variables = {"TURNTREE_WORKSPACE": workspace} if workspace else {}
        if _is_in(words, ENDLESS):
            return run_for_a_moment(words, variables)
        if _is_in(words, TALK):
            self._furnish()
        # Without a terminal these refuse: they are meant for a person, who agrees here.
        asks = words[0] == "erase" or (words[0] == "fork" and "--agent" in words)
        more = ["--yes"] if asks and "--yes" not in words else []
        ended = CliRunner(env=variables).invoke(
            root, [*words, *more], prog_name="turntree", input="/quit\n"
        )
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            return f"{type(ended.exception).__name__}: {ended.exception}"
        # Commands that say that no database answers are right, but have shown nothing.
        if ended.exit_code == DOWN:
            return UNANSWERED
        is_finding = ended.exit_code == 1 and words[0] in FINDINGS
        # The reader has a model or a path where a test has none.
        is_chosen = any(word.endswith("hinted-choice") for word in words)
        if ended.exit_code == USAGE or (ended.exit_code and not (is_finding or is_chosen)):
            return f"exit code {ended.exit_code}: {ended.stderr.strip()}"
        return None

    def _find(self, name: str) -> str | None:
        """Return a session or a turn of the ledger."""
        commands = {
            "SESSION": (["session", "list"], "label"),
            "REV": (["log", "--all"], "digest"),
        }
        command, member = commands[name]
        ended = CliRunner().invoke(root, [*command, "--json"], prog_name="turntree")
        if ended.exit_code == DOWN:
            return "main"
        lines = ended.stdout.splitlines() if ended.exit_code == 0 else []
        return next((str(json.loads(line)[member]) for line in lines), None)

    def _furnish(self) -> None:
        """Have a scripted model answer, unless the ledger has a model."""
        listed = CliRunner().invoke(root, ["program", "list", "--kind", "model", "--json"])
        if listed.exit_code == 0 and not listed.stdout.strip():
            _type("provider", "create", "hinted-script", "--type", "scripted")
            _type("model", "create", "hinted-echo", "--backend", "scripted-1",
                  "--provider", "hinted-script")  # fmt: skip

    def _hire(self) -> str:
        """Return the name of an agent that the reader may invoke; create it at first."""
        self._furnish()
        listed = CliRunner().invoke(root, ["program", "list", "--kind", "agent", "--json"])
        if '"hinted-agent"' not in listed.stdout:
            _type("agent", "create", "hinted-agent", "--prompt", "You are brief.")
        return "hinted-agent"


def _type(*words: str) -> None:
    ended = CliRunner().invoke(root, words, prog_name="turntree")
    assert ended.exit_code == 0, ended.output


def _can_run(words: Sequence[str]) -> bool:
    """Whether a command can run here: on a database that no other test reads, or to read it."""
    if _is_help(words) or _is_in(words, WITHOUT_DATABASE):
        return True
    address = os.environ.get("TURNTREE_DATABASE_URL")
    if address:
        # Switching changes only a file of this folder.
        return SHARED not in address or _is_in(words, (*READ_ONLY, ("switch",)))
    # Nothing starts a server that would stay behind.
    return EmbeddedServer(load_settings().home).state().name == "running"


@contextlib.contextmanager
def serving_for_hints(patch: pytest.MonkeyPatch) -> Generator[None]:
    """Let commands start the embedded server, and end what they started.

    The account of the server may not enter the folders of tests, so that it works on a copy then.
    """
    with tempfile.TemporaryDirectory(prefix="turntree-hints-") as folder:
        home = load_settings().home
        if find_account(home).find_wall(home) is not None:
            Path(folder).chmod(0o755)
            copied = Path(folder) / "home"
            if home.is_dir():
                shutil.copytree(home, copied)
            home = copied
            patch.setenv("TURNTREE_HOME", str(home))
        is_new = not home.exists()
        try:
            yield
        finally:
            CliRunner().invoke(root, ["down"], prog_name="turntree")
            if is_new:
                shutil.rmtree(home, ignore_errors=True)


def run_for_a_moment(words: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Start a command, end it when it has begun, and return what is wrong with it."""
    code, printed = begin_and_end(words, variables)
    if code == DOWN:
        return UNANSWERED
    # A worker or a server ends what it began first; nothing has to be ended where one only looks.
    good = (0,) if words[0] in DRAINED else (0, -signal.SIGTERM)
    return None if code in good else f"exit code {code}: {printed}"


def begin_and_end(
    words: Sequence[str], variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Start a command that does not end by itself, and end it; return its code and its output."""
    more = ["--drain-s", "1"] if words[0] in DRAINED else []
    # Other tests serve beside this one.
    more += ["--port", "0"] if words[0] == "serve" and "--port" not in words else []
    with subprocess.Popen(
        [sys.executable, "-m", "turntree", *words, *more],
        env={**os.environ, "BROWSER": "true", **(variables or {})},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        select.select([process.stdout], [], [], BEGIN_MAX_S)
        try:
            process.wait(SETTLE_S)
        except subprocess.TimeoutExpired:
            process.terminate()
        printed, _ = process.communicate(timeout=END_MAX_S)
    return process.returncode, printed


def _is_in(words: Sequence[str], commands: Sequence[Sequence[str]]) -> bool:
    if _is_help(words):
        return commands is READ_ONLY
    if commands is READ_ONLY and {"--repair-derived", "--fix", "--delete"} & {*words}:
        return False
    return any([*words[: len(one)]] == [*one] for one in commands)


def _is_help(words: Sequence[str]) -> bool:
    """Whether a command only explains itself; what follows ``--`` is no option."""
    return "--help" in words[: words.index("--") if "--" in words else None]


def parse(words: Sequence[str]) -> str | None:
    """Return what the command line does not understand about a command, without running it."""
    command: click.Command = root
    try:
        context = root.make_context("turntree", list(words))
        while isinstance(command, click.Group):
            left = [*context._protected_args, *context.args]
            if not left:
                break
            name, below, left = command.resolve_command(context, left)
            assert below is not None, "an unknown command raises"
            command, context = below, below.make_context(name, left, parent=context)
    except click.exceptions.Exit:
        return None  # It is a --help.
    except click.UsageError as error:
        return error.format_message()
    return None


def kind_of(key: str) -> str:
    """Return a kind of hint without what its commands are about: sessions, turns, names, paths."""
    printer, _, text = key.partition("|")
    kind = [printer]
    at: click.Command | None = None
    for word in text.split():
        below = at.get_command(click.Context(at), word) if isinstance(at, click.Group) else None
        if word == "turntree":
            at = root
        elif below is not None:
            at = below
        elif (
            at is not None
            and not word.startswith("-")
            and PLACEHOLDER.fullmatch(word) is None
            and word != "&&"
        ):
            word = "…"  # noqa: PLW2901
        kind.append(word)
    return " ".join(kind)


def make_stubs(folder: Path) -> Path:
    """Make the commands that take down their words instead of running."""
    for name in STUBS:
        path = folder / name
        path.write_text(
            '#!/bin/sh\n{ printf \'%s\\0\' "$PWD" "$TURNTREE_WORKSPACE" '
            + name
            + ' "$@"; printf \'\\n\\0\'; } >> "$HINT_LOG"\n'
        )
        path.chmod(0o755)
    (folder / "DIR" / "hinted-choice").mkdir(parents=True)
    (folder / "PATH").mkdir()
    (folder / "PATH" / "hinted-choice").touch()
    return folder
