"""The list of attacks is alive: its tests are there, and what is urgent can be taken out again."""

import pytest

from proofs.attacks import HELD, MUST_BE_NOTICED, SEVERITIES, Attack, is_closed, load_attacks
from proofs.drills.mutation import ROOT, load_mutants

ATTACKS = load_attacks()
FOUND_BY_HAND = {"critical": 4, "high": 6, "medium": 8, "low": 10}


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
