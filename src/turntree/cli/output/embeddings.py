"""Print similar nodes and embedding counts, as text and JSON. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from turntree.cli.command import Terminal
from turntree.cli.output.text import clean, cut, digits, table
from turntree.search.embedding import TURN, EmbeddingStats, SimilarNode


def draw_alike(found: Sequence[SimilarNode], terminal: Terminal) -> Iterator[str]:
    """Yield one line per result: its similarity, kind and name."""
    rows = [
        (f"{one.likeness:.3f}", clean(one.described.kind), _short(one), clean(one.described.name))
        for one in found
    ]
    for line in table(rows):
        yield terminal.spell(cut(line, terminal.width))


def _short(one: SimilarNode) -> str:
    digest = one.described.digest
    return digits(digest) if digest is not None else one.described.id[-12:]


def alike_document(one: SimilarNode) -> dict[str, Any]:
    """Return one result as a JSON document."""
    what = one.described
    return {
        "id": what.id,
        "kind": what.kind,
        "name": what.name,
        "digest": what.digest,
        "likeness": round(one.likeness, 6),
    }


def draw_stats(found: Sequence[EmbeddingStats], terminal: Terminal) -> Iterator[str]:
    """Yield how much each embedder has embedded."""
    for one in found:
        yield terminal.paint(clean(one.embedder), "label") + f"  {one.dims} numbers a vector"
        rows = [
            (f"  {count:,}", _plural(kind, count)) for kind, count in sorted(one.counts.items())
        ]
        if one.turns_missing:
            rows.append((f"  {one.turns_missing:,}", f"{_plural(TURN, one.turns_missing)} missing"))
        if one.described:
            rows.append((f"  {one.described:,}", "with a text of their own"))
        yield from table(rows)


def _plural(kind: str, count: int) -> str:
    return clean(kind) if count == 1 or kind in ("code", "information") else f"{clean(kind)}s"


def stats_document(one: EmbeddingStats) -> dict[str, Any]:
    """Return an embedder's counts as a JSON document."""
    return {
        "embedder": one.embedder,
        "dims": one.dims,
        "vectors": one.total,
        "kinds": dict(sorted(one.counts.items())),
        "described": one.described,
        "turns_missing": one.turns_missing,
    }
