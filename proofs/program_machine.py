"""A model of the registry beside the registry itself, for Hypothesis to walk through both.

The model knows the declared lifecycles, who owns what, and how many facts were told. It must never
read what it expects from the registry.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from anyio.from_thread import BlockingPortal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.principal import Principal
from turntree.core.program import Program, Right, Visibility, fold
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.service import Programs

T = TypeVar("T")
CONFIGS: Final[dict[str, dict[str, Json]]] = {
    "provider": {"provider_type": "toy"},
    "model": {"model_id": "toy"},
    "session": {},
    "agent": {},
    "task": {"title": "Work"},
    "information": {"info_type": "fact", "content": 1},
    "human": {},
    "code": {"language": "python", "source": "pass"},
}
KINDS: Final = tuple(CONFIGS)
WORDS: Final = ("a", "b")
PEOPLE: Final = ("human:bob", "agent:worker")


@dataclass(slots=True)
class Stage:
    """What the machines walk on; shared by all of one run."""

    portal: BlockingPortal
    tree: Tree
    made: int = 0
    steps: int = 0
    facts: int = 0

    def call(self, work: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> T:
        """Wait for the registry."""

        async def waited() -> T:
            return await work(*args, **named)

        return self.portal.call(waited)


class ProgramMachine(RuleBasedStateMachine):
    """One program, whatever is done to it."""

    stage: ClassVar[Stage]

    @initialize(kind=st.sampled_from(KINDS))
    def begin(self, kind: str) -> None:
        """Make a program of some kind."""
        stage = self.stage
        stage.made += 1
        self.kind = kind
        self.name = f"{kind}-{stage.made}"
        self.programs: Programs = stage.tree.programs
        made = stage.call(self.programs.create, kind, self.name, CONFIGS[kind])
        self.id = made.id
        self.state, self.version, self.word = LIFECYCLES[kind].initial, 1, ""
        self.visibility: Visibility = "public"
        self.tags: set[str] = set()
        self.grants: set[tuple[str, str]] = set()
        # A session began before its program did.
        self.facts = 2 if kind == "session" else 1

    @rule(pick=st.integers(0, 99))
    def move(self, pick: int) -> None:
        """Move it anywhere; it goes where its lifecycle leads and nowhere else."""
        states = LIFECYCLES[self.kind].states
        target = states[pick % len(states)]
        lawful = target in LIFECYCLES[self.kind].moves[self.state]
        moved = self.attempt(self.programs.move, self.id, target)
        assert moved == lawful, f"{self.kind}: {self.state} to {target} is {lawful=}"
        if lawful:
            self.state, self.facts = target, self.facts + 1

    @rule(word=st.sampled_from(WORDS))
    def configure(self, word: str) -> None:
        """Give it another config, or the same again."""
        member = "situation" if self.kind == "session" else "description"
        # What is archived cannot be a draft again, and a changed config would be one.
        is_open = self.kind != "information" or self.state != "archived"
        done = self.attempt(self.programs.configure, self.id, {member: word})
        assert done == (is_open or word == self.word)
        if done and word != self.word:
            self.word, self.version, self.facts = word, self.version + 1, self.facts + 1
            self.state = "draft" if self.kind == "information" else self.state

    @rule(who=st.sampled_from(PEOPLE), right=st.sampled_from(("read", "invoke")), on=st.booleans())
    def lend(self, who: str, right: Right, on: bool) -> None:  # noqa: FBT001
        """Let somebody use it, or no longer."""
        self.stage.call(self.programs.grant, self.id, who, right, on=on)
        if ((who, right) in self.grants) != on:
            self.facts += 1
        self.grants = self.grants | {(who, right)} if on else self.grants - {(who, right)}

    @rule(visibility=st.sampled_from(("public", "private")))
    def show(self, visibility: Visibility) -> None:
        """Show it to everybody, or to few."""
        self.stage.call(self.programs.set_visibility, self.id, visibility)
        self.facts += visibility != self.visibility
        self.visibility = visibility

    @rule(word=st.sampled_from(WORDS), on=st.booleans())
    def tag(self, word: str, on: bool) -> None:  # noqa: FBT001
        """Put a word on it, or take it off."""
        turns = self.stage.tree.turns
        self.stage.call(
            turns.marks.set_tag, self.id, word, on=on, by=str(turns.by), at=turns.world.now()
        )
        self.facts += (word in self.tags) != on
        self.tags = self.tags | {word} if on else self.tags - {word}

    @rule(who=st.sampled_from(PEOPLE))
    def meddle(self, who: str) -> None:
        """Change it as somebody whose it is not: that is refused, and leaves nothing."""
        kind, _, id = who.partition(":")
        principal = Principal("human" if kind == "human" else "agent", id)
        stranger = replace(self.programs, by=principal)
        for target in LIFECYCLES[self.kind].moves[self.state][:1]:
            assert not self.attempt(stranger.move, self.id, target)
        assert not self.attempt(stranger.set_visibility, self.id, _other(self.visibility))

    @invariant()
    def is_what_its_events_tell(self) -> None:
        """The row, the fold of the events and the model say the same."""
        if not hasattr(self, "id"):
            return
        self.stage.steps += 1
        program, facts, grants = self.stage.call(self._look)
        state = fold([fact.event for fact in facts])
        assert state is not None
        assert len(facts) == self.facts, [fact.event.kind for fact in facts]
        assert program.state == state.state == self.state
        assert program.version.number == state.number == self.version
        assert program.version.digest == state.digests[-1]
        assert program.visibility == state.visibility == self.visibility
        assert dict(program.details) == dict(state.details)
        assert set(program.tags) == self.tags
        assert grants == set(state.grants) == self.grants

    async def _look(self) -> tuple[Program, list[Any], set[tuple[str, str]]]:
        program = await self.programs.get(self.id)
        facts = await self.stage.tree.ledger.facts(self.id)
        return program, facts, set(await self.programs.list_grants(self.id))

    def teardown(self) -> None:
        """Count what was told."""
        self.stage.facts += getattr(self, "facts", 0)

    def attempt(self, work: Callable[..., Awaitable[object]], *args: Any) -> bool:
        """Say whether something could be done; whatever else goes wrong is raised."""
        try:
            self.stage.call(work, *args)
        except (InvalidOperation, PermissionDenied, NotFound):
            return False
        return True


def _other(visibility: Visibility) -> Visibility:
    return "private" if visibility == "public" else "public"


def list_pairs() -> Iterator[tuple[str, str, str]]:
    """Yield every kind with every state and every state that might follow."""
    for kind in KINDS:
        states = LIFECYCLES[kind].states
        yield from ((kind, state, target) for state in states for target in states)


async def try_pair(tree: Tree, kind: str, state: str, target: str, number: int) -> bool:
    """Bring a new program to a state and try to move it; say whether all was as it should be."""
    programs, name = tree.programs, f"pair-{number}"
    program = await programs.create(kind, name, CONFIGS[kind])
    for step in _way(kind, state):
        program = await programs.move(program.id, step)
    before = len(await tree.ledger.facts(program.id))
    lawful = target in LIFECYCLES[kind].moves[state]
    try:
        moved = (await programs.move(program.id, target)).state == target
    except InvalidOperation as refused:
        moved = False
        if not all(word in str(refused) for word in LIFECYCLES[kind].moves[state]):
            return False
    told = len(await tree.ledger.facts(program.id)) - before
    return moved == lawful and told == int(lawful)


def _way(kind: str, state: str) -> list[str]:
    """Return the shortest lawful way from the first state to another."""
    lifecycle = LIFECYCLES[kind]
    ways: dict[str, list[str]] = {lifecycle.initial: []}
    left = [lifecycle.initial]
    while state not in ways:
        at = left.pop(0)
        for target in lifecycle.moves[at]:
            if target not in ways:
                ways[target] = [*ways[at], target]
                left.append(target)
    return ways[state]
