"""Prepare records and turns for storage.

Pure, so that any process can do it. Knows which columns the bulk import fills, not a connection.
"""

from bisect import bisect_left
from collections.abc import Sequence

from turntree.core.canonical import digest_bytes, digest_from_raw
from turntree.core.compaction import Compaction
from turntree.ledger import raw_codec as raw
from turntree.ledger.raw_codec import RawBlock, RawRecord
from turntree.ledger.turn_rows import (
    TurnRows,
    actor_of,
    referred_objects,
    tool_calls,
    touched_files,
)
from turntree.transcripts.handoff_link import OwnRecords
from turntree.transcripts.incoming import ImportedTurn

_REFERS = '"object":"sha256:'
"""The JSON of a part that refers to an object; most turns have none."""


class Packer:
    """Packs records as blocks and turns as rows."""

    def pack(
        self,
        origin: str,
        bundle: str,
        first: int,
        records: Sequence[RawRecord],
        turns: Sequence[tuple[TurnRows, Sequence[int]]] = (),
        gap: OwnRecords | None = None,
    ) -> list[RawBlock]:
        """Return records as blocks, in order; the first one has the number ``first``.

        ``turns`` are those that were made from them, each with its records' numbers; ``gap`` says
        which of them we wrote ourselves.
        """
        blocks: list[RawBlock] = []
        ours = [] if gap is None else sorted(gap.places)
        made = sorted((at, number) for number, (_, places) in enumerate(turns) for at in places)
        for run in raw.cut(records):
            begin = bisect_left(made, (first, 0))
            here = made[begin : bisect_left(made, (first + len(run), 0))]
            spans = _spans(here)
            chosen = [turns[number][0] for number in spans]
            objects = list({digest_bytes(o): o for item in chosen for o in item.objects}.items())
            texts = _texts([item.said for item in chosen], [data for _, data in objects])
            address, packed = raw.pack(origin, bundle, first, run, texts)
            written = ours[bisect_left(ours, first) : bisect_left(ours, first + len(run))]
            blocks.append(
                RawBlock(
                    digest_from_raw(address),
                    packed,
                    [item.id for item in chosen],
                    [end for span in spans.values() for end in span],
                    [digest for digest, _ in objects] if texts else (),
                    leaning=bool(texts),
                    written=_stretches(written),
                    planted=gap.turn.id if gap is not None and written else None,
                )
            )
            first += len(run)
        return blocks

    def prepare(self, item: ImportedTurn) -> TurnRows:
        """Return a turn as rows."""
        turn, header = item.sealed.turn, item.sealed.turn.header
        line, _, said = item.sealed.body.partition("\n")
        return TurnRows(
            turn.id,
            item.parent,
            header.parent,
            turn.digest,
            (
                header.started_at, header.sealed_at, header.kind, header.outcome,
                header.agent_role, actor_of(header), header.model, header.provider,
            ),
            line,
            said,
            header.retry_of is not None or bool(header.derived_from),
            [(place, *call) for place, call in enumerate(tool_calls(turn))],
            [
                (
                    place, call.model, call.provider, call.call_id, call.usage.input,
                    call.usage.output, call.usage.cached_input, call.usage.cache_write,
                    call.usage.reasoning,
                )
                for place, call in enumerate(item.calls)
            ],
            [
                (message, place, file.kind, file.path, file.line_start, file.line_end)
                for place, (message, file) in enumerate(touched_files(turn))
            ],
            [(f.event.stream, f.event.seq, f.id, f.event.kind, f.body) for f in item.journal],
            None if header.compaction is None else _compaction(header.compaction),
            item.objects,
            referred_objects(turn) if _REFERS in said else (),
            item.source,
        )  # fmt: skip


def _spans(made: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return the first and the last record of each turn, in the order of the turns."""
    spans: dict[int, tuple[int, int]] = {}
    for at, number in made:
        first, _ = spans.get(number, (at, at))
        spans[number] = (first, at)
    return dict(sorted(spans.items()))


def _stretches(numbers: Sequence[int]) -> list[int]:
    """Return the first and the last of every run of consecutive numbers."""
    ends: list[int] = []
    for number in numbers:
        if ends and ends[-1] == number - 1:
            ends[-1] = number
        else:
            ends += [number, number]
    return ends


def _texts(bodies: Sequence[str], objects: Sequence[bytes]) -> bytes:
    """Return the texts that a block is compressed against, or nothing if they are too long."""
    size = sum(map(len, bodies)) + sum(map(len, objects))
    return raw.lean_on(bodies, objects) if 0 < size <= raw.LEAN_BYTES_MAX else b""


def _compaction(c: Compaction) -> tuple[str | int | None, ...]:
    return (
        c.summarized_through, c.first_kept, c.turns_summarized, c.kind, c.trigger,
        c.tokens_before, c.tokens_after, c.summary_tokens, c.duration_ms,
    )  # fmt: skip
