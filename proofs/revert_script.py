"""How each agent is made to do what ``revert`` takes back: its tools, its shell, its subagents.

Knows what the agents call their tools. Must never know Turntree.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proofs.agents import claude, codex, gemini, opencode
from proofs.agents.editing import EDITING, Editing
from proofs.agents.stage import Stage
from proofs.revert_story import COUNT, LAST, SHELL, STOPPED
from turntree.testing.scripted.server import Call, MatchedRule, Reply, Rule

LineChanges = Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Hands:
    """What one agent acts with."""

    edit: Callable[[LineChanges], tuple[Reply, ...]]
    """Replaces lines of cart.py by a tool, after what it has to do before it may."""
    make: Callable[[str], Call]
    """Writes a file by a tool."""
    shell: Callable[[str], Call]
    delegate: tuple[Reply, ...] = ()
    """Has a subagent COUNT; empty for an agent that cannot be made to from the command line."""
    offers: str | None = None
    """A tool that tells the agent's own requests from those it makes in passing."""
    first: Sequence[Rule] = ()
    last: Sequence[Rule] = ()
    """Rules for everything else that it asks."""

    def rules(self, *more: Rule) -> list[Rule]:
        """Return how the agent is answered in each turn of the story, and in some more."""
        tool = (*self.edit(TOOL), Reply("Adding.", (self.make("added.txt"),)))
        turns = {"TOOL": tool, "SHELL": self._run(SHELL), "LAST": self._run(LAST)}
        if self.delegate:
            turns |= {"DELEGATE": self.delegate, "COUNT": self._run(COUNT)}
        turns["AWAY"] = self._run(STOPPED)
        told = [self.rule(prompt, *replies) for prompt, replies in turns.items()]
        sides = [self._together(side) for side in ("left", "right")]
        return [*self.first, *told, *sides, *more, *self.last]

    def rule(self, prompt: str, *replies: Reply) -> Rule:
        """Return how a prompt is answered."""
        return Rule((*replies, Reply("Done.")), prompt, offers=self.offers, name=prompt.lower())

    def _run(self, command: str) -> tuple[Reply, ...]:
        return (Reply("", (self.shell(command),)),)

    def _together(self, side: str) -> Rule:
        """Return how one of two sessions at once is answered: slowly, so that they overlap."""
        slow = self.shell(f"sleep 2; printf x > {side}-shell.txt; sleep 2")
        tool = Reply("By a tool.", (self.make(f"{side}-tool.txt"),))
        return self.rule(side.upper(), tool, Reply("Slowly.", (slow,)))


TOOL: Final = ((3, "three, by a tool"), (19, "nineteen, by a tool"))


def _replacing(
    read: str, edit: str, path: str, old: str, new: str, **more: str
) -> Callable[[LineChanges], tuple[Reply, ...]]:
    """Return edits by a tool that replaces a text in a file which was read before."""

    def replies(changes: LineChanges) -> tuple[Reply, ...]:
        calls = [
            Call(edit, {path: "cart.py", old: f"line {number}\n", new: f"{text}\n", **more})
            for number, text in changes
        ]
        first = Reply("Reading.", (Call(read, {path: "cart.py"}),))
        return first, *(Reply("Editing.", (call,)) for call in calls)

    return replies


def _writing(tool: str, path: str) -> Callable[[str], Call]:
    return lambda name: Call(tool, {path: name, "content": "by a tool\n"})


def _task(kind: str) -> dict[str, Any]:
    return {"description": "Count", "prompt": "COUNT the files.", "subagent_type": kind}


def _patch(text: str) -> Call:
    return codex.shell(f"apply_patch <<'EOF'\n*** Begin Patch\n{text}\n*** End Patch\nEOF\n")


def _patch_lines(changes: LineChanges) -> tuple[Reply, ...]:
    hunks = "".join(f"@@\n-line {number}\n+{text}\n" for number, text in changes)
    return (Reply("", (_patch(f"*** Update File: cart.py\n{hunks.rstrip()}"),)),)


def _edit_at_once(changes: LineChanges) -> tuple[Reply, ...]:
    """Return Claude Code's edits in one reply: it runs several calls of a reply itself."""
    first, *edits = _replacing("Read", "Edit", "file_path", "old_string", "new_string")(changes)
    return first, Reply("Editing.", tuple(call for one in edits for call in one.calls))


def _codex_delegates() -> tuple[Reply, ...]:
    spawn = Call("spawn_agent", {"message": "COUNT it."}, namespace=codex.AGENTS)
    found = MatchedRule(r'"agent_id": ?"([^"]+)"')
    wait = Call("wait_agent", {"targets": [found], "timeout_ms": 30_000}, namespace=codex.AGENTS)
    return Reply("", (spawn,)), Reply("", (wait,))


HANDS: Final[Mapping[str, Hands]] = {
    "claude": Hands(
        _edit_at_once,
        _writing("Write", "file_path"),
        claude.bash,
        (Reply("", (Call("Agent", _task("general-purpose")),)),),
        offers="Bash",
        last=claude.SCENE.rules[-1:],
    ),
    "codex": Hands(
        _patch_lines,
        lambda name: _patch(f"*** Add File: {name}\n+by a tool"),
        codex.shell,
        _codex_delegates(),
        last=codex.SCENE.rules[-1:],
    ),
    "opencode": Hands(
        _replacing("read", "edit", "filePath", "oldString", "newString"),
        _writing("write", "filePath"),
        opencode.bash,
        (Reply("", (Call("task", _task("general")),)),),
        first=opencode.SCENE.rules[:1],
        last=opencode.SCENE.rules[-1:],
    ),
    "gemini": Hands(
        _replacing(
            "read_file", "replace", "file_path", "old_string", "new_string",
            instruction="Say it otherwise.",
        ),
        _writing("write_file", "file_path"),
        gemini.shell,
        offers="run_shell_command",
        last=gemini.SCENE.rules[-2:],
    ),
}  # fmt: skip


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
