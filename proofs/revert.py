"""The claim: any single turn can be taken back, and nobody else's bytes with it.

Real Claude Code, Codex, opencode and Gemini CLI, against a scripted model on loopback, take turns
in one repository: with their edit tools, with rm, mv, sed, ln and chmod in the shell, and with a
subagent. A person edits the same files in between. Then single turns are taken back, the last one
and ones in the middle, whole, by file and by hunk. The files have to be what they would be without
that part of the history, byte by byte and mode by mode. The oracle does not know Turntree: it
replays the same history on a dictionary and leaves the part out. Undo, redo and undo again have to
be exact. Then the same with PostgreSQL stopped: the ledger, once it is back, has to know every
operation once. Last, two agents work in the folder at the same time.
"""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import turntree
from proofs.agents import claude, codex, gemini, opencode
from proofs.agents.editing import EDITING, Editing
from proofs.agents.hooked import COMMAND, TOOLS, Hooked, hooked
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.stage import AgentFailed, Stage
from proofs.figures import Proof, run, temporary_server
from proofs.rewind import differ, look, on_path
from turntree.testing.scripted.server import Call, MatchedRule, Reply, Rule, ScriptedModel

Files = dict[str, tuple[int, bytes]]
"""By path the permissions, and the bytes; a link's are where it leads, with permissions 0."""
Deed = Callable[[Files], None]
LINES = 24
IGNORED = "build/out.o"


def line(number: int, text: str, path: str = "cart.py") -> Deed:
    """Return what replaces a line of a file, under whatever name the file has by then."""

    def change(files: Files) -> None:
        mode, data = files[path]
        lines = data.split(b"\n")
        lines[number - 1] = text.encode()
        files[path] = mode, b"\n".join(lines)

    return change


def put(path: str, data: bytes, mode: int = 0o644) -> Deed:
    """Return what writes a file."""

    def change(files: Files) -> None:
        files[path] = mode, data

    return change


def drop(*paths: str) -> Deed:
    """Return what removes files."""

    def change(files: Files) -> None:
        for path in paths:
            del files[path]

    return change


def permit(path: str, mode: int) -> Deed:
    """Return what changes a file's permissions."""

    def change(files: Files) -> None:
        files[path] = mode, files[path][1]

    return change


def name(old: str, new: str) -> Deed:
    """Return what renames a file."""

    def change(files: Files) -> None:
        files[new] = files.pop(old)

    return change


def grow(path: str, text: bytes, other: str | None = None) -> Deed:
    """Return what appends to a file, or to its other name if a rename was left out."""

    def change(files: Files) -> None:
        there = path if path in files or other is None else other
        files[there] = files[there][0], files[there][1] + text

    return change


@dataclass(frozen=True, slots=True)
class Event:
    """A part of the history: a turn or a person's edit, and its deeds by name."""

    by: str
    """The word of the turn's prompt, or ``person``."""
    deeds: Mapping[str, Sequence[Deed]]


