"""What hooks told is held against what the tool wrote down, and becomes pins."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, importing_on, settling_on, tree_on
from turntree.core.ids import Timestamp, TurnId, instant
from turntree.core.message import assistant, user
from turntree.db.database import Database
from turntree.hooks.events import AgentStream, HookEvent, SightingKind
from turntree.hooks.reconcile import KEPT_MAX_MS, HookReconciler, ReconcileResult
from turntree.ledger.raw_codec import RawRecord
from turntree.ledger.thread_store import ThreadStore
from turntree.resources.driver import TakenSnapshot
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.system.clock import SystemClock
from turntree.testing.fakes import FakeClock
from turntree.transcripts.drafts import DraftSession, DraftTurn, Key, Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef, stamp_of
from turntree.transcripts.importers.shared.lenient_json import parse, read_lines, text
from turntree.transcripts.imports import ImportService

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Toy:
    """Reads lines of ``{ask, from, to, open, agent}``, a file a session."""

    version: int = 1
    origin: str = "toy"

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Find them."""
        for file in sorted(places.home.glob("*.jsonl")):
            yield from self.open(file)

    def open(self, path: Path) -> Iterator[TranscriptRef]:
        """Find one."""
        stamp, size = stamp_of([path])
        yield TranscriptRef(self.origin, f"{path.parent.name}/{path.stem}", (path,), stamp, size)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Read lines."""
        for file in bundle.files:
            yield from read_lines(file, file.name)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Take a line for a turn."""
        own = bundle.id.split("/")[1]
        heads: dict[str, Key | None] = {own: None}
        turns: list[DraftTurn] = []
        for place, record in enumerate(records):
            said = parse(record.data) or {}
            name = f"{own}/{text(said['agent'])}" if said.get("agent") else own
            key = Key(str(place))
            turn = DraftTurn(
                    key,
                    heads.get(name),
                    (user(text(said["ask"])),),
                    (assistant("yes"),),
                    instant(int(said["from"])),
                    instant(int(said["to"])),
                    open=bool(said.get("open")),
                    records=(place,),
                )  # fmt: skip
            turns.append(turn)
            heads[name] = key
        sessions = [DraftSession(name, f"toy/{name}", head) for name, head in heads.items()]
        return Projection(turns, sessions)


@dataclass
class Scene:
    """A folder, a transcript, and the hooks that tell of both."""

    tree: Tree
    settling: Callable[[], HookReconciler]
    keeper: DirectoryDriver
    work: Path
    transcript: Path
    clock_ms: list[int]
    sightings: list[HookEvent] = field(default_factory=list[HookEvent])
    states: dict[str, TakenSnapshot] = field(default_factory=dict[str, TakenSnapshot])

    def see(
        self,
        at: int,
        kind: SightingKind,
        agent: str | None = None,
        session: str = "s1",
        late_ms: int | None = None,
    ) -> None:
        """Note a moment, and the state the folder is in."""
        id = f"{at:09d}-{len(self.sightings)}"
        stream = AgentStream("toy", session, agent)
        transcript = self.transcript.with_stem(session)
        told = HookEvent(
            id, stream, kind, instant(at), str(self.work), str(transcript),
            is_late=late_ms is not None, late_ms=late_ms,
        )  # fmt: skip
        self.sightings.append(told)
        self.states[id] = self.keeper.snapshot(str(self.work))

    def write(self, name: str, content: str) -> None:
        """Do what an agent does."""
        (self.work / name).write_text(content, encoding="utf-8")

    def tell(self, *lines: dict[str, object], session: str = "s1") -> None:
        """Write the transcript anew."""
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.transcript.with_stem(session).write_text(text, encoding="utf-8")

    async def settle(self) -> ReconcileResult:
        """Settle what was seen and forget what is done with."""
        settled = await self.settling().settle(self.sightings, self.states)
        self.sightings = [one for one in self.sightings if one not in settled.done]
        return settled

    async def changed(self) -> dict[str, list[str] | None]:
        """Return for each turn by what was asked which paths it changed; None without a pin."""
        found: dict[str, list[str] | None] = {}
        for placed in await self.tree.turns.list_newest():
            asked = placed.turn.messages[0]
            name = getattr(asked, "text", "")
            found[name] = await self._changed_by(placed.turn.id)
        return found

    async def _changed_by(self, turn: TurnId) -> list[str] | None:
        pins = await self.tree.resources.pins_of(turn)
        if not pins:
            return None
        (pin,) = pins
        before = None if pin.before is None else pin.before.external
        return [change.path for change in self.keeper.compare(before, pin.after.external)]


