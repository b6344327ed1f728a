"""The ledger beside a model of itself, step by step; the proof ``durability`` walks further."""

import pytest

from proofs.drills import plants
from proofs.drills.walk import take_walk

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize(("seed", "steps"), [(1, 300), (2, 500), (3, 700)])
async def test_ledger_matches_model(conninfo: str, seed: int, steps: int) -> None:
    walked = await take_walk(conninfo, seed, steps)
    assert walked.problems == ()
    assert walked.steps == steps


async def test_walk_with_same_seed_is_deterministic(conninfo: str) -> None:
    calm = await take_walk(conninfo, 4, 60, look_every=60)
    nervous = await take_walk(conninfo, 4, 60, look_every=1)
    assert calm == nervous


async def test_walk_detects_segment_off_by_one(conninfo: str) -> None:
    await plants.install(conninfo, plants.OFF_BY_ONE)
    walked = await take_walk(conninfo, 5, 250)
    assert len(walked.problems) == 1
    assert walked.problems[0].startswith(f"seed 5, step {walked.steps} ")
