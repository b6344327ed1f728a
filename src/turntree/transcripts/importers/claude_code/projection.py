"""Project a transcript of Claude Code as turns and sessions.

Every record is parsed once. ``chain``, ``turns`` and ``sessions`` find its turn and its metadata;
this module combines them and links subagents to the calls that started them.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turntree.core.ids import Timestamp
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, DraftSpawn, DraftTurn, Key, Projection
from turntree.transcripts.importer import TranscriptRef
from turntree.transcripts.importers.claude_code.chain import MAIN, RecordChain, Stem, arrange
from turntree.transcripts.importers.claude_code.messages import usage_of
from turntree.transcripts.importers.claude_code.records import (
    ABOUT,
    CHAINED,
    SUBTYPES,
    ChainRecord,
    line_of,
)
from turntree.transcripts.importers.claude_code.sessions import (
    TITLE_MAX,
    SessionInfo,
    SubagentInfo,
    deletion_due,
    link_in,
    mtime_ms,
)
from turntree.transcripts.importers.claude_code.turns import TurnDraft, draft
from turntree.transcripts.importers.shared.lenient_json import mapping, parse, text, word

NOTE: Final = ".meta.json"
_BEGINNING: Final = Timestamp("1970-01-01T00:00:00.000Z")
_KEPT_DEPTH_MAX: Final = 10_000
_UNKNOWN_KINDS_MAX: Final = 100
_ID_SHOWN: Final = 8
_UNFIT: Final = re.compile(r"[^A-Za-z0-9-]")


class TranscriptReader:
    """One transcript, read once."""

    def __init__(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> None:
        # Stored records are projected again when their files may be gone: only the id is reliable.
        self._slug, _, self._own = bundle.id.rpartition("/")
        self._name = f"{self._own}.jsonl"
        self._due = None if (at := mtime_ms(bundle.stamp)) is None else deletion_due(at)
        self._lines: list[ChainRecord] = []
        self._about: Mapping[str, SessionInfo] = defaultdict(SessionInfo)
        self._agents: dict[str, SubagentInfo] = {}
        self._alone = self._name.startswith("agent-")
        # A subagent whose session is gone is its own session.
        self._files: dict[str, str] = {self._name: MAIN} if self._alone else {}
        self._requests: dict[str, int] = {}
        self._unknown: Counter[str] = Counter()
        self._strays: list[int] = []
        self._broken = 0
        self._met: set[str] = set()
        self._tokens: Counter[str] = Counter()
        """The sum over all lines of each answer; every line repeats it."""
        self._told_last: tuple[Mapping[str, Any], int] = {}, 0
        self._copies: dict[str, str] = {}
        """The records that others were copied from, under ids of their own."""
        for place, record in enumerate(records):
            self._take(place, record)

    def projection(self) -> Projection:
        """Return the projection of the transcript."""
        forks = frozenset(name for name, agent in self._agents.items() if agent.forked)
        chain = arrange(self._lines, self._files, forks)
        drafted = list(self._drafted(chain))
        turns = [told.turn for told in drafted]
        orphans = {*self._strays, *chain.orphans, *(o for told in drafted for o in told.orphans)}
        return Projection(
            turns=turns,
            sessions=list(self._sessions(chain, drafted)),
            unknown=dict(sorted(self._unknown.items())),
            orphans=sorted(orphans),
            broken=self._broken,
            usage_told=self._told(turns),
        )

    def _told(self, turns: Sequence[DraftTurn]) -> int:
        calls = [call for turn in turns for call in turn.calls]
        answers = {call.call_id for call in calls if call.call_id is not None}
        # An answer without an id has one line, so it cannot be repeated.
        alone = sum(call.usage.total for call in calls if call.call_id is None)
        return alone + sum(self._tokens[answer] for answer in answers)

    def _take(self, place: int, record: RawRecord) -> None:
        data = parse(record.data)
        if data is None:
            self._broken += 1
            return
        agent = self._owner(record.file)
        if record.file.endswith(NOTE):
            self._agents.setdefault(agent, SubagentInfo()).take_meta(data)
            return
        kind = text(data.get("type"))
        if kind in CHAINED:
            self._chained(place, record.file, kind, data)
        elif kind in ABOUT:
            self._about[agent].take(kind, data)
            if kind == "api-request":
                self._requests[text(data.get("id"))] = place
        else:
            self._count(kind or "(no type)")

    def _chained(self, place: int, file: str, kind: str, data: dict[str, Any]) -> None:
        if kind == "system" and text(data.get("subtype")) not in SUBTYPES:
            self._count(f"system/{text(data.get('subtype'))}")
        line = line_of(place, file, data)
        if line is None:
            self._strays.append(place)
            return
        if line.kind == "answer":
            self._tokens[word(line.answer_id) or ""] += self._total_in(line)
        if line.uuid not in self._met:
            # A resumed or copied session may hold a record twice.
            self._met.add(line.uuid)
            self._lines.append(line)
            if "forkedFrom" in data:
                original = mapping(data["forkedFrom"]).get("messageUuid")
                self._copies.setdefault(text(original), line.uuid)
            if (link := link_in(line)) is not None:
                told = self._agents.setdefault(link[0], SubagentInfo())
                told.call_id = told.call_id or word(link[1])

    def _total_in(self, line: ChainRecord) -> int:
        """Return the tokens that a line reports; most repeat the previous line."""
        usage = mapping(line.message.get("usage"))
        if usage != self._told_last[0]:
            self._told_last = usage, usage_of(usage).total
        return self._told_last[1]

    def _count(self, kind: str) -> None:
        name = word(kind) or "(no type)"
        fits = name in self._unknown or len(self._unknown) < _UNKNOWN_KINDS_MAX
        self._unknown[name if fits else "(others)"] += 1

    def _owner(self, file: str) -> str:
        """Return the owner of a file: the main session or a subagent."""
        if file == self._name:
            return MAIN
        if file in self._files:
            return self._files[file]
        name = file.rpartition("/")[2].removesuffix(NOTE).removesuffix(".jsonl")
        owner = name.removeprefix("agent-")
        self._files[file] = owner
        return owner

    def _drafted(self, chain: RecordChain) -> Iterator[TurnDraft]:
        since = _BEGINNING
        for stem in chain.stems:
            since = stem.start.at or since
            agent = self._agents.get(stem.session)
            yield draft(
                stem,
                worker=self._alone or stem.session != MAIN,
                may_go_on=chain.heads.get(stem.session) is stem
                and not (agent is not None and agent.finished),
                first_kept=_first_kept(stem, chain, self._copies)
                if stem.kind == "compaction"
                else None,
                since=since,
                requests=self._requests,
            )

    def _sessions(self, chain: RecordChain, drafted: Sequence[TurnDraft]) -> Iterator[DraftSession]:
        for line in reversed(self._lines):
            self._about[chain.nodes[line.uuid].session].see(line)
        titles = _first_words(chain, drafted)
        spawns = self._spawns(chain, drafted, titles)
        own = self._own
        shown = own if self._alone else own[:_ID_SHOWN]
        label = f"claude-code/{_slug(self._slug) or 'unnamed'}/{_slug(shown)}"
        if MAIN in chain.heads or not chain.heads:
            about = self._about[MAIN]
            head = chain.heads.get(MAIN)
            yield DraftSession(
                id=own,
                label=label if not own.startswith("agent-") else f"{label[:-_ID_SHOWN]}{own}",
                head=None if head is None else head.key,
                title=about.title(self._met, titles.get(MAIN, "")),
                details=about.details(self._due),
            )
        for name in _parents_first(chain, spawns):
            agent = self._agents.get(name, SubagentInfo())
            spawn, head = spawns.get(name), chain.heads[name]
            told = self._about[name].details(self._due)
            yield DraftSession(
                id=_session_id(own, name),
                label=f"{label}/{_slug(name)}",
                head=None if head is None else head.key,
                title=agent.task or word(titles.get(name, "")[:TITLE_MAX]),
                spawn=spawn,
                details={**told, **agent.details},
            )

    def _spawns(
        self, chain: RecordChain, drafted: Sequence[TurnDraft], words: Mapping[str, str]
    ) -> dict[str, DraftSpawn]:
        """Return the call that started each subagent, as far as it is recorded."""
        made: dict[str, tuple[Stem, TurnDraft]] = {}
        asked: Mapping[str, deque[str]] = defaultdict(deque)
        tasks: dict[str, str | None] = {}
        for stem, told in zip(chain.stems, drafted, strict=True):
            for call_id in told.calls:
                made.setdefault(call_id, (stem, told))
            for use in told.delegations:
                args = mapping(use.args)
                tasks[use.call_id] = word(args.get("description"))
                asked[text(args.get("prompt"))].append(use.call_id)
        taken = {agent.call_id for agent in self._agents.values()}
        spawns: dict[str, DraftSpawn] = {}
        for name in chain.heads:
            if name == MAIN:
                continue
            agent = self._agents.setdefault(name, SubagentInfo())
            # The oldest subagents have no names; their first prompt is that of the call.
            while agent.call_id is None and asked[words.get(name, "")]:
                call_id = asked[words.get(name, "")].popleft()
                agent.call_id = call_id if call_id not in taken else None
            found = made.get(agent.call_id or "")
            if found is not None and found[0].session != name:
                stem, told = found
                agent.task = agent.task or tasks.get(agent.call_id or "")
                spawns[name] = DraftSpawn(
                    parent_session=_session_id(self._own, stem.session),
                    parent_turn=told.turn.key,
                    call_id=agent.call_id or "",
                    mode="fork" if agent.forked else "fresh",
                    task=agent.task,
                )
        return spawns


def _session_id(own: str, name: str) -> str:
    return own if name == MAIN else f"{own}/{word(name)}"


def _slug(name: str) -> str:
    """Return a name in the characters of a label."""
    return _UNFIT.sub("-", name)


def _first_words(chain: RecordChain, drafted: Sequence[TurnDraft]) -> dict[str, str]:
    """Return the first prompt of each session."""
    found: dict[str, str] = {}
    for stem, told in zip(chain.stems, drafted, strict=True):
        if stem.kind == "normal":
            found.setdefault(stem.session, told.turn.query[0].text)
    return found


def _parents_first(chain: RecordChain, spawns: Mapping[str, DraftSpawn]) -> list[str]:
    """Return the subagents' names, each after the one that started it."""
    sessions = {stem.key: stem.session for stem in chain.stems}
    below: Mapping[str, list[str]] = defaultdict(list)
    names = [name for name in chain.heads if name != MAIN]
    for name in names:
        spawn = spawns.get(name)
        below[MAIN if spawn is None else sessions[spawn.parent_turn]].append(name)
    found: dict[str, None] = {}
    todo = deque([MAIN])
    while todo:
        for name in below[todo.popleft()]:
            if name not in found:
                found[name] = None
                todo.append(name)
    # Subagents in a circle come last.
    return [*found, *(name for name in names if name not in found)]


def _first_kept(stem: Stem, chain: RecordChain, copies: Mapping[str, str]) -> Key | None:
    """Return the first turn that a compaction kept, if it is an ancestor and not the first."""
    told = mapping(stem.start.data.get("compactMetadata"))
    head = text(mapping(told.get("preservedSegment")).get("headUuid"))
    # A copy renames its records, but not the ids inside them.
    node = chain.nodes.get(head) or chain.nodes.get(copies.get(head, ""))
    kept = None if node is None else node.stem
    if kept is None or stem.depth - kept.depth > _KEPT_DEPTH_MAX:
        return None
    cursor = stem.parent
    while cursor is not None and cursor.depth > kept.depth:
        cursor = cursor.parent
    # A fork may follow the first part of a turn, which has a key of its own.
    if cursor is None or cursor.start is not kept.start or cursor.parent is None:
        return None
    return cursor.key