TEXT = b"".join(b"line %d\n" % number for number in range(1, LINES + 1))
BEGINNING: Files = {
    "cart.py": (0o644, TEXT),
    "scripts/a.sh": (0o755, b"echo a\n"),
    "scripts/b.sh": (0o644, b"echo b\n"),
    "old.py": (0o644, b"".join(b"old %d\n" % number for number in range(12))),
    "logo.bin": (0o644, b"\0\1\2one"),
    "link": (0, b"cart.py"),
    "run.sh": (0o644, b"echo run\n"),
    "loose.txt": (0o644, b"untracked\n"),
    ".gitignore": (0o644, b"build/\n"),
    IGNORED: (0o644, b"built\n"),
}
UNTRACKED = ("loose.txt",)
HISTORY = (
    Event("TOOL", {
        "first hunk": [line(3, "three, by a tool")],
        "second hunk": [line(19, "nineteen, by a tool")],
        "added": [put("added.txt", b"by a tool\n")],
    }),
    Event("person", {"all": [line(11, "eleven, by hand"), put("mine.txt", b"mine\n")]}),
    Event("SHELL", {
        "scripts": [drop("scripts/a.sh", "scripts/b.sh")],
        "rename": [name("old.py", "moved.py")],
        "cart.py": [line(7, "seven, by sed")],
        "logo.bin": [put("logo.bin", b"\0\1\2two!")],
        "link": [put("link", b"run.sh", 0)],
        "run.sh": [permit("run.sh", 0o755)],
        "loose.txt": [put("loose.txt", b"untracked, changed\n")],
    }),
    Event("person", {"all": [grow("moved.py", b"by hand\n", "old.py")]}),
    Event("DELEGATE", {"all": [put("counted.txt", b"by a subagent\n")]}),
    Event("LAST", {"all": [line(15, "fifteen, by sed")]}),
    Event("person", {"all": [line(23, "twenty-three, by hand")]}),
)  # fmt: skip
SHELL = (
    "rm -r scripts && mv old.py moved.py && sed -i '7s/.*/seven, by sed/' cart.py && "
    "printf '\\000\\001\\002two!' > logo.bin && ln -sfn run.sh link && chmod 755 run.sh && "
    "printf 'untracked, changed\\n' > loose.txt && printf 'rebuilt\\n' > build/out.o"
)
LAST = "sed -i '15s/.*/fifteen, by sed/' cart.py"
COUNT = "printf 'by a subagent\\n' > counted.txt"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to take back: the turn, how it is named, and which deeds that leaves out."""

    what: str
    turn: str
    words: tuple[str, ...] = ()
    answers: str = ""
    without: tuple[str, ...] | None = None
    """The names of deeds; None means all of the turn."""

    def leaves_out(self, event: Event, deed: str) -> bool:
        """Whether a deed is part of what is taken back."""
        return event.by == self.turn and (self.without is None or deed in self.without)


CASES = (
    Case("a middle turn", "SHELL"),
    Case("a hunk", "TOOL", ("-p",), "n\nn\ny\n", ("second hunk",)),
    Case("a folder", "SHELL", ("--", "scripts"), without=("scripts",)),
    Case("the first turn", "TOOL"),
    Case("the last turn", "LAST"),
    Case("a turn with a subagent", "DELEGATE"),
    Case("a binary file", "SHELL", ("--", "logo.bin"), without=("logo.bin",)),
    Case("a link and a mode", "SHELL", ("--", "link", "run.sh"), without=("link", "run.sh")),
    Case("an untracked file", "SHELL", ("--", "loose.txt"), without=("loose.txt",)),
    Case("a renamed file", "SHELL", ("--", "old.py", "moved.py"), without=("rename",)),
)
QUICK: Final = 4
LONG: Final = ("DELEGATE", "LAST")
"""Turns that a quick run leaves out, with their cases."""


def story(*, quick: bool) -> Sequence[Event]:
    """Return the history to play."""
    return [event for event in HISTORY if not quick or event.by not in LONG]


def _begin_gemini(stage: Stage, text: str) -> str:
    session = str(uuid.uuid4())
    gemini.run(stage, text, "--session-id", session)
    return session


def _resume_gemini(stage: Stage, session: str, text: str) -> str:
    gemini.run(stage, text, "--resume", session)
    return session


DRIVEN: Final[Mapping[str, Editing]] = {
    **EDITING,
    "gemini": Editing(gemini.SCENE, _begin_gemini, _resume_gemini),
    "opencode": Editing(
        opencode.SCENE,
        opencode.run,
        lambda stage, session, text: opencode.run(stage, text, "--session", session),
    ),
}
WITHOUT_SUBAGENTS: Final = ("gemini",)
"""Agents that cannot be made to delegate from the command line."""
NOWHERE: Final = "postgresql://nobody@127.0.0.1:1/nothing"


def list_cases(*, quick: bool) -> Sequence[Case]:
    """Return what is taken back."""
    return [case for case in CASES[:QUICK] if case.turn not in LONG] if quick else CASES


def replay(history: Sequence[Event], case: Case | None = None) -> Files:
    """Return the files after the history, without what a case takes back."""
    files = dict(BEGINNING)
    files[IGNORED] = 0o644, b"rebuilt\n"
    for event in history:
        for key, deeds in event.deeds.items():
            if case is not None and case.leaves_out(event, key):
                continue
            for deed in deeds:
                deed(files)
    return files


async def prove(proof: Proof) -> None:
    """Have each agent take its turns, and take back all kinds of parts of them."""
    with (
        temporary_server() as (server, _),
        tempfile.TemporaryDirectory(prefix="turntree-revert-") as folder,
    ):
        for program in PROGRAMS:
            if program.name not in DRIVEN or not proof.wants(program.name):
                continue
            if proof.quick and proof.only is None and program.name != "claude":
                continue
            await asyncio.to_thread(
                prove_agent, proof, program, Path(folder) / program.name, server
            )


def prove_agent(proof: Proof, program: Program, folder: Path, server: str) -> None:
    """Show it for one agent."""
    try:
        path = program.ensure()
    except NotInstalled as error:
        say(f"{program.name} is not installed: {error}")
        if not program.required:
            proof.note(f"{program.name} skipped", 1, "agents")
            return
        proof.at_least(f"{program.name}, turns", 0, "turns", 1)
        return
    editing = DRIVEN[program.name]
    rules = RULES[program.name]()
    with ScriptedModel(rules=rules) as model:
        stage = Stage(path, folder, model, editing.scene.settings(model.url))
        stage.set_up()
        told = hooked(stage, server, program.name, on_path(program.name, path, folder / "bin"))
        editing.scene.prepare(told.stage)
        trust = ("--trust",) if program.name == "codex" else ()
        told.call("hook", "install", TOOLS[program.name], *trust)
        begin_repository(told.stage.work)
        try:
            delegates = program.name not in WITHOUT_SUBAGENTS
            history = [
                event for event in story(quick=proof.quick) if delegates or event.by != "DELEGATE"
            ]
            take_turns(told, editing, history)
            turns = asyncio.run(find_turns(told))
            cases = [case for case in list_cases(quick=proof.quick) if case.turn in turns]
            take_back(proof, program.name, told, history, turns, cases)
            take_back_offline(proof, program.name, told, history, turns, cases)
            if not proof.quick:
                work_at_once(proof, program.name, told, editing)
        finally:
            told.stage.end_all()


def begin_repository(work: Path) -> None:
    """Make a repository with a past, and what git does not know."""
    write(work, BEGINNING)
    git = ["git", "-C", str(work), "-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", ".", *(f":!{path}" for path in UNTRACKED)], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "begin"], check=True)


def write(work: Path, files: Files) -> None:
    """Make the files of a folder what a dictionary says."""
    for name, (mode, data) in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == 0:
            path.unlink(missing_ok=True)
            path.symlink_to(os.fsdecode(data))
        else:
            path.write_bytes(data)
            path.chmod(mode)


def read(work: Path) -> Files:
    """Return the files of a folder; folders count only by what they hold."""
    return {
        path: (0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode), data)
        for path, (mode, data) in look(work).items()
        if not stat.S_ISDIR(mode)
    }


def take_turns(told: Hooked, editing: Editing, history: Sequence[Event]) -> None:
    """Play the history: the agent's turns, and the person's edits between them."""
    work, session = told.stage.work, ""
    if any(event.by == "LAST" for event in history):
        # Codex acts within milliseconds, and the first hook of all has to start the hook daemon.
        session = editing.begin(told.stage, "Hello.")
        told.wait_until_read()
    for event in history:
        if event.by == "person":
            files = read(work)
            for deed in event.deeds["all"]:
                deed(files)
            write(work, files)
        elif not session:
            session = editing.begin(told.stage, f"{event.by} now.")
        else:
            session = editing.resume(told.stage, session, f"{event.by} now.")
        told.wait_until_read()


def take_back_offline(
    proof: Proof,
    agent: str,
    told: Hooked,
    history: Sequence[Event],
    turns: Mapping[str, str],
    cases: Sequence[Case],
) -> None:
    """Do the same while the database refuses connections, and compare with the ledger after."""
    settings = {**told.stage.settings, "TURNTREE_DATABASE_URL": NOWHERE}
    stopped = replace(told, stage=replace(told.stage, settings=settings))
    before = len(asyncio.run(list_operations(told)))
    chosen = cases[:1] if proof.quick else cases
    done = take_back(proof, f"{agent}, stopped", stopped, history, turns, chosen)
    told.call("session", "list")
    after = asyncio.run(list_operations(told))
    known = len(after) - before
    missed = abs(done - known) + len(after) - len({*after})
    proof.note(f"{agent}, operations while PostgreSQL was stopped", done, "operations")
    proof.at_most(f"{agent}, of these not in the ledger once", missed, "operations", 0)


async def list_operations(told: Hooked) -> list[str]:
    """Return the plans of the ledger."""
    async with turntree.open(told.settings) as tree:
        return [str(state.plan.id) for state in await tree.plans.list_newest(10_000)]


def take_back(
    proof: Proof,
    agent: str,
    told: Hooked,
    history: Sequence[Event],
    turns: Mapping[str, str],
    cases: Sequence[Case],
) -> int:
    """Take back each case, compare with the oracle, undo, redo, undo; return how often."""
    work, done = told.stage.work, 0
    proof.at_most(
        f"{agent}, paths unlike the story", differ(replay(history), read(work)), "paths", 0
    )
    present, git = look(work), look(work / ".git")
    wrong = undone = redone = human = 0
    for number, case in enumerate(cases):
        revert(told, turns[case.turn], *case.words, answers=case.answers)
        found, expected = read(work), replay(history, case)
        wrong += differ(expected, found)
        human += count_lost(found, replay(history))
        after = look(work)
        told.call("undo", "--yes")
        undone += differ(present, look(work))
        done += 2
        if number == 0 or not proof.quick:
            told.call("redo", "--yes")
            redone += differ(after, look(work))
            told.call("undo", "--yes")
            undone += differ(present, look(work))
            done += 2
    proof.note(f"{agent}, parts taken back", len(cases), "parts")
    proof.at_most(f"{agent}, paths unlike the oracle's", wrong, "paths", 0)
    proof.at_most(f"{agent}, edits of a person that were lost", human, "edits", 0)
    proof.at_most(f"{agent}, paths unlike the present after an undo", undone, "paths", 0)
    proof.at_most(f"{agent}, paths unlike the revert after a redo", redone, "paths", 0)
    touched = differ(git, look(work / ".git"))
    proof.at_most(f"{agent}, files of .git that changed", touched, "files", 0)
    return done


def count_lost(files: Files, present: Files) -> int:
    """Return how many of the person's edits are in no file any more."""
    now, before = (b"\n".join(data for _, data in one.values()) for one in (files, present))
    said = (b"eleven, by hand", b"mine\n", b"by hand\n", b"twenty-three, by hand")
    return sum(text in before and text not in now for text in said)