@pytest.fixture
def scene(database: Database, world: FakeClock, tmp_path: Path) -> Scene:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (tmp_path / "there").mkdir()
    tree = tree_on(database, Settings(home, user="ana"), world)
    places = ToolPaths(tmp_path / "there", {})
    clock_ms = [1_000]

    def settling() -> HookReconciler:
        importing: ImportService = importing_on(database, world)
        threads = ThreadStore(database)
        return HookReconciler(importing, tree.resources, threads, {"toy": Toy()}, places, now)

    def now() -> Timestamp:
        return instant(clock_ms[0])

    keeper = DirectoryDriver(home)
    return Scene(tree, settling, keeper, work, tmp_path / "there" / "s1.jsonl", clock_ms)


def line(ask: str, since: int, to: int, **more: object) -> dict[str, object]:
    return {"ask": ask, "from": since, "to": to, **more}


async def test_a_session_is_known_as_soon_as_it_is_opened(scene: Scene) -> None:
    scene.see(100, "session")
    settled = await scene.settle()
    (session,) = [one async for one in scene.tree.sessions.list_all()]
    assert (session.label, session.head, settled.complaints) == ("toy/s1", None, [])
    ((attached, _),) = await scene.tree.resources.list_attached("toy/s1")
    assert attached.place == str(scene.work)
    scene.see(110, "begin")
    scene.see(190, "end")
    scene.tell(line("one", 111, 180))
    assert (await scene.settle()).pinned == 1
    (session,) = [one async for one in scene.tree.sessions.list_all()]
    assert session.head is not None


async def test_a_session_that_its_transcript_is_not_named_after_is_not_opened(
    scene: Scene,
) -> None:
    stream = AgentStream("toy", "s2", None)
    opened = HookEvent("1", stream, "session", instant(100), None, str(scene.transcript))
    scene.sightings.append(opened)
    settled = await scene.settle()
    assert (settled.done, settled.complaints) == ([opened], [])
    assert [one async for one in scene.tree.sessions.list_all()] == []


