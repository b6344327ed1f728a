"""Find Codex's rollouts, and which of them must be read together.

A *rollout* is a file. A *thread* is Codex's word for a session: it has one rollout, and another one
each time it was reverted. A rollout may continue another one (``history_base``), may copy the start
of another one (``forked_from_id``), and may be a subagent's. This module knows the names of the
files and their first lines, not their content.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import zstandard

from turntree.core.value import value
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.importer import TranscriptRef, stamp_of
from turntree.transcripts.importers.shared.lenient_json import (
    mapping,
    number,
    parse,
    read_lines,
    text,
)

ORIGIN: Final = "codex"
FOLDERS: Final = ("sessions", "archived_sessions")
_ID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME: Final = re.compile(
    rf"rollout-(\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d)-({_ID})(?:_({_ID}))?\.jsonl(?:\.zst)?"
)


@value
class Rollout:
    """What a rollout's name and first line say."""

    name: str
    """Without ``.zst``: Codex compresses old files, which leaves their records the same."""
    thread: str
    id: str
    created: str
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def base(self) -> tuple[str, int, int] | None:
        """The rollout it continues, by id, and where: a byte and an ordinal, both exclusive."""
        found = mapping(self.meta.get("history_base"))
        if not (id := text(found.get("thread_id"))):
            return None
        return id, number(found.get("end_byte_offset")), number(found.get("end_ordinal_exclusive"))

    @property
    def copied_from(self) -> str | None:
        """The thread whose start it copies."""
        return None if self.base else text(self.meta.get("forked_from_id")) or None

    @property
    def parent(self) -> str | None:
        """The thread that spawned it."""
        source = mapping(mapping(self.meta.get("source")).get("subagent"))
        spawned = mapping(source.get("thread_spawn")).get("parent_thread_id")
        return text(self.meta.get("parent_thread_id")) or text(spawned) or None

    @property
    def is_subagent(self) -> bool:
        """Whether another agent started it."""
        return "subagent" in mapping(self.meta.get("source")) or self.parent is not None


def rollout_of(file: str, first: Mapping[str, Any], fallback: str) -> Rollout:
    """Return what a file's name and the session_meta in its first line say."""
    name = file.removesuffix(".zst")
    found = _NAME.fullmatch(name)
    thread = text(first.get("id")) or (found[2] if found else fallback)
    created = found[1] if found else text(first.get("timestamp"))
    return Rollout(name, thread, (found[3] or found[2]) if found else thread, created, first)


def meta_of(data: bytes) -> Mapping[str, Any] | None:
    """Return the session_meta of a line, also in the oldest format without a type."""
    line = parse(data) or {}
    if line.get("type") == "session_meta":
        return mapping(line.get("payload"))
    bare = "type" not in line and "id" in line and "timestamp" in line
    return line if bare and ("instructions" in line or "git" in line) else None


def list_bundles(
    files: Iterable[Path], wanted: Iterable[Path] | None = None
) -> Iterator[TranscriptRef]:
    """Yield a transcript for each thread that no other thread among the files has spawned.

    It includes the rollouts of its subagents, and those it shares a start with. With ``wanted``,
    only the transcripts that contain these files are yielded.
    """
    index = _Index(files)
    threads = set(index.by_thread)
    if wanted is not None:
        chosen = {path.name.removesuffix(".zst") for path in wanted}
        threads = {r.thread for r in index.rollouts.values() if r.name in chosen}
    for root in sorted({index.root_of(thread) for thread in threads}):
        paths = tuple(index.paths[name] for name in index.closure_of(root))
        stamp, size = stamp_of(paths)
        yield TranscriptRef(ORIGIN, root, paths, stamp, size)


def is_rollout(path: Path) -> bool:
    """Return whether Codex wrote a file, by its name or else by its first line."""
    if _NAME.fullmatch(path.name):
        return True
    if not path.name.endswith((".jsonl", ".jsonl.zst")):
        return False
    meta = _first_line(path)
    return meta is not None and bool(text(meta.get("id")))


def read_bundle(bundle: TranscriptRef) -> Iterator[RawRecord]:
    """Yield the lines of all files; of a file that is only continued, up to that point."""
    own, cuts, whole = {bundle.id}, dict[str, int](), set[str]()
    for path in bundle.files:
        limit: int | None = None
        for count, record in enumerate(_lines(path)):
            if not count:
                rollout = rollout_of(path.name, meta_of(record.data) or {}, bundle.id)
                if rollout.thread == bundle.id or rollout.parent in own:
                    own.add(rollout.thread)
                elif rollout.thread not in whole:
                    limit = cuts.get(rollout.id)
                if base := rollout.base:
                    cuts[base[0]] = max(base[1], cuts.get(base[0], 0))
                elif rollout.copied_from:
                    whole.add(rollout.copied_from)
            if limit and record.offset >= limit:
                break
            yield record


class _Index:
    """All rollouts of one folder, by name."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.rollouts: dict[str, Rollout] = {}
        self.paths: dict[str, Path] = {}
        # If both a plain and a compressed file exist, the plain one sorts first and is in use.
        for path in sorted(files):
            name = path.name.removesuffix(".zst")
            if name not in self.paths:
                self.paths[name] = path
                self.rollouts[name] = rollout_of(path.name, _first_line(path) or {}, path.stem)
        self.by_thread: dict[str, list[Rollout]] = {}
        self.by_id: dict[str, Rollout] = {}
        self.children: dict[str, list[str]] = {}
        for rollout in sorted(self.rollouts.values(), key=age_of, reverse=True):
            self.by_id.setdefault(rollout.id, rollout)
            siblings = self.by_thread.setdefault(rollout.thread, [])
            if not siblings and rollout.parent:
                self.children.setdefault(rollout.parent, []).append(rollout.thread)
            siblings.append(rollout)

    def root_of(self, thread: str) -> str:
        seen = {thread}
        while (parent := self.by_thread[thread][0].parent) in self.by_thread:
            if parent in seen:
                return min(seen)
            seen.add(parent)
            thread = parent
        return thread

    def closure_of(self, root: str) -> list[str]:
        """Return the names of a thread's files: its own, its subagents', those it continues."""
        threads, seen = [root], {root}
        for thread in threads:
            for child in self.children.get(thread, ()):
                if child not in seen:
                    seen.add(child)
                    threads.append(child)
        names = {r.name: r for thread in threads for r in self.by_thread[thread]}
        needing = list(names.values())
        for rollout in needing:
            base = rollout.base
            needed = [self.by_id[base[0]]] if base and base[0] in self.by_id else []
            if rollout.copied_from:
                needed = self.by_thread.get(rollout.copied_from, [])
            for other in needed:
                if other.name not in names:
                    names[other.name] = other
                    needing.append(other)
        return list(names)


def age_of(rollout: Rollout) -> tuple[str, str]:
    """Return the sort key of a thread's rollouts: the newest one is its present state."""
    return rollout.created, rollout.id


def _lines(path: Path) -> Iterator[RawRecord]:
    """Yield the lines of a file; of a damaged compressed file, those before the damage."""
    # A frame at the end may be incomplete. What precedes it is intact.
    with suppress(zstandard.ZstdError):
        yield from read_lines(path, path.name.removesuffix(".zst"))


def _first_line(path: Path) -> Mapping[str, Any] | None:
    first = next(_lines(path), None)
    return None if first is None else meta_of(first.data)
