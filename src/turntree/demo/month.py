"""A month of work on the sample projects: sessions of four agents, with forks and subagents.

Pure, and the same every time: the features say what is written, and this module says who asked
whom, when, and in which words. It keeps the files of each project as they change, so that a fork
starts with those of its turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from textwrap import dedent
from typing import Final

from turntree.core.message_context import FileUse
from turntree.core.principal import Principal
from turntree.core.turn import Outcome
from turntree.core.value import value
from turntree.demo.features import FEATURES, PROJECTS, Feature, SampleProject, fixed_code
from turntree.demo.story import ANA, BRUNO, PREFIX, Act, DemoCall, Scene

SEED: Final = 18
DAY_MINUTES: Final = 24 * 60
DAYS: Final = (
    27, 27, 26, 26, 25, 24, 23, 20, 20, 19, 19, 18, 16, 13, 13, 12, 11, 10, 6, 5, 3, 2, 0,
)  # fmt: skip
"""How many days ago each session was: some days are busy, and weekends are quiet."""
HEADING: Final = "## What it does\n\n"
_DOCUMENTED_EVERY: Final = 2


@value
class SampleAgent:
    """An agent, its models and the names of its tools."""

    id: str
    models: tuple[tuple[str, str], ...]
    read: str
    write: str
    edit: str
    run: str
    search: str
    spawn: str
    path_name: str


AGENTS: Final = (
    SampleAgent(
        "claude-code", (("claude-sonnet-4-5", "anthropic"), ("claude-opus-4-1", "anthropic")),
        "Read", "Write", "Edit", "Bash", "Grep", "Task", "file_path",
    ),
    SampleAgent(
        "codex", (("gpt-5.2-codex", "openai"),),
        "read_file", "write_file", "edit_file", "shell", "grep", "spawn_agent", "path",
    ),
    SampleAgent(
        "gemini", (("gemini-2.5-pro", "google"),),
        "read_file", "write_file", "replace", "run_shell_command", "search_file_content",
        "delegate", "file_path",
    ),
    SampleAgent(
        # There is no list price for a model that runs at home.
        "opencode", (("qwen3-coder-30b", "local"),),
        "read", "write", "edit", "bash", "grep", "task", "filePath",
    ),
)  # fmt: skip
FORKED: Final = ("discount", "search", "tile-cache", "growth", "alarm", "offline")
SPAWNING: Final = ("cart-merge", "rate-limit", "tags", "wind-arrows", "rain", "csv")
SUMMARIZED: Final = ("rate-limit", "colour-scale", "csv")
FAILED: Final = ("slugs", "dates", "units", "saving", "gaps")
TALK: Final = (
    ("Explain {path} to me as if I had never seen it",
     ("{path} has one job, {noun}, and no state of its own. Its callers pass in what it needs, so "
     "it can be tested without anything around it.\n\n- the input is checked first\n- the result "
     "is a new value\n- nothing is written")),
    ("Is there a library for this?", ("There are two, and both bring more than we need. The code "
     "here is shorter than the glue would be.")),
    ("How slow is it with 10,000 entries?", ("I measured it: 4 ms for {noun} with 10,000 entries, "
     "and it grows in a straight line. That is well below a frame.")),
    ("Which cases do the tests miss?", ("Three: empty input, very long input, and two changes at "
     "the same time. The first two are cheap to add; the third needs a decision.")),
    ("Rename it so that a new colleague understands it", ("I would leave the name. It is the word "
     "that the rest of the project uses for {noun}, and a second word would need explaining.")),
    ("What would you do differently?", ("I would write the test for the edge case first. We found "
     "it by asking, not by running anything.")),
    ("Summarize the change for the changelog", ("- {noun}: fixed the case that failed, with a "
     "test.\n- The README says how it behaves.")),
    ("Does anything else depend on the old behaviour?", ("I searched for its callers. There is one "
     "outside of {path}, and it already expects the new behaviour.")),
    ("Write a commit message", ("```\n{noun}: handle the case that was missing\n\nThe test came "
     "first and failed as it should.\n```")),
    ("Could this run in the browser too?", ("Yes. Nothing in {path} touches files or the network, "
     "so only the import has to change.")),
    ("What happens if it is called twice?", ("The same result, and nothing is changed twice: it "
     "returns a value and keeps none.")),
    ("Who should review this?", ("Bruno wrote the callers of {noun}, so he would see a wrong "
     "assumption fastest.")),
    ("Is the error message clear?", ("It quotes the value and says what is wrong. I made it "
     "shorter: the reader sees the line anyway.")),
    ("How do other projects name this?", ("Most of them call it the same. One says *policy*, which "
     "means something else here.")),
)  # fmt: skip
FINDINGS: Final = (
    "I read every caller of {path}. Two of them pass a value that {noun} does not expect.",
    "Nothing else in the project knows about {noun}.",
    "The tests cover the usual case. The edge is not covered.",
)
FORK_TALK: Final = (
    ("Which of the two would you keep?", ("This one is shorter; the other says more about what can "
     "go wrong. I would keep the other, because {noun} will be read more often than written.")),
    ("Compare them in one table", ("| | main | here |\n|---|---|---|\n| lines | more | fewer |\n| "
     "edge cases | tested | partly |\n| new words | none | one |")),
    ("Is it faster?", "About the same: the difference is within the noise of ten runs."),
    ("What would break if we switched?", ("One test, which checks the wording of an error. "
     "Everything else passes.")),
)  # fmt: skip


def month_acts() -> tuple[Act, ...]:
    """Return the sessions of the month; each project's in the order in which they happened."""
    acts: list[Act] = []
    for number, project in enumerate(PROJECTS):
        # Chance only varies the words and the times; nothing secret depends on it.
        random = Random(SEED + number)  # noqa: S311
        desk = _Desk(project, random, dict(project.files))
        features = [feature for feature in FEATURES if feature.project == project.name]
        for place, feature in enumerate(features):
            # Projects take turns through the month, so that the days of one lie between another's.
            day = DAYS[place * len(PROJECTS) + number]
            acts += desk.build(feature, day, AGENTS[(number + place) % len(AGENTS)])
    return tuple(acts)


