"""Records the sample data through the same interfaces as everything else.

Timestamps are in minutes before now, and ids are derived from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.ids import (
    ResourceId,
    SessionId,
    Timestamp,
    TurnId,
    derived_id,
    instant,
    unix_ms,
)
from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.revision import check_label
from turntree.core.session import Origin, Session, Spawn
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import value
from turntree.demo.features import PROJECTS
from turntree.demo.month import month_acts
from turntree.demo.story import ATLAS, ORIGIN, STORY, USES, Act, DemoCall, Scene
from turntree.ledger.recorder import TurnDetails
from turntree.resources.driver import TakenSnapshot
from turntree.resources.resource import Resource
from turntree.resources.service import in_thread

MINUTE_MS: Final = 60_000
FILES_FOLDER: Final = "demo"
"""The folder in the data directory that has the files of the sample projects."""


async def plant_demo(tree: Tree, folder: Path | None = None) -> list[str]:
    """Create the sample data and return the labels of its sessions; idempotent.

    With a folder it is a month of work on five projects, whose files are below that folder; without
    one it is the story alone.

    Raises:
        InvalidOperation: A session of yours has one of the labels.
    """
    acts = list_acts(with_files=folder is not None)
    labels = [act.label for act in acts]
    found = [await tree.sessions.ledger.find(label) for label in labels]
    for label, session in zip(labels, found, strict=True):
        if session is not None and (session.origin is None or session.origin.tool != ORIGIN):
            raise InvalidOperation(
                f"the session {label} exists and is not sample data",
                hint=Hint("session.rename", {"session": label}),
            )
    last = found[-1]
    if last is not None and last.version > len(acts[-1].scenes):
        return labels  # All of it exists already, and changes since then were intended.
    past = _Past(tree.revisions.world.now())
    stage = _DemoStage(
        tree, past, folder, {scene.name: scene for act in acts for scene in act.scenes}
    )
    # The last session says whether all of it is there: it alone has to outlast a crash at once.
    async with tree.ledger.database.hurry():
        for act in acts[:-1]:
            await stage.play(act)
    await stage.play(acts[-1])
    return labels


def list_acts(*, with_files: bool) -> tuple[Act, ...]:
    """Return everything that is planted, in the order in which it is."""
    if not with_files:
        return STORY
    shop = PROJECTS[0].name
    return (*month_acts(), *(replace(act, folder=shop) for act in STORY))


class _Past:
    """A clock set to the time of the story, and ids derived from it."""

    def __init__(self, now: Timestamp) -> None:
        self._now_ms = unix_ms(now)
        self._at_ms = self._now_ms
        self._name = ""
        self._drawn = 0

    def go(self, minutes_ago: int, name: str) -> None:
        self._at_ms = self._now_ms - minutes_ago * MINUTE_MS
        self._name, self._drawn = name, 0

    def before(self, seconds: int) -> Timestamp:
        return instant(self._at_ms - seconds * 1000)

    def now(self) -> Timestamp:
        return instant(self._at_ms)

    def new_id(self) -> str:
        self._drawn += 1
        return derived_id(self._at_ms, ORIGIN, self._name, str(self._drawn))

    def nonce(self) -> str:
        return self.new_id()


@value
class _DemoStage:
    """Records the acts of the story in a tree."""

    tree: Tree
    past: _Past
    folder: Path | None
    scenes: Mapping[str, Scene]
    planted: dict[str, tuple[TurnId, Session]] = field(
        default_factory=dict[str, tuple[TurnId, Session]]
    )
    states: dict[ResourceId, TakenSnapshot] = field(default_factory=dict[ResourceId, TakenSnapshot])
    """The last snapshot of each folder."""

    async def play(self, act: Act) -> None:
        session = await self._begin(act)
        resource = await self._open_folder(act)
        recorder = await self.tree.recorder(act.label)
        recorder.world = self.past
        if act.forks is not None:
            # Fork where the story does, not where an earlier run may have left the session.
            fork = await self.tree.turns.get(self.planted[act.forks][0])
            recorder.head, recorder.head_digest = fork.turn.id, fork.turn.digest
        thread: list[TurnId] = []
        for scene in act.scenes:
            self.past.go(scene.minutes_ago, scene.name)
            recorder.by = scene.by
            placed = await recorder.record(
                [] if scene.summarizes else [_asked(scene, act)],
                list(_reply(scene)),
                key=f"{ORIGIN}/{act.label}/{scene.name}",
                **self._details(scene, thread),
            )
            thread.append(placed.turn.id)
            self.planted[scene.name] = (placed.turn.id, session)
            # The first turn of a session is pinned too, so that every turn after it has files.
            if resource is not None and (scene.writes or scene is act.scenes[0]):
                await self._write(resource, scene, placed.turn.id)
            turns = replace(self.tree.turns, world=self.past, by=scene.by)
            for tag in scene.tags:
                await turns.tag(placed.turn.id, tag)

    async def _open_folder(self, act: Act) -> Resource | None:
        if self.folder is None or act.folder is None:
            return None
        place = self.folder / act.folder
        if act.files:
            await in_thread(_write_files, place, act.files)
        resources = replace(self.tree.resources, world=self.past)
        resource = await resources.ensure_directory(str(place), act.label)
        if resource.id not in self.states:
            keeper = resources.keeper_of(resource)
            self.states[resource.id] = await in_thread(keeper.snapshot, resource.place)
        return resource

    async def _write(self, resource: Resource, scene: Scene, turn: TurnId) -> None:
        """Write the files of a scene, and pin the states before and after to its turn."""
        resources = replace(self.tree.resources, world=self.past, by=scene.by)
        await in_thread(_write_files, Path(resource.place), scene.writes)
        after = await in_thread(resources.keeper_of(resource).snapshot, resource.place)
        await resources.pin(
            turn, resource, self.states[resource.id], after,
            self.past.before(scene.seconds), self.past.now(),
        )  # fmt: skip
        self.states[resource.id] = after

    async def _begin(self, act: Act) -> Session:
        first = act.scenes[0]
        self.past.go(first.minutes_ago + 1, act.label)
        label = check_label(act.label)
        moved = await self.tree.sessions.ledger.create(
            SessionId(self.past.new_id()),
            label,
            by=str(first.by),
            at=self.past.now(),
            head=None if act.forks is None else self.planted[act.forks][0],
            key=f"{ORIGIN}/{act.label}",
            origin=Origin(ORIGIN, act.label),
            spawn=self._spawn(act),
        )
        return await self.tree.sessions.ledger.get(moved.session)

    def _spawn(self, act: Act) -> Spawn | None:
        if act.spawned_by is None:
            return None
        turn, session = self.planted[act.spawned_by]
        scene = self.scenes[act.spawned_by]
        return Spawn(session.id, turn, _call_id(scene, len(scene.tools)), task=act.scenes[0].asks)

    def _details(self, scene: Scene, thread: Sequence[TurnId]) -> TurnDetails:
        model, provider = scene.model
        fresh, cached, output = scene.tokens
        call = ModelCall(model, Usage(fresh, output, cached), provider, f"{ORIGIN}-{scene.name}")
        details = TurnDetails(
            calls=[call],
            outcome=scene.outcome,
            started_at=self.past.before(scene.seconds),
            by=scene.by,
        )
        if scene.summarizes:
            details["compaction"] = Compaction(
                summarized_through=thread[scene.summarizes - 1],
                first_kept=thread[scene.summarizes],
                turns_summarized=scene.summarizes,
                trigger="context_limit",
                tokens_before=fresh,
                tokens_after=output,
                summary_tokens=output,
                duration_ms=scene.seconds * 1000,
            )
        return details


def _asked(scene: Scene, act: Act) -> Message:
    """Return the question: a person asks, unless an agent sent another one."""
    is_sent = scene.by == ATLAS or act.spawned_by is not None
    return user(scene.asks, source="agent" if is_sent else "human")


def _reply(scene: Scene) -> Iterator[Message]:
    for place, call in enumerate(scene.tools, start=1):
        call_id = _call_id(scene, place)
        yield assistant(ToolUse(call_id, call.tool, call.args))
        yield replace(tool(ToolResult(call_id, call.status, call.output)), context=_touched(call))
    if scene.answers:
        yield assistant(scene.answers)


def _touched(call: DemoCall) -> dict[str, Json] | None:
    """Return the file that a call read or wrote, so that ``blame`` finds it."""
    args = call.args
    if call.touches is not None:
        return {"files": [TouchedFile(*call.touches).to_json()]}
    if call.tool not in USES or not isinstance(args, dict):
        return None
    return {"files": [TouchedFile(USES[call.tool], str(args["path"])).to_json()]}


def _call_id(scene: Scene, place: int) -> str:
    return f"{scene.name}-{place}"


def _write_files(place: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
