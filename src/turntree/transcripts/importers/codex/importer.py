"""Import OpenAI Codex: rollouts under ``$CODEX_HOME`` or ``~/.codex``.

``response_item`` records are authoritative, because they are what the model read and wrote. Events
repeat the same for the screen; they only add what items lack: when turns began and ended, exit
codes, changed files, tokens.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp, is_instant
from turntree.core.message import Source
from turntree.core.session import SpawnMode
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, DraftSpawn, Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef
from turntree.transcripts.importers.codex.drafts import ParseState, RolloutLine
from turntree.transcripts.importers.codex.rollouts import (
    FOLDERS,
    ORIGIN,
    Rollout,
    age_of,
    is_rollout,
    list_bundles,
    read_bundle,
    rollout_of,
)
from turntree.transcripts.importers.codex.turns import BEGINNING, RolloutParser
from turntree.transcripts.importers.shared.lenient_json import (
    mapping,
    moment,
    number,
    parse,
    text,
    word,
)

_TOLD: Final = (
    "cwd", "git", "cli_version", "originator", "source", "thread_source", "model_provider",
    "history_mode", "forked_from_id", "parent_thread_id", "agent_nickname", "agent_role",
    "agent_path", "memory_mode",
)  # fmt: skip
_LABEL_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LABEL_SIGNS: Final = 12


class CodexImporter:
    """Reads OpenAI Codex's rollouts."""

    origin = ORIGIN
    version = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield a transcript for each thread; only names and first lines are read."""
        for home in self.usual_places(places):
            yield from list_bundles(_rollouts(home))

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the tool's folder."""
        told = places.environ.get("CODEX_HOME")
        return [Path(told) if told else places.home / ".codex"]

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield the threads in a file or folder, with the rollouts they share history with."""
        wanted = [path] if path.is_file() else _rollouts(path)
        wanted = [file for file in wanted if is_rollout(file)]
        if not wanted:
            return
        homes = (folder.parent for folder in path.parents if folder.name in FOLDERS)
        around = _rollouts(next(homes, path if path.is_dir() else path.parent))
        yield from list_bundles({*around, *wanted}, wanted)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the lines of all rollouts; offsets are those of the plain text."""
        yield from read_bundle(bundle)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns of a thread, of its subagents and of what it was forked from."""
        files, broken = _parsed(bundle, records)
        tale = ParseState()
        own = _own_threads(bundle.id, files)
        walkers = _walk(files, own, tale)
        sessions = [
            _session(files[name].rollout, walkers[name], tale, own) for name in own.values()
        ]
        return Projection(tale.turns, sessions, tale.unknown, tale.orphans, broken, tale.tokens)


def _rollouts(folder: Path) -> list[Path]:
    within = [folder / name for name in FOLDERS if (folder / name).is_dir()] or [folder]
    found = (path for place in within for path in place.rglob("*.jsonl*"))
    return sorted(path for path in found if path.is_file() and path.suffix in (".jsonl", ".zst"))


@dataclass(slots=True)
class _File:
    rollout: Rollout
    lines: list[RolloutLine] = field(default_factory=list[RolloutLine])
    copied: int = 0
    """Number of lines at its start that are copies of another rollout's."""


def _parsed(bundle: TranscriptRef, records: Sequence[RawRecord]) -> tuple[dict[str, _File], int]:
    """Return the lines of each rollout, in file order, and how many are malformed."""
    files: dict[str, _File] = {}
    broken = 0
    at = BEGINNING
    for place, record in enumerate(records):
        found = parse(record.data)
        if found is None:
            broken += 1
            continue
        kind, payload = _unwrapped(found)
        name = record.file.removesuffix(".zst")
        file = files.get(name)
        if file is None or (kind == "session_meta" and not file.rollout.meta):
            lines = file.lines if file else []
            first = mapping(payload if kind == "session_meta" else None)
            file = files[name] = _File(rollout_of(name, first, bundle.id), lines)
            at = moment(payload.get("timestamp")) or BEGINNING
        # Old lines have no timestamp; the previous line's counts.
        at = _moment(found.get("timestamp")) or at
        ordinal = found.get("ordinal")
        ordinal = ordinal if isinstance(ordinal, int) else None
        file.lines.append(RolloutLine(place, record.offset, ordinal, at, kind, payload))
    for file in files.values():
        file.lines.sort(key=lambda line: line.offset)
    return files, broken


def _moment(told: object) -> Timestamp | None:
    """Return a line's timestamp; in Codex's own format it is used unchanged."""
    if isinstance(told, str) and is_instant(told):
        try:
            datetime.fromisoformat(told)
        except ValueError:
            return None
        return Timestamp(told)
    return moment(told)