@dataclass
class _Desk:
    """One project while its sessions are made up: its files, and what was said so far."""

    project: SampleProject
    random: Random
    files: dict[str, str]
    context: int = 0
    is_open: bool = False
    talk: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def build(self, feature: Feature, day: int, agent: SampleAgent) -> Iterator[Act]:
        """Yield the session of a feature, and then its fork or its subagent."""
        by = Principal("agent", agent.id, on_behalf_of=self.random.choice((ANA, BRUNO)))
        start = dict(self.files)
        clock = day * DAY_MINUTES + self.random.randrange(60, 540)
        self.context = self.random.randrange(6_000, 14_000)
        label = f"{PREFIX}{feature.project}/{feature.name}"
        turns = list(self._main_turns(feature, agent))
        scenes: list[Scene] = []
        before: list[dict[str, str]] = []
        for number, turn in enumerate(turns):
            clock = max(clock - self.random.randrange(3, 19), 3)
            before.append(dict(self.files))
            self.files |= turn.writes
            scenes.append(self._scene(f"{label}:{number}", clock, by, agent, turn))
        yield Act(label, tuple(scenes), folder=feature.project, files={} if self.is_open else start)
        self.is_open = True
        if feature.name in FORKED:
            other = AGENTS[(AGENTS.index(agent) + 1) % len(AGENTS)]
            yield self._fork(feature, other, scenes, before)
        if feature.name in SPAWNING:
            yield self._subagent(feature, agent, scenes)

    def _main_turns(self, feature: Feature, agent: SampleAgent) -> "Iterator[_SampleTurn]":
        code, fixed = feature.code, fixed_code(feature)
        check = self.project.check
        note = " (sample data)" if not self.is_open else ""
        yield _SampleTurn(
            feature.question + note, feature.finding,
            (
                _call(agent.search, {"pattern": feature.name, "path": "."}, "3 matches"),
                _read(agent, "README.md", self.files["README.md"]),
            ),
        )  # fmt: skip
        if feature.name in SPAWNING:
            yield _SampleTurn(
                f"Have a subagent look at every caller of {feature.path}",
                "The subagent read them all. Nothing surprising, but one caller is untested.",
                (
                    _call(
                        agent.spawn,
                        {"description": f"callers of {feature.path}",
                         "prompt": f"Read every caller of {feature.path} and report"},
                        "one caller is untested",
                    ),
                ),
                seconds=180,
            )  # fmt: skip
        if feature.name in FAILED:
            yield _SampleTurn("Go on", "", (), outcome="failed", seconds=3)
        yield _SampleTurn(
            "Write a failing test first",
            f"`{feature.test_path}` says what we want. It fails, as it should.",
            (
                _write(agent, feature.test_path, feature.test),
                _call(agent.run, {"command": check}, "1 failed", is_error=True),
            ),
            {feature.test_path: feature.test},
            seconds=48,
        )
        yield from self._chat(feature, 1)
        yield _SampleTurn(
            f"Now write {feature.path}",
            f"`{feature.path}` does {feature.noun} in a few lines. One test still fails.",
            (
                _write(agent, feature.path, code),
                _call(agent.run, {"command": check}, "1 failed, 4 passed", is_error=True),
            ),
            {feature.path: code},
            seconds=71,
        )
        yield from self._chat(feature, 1)
        yield _SampleTurn(
            feature.doubt,
            f"No, that was wrong. The fix is in `{feature.path}`, and all tests pass now.\n\n"
            f"```{feature.path.rpartition('.')[2]}\n{dedent(feature.right)}```",
            (
                _read(agent, feature.path, code),
                _call(
                    agent.edit,
                    {agent.path_name: feature.path, "old_string": feature.wrong,
                     "new_string": feature.right},
                    "1 replacement", touches=("written", feature.path),
                ),
                _call(agent.run, {"command": check}, "5 passed"),
            ),
            {feature.path: fixed},
            seconds=96, tags=("fixed",) if feature.name in FORKED else (),
        )  # fmt: skip
        if feature.name in SUMMARIZED:
            yield _SampleTurn(
                "", f"We work on {feature.noun}. A test came first, {feature.path} was written, "
                "and its mistake is fixed. What is left: the README, and a look at the callers.",
                (), summarizes=3, seconds=9,
            )  # fmt: skip
        yield from self._chat(
            feature, 6 if feature.name in SUMMARIZED else self.random.choice((2, 2, 3))
        )
        if len(feature.name) % _DOCUMENTED_EVERY:
            line = f"- {feature.noun}: see `{feature.path}`\n"
            readme = self.files["README.md"] + line
            yield _SampleTurn(
                "Add a line to the README", "Done, in the words of the code.",
                (
                    _call(
                        agent.edit,
                        {agent.path_name: "README.md", "old_string": HEADING,
                         "new_string": HEADING + line},
                        "1 replacement", touches=("written", "README.md"),
                    ),
                ),
                {"README.md": readme},
            )  # fmt: skip

    def _fork(
        self,
        feature: Feature,
        agent: SampleAgent,
        scenes: Sequence[Scene],
        before: Sequence[dict[str, str]],
    ) -> Act:
        """Return a fork from before the code was written, in a folder of its own."""
        place = next(n for n, scene in enumerate(scenes) if feature.path in scene.writes)
        by = Principal("agent", agent.id, on_behalf_of=BRUNO)
        label = f"{PREFIX}{feature.project}/{feature.name}-other-way"
        turns = [
            _SampleTurn(
                f"Try {feature.noun} another way",
                f"Here is a second version of `{feature.path}`.",
                (_write(agent, feature.path, feature.other),),
                {feature.path: feature.other}, seconds=64,
            ),
            *self._chat(feature, 2, FORK_TALK),
            _SampleTurn(
                "Say in the README that this is an experiment", "Done.",
                (_write(agent, "EXPERIMENT.md", f"# {feature.noun}, another way\n"),),
                {"EXPERIMENT.md": f"# {feature.noun}, another way\n\nThis is sample data.\n"},
            ),
            *self._chat(feature, 2, FORK_TALK),
        ]  # fmt: skip
        clock = scenes[place - 1].minutes_ago
        made: list[Scene] = []
        for number, turn in enumerate(turns):
            clock = max(clock - self.random.randrange(4, 25), 2)
            made.append(self._scene(f"{label}:{number}", clock, by, agent, turn))
        return Act(
            label, tuple(made), forks=scenes[place - 1].name,
            folder=f"{feature.project}-{feature.name}-other-way", files=before[place],
        )  # fmt: skip

    def _subagent(self, feature: Feature, agent: SampleAgent, scenes: Sequence[Scene]) -> Act:
        spawner = next(
            scene for scene in scenes if scene.tools and scene.tools[-1].tool == agent.spawn
        )
        label = f"{PREFIX}{feature.project}/{feature.name}-callers"
        made: list[Scene] = []
        clock = spawner.minutes_ago
        asks = (f"Read every caller of {feature.path} and report", "Go on", "Report")
        for number, (ask, finding) in enumerate(zip(asks, FINDINGS, strict=True)):
            exchange = _SampleTurn(
                ask, finding.format(path=feature.path, noun=feature.noun),
                (_call(agent.search, {"pattern": feature.name, "path": "."}, "2 matches"),),
            )  # fmt: skip
            by = Principal("agent", agent.id, on_behalf_of=spawner.by.on_behalf_of)
            made.append(
                self._scene(f"{label}:{number}", max(clock - number, 2), by, agent, exchange)
            )
        return Act(label, tuple(made), spawned_by=spawner.name)

    def _chat(
        self, feature: Feature, count: int, pool: Sequence[tuple[str, str]] = TALK
    ) -> Iterator["_SampleTurn"]:
        if len(self.talk) < count or self.talk[0] not in pool:
            self.talk = self.random.sample(list(pool), len(pool))
        for _ in range(count):
            ask, answer = self.talk.pop()
            yield _SampleTurn(
                ask.format(path=feature.path, noun=feature.noun),
                answer.format(path=feature.path, noun=feature.noun),
            )
        if not self.talk:
            self.talk = self.random.sample(list(pool), len(pool))

    def _scene(
        self, name: str, minutes_ago: int, by: Principal, agent: SampleAgent, turn: "_SampleTurn"
    ) -> Scene:
        self.context += self.random.randrange(400, 3_500)
        if turn.summarizes:
            self.context = 4_000
        fresh, output = self.random.randrange(300, 2_400), self.random.randrange(150, 1_800)
        model = agent.models[len(name) % len(agent.models)]
        return Scene(
            name, minutes_ago, by, model, turn.asks, turn.answers,
            (fresh, self.context, 0 if turn.outcome == "failed" else output),
            turn.tools, turn.outcome, turn.seconds, turn.summarizes, turn.tags, turn.writes,
        )  # fmt: skip


@value
class _SampleTurn:
    """A turn before it has a time."""

    asks: str
    answers: str
    tools: tuple[DemoCall, ...] = ()
    writes: Mapping[str, str] = field(default_factory=dict[str, str])
    outcome: Outcome = "completed"
    seconds: int = 20
    summarizes: int = 0
    tags: tuple[str, ...] = ()


def _call(
    tool: str,
    args: Mapping[str, str],
    output: str,
    *,
    is_error: bool = False,
    touches: tuple[FileUse, str] | None = None,
) -> DemoCall:
    return DemoCall(tool, dict(args), output, "error" if is_error else "ok", touches)


def _read(agent: SampleAgent, path: str, text: str) -> DemoCall:
    return _call(agent.read, {agent.path_name: path}, text, touches=("read", path))


def _write(agent: SampleAgent, path: str, text: str) -> DemoCall:
    args = {agent.path_name: path, "content": text}
    lines = text.count("\n")
    return _call(agent.write, args, f"{path}: {lines} lines", touches=("written", path))