async def test_a_turn_is_pinned_in_the_states_it_was_begun_and_ended_in(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.write("a", "1")
    scene.see(200, "end")
    scene.write("mine", "between two turns")
    scene.see(300, "begin")
    scene.write("b", "2")
    scene.see(400, "end")
    scene.tell(line("one", 101, 199), line("two", 301, 399))
    settled = await scene.settle()
    assert (settled.pinned, scene.sightings) == (2, [])
    assert await scene.changed() == {"one": ["a"], "two": ["b"]}


async def test_a_turn_whose_folder_was_recorded_late_is_marked(scene: Scene) -> None:
    scene.see(100, "begin", late_ms=70)
    scene.write("a", "1")
    scene.see(200, "end")
    scene.see(300, "begin")
    scene.see(400, "end")
    scene.tell(line("one", 101, 199), line("two", 301, 399))
    assert (await scene.settle()).pinned == 2
    turns = {one.turn.title: one.turn.id for one in await scene.tree.turns.list_newest()}
    late = await scene.tree.resources.pins.list_late(list(turns.values()))
    assert late == {turns["one"]: 70}


async def test_settling_twice_changes_nothing(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(200, "end")
    scene.tell(line("one", 101, 199))
    seen = list(scene.sightings)
    assert (await scene.settle()).pinned == 1
    scene.sightings = seen
    again = await scene.settle()
    assert (again.pinned, again.known, scene.sightings) == (0, 1, [])


async def test_a_turn_that_is_not_written_to_its_end_waits(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.write("a", "1")
    scene.see(200, "end")
    scene.tell(line("one", 101, 150, open=True))
    settled = await scene.settle()
    assert (settled.pinned, len(settled.waiting), len(scene.sightings)) == (0, 1, 2)
    assert await scene.tree.turns.list_newest() == []
    scene.tell(line("one", 101, 199))
    assert (await scene.settle()).pinned == 1
    assert await scene.changed() == {"one": ["a"]}


async def test_what_nobody_has_ended_yet_is_not_imported(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(200, "end")
    scene.see(300, "begin")
    # The tool writes as it goes: what it has said so far looks like all it had to say.
    scene.tell(line("one", 101, 199), line("half", 301, 320))
    settled = await scene.settle()
    assert (settled.pinned, settled.open) == (1, 1)
    assert list(await scene.changed()) == ["one"]
    scene.see(400, "end")
    assert (await scene.settle()).pinned == 1
    assert list(await scene.changed()) == ["half", "one"]


async def test_a_subagent_that_ends_does_not_end_the_turn_it_works_for(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(120, "begin", "a1")
    scene.write("by-worker", "1")
    scene.see(150, "end", "a1")
    scene.tell(line("main", 101, 140), line("work", 121, 149, agent="a1"))
    assert (await scene.settle()).pinned == 0
    assert await scene.tree.turns.list_newest() == []
    scene.write("by-main", "1")
    scene.see(200, "end")
    scene.tell(line("main", 101, 199), line("work", 121, 149, agent="a1"))
    assert (await scene.settle()).pinned == 2
    assert await scene.changed() == {"work": ["by-worker"], "main": ["by-main", "by-worker"]}
    for label in ("toy/s1", "toy/s1/a1"):
        assert len(await scene.tree.resources.list_attached(label)) == 1


async def test_two_agents_in_one_folder_keep_times_of_their_own(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(110, "begin", session="s2")
    scene.write("by-one", "1")
    scene.see(150, "end")
    scene.write("by-two", "1")
    scene.see(200, "end", session="s2")
    scene.tell(line("one", 101, 149))
    scene.tell(line("two", 111, 199), session="s2")
    assert (await scene.settle()).pinned == 2
    resource = await scene.tree.resources.ensure_directory(str(scene.work))
    pins = await scene.tree.resources.pins.list_pins_between(
        resource.id, instant(120), instant(140)
    )
    assert [(one.pin.began_at, one.pin.ended_at) for one in pins] == [
        (instant(100), instant(150)),
        (instant(110), instant(200)),
    ]
    assert await scene.changed() == {"one": ["by-one"], "two": ["by-one", "by-two"]}


async def test_an_interrupted_turn_ends_where_the_next_one_begins(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.write("a", "1")
    scene.see(300, "begin")
    scene.write("b", "1")
    scene.see(400, "end")
    scene.tell(line("stopped", 101, 150), line("next", 301, 390))
    assert (await scene.settle()).pinned == 2
    assert await scene.changed() == {"stopped": ["a"], "next": ["b"]}


async def test_an_end_that_nothing_is_written_of_is_given_up(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(200, "end")
    scene.see(300, "begin")
    scene.see(400, "end")
    scene.tell(line("two", 301, 399))
    settled = await scene.settle()
    assert (settled.pinned, settled.waiting, scene.sightings) == (1, [], [])


async def test_what_is_never_written_down_is_not_kept_for_ever(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(200, "end")
    scene.see(300, "begin")
    scene.clock_ms[0] = 301 + KEPT_MAX_MS
    settled = await scene.settle()
    assert (settled.pinned, settled.waiting, scene.sightings) == (0, [], [])


async def test_a_tool_that_nobody_can_read_is_complained_about(scene: Scene) -> None:
    scene.see(100, "begin")
    scene.see(200, "end")
    settling = scene.settling()
    settling.importers = {}
    settled = await settling.settle(scene.sightings, scene.states)
    assert settled.complaints == ["no importer reads what toy writes"]
    assert len(settled.waiting) == 1


async def test_what_hooks_record_is_imported_as_the_tree_s_user(
    database: Database, tmp_path: Path
) -> None:
    world = SystemClock()
    tree = tree_on(database, Settings(tmp_path, user="bob"), world)
    for private in (False, True):
        settling = settling_on(database, tree, world, ToolPaths(tmp_path, {}), private=private)()
        assert settling.importing.imports.by == "human:bob"
        assert settling.importing.private is private
        assert settling.importing.redacting