def revert(told: Hooked, turn: str, *words: str, answers: str = "") -> None:
    """Run the command, and answer what it asks.

    Raises:
        AgentFailed: It was refused.
    """
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "revert", "--yes", turn, *words],
        cwd=told.stage.work,
        env={**told.stage.environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        input=answers,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AgentFailed(f"turntree revert {turn} {words}: {done.stderr}")


async def find_turns(told: Hooked) -> dict[str, str]:
    """Return the turns with files by the word of their prompt."""
    found: dict[str, str] = {}
    async with turntree.open(told.settings) as tree:
        for placed in await tree.turns.list_newest():
            word = (placed.turn.title or "").split(" ")[0]
            if await tree.resources.pins_of(placed.turn.id):
                found.setdefault(word, str(placed.turn.id))
    return found


def work_at_once(proof: Proof, agent: str, told: Hooked, editing: Editing) -> None:
    """Have two sessions work in the folder at the same time, and take back one of them."""
    work = told.stage.work

    async def both() -> None:
        await asyncio.gather(
            asyncio.to_thread(editing.begin, told.stage, "LEFT now."),
            asyncio.to_thread(editing.begin, told.stage, "RIGHT now."),
        )

    asyncio.run(both())
    told.wait_until_read()
    present = look(work)
    turns = asyncio.run(find_turns(told))
    shown = told.ask("revert", turns["LEFT"], "--yes")
    after = look(work)
    unclear = {path for place in shown["places"] for path in place["unclear"]}
    theirs = {path for path in present if path.startswith("right")}
    ours = {path for path in present if path.startswith("left")}
    lost = sum(after.get(path) != present[path] for path in theirs)
    kept = sum(path in after and path not in unclear for path in ours)
    proof.at_most(f"{agent}, at once: paths of the other agent that changed", lost, "paths", 0)
    proof.at_most(f"{agent}, at once: own paths neither taken back nor reported", kept, "paths", 0)
    proof.note(f"{agent}, at once: paths that cannot be told apart", len(unclear), "paths")
    told.call("undo", "--yes")
    undone = differ(present, look(work))
    proof.at_most(f"{agent}, at once: paths unlike the present after an undo", undone, "paths", 0)


def together(side: str, tool: Callable[[str], Call], shell: Callable[[str], Call]) -> Rule:
    """Return how one of two agents at once is answered: slowly, so that they overlap."""
    steps = (
        Reply("By a tool.", (tool(f"{side}-tool.txt"),)),
        Reply("Slowly.", (shell(f"sleep 2; printf x > {side}-shell.txt; sleep 2"),)),
        Reply("Done."),
    )
    return Rule(steps, prompt=side.upper(), name=side)


def claude_rules() -> list[Rule]:
    """Return how Claude Code is answered in each turn."""

    def edit(number: int, text: str) -> Call:
        told = {"file_path": "cart.py", "old_string": f"line {number}\n", "new_string": f"{text}\n"}
        return Call("Edit", told)

    def make(path: str) -> Call:
        return Call("Write", {"file_path": path, "content": "by a tool\n"})

    task = {
        "description": "Count",
        "prompt": "COUNT the files.",
        "subagent_type": "general-purpose",
    }
    return [
        Rule(
            (
                Reply("Reading.", (Call("Read", {"file_path": "cart.py"}),)),
                Reply("Editing.", (edit(3, "three, by a tool"), edit(19, "nineteen, by a tool"))),
                Reply("Adding.", (make("added.txt"),)),
                Reply("Done."),
            ),
            prompt="TOOL",
            offers="Edit",
            name="tool",
        ),
        Rule((Reply("", (claude.bash(SHELL),)), Reply("Done.")), prompt="SHELL", offers="Bash"),
        Rule(
            (Reply("", (Call("Agent", task),)), Reply("Done.")), prompt="DELEGATE", offers="Agent"
        ),
        Rule((Reply("", (claude.bash(COUNT),)), Reply("One.")), prompt="COUNT", offers="Bash"),
        Rule((Reply("", (claude.bash(LAST),)), Reply("Done.")), prompt="LAST", offers="Bash"),
        together("left", make, claude.bash),
        together("right", make, claude.bash),
        claude.SCENE.rules[-1],
    ]


def codex_rules() -> list[Rule]:
    """Return how Codex is answered in each turn."""

    def patch(text: str) -> Call:
        return codex.shell(f"apply_patch <<'EOF'\n*** Begin Patch\n{text}\n*** End Patch\nEOF\n")

    def make(path: str) -> Call:
        return patch(f"*** Add File: {path}\n+by a tool")

    edits = "".join(
        f"@@\n-line {number}\n+{text}\n"
        for number, text in ((3, "three, by a tool"), (19, "nineteen, by a tool"))
    )
    spawn = Call("spawn_agent", {"message": "COUNT it."}, namespace=codex.AGENTS)
    found = MatchedRule(r'"agent_id": ?"([^"]+)"')
    wait = Call("wait_agent", {"targets": [found], "timeout_ms": 30_000}, namespace=codex.AGENTS)
    return [
        Rule(
            (
                Reply("", (patch(f"*** Update File: cart.py\n{edits.rstrip()}"),)),
                Reply("", (make("added.txt"),)),
                Reply("Done."),
            ),
            prompt="TOOL",
        ),
        Rule((Reply("", (codex.shell(SHELL),)), Reply("Done.")), prompt="SHELL"),
        Rule((Reply("", (spawn,)), Reply("", (wait,)), Reply("Done.")), prompt="DELEGATE"),
        Rule((Reply("", (codex.shell(COUNT),)), Reply("One.")), prompt="COUNT"),
        Rule((Reply("", (codex.shell(LAST),)), Reply("Done.")), prompt="LAST"),
        together("left", make, codex.shell),
        together("right", make, codex.shell),
        codex.SCENE.rules[-1],
    ]


def opencode_rules() -> list[Rule]:
    """Return how opencode is answered in each turn."""

    def edit(number: int, text: str) -> Call:
        told = {"filePath": "cart.py", "oldString": f"line {number}\n", "newString": f"{text}\n"}
        return Call("edit", told)

    def make(path: str) -> Call:
        return Call("write", {"filePath": path, "content": "by a tool\n"})

    task = {"description": "Count", "prompt": "COUNT the files.", "subagent_type": "general"}
    tool = (
        Reply("Reading.", (Call("read", {"filePath": "cart.py"}),)),
        Reply("Editing.", (edit(3, "three, by a tool"),)),
        Reply("Editing.", (edit(19, "nineteen, by a tool"),)),
        Reply("Adding.", (make("added.txt"),)),
        Reply("Done."),
    )
    aside, *_, plain = opencode.SCENE.rules
    return [
        aside,
        Rule(tool, prompt="TOOL"),
        Rule((Reply("", (opencode.bash(SHELL),)), Reply("Done.")), prompt="SHELL"),
        Rule((Reply("", (Call("task", task),)), Reply("Done.")), prompt="DELEGATE"),
        Rule((Reply("", (opencode.bash(COUNT),)), Reply("One.")), prompt="COUNT"),
        Rule((Reply("", (opencode.bash(LAST),)), Reply("Done.")), prompt="LAST"),
        together("left", make, opencode.bash),
        together("right", make, opencode.bash),
        plain,
    ]


def gemini_rules() -> list[Rule]:
    """Return how Gemini CLI is answered in each turn."""

    def edit(number: int, text: str) -> Call:
        told = {
            "file_path": "cart.py", "instruction": f"Say {text}.",
            "old_string": f"line {number}\n", "new_string": f"{text}\n",
        }  # fmt: skip
        return Call("replace", told)

    def make(path: str) -> Call:
        return Call("write_file", {"file_path": path, "content": "by a tool\n"})

    def rule(prompt: str, *replies: Reply) -> Rule:
        return Rule(replies, prompt=prompt, offers="run_shell_command")

    *_, plain, aside = gemini.SCENE.rules
    return [
        rule(
            "TOOL",
            Reply("Reading.", (Call("read_file", {"file_path": "cart.py"}),)),
            Reply("Editing.", (edit(3, "three, by a tool"),)),
            Reply("Editing.", (edit(19, "nineteen, by a tool"),)),
            Reply("Adding.", (make("added.txt"),)),
            Reply("Done."),
        ),
        rule("SHELL", Reply("", (gemini.shell(SHELL),)), Reply("Done.")),
        rule("LAST", Reply("", (gemini.shell(LAST),)), Reply("Done.")),
        together("left", make, gemini.shell),
        together("right", make, gemini.shell),
        plain,
        aside,
    ]


RULES: Final[Mapping[str, Callable[[], list[Rule]]]] = {
    "claude": claude_rules,
    "codex": codex_rules,
    "opencode": opencode_rules,
    "gemini": gemini_rules,
}


if __name__ == "__main__":
    run(prove, __doc__ or "")
