"""Small worlds in which sessions work on folders, files and things that nobody can bring back.

A world is drawn by a seed: resources, turns that change them, people who change them in between,
and one plan. It knows from its own notes, not from any keeper, how each place looked at each turn,
and so how the world before the plan and the one after it look. Must never know where anybody dies.
"""

import random
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from turntree.api import Tree
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.resources.plans.fork import Choice, ForkPlan
from turntree.resources.plans.restore import RestorePlan
from turntree.resources.resource import Resource

KINDS: Final = ("directory", "file", "container")
NAMES: Final = ("a", "b", "c", "d/a", "d/b", "d/e/f", "link")
MODES: Final = (0o644, 0o600, 0o755)
TURNS_MAX: Final = 4

Shape = dict[str, tuple[int, bytes]]
"""What is at a place: for each path its kind and mode, and its bytes; nothing at all is empty."""
Task = Literal["rewind", "exact", "keep", "undo", "replay", "fork", "place"]
TASKS: Final[tuple[Task, ...]] = ("rewind", "exact", "keep", "undo", "replay", "fork", "place")


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that must be of one world."""

    places: dict[str, Shape]
    head: TurnId | None
    begun: TurnId | None
    """Where the session stands that the plan was to begin; None if there is none."""
    attached: dict[str, frozenset[str]]
    """The places that each session works on."""


@dataclass(slots=True)
class World:
    """One world and its plan."""

    tree: Tree
    root: Path
    seed: int
    number: int
    task: Task
    resources: list[Resource] = field(default_factory=list[Resource])
    seen: dict[tuple[TurnId, str], Shape] = field(default_factory=dict[tuple[TurnId, str], Shape])
    """How a turn left a place, where that was pinned."""
    turns: list[TurnId] = field(default_factory=list[TurnId])
    before_move: dict[str, Shape] = field(default_factory=dict[str, Shape])
    """How the places looked before the move that an undo takes back."""
    old: Picture | None = None
    new: Picture | None = None
    spoilt: bool = False
    """Whether somebody comes in between, so that the plan cannot succeed."""
    _draw: random.Random = field(default_factory=random.Random)

    @property
    def label(self) -> str:
        return f"main-{self.number}"

    @property
    def new_label(self) -> str:
        return f"new-{self.number}"

    async def build(self) -> ForkPlan | RestorePlan:
        """Make the world and return the plan that was drawn for it."""
        self._draw.seed(self.seed)
        self.root.mkdir(parents=True)
        await self.tree.sessions.create(self.label)
        for number in range(self._draw.randint(1, 3)):
            await self._add_resource(number)
        for _ in range(self._draw.randint(2, TURNS_MAX)):
            await self._take_turn()
        if self._draw.random() < 0.5:
            self._disturb()
        plan = await self._propose()
        self.old = await self.look()
        self.new = self._expect(plan, self.old)
        if self._draw.random() < 0.1:
            self.spoilt = True
            await self._spoil(plan)
        return plan

    async def look(self) -> Picture:
        """Return how the world looks now."""
        sessions = self.tree.sessions.ledger
        main, other = await sessions.find(self.label), await sessions.find(self.new_label)
        attached: dict[str, frozenset[str]] = {}
        for session in (main, other):
            if session is not None and not (self.spoilt and session is other):
                held = await self.tree.resources.attachments.list_attached(session.id)
                attached[session.label] = frozenset(one.place for one, _ in held)
        return Picture(
            {str(at): shape(at) for at in sorted(self.root.iterdir())},
            None if main is None else main.head,
            None if other is None or self.spoilt else other.head,
            attached,
        )

    def clear(self) -> None:
        """Remove what is left of it."""
        shutil.rmtree(self.root)

    async def _add_resource(self, number: int) -> None:
        kind = "directory" if number == 0 else self._draw.choice(KINDS)
        at = self.root / f"{kind}-{number}"
        if kind == "file":
            at.write_text("one")
        else:
            at.mkdir()
        self.resources.append(await self.tree.resources.ensure(kind, str(at), session=self.label))

    async def _take_turn(self) -> None:
        now = self.tree.revisions.world.now
        began = now()
        keepers = [self.tree.resources.keeper_of(one) for one in self.resources]
        before = [
            keeper.snapshot(one.place) for keeper, one in zip(keepers, self.resources, strict=True)
        ]
        for one in self.resources:
            self._change(one)
        after = [
            keeper.snapshot(one.place) for keeper, one in zip(keepers, self.resources, strict=True)
        ]
        said = [user(f"turn {len(self.turns)}")]
        turn = (await self.tree.turns.record(self.label, said, [assistant("done")])).turn.id
        for one, found, left in zip(self.resources, before, after, strict=True):
            # The first turn pins everything, so that there is always something to go back to.
            if not self.turns or self._draw.random() < 0.9:
                await self.tree.resources.pin(turn, one, found, left, began, now())
                self.seen[turn, one.place] = shape(Path(one.place))
        self.turns.append(turn)

    def _change(self, resource: Resource) -> None:
        """Do something to a place, as an agent does: write, remove, rename, make executable."""
        at = Path(resource.place)
        if resource.kind == "file":
            at.write_text(f"{self._draw.random()}")
            at.chmod(self._draw.choice(MODES))
            return
        for _ in range(self._draw.randint(1, 4)):
            self._draw.choice((self._write, self._write, self._remove, self._rename, self._mark))(
                at
            )

    def _write(self, at: Path) -> None:
        path = at / self._draw.choice(NAMES)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        for above in reversed(path.relative_to(at).parents[:-1]):
            if (at / above).is_file() or (at / above).is_symlink():
                (at / above).unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "link":
            path.unlink(missing_ok=True)
            path.symlink_to(f"to {self._draw.random()}")
        else:
            path.write_text(f"{self._draw.random()}")

    def _remove(self, at: Path) -> None:
        found = sorted(at.iterdir())
        if found:
            gone = self._draw.choice(found)
            if gone.is_dir() and not gone.is_symlink():
                shutil.rmtree(gone)
            else:
                gone.unlink()

    def _rename(self, at: Path) -> None:
        found = sorted(at.iterdir())
        if found:
            self._draw.choice(found).rename(at / f"moved-{self._draw.getrandbits(30)}")

    def _mark(self, at: Path) -> None:
        found = sorted(one for one in at.rglob("*") if one.is_file() and not one.is_symlink())
        if found:
            self._draw.choice(found).chmod(self._draw.choice(MODES))

    def _disturb(self) -> None:
        """Let somebody who is no turn write something of their own."""
        for one in self.resources:
            if one.kind != "file":
                (Path(one.place) / "theirs").write_text("uncommitted")

    async def _propose(self) -> ForkPlan | RestorePlan:
        plans, target = self.tree.plans, self._draw.choice(self.turns[:-1])
        match self.task:
            case "rewind" | "keep":
                return await plans.propose_restore(self.label, target, keep_conflicts=True)
            case "exact":
                return await plans.propose_restore(self.label, target, exact=True)
            case "undo" | "replay":
                self.before_move = {one.place: shape(Path(one.place)) for one in self.resources}
                first = await plans.propose_restore(self.label, target, exact=True)
                assert (await plans.carry_out(first)).end == "completed", "nobody dies in here"
                if self.task == "undo":
                    return await plans.propose_restore(self.label, kind="undo", exact=True)
                last = self.turns[-1]
                return await plans.propose_restore(self.label, last, kind="reset", exact=True)
            case "fork":
                choices = self._choose()
                return await plans.propose_fork(target, self.new_label, choices=choices)
            case "place":
                return await plans.propose_fork(target, None)

    def _choose(self) -> dict[str, Choice]:
        choices: dict[str, Choice] = {}
        for one in self.resources[1:]:
            drawn: Choice = self._draw.choice(("keep", "take", "discard"))
            if self._draw.random() < 0.5:
                choices[one.id] = drawn
        return choices

    async def _spoil(self, plan: ForkPlan | RestorePlan) -> None:
        """Come in between, after the plan was made."""
        if isinstance(plan, ForkPlan) and plan.label is not None:
            await self.tree.sessions.create(plan.label)
        elif isinstance(plan, RestorePlan):
            await self.tree.turns.record(self.label, [user("quick")], [assistant("done")])
            self.old = await self.look()
        else:
            self.spoilt = False

    def _expect(self, plan: ForkPlan | RestorePlan, old: Picture) -> Picture:
        """Return the world that the plan leads to, from what was noted here."""
        if isinstance(plan, ForkPlan):
            return self._expect_fork(plan, old)
        places = dict(old.places)
        for item in plan.items:
            place = item.resource.place
            if item.supported:
                wanted = self._state(plan, place, item.pinned_by)
                paths = None if item.whole else {one.path for one in item.changes}
                places[place] = _overlay(old.places[place], wanted, paths)
        return Picture(places, plan.target, old.begun, old.attached)

    def _expect_fork(self, plan: ForkPlan, old: Picture) -> Picture:
        places, attached = dict(old.places), dict(old.attached)
        own: set[str] = set()
        for item in plan.items:
            if item.place is not None:
                assert item.pinned_by is not None, "every resource is pinned"
                places[item.place] = self.seen[item.pinned_by, item.resource.place]
                own.add(item.place)
            elif item.kept_by is not None and item.kept_by == plan.session:
                own.add(item.resource.place)
                attached[self.label] = attached[self.label] - {item.resource.place}
        if plan.session is None:
            return Picture(places, old.head, None, old.attached)
        attached[self.new_label] = frozenset(own)
        return Picture(places, old.head, plan.turn.turn.id, attached)

    def _state(self, plan: RestorePlan, place: str, by: TurnId | None) -> Shape:
        if by is not None:
            return self.seen[by, place]
        # An undo goes back to what the move it takes back had found.
        assert plan.move == "undo", "every other state is a turn's"
        return self.before_move[place]


def shape(at: Path) -> Shape:
    """Return everything that is at a place."""
    found: Shape = {}
    below = sorted(at.rglob("*")) if at.is_dir() and not at.is_symlink() else []
    for one in [at, *below]:
        mode = one.lstat().st_mode
        data = b""
        if one.is_symlink():
            mode, data = stat.S_IFLNK, str(one.readlink()).encode()
        elif one.is_file():
            data = one.read_bytes()
        found["." if one == at else one.relative_to(at).as_posix()] = (mode, data)
    return found


def _overlay(old: Shape, wanted: Shape, paths: set[str] | None) -> Shape:
    """Return a place some of whose paths have become what they were."""
    if paths is None:
        return wanted
    kept = {path: what for path, what in old.items() if path not in paths}
    return kept | {path: what for path, what in wanted.items() if path in paths}