def _unwrapped(line: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return a line's type and payload; the oldest lines are bare items without a type."""
    if isinstance(line.get("payload"), dict):
        return text(line.get("type")), mapping(line["payload"])
    if "record_type" in line:
        return "state", line
    if "type" not in line and "id" in line and "timestamp" in line:
        return "session_meta", line
    bare = "role" in line or "call_id" in line or line.get("type") in ("reasoning", "message")
    return ("response_item" if bare else text(line.get("type"))), line


def _own_threads(root: str, files: Mapping[str, _File]) -> dict[str, str]:
    """Return the thread and those it spawned, each with its newest rollout."""
    newest: dict[str, Rollout] = {}
    for rollout in sorted((file.rollout for file in files.values()), key=age_of):
        newest[rollout.thread] = rollout
    spawned: dict[str, list[str]] = {}
    for thread, rollout in newest.items():
        spawned.setdefault(rollout.parent or "", []).append(thread)
    own = {root: newest[root].name} if root in newest else {}
    threads = list(own)
    for thread in threads:
        for child in spawned.get(thread, ()):
            if child not in own:
                own[child] = newest[child].name
                threads.append(child)
    return own


def _walk(
    files: Mapping[str, _File], own: Mapping[str, str], tale: ParseState
) -> dict[str, RolloutParser]:
    """Read each rollout once, those that others continue first."""
    by_id = {file.rollout.id: name for name, file in files.items()}
    cuts: dict[str, dict[str, tuple[int, int]]] = {}
    for name, file in files.items():
        base = file.rollout.base
        if base is not None and base[0] in by_id:
            cuts.setdefault(by_id[base[0]], {})[name] = base[1:]
    walkers: dict[str, RolloutParser] = {}
    starts: dict[str, RolloutParser] = {}
    for name in _bases_first(files, by_id):
        file = files[name]
        file.copied = _borrow_times(file, files)
        walker = walkers[name] = starts.get(name) or RolloutParser(tale)
        is_own = file.rollout.thread in own
        starts.update(_walk_one(file, walker, cuts.get(name, {}), is_own=is_own))
    return walkers


def _walk_one(
    file: _File, walker: RolloutParser, cuts: Mapping[str, tuple[int, int]], *, is_own: bool
) -> Iterator[tuple[str, RolloutParser]]:
    """Read a rollout and yield a parser for each rollout that continues from within it.

    A rollout of another thread is read only as far as it is shared.
    """
    rollout = file.rollout
    since = number(rollout.meta.get("subagent_history_start_ordinal"))
    sender: Source = "agent" if rollout.is_subagent else "human"
    # In a session that we wrote it is what Codex was configured to use, not what has answered.
    is_ours = rollout.meta.get("originator") == "turntree"
    provider = None if is_ours else word(rollout.meta.get("model_provider"))
    # What a subagent's rollout copies at its start was asked of its parent, by a person.
    walker.enter(provider, "human" if file.copied else sender, since, is_own=is_own)
    waiting = sorted(cuts.items(), key=lambda cut: cut[1], reverse=True)
    for place, line in enumerate(file.lines):
        if file.copied and place == file.copied:
            walker.enter(provider, sender, since, is_own=is_own)
        while waiting and _is_beyond(line, *waiting[-1][1]):
            yield waiting.pop()[0], walker.split()
        if not waiting and not is_own:
            return
        walker.read(line)
    for name, _ in waiting:
        yield name, walker.split()
    if is_own:
        walker.finish()


def _is_beyond(line: RolloutLine, offset: int, ordinal: int) -> bool:
    if offset:
        return line.offset >= offset
    return line.ordinal is not None and line.ordinal >= ordinal


def _bases_first(files: Mapping[str, _File], by_id: Mapping[str, str]) -> list[str]:
    by_thread: dict[str, list[str]] = {}
    for name, file in sorted(files.items()):
        by_thread.setdefault(file.rollout.thread, []).append(name)
    done: dict[str, None] = {}
    for name in sorted(files, key=lambda name: age_of(files[name].rollout)):
        stack, seen = [name], set[str]()
        while stack:
            rollout = files[stack[-1]].rollout
            seen.add(stack[-1])
            needed = [by_id[rollout.base[0]]] if rollout.base and rollout.base[0] in by_id else []
            needed += by_thread.get(rollout.copied_from or "", [])
            waiting = [other for other in needed if other not in done and other not in seen]
            if waiting:
                stack += waiting
            else:
                done[stack.pop()] = None
    return list(done)


def _borrow_times(file: _File, files: Mapping[str, _File]) -> int:
    """Give copied lines the timestamps of the rollout they were copied from; return their number.

    A fork that copies writes every line again, with the time of the copying; only with the
    original time does the copy become the same turn.
    """
    source = file.rollout.copied_from
    bases = [other for other in files.values() if other.rollout.thread == source]
    if source is None or not bases or bases[0] is file:
        return 0
    first: dict[bytes, list[RolloutLine]] = {}
    for line in reversed(max(bases, key=lambda base: age_of(base.rollout)).lines):
        first.setdefault(_mark(line), []).append(line)
    copied = 0
    for place, line in enumerate(file.lines):
        alike = first.get(_mark(line))
        if alike:
            file.lines[place] = line._replace(at=alike.pop().at)
            copied = place + 1
        elif line.kind == "response_item":
            break
    return copied


def _mark(line: RolloutLine) -> bytes:
    return line.kind.encode() + orjson.dumps(line.payload, option=orjson.OPT_SORT_KEYS)


def _session(
    rollout: Rollout, walker: RolloutParser, tale: ParseState, own: Mapping[str, str]
) -> DraftSession:
    meta = rollout.meta
    details: dict[str, Json] = {name: tidy(meta[name]) for name in _TOLD if meta.get(name)}
    names = (rollout.thread, text(meta.get("agent_path")), text(meta.get("agent_nickname")))
    begun = next((tale.spawns[name] for name in names if name in tale.spawns), None)
    spawn = None
    if begun is not None and rollout.parent in own:
        mode: SpawnMode = "fork" if rollout.base or rollout.copied_from else "fresh"
        spawn = DraftSpawn(rollout.parent or "", begun.turn, begun.call, mode, begun.task)
    short = _LABEL_UNFIT.sub("-", rollout.thread).strip("-")[-_LABEL_SIGNS:] or "session"
    return DraftSession(rollout.thread, f"codex/{short}", walker.head, walker.title, spawn, details)
