"""The contract of importers, as checks that authors can run on their own files.

    from turntree.testing.contracts.importer import check_importer
    check_importer(MyImporter(), Path("fixtures"))

A failed check raises ``AssertionError`` and says which promise was broken.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from turntree.core.principal import Principal
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import Projection, SealedDraft, seal_drafts
from turntree.transcripts.importer import Importer, TranscriptRef

_HOSTILE = (
    b"", b"{", b"null", b"[]", b"7", b'"x"', b"{}", b'{"type":null}', b'{"type":"never-heard-of"}',
    b"\x00\x00", b"\xff\xfe\xff", b'{"type":"user","message":"\\ud800"}', b'{"a":' + b"[" * 300,
)  # fmt: skip


def check_importer(importer: Importer, path: Path) -> list[SealedDraft]:
    """Check every promise on the transcripts under a path and return their turns."""
    bundles = sorted(importer.open(path), key=lambda bundle: bundle.id)
    assert bundles, f"{importer.origin} finds nothing in {path}"
    assert len({bundle.id for bundle in bundles}) == len(bundles), "a bundle's id is its own"
    turns: list[SealedDraft] = []
    for bundle in bundles:
        records = list(importer.read(bundle))
        turns += _check_projection(importer, bundle, records)
        _check_hostile(importer, bundle, records)
    return turns


def check_sessions(projection: Projection) -> None:
    """Check that each session occurs once and its head is a turn of the projection."""
    keys = {turn.key for turn in projection.turns}
    ids = [session.id for session in projection.sessions]
    assert len(set(ids)) == len(ids), "a session comes once"
    for session in projection.sessions:
        assert session.head is None or session.head in keys, "a head is a turn of the projection"
        assert session.label, "a session has a label"
        if (spawn := session.spawn) is not None:
            assert spawn.parent_turn in keys, "a spawning turn is one of the projection"


def _check_projection(
    importer: Importer, bundle: TranscriptRef, records: Sequence[RawRecord]
) -> list[SealedDraft]:
    assert bundle.origin == importer.origin, "a bundle names its importer"
    assert list(importer.read(bundle)) == list(records), "reading twice gives the same records"
    projection = importer.project(bundle, records)
    assert projection == importer.project(bundle, records), "projecting twice gives the same"
    stored = replace(bundle, files=())
    assert projection == importer.project(stored, records), "stored records have no files"
    by = Principal("agent", importer.origin)
    sealed = list(seal_drafts(projection, by))
    again = list(seal_drafts(projection, by))
    assert [turn.sealed.turn.id for turn in sealed] == [turn.sealed.turn.id for turn in again]
    check_sessions(projection)
    for turn in projection.turns:
        assert all(0 <= place < len(records) for place in turn.records), "places of records"
        assert all(said.nonce is None for said in (*turn.query, *turn.reply)), "no nonce"
    return sealed


def _check_hostile(importer: Importer, bundle: TranscriptRef, records: Sequence[RawRecord]) -> None:
    """Check that odd, cut and missing records change the result and never raise."""
    by = Principal("agent", importer.origin)
    file = records[0].file if records else bundle.files[0].name
    strange = [RawRecord(file, number, data) for number, data in enumerate(_HOSTILE)]
    halves = [replace(record, data=record.data[: len(record.data) // 2]) for record in records]
    importer.project(replace(bundle, files=()), [])
    for told in (
        [],
        strange,
        [*records, *strange],
        [*strange, *records],
        halves,
        list(records[::2]),
        list(records[: len(records) // 2]),
        list(reversed(records)),
        [*records, *records],
    ):
        projection = importer.project(bundle, told)
        list(seal_drafts(projection, by))
        check_sessions(projection)
