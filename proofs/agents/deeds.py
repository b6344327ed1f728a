"""What a real agent was made to do, in figures that an import of its history must agree with.

Knows the log of a scripted model. Must never know an agent's files: whoever imports those is
compared with this.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from proofs.agents.stage import Stage
from turntree.core.usage import Usage
from turntree.testing.scripted.server import Reply, Rule

Kind: TypeAlias = Literal["prompt", "compaction", "subagent", "notice"]

ASIDE = "aside"
"""Rules with this name answer what an agent asks for itself, such as a title."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn that an agent took: what began it, and which one it follows."""

    kind: Kind
    """A notice is a turn that the agent began itself, because something in the background ended."""
    session: str
    after: int | None
    """The place of the step before it; for a subagent, of the step that started it."""
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as the model asked for it."""

    id: str
    tool: str
    arguments: Any
    rule: str | None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request that the model answered, and the usage it was told."""

    id: str
    model: str
    usage: Usage
    rule: str | None


@dataclass(frozen=True, slots=True)
class Deeds:
    """Everything that one agent did on its stage."""

    agent: str
    version: str
    home: Path
    work: Path
    history: Path
    """Where it keeps what an import reads."""
    steps: Sequence[Step]
    tool_calls: Sequence[ToolCall]
    model_calls: Sequence[ModelCall]
    """Those that belong to a step, in order of arrival."""
    aside: Sequence[ModelCall]
    """Those that the agent made for itself: they are in no turn."""
    refused: Sequence[str]
    """Whom it tried to reach besides the model; nothing got through."""
    left_running: int
    seconds: float

    @property
    def usage(self) -> Usage:
        """What all steps used together."""
        return sum((call.usage for call in self.model_calls), Usage())

    @property
    def forks(self) -> int:
        """How often a second step followed a step; what a subagent does is no fork."""
        after = [step.after for step in self.steps if step.kind != "subagent"]
        followed = [place for place in after if place is not None]
        return len(followed) - len(set(followed))

    def count(self, kind: Kind) -> int:
        """Return how many steps are of a kind."""
        return sum(step.kind == kind for step in self.steps)


@dataclass(slots=True)
class Story:
    """The steps of a scene while it is played."""

    steps: list[Step] = field(default_factory=list[Step])

    def add(self, kind: Kind, session: str, after: int | None, text: str) -> int:
        """Add a step and return its place."""
        self.steps.append(Step(kind, session, after, text))
        return len(self.steps) - 1


@dataclass(frozen=True, slots=True)
class Scene:
    """How one agent is set up and what it is made to do."""

    agent: str
    rules: Sequence[Rule]
    settings: Callable[[str], dict[str, str]]
    """From the address of the model, what the agent finds in its environment."""
    prepare: Callable[[Stage], None]
    """Writes what the agent needs in its home."""
    play: Callable[[Stage, Story], None]
    history: str
    """Where in its home the agent keeps what an import reads."""


def deeds_of(
    scene: Scene, stage: Stage, story: Story, version: str, seconds: float, left_running: int
) -> Deeds:
    """Return what was done: the steps as played, the calls as the model's log has them."""
    told = [(one, one.answer) for one in stage.model.exchanges if isinstance(one.answer, Reply)]
    calls = [ModelCall(str(one.id), str(one.model), said.usage, one.rule) for one, said in told]
    return Deeds(
        agent=scene.agent,
        version=version,
        home=stage.home,
        work=stage.work,
        history=stage.home / scene.history,
        steps=tuple(story.steps),
        tool_calls=tuple(
            ToolCall(id, call.tool, call.arguments, one.rule)
            for one, said in told
            for id, call in zip(one.call_ids, said.calls, strict=True)
        ),
        model_calls=tuple(call for call in calls if call.rule != ASIDE),
        aside=tuple(call for call in calls if call.rule == ASIDE),
        refused=tuple(one.path for one in stage.model.exchanges if one.method == "CONNECT"),
        left_running=left_running,
        seconds=seconds,
    )
