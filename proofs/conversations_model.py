"""What a conversation has to be, as far as a story knows: who takes part, who reads, what was said.

Written without a look at how it is stored: the rules are those of the documentation. A story is
random acts of three people, each with the outcome that the model expects of it.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

PEOPLE: Final = ("ana", "bob", "eve")
OWNERS: Final[Mapping[str, str]] = {"atlas": "bob", "bravo": "ana", "clay": "ana", "quiet": "eve"}
PRIVATE: Final = "quiet"
"""The agent that only its owner may use, and remove."""
RELAYED: Final = "clay"
"""The agent that only ``bravo`` mentions."""
RELAY: Final = f"@[{RELAYED.title()}](agent:{RELAYED})"
Outcome = Literal["done", "nothing", "hidden", "denied", "invalid"]
"""``nothing`` is an act whose effect was there before it."""
ActKind = Literal["post", "add", "remove", "leave", "fork", "erase"]
WEIGHTS: Final[Mapping[ActKind, int]] = {
    "post": 12, "add": 3, "remove": 2, "leave": 1, "fork": 1, "erase": 2,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Saying:
    """What a person posted."""

    word: str
    """It is in no other text."""
    author: str
    text: str
    calls: Sequence[str]
    """The agents that it mentions."""
    is_unaddressed: bool
    """It mentions nobody: a triage agent decides who answers, where there is one."""
    seq: int = 0
    is_erased: bool = False


@dataclass(slots=True, eq=False)
class Talk:
    """A conversation as the model has it."""

    name: str
    creator: str
    is_public: bool
    limit: int
    has_triage: bool = False
    parent: "Talk | None" = None
    forked_at: int = 0
    present: dict[str, str] = field(default_factory=dict[str, str])
    """By participant, who added it."""
    removed_by: dict[str, str] = field(default_factory=dict[str, str])
    sayings: list[Saying] = field(default_factory=list[Saying])

    def can_read(self, person: str) -> bool:
        """Whether a person reads it: a fork only with what it was forked from."""
        is_in = self.is_public or person == self.creator or f"human:{person}" in self.present
        return is_in and (self.parent is None or self.parent.can_read(person))

    def enter(self, person: str) -> Outcome:
        """Return whether a person may act in it; who acts in a public one joins it."""
        principal = f"human:{person}"
        if not self.can_read(person):
            return "hidden"
        if principal in self.present:
            return "done"
        if not self.is_public or self.removed_by.get(principal, principal) != principal:
            return "denied"
        return "done"

    def join(self, person: str) -> None:
        """Take part, as who does something in a public conversation."""
        self.present.setdefault(f"human:{person}", f"human:{person}")

    def list_said(self) -> list[Saying]:
        """Return what people said in it and, up to the fork, in what it was forked from."""
        before = self.parent.list_said() if self.parent is not None else []
        return [one for one in before if one.seq <= self.forked_at] + self.sayings

    def add(self, person: str, principal: str) -> Outcome:
        """Add a person or an agent."""
        entered = self.enter(person)
        if entered != "done":
            return entered
        if principal in self.present:
            self.join(person)
            return "nothing"
        if principal == f"agent:{PRIVATE}" and person != OWNERS[PRIVATE]:
            # It may not be told from one that does not exist.
            return "hidden"
        self.join(person)
        self.present[principal] = f"human:{person}"
        return "done"

    def remove(self, person: str, principal: str) -> Outcome:
        """Remove a participant, oneself for instance."""
        by = f"human:{person}"
        if not self.can_read(person) or principal not in self.present:
            return "hidden"
        entered = self.enter(person)
        if entered != "done":
            return entered
        if principal == f"human:{self.creator}":
            return "invalid"
        if principal == f"agent:{PRIVATE}":
            if person not in (OWNERS[PRIVATE], self.creator):
                return "denied"
        elif principal.startswith("human:") and by not in (
            principal, f"human:{self.creator}", self.present[principal],
        ):  # fmt: skip
            return "denied"
        self.join(person)
        del self.present[principal]
        self.removed_by[principal] = by
        return "done"

    def say(self, saying: Saying) -> Outcome:
        """Post, and bring in the agents that are mentioned."""
        entered = self.enter(saying.author)
        if entered == "done":
            self.join(saying.author)
            self.sayings.append(saying)
            for agent in saying.calls:
                if may_call(agent, saying.author):
                    self.present.setdefault(f"agent:{agent}", f"human:{saying.author}")
        return entered

    def erase(self, person: str, saying: Saying) -> Outcome:
        """Erase a post, where it was said."""
        if not self.can_read(person):
            return "hidden"
        where = self
        while saying not in where.sayings and where.parent is not None:
            where = where.parent
        if person not in (saying.author, where.creator):
            return "denied"
        if saying.is_erased:
            return "nothing"
        saying.is_erased = True
        return "done"

    def fork(self, person: str, name: str, at: int) -> "Talk | None":
        """Return the fork that a person makes; None if they may not read it."""
        if not self.can_read(person):
            return None
        made = Talk(
            name, person, is_public=False, limit=self.limit, has_triage=self.has_triage,
            parent=self, forked_at=at,
        )  # fmt: skip
        made.join(person)
        for principal in self.present:
            if principal.startswith("agent:"):
                made.present[principal] = f"human:{person}"
        return made


def may_call(agent: str, person: str) -> bool:
    """Whether an agent answers a person."""
    return agent != PRIVATE or person == OWNERS[PRIVATE]


@dataclass(frozen=True, slots=True)
class Act:
    """What a person does in a conversation of a story."""

    kind: ActKind
    person: str
    talk: int
    """The number of the conversation in its story: forks come after what they are forks of."""
    at: float
    """Where, from the first post to the last."""
    principal: str = ""
    saying: tuple[str, str, tuple[str, ...], bool] = ("", "", (), False)
    """The word, the text, the agents mentioned, and whether it mentions nobody."""


@dataclass(frozen=True, slots=True)
class Story:
    """A conversation that is begun, and what is done in it and its forks."""

    number: int
    creator: str
    is_public: bool
    limit: int
    has_triage: bool
    participants: Sequence[str]
    acts: Sequence[Act]


def random_story(number: int, seed: int, acts: int) -> Story:
    """Return the story of a number."""
    chance = random.Random(f"{seed} {number}")
    creator = chance.choice(PEOPLE)
    others = [f"human:{one}" for one in PEOPLE if one != creator]
    present = [one for one in others if chance.random() < 0.8]
    if chance.random() < 0.3:
        present.append("agent:atlas")
    story = [_random_act(chance, number, step) for step in range(acts)]
    limit = chance.choice((0, 1, 1, 2, 8, 8, 8))
    is_public, has_triage = chance.random() < 0.2, chance.random() < 0.4
    return Story(number, creator, is_public, limit, has_triage, present, story)


def _random_act(chance: random.Random, number: int, step: int) -> Act:
    kinds: list[ActKind] = [*WEIGHTS]
    (kind,) = chance.choices(kinds, [*WEIGHTS.values()])
    person = chance.choice(PEOPLE)
    principal = chance.choice(
        [f"human:{one}" for one in PEOPLE] + ["agent:atlas", "agent:bravo", f"agent:{PRIVATE}"]
    )
    talk, at = chance.randrange(4), chance.random()
    if kind == "leave":
        principal = f"human:{person}"
    return Act(kind, person, talk, at, principal, _random_saying(chance, f"w{number}x{step}y"))


def _random_saying(chance: random.Random, word: str) -> tuple[str, str, tuple[str, ...], bool]:
    called = chance.sample(("atlas", "bravo", PRIVATE), chance.choice((0, 1, 1, 1, 2)))
    words = [word, *[f"@[{one.title()}](agent:{one})" for one in called]]
    words.append(chance.choice(("well?", "well?", "please relay", "relay it badly", "stumble")))
    if chance.random() < 0.2:
        # Code mentions nobody, and a silent mention calls nobody.
        words.append(chance.choice(("`@[Atlas](agent:atlas)`", "@_[Bravo](agent:bravo)")))
    is_to_person = chance.random() < 0.2
    if is_to_person:
        person = chance.choice(PEOPLE)
        words.append(f"and @[{person.title()}](user:{person})?")
    return word, " ".join(words), tuple(called), not called and not is_to_person
