"""Five turns that create, edit, rename, delete and chmod files, by tools and by shell commands.

Knows how Claude Code and Codex are asked to do the same things. Must never know Turntree.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from proofs.agents import claude, codex
from proofs.agents.deeds import Scene, Story
from proofs.agents.stage import Stage
from turntree.core.usage import Usage
from turntree.testing.scripted.server import Call, Reply, Rule

PROMPTS = (
    "CREATE the program.",
    "EDIT what is there.",
    "RENAME the notes.",
    "PERMIT it to run.",
    "DELETE what is old.",
)
GO_ON = "GOON from these files."
"""What a fork of the session is asked."""
SHELL = (
    "mkdir -p bin && printf 'echo hi\\n' > bin/run && printf 'KEY=1\\n' > .env",
    "sed -i 's/first/FIRST/' notes.md && printf 'more\\n' >> bin/run",
    "mv notes.md guide.md && mkdir -p 'deep er' && mv bin/run 'deep er/run it'",
    "chmod 755 'deep er/run it' && chmod 600 guide.md && ln -s guide.md link",
    "rm link .env && rmdir bin",
)
"""What each turn does by a command of the shell."""
GO_ON_SHELL = "printf 'went on\\n' > fork.txt && cat app.py > copy.py"


@dataclass(frozen=True, slots=True)
class Editing:
    """One agent that can be made to take the five turns."""

    scene: Scene
    begin: Callable[[Stage, str], str]
    """Asks first and returns the session."""
    resume: Callable[[Stage, str, str], str]
    """Asks in a session and returns its name, which a fork changes."""


def _replies(first: Call | None, command: Call) -> tuple[Reply, ...]:
    steps = [Reply("By a tool.", (first,), usage=Usage(7, 5, 100))] if first is not None else []
    steps.append(Reply("By a command.", (command,), usage=Usage(7, 5, 100)))
    return (*steps, Reply("Done.", usage=Usage(11, 3, 100)))


def _claude_rules() -> list[Rule]:
    def write(path: str, content: str) -> Call:
        return Call("Write", {"file_path": path, "content": content})

    def edit(path: str, old: str, new: str) -> Call:
        return Call("Edit", {"file_path": path, "old_string": old, "new_string": new})

    # It writes only to files that it has written or read before, by the names it knows.
    tools: Mapping[str, Call | None] = {
        "CREATE": write("notes.md", "first\nsecond\n"),
        "EDIT": write("app.py", "print('two')\n"),
        "RENAME": edit("app.py", "two", "three"),
        "PERMIT": write("empty.txt", ""),
        "DELETE": edit("app.py", "three", "five"),
        "GOON": None,
    }
    return _rules(tools, claude.bash, "Bash", claude.SCENE.rules[-1])


def _codex_rules() -> list[Rule]:
    def patch(text: str) -> Call:
        return codex.shell(f"apply_patch <<'EOF'\n*** Begin Patch\n{text}\n*** End Patch\nEOF\n")

    tools: Mapping[str, Call | None] = {
        "CREATE": patch("*** Add File: notes.md\n+first\n+second"),
        "EDIT": patch("*** Add File: app.py\n+print('two')"),
        "RENAME": patch("*** Update File: app.py\n@@\n-print('two')\n+print('three')"),
        "PERMIT": patch("*** Add File: empty.txt\n+"),
        "DELETE": patch("*** Update File: app.py\n@@\n-print('three')\n+print('five')"),
        "GOON": None,
    }
    return _rules(tools, codex.shell, "exec_command", codex.SCENE.rules[-1])


def _rules(
    tools: Mapping[str, Call | None], shell: Callable[[str], Call], offers: str, rest: Rule
) -> list[Rule]:
    commands: Sequence[str] = (*SHELL, GO_ON_SHELL)
    return [
        *(
            Rule(_replies(tool, shell(command)), prompt=word, offers=offers, name=word.lower())
            for (word, tool), command in zip(tools.items(), commands, strict=True)
        ),
        rest,
    ]


def _claude_run(stage: Stage, text: str, *words: str) -> str:
    out = stage.run("-p", text, *words, "--output-format", "json", "--allowedTools", claude.TOOLS)
    return str(json.loads(out)["session_id"])


def _nothing(_: Stage, __: Story) -> None:
    """The turns are taken one by one, by whoever looks at the files between them."""


def _scene(like: Scene, rules: Sequence[Rule]) -> Scene:
    return Scene(like.agent, tuple(rules), like.settings, like.prepare, _nothing, like.history)


CLAUDE = Editing(
    _scene(claude.SCENE, _claude_rules()),
    begin=lambda stage, text: _claude_run(stage, text, "--session-id", str(uuid.uuid4())),
    resume=lambda stage, session, text: _claude_run(stage, text, "--resume", session),
)
CODEX = Editing(
    _scene(codex.SCENE, _codex_rules()),
    begin=codex.run,
    resume=lambda stage, session, text: codex.run(stage, text, "resume", session),
)
EDITING = {"claude": CLAUDE, "codex": CODEX}
