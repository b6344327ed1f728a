"""Records that no tool would write: nothing in a file makes an importer raise."""

import random
from pathlib import Path

import pytest

from proofs.transcripts.mutations import mutated, mutated_bytes
from proofs.transcripts.samples import SAMPLES
from turntree.boot.open import load_importers
from turntree.core.principal import Principal
from turntree.testing.contracts.importer import check_importer, check_sessions
from turntree.transcripts.drafts import seal_drafts

pytestmark = pytest.mark.slow

CASES = 150


def test_every_importer_has_a_sample() -> None:
    assert SAMPLES.keys() == load_importers().keys()


@pytest.mark.parametrize("origin", SAMPLES)
def test_a_sample_keeps_the_contract(origin: str, tmp_path: Path) -> None:
    assert len(check_importer(load_importers()[origin], SAMPLES[origin](tmp_path))) >= 3


@pytest.mark.parametrize("origin", SAMPLES)
def test_records_that_make_no_sense_raise_nothing(origin: str, tmp_path: Path) -> None:
    importer, dice = load_importers()[origin], random.Random(origin)
    for bundle in importer.open(SAMPLES[origin](tmp_path)):
        records = list(importer.read(bundle))
        for _ in range(CASES):
            projection = importer.project(bundle, mutated(records, dice))
            check_sessions(projection)
            list(seal_drafts(projection, Principal("agent", origin)))


@pytest.mark.parametrize("origin", SAMPLES)
def test_damaged_files_are_read_or_said_to_be_unreadable(origin: str, tmp_path: Path) -> None:
    importer, dice = load_importers()[origin], random.Random(origin)
    SAMPLES[origin](tmp_path)
    files = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
    for _ in range(CASES // 5):
        file = dice.choice([*files])
        file.write_bytes(mutated_bytes(files[file], dice))
        for bundle in importer.open(tmp_path):
            try:
                records = list(importer.read(bundle))
            except OSError:
                continue
            importer.project(bundle, records)
        file.write_bytes(files[file])
