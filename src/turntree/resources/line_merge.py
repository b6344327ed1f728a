"""Merge two texts that were made from a third, line by line.

A stretch that only one side changed gets that side's lines; a stretch that both sides changed in
different ways is a conflict, with the versions of both. Two changes conflict if no unchanged line
is between them, as in ``git merge-file``.

Pure: it does not know what the sides are or who chooses between them.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from turntree.core.value import value
from turntree.resources.line_diff import Same, match_lines

Preference = Literal["present", "wanted"]
_Lines: TypeAlias = tuple[bytes, ...]


@value
class MergedLines:
    """Lines that need no decision."""

    lines: _Lines


@value
class ConflictingLines:
    """A stretch that both sides changed."""

    present: _Lines
    wanted: _Lines
    start: int
    """The number of its first line in the present text, from 1."""


Chunk: TypeAlias = MergedLines | ConflictingLines


def merge_lines(
    base: Sequence[bytes], present: Sequence[bytes], wanted: Sequence[bytes]
) -> list[Chunk]:
    """Return the present text with the changes that lead from ``base`` to ``wanted``."""
    chunks: list[Chunk] = []
    at = mine = theirs = 0
    for same in _common(base, present, wanted):
        if same.base > at or same.present > mine or same.wanted > theirs:
            chunks.append(
                _decide(
                    tuple(base[at : same.base]),
                    tuple(present[mine : same.present]),
                    tuple(wanted[theirs : same.wanted]),
                    mine + 1,
                )
            )
        if same.length:
            chunks.append(MergedLines(tuple(base[same.base : same.base + same.length])))
        at, mine = same.base + same.length, same.present + same.length
        theirs = same.wanted + same.length
    return chunks


def conflicts_of(chunks: Sequence[Chunk]) -> list[ConflictingLines]:
    """Return the stretches that need a decision."""
    return [chunk for chunk in chunks if isinstance(chunk, ConflictingLines)]


def prefer(chunks: Sequence[Chunk], side: Preference) -> bytes:
    """Return the merged text with one side's lines in every conflict."""
    return b"".join(line for chunk in chunks for line in _lines_of(chunk, side))


def mark(chunks: Sequence[Chunk], present: str, wanted: str) -> bytes:
    """Return the merged text with both sides of every conflict between markers, as git has them."""
    marked: list[bytes] = []
    for chunk in chunks:
        if isinstance(chunk, MergedLines):
            marked += chunk.lines
            continue
        marked.append(f"<<<<<<< {present}\n".encode())
        marked += _ended(chunk.present)
        marked.append(b"=======\n")
        marked += _ended(chunk.wanted)
        marked.append(f">>>>>>> {wanted}\n".encode())
    return b"".join(marked)


@value
class _Common:
    """A stretch of lines that all three texts have."""

    base: int
    present: int
    wanted: int
    length: int


def _common(
    base: Sequence[bytes], present: Sequence[bytes], wanted: Sequence[bytes]
) -> Iterator[_Common]:
    """Yield what all three texts have in common, in order, and last their ends."""
    left, right = match_lines(base, present)[::-1], match_lines(base, wanted)[::-1]
    while left and right:
        one, other = left[-1], right[-1]
        start = max(one.old, other.old)
        end = min(one.old + one.length, other.old + other.length)
        if start < end:
            yield _Common(start, _at(one, start), _at(other, start), end - start)
        (left if one.old + one.length == end else right).pop()
    yield _Common(len(base), len(present), len(wanted), 0)


def _at(same: Same, line: int) -> int:
    return same.new + line - same.old


def _decide(base: _Lines, present: _Lines, wanted: _Lines, start: int) -> Chunk:
    if present in (base, wanted):
        return MergedLines(wanted)
    if wanted == base:
        return MergedLines(present)
    return ConflictingLines(present, wanted, start)


def _lines_of(chunk: Chunk, side: Preference) -> _Lines:
    if isinstance(chunk, MergedLines):
        return chunk.lines
    return chunk.present if side == "present" else chunk.wanted


def _ended(lines: _Lines) -> list[bytes]:
    """Return lines of which the last one ends too, so that a marker starts a line."""
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]
