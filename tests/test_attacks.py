"""The list of attacks is alive: its tests are there, and what is urgent can be taken out again."""

import json
from pathlib import Path

import anyio
import pytest

from proofs.attacks import (
    HELD,
    MUST_BE_NOTICED,
    SEVERITIES,
    Attack,
    is_closed,
    load_attacks,
    prove,
)
from proofs.drills import outcomes
from proofs.drills.mutation import ROOT, load_mutants
from proofs.figures import Proof

ATTACKS = load_attacks()
FOUND_BY_HAND = {"critical": 4, "high": 17, "medium": 21, "low": 17}


def test_every_hole_that_was_found_is_listed() -> None:
    counts = {one: sum(a.severity == one for a in ATTACKS) for one in (*SEVERITIES, HELD)}
    assert counts.pop(HELD) > 0
    assert counts == FOUND_BY_HAND


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_what_tries_it_is_still_there(attack: Attack) -> None:
    known = {mutant.name for mutant in load_mutants()}
    assert set(attack.fixes) <= known
    for test in attack.tests:
        path, *_, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_a_hole_is_closed_if_all_of_its_tests_passed_and_there_is_one() -> None:
    hole = Attack("a hole", MUST_BE_NOTICED[0], ("one", "two"))
    assert is_closed(hole, {"one": "passed", "two": "passed"})
    for seen in ("failed", "skipped", "broken", "missing"):
        assert not is_closed(hole, {"one": "passed", "two": seen})
    assert not is_closed(Attack("a hole", MUST_BE_NOTICED[0]), {})


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ({"when": "call", "outcome": "passed"}, 0),
        ({"when": "call", "outcome": "failed"}, 1),
        ({"when": "setup", "outcome": "skipped"}, 1),
        (None, 1),
    ],
    ids=["passed", "failed", "skipped", "missing"],
)
def test_quick_form_with_recorded_outcomes_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: dict[str, str] | None, short: int
) -> None:
    recorded = tmp_path / "outcomes"
    monkeypatch.setenv(outcomes.FILE, str(recorded))
    first, *others = sorted({test for attack in ATTACKS for test in attack.tests})
    lines = [{"test": test, "when": "call", "outcome": "passed"} for test in others]
    lines += [] if line is None else [{"test": f"{first}[a]", **line}]
    recorded.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    proof = Proof(quick=True, seed=0)
    anyio.run(prove, proof)
    assert sum(not figure.ok for figure in proof.figures) == short
