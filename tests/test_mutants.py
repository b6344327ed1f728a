"""The list of planted bugs is alive: each still fits the code, and its test is still there."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from proofs.drills.mutation import (
    ROOT,
    SUBJECTS,
    Copy,
    Mutant,
    load_mutants,
    load_own_mutants,
    seen_of,
)
from proofs.mutants import MUTANTS_MIN, Verdict, is_short, judge_proof

MUTANTS = load_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_can_still_be_planted(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, mutant.file
    assert mutant.new != mutant.old
    if mutant.file.endswith(".py"):
        ast.parse(text.replace(mutant.old, mutant.new))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_must_find_it_is_still_there(mutant: Mutant) -> None:
    path, *_, name = mutant.test.partition("[")[0].split("::")
    file = ROOT / path
    # A test of a contract stands where the contract does.
    contracts = (ROOT / "src/turntree/testing/contracts").glob("*.py")
    texts = [one.read_text(encoding="utf-8") for one in (file, *contracts)]
    assert any(f"def {name}(" in text for text in texts), mutant.test


def test_every_subject_has_bugs_and_one_that_is_planted_each_time() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN
    assert {mutant.subject for mutant in MUTANTS} == set(SUBJECTS)
    assert Counter(m.subject for m in MUTANTS if m.quick) == Counter(SUBJECTS)
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1


def test_the_proofs_have_bugs_of_their_own() -> None:
    names = {mutant.name for mutant in MUTANTS}
    own = load_own_mutants()
    assert {name for listed in own.values() for name in listed} <= names
    for proof in own:
        assert (Path(ROOT) / f"proofs/{proof.replace('-', '_')}.py").is_file()


def test_a_proof_falls_short_by_a_truth_alone() -> None:
    assert is_short(b'{"figure": "lost", "ok": false, "of": "truth"}')
    assert not is_short(b'{"figure": "lost", "ok": true, "of": "truth"}')
    assert not is_short(b'{"figure": "wait", "ok": false, "of": "time"}')
    assert not is_short(b"Traceback")


@pytest.mark.parametrize(
    ("figure", "error", "verdict"),
    [
        ({"figure": "lost", "ok": False, "of": "truth"}, "Error", "found"),
        ({"figures": 3, "short": 0}, "", "missed"),
        ({"figure": "lost", "ok": True, "of": "truth"}, "Error", "broken"),
        ({"figure": "lost", "ok": False, "of": "truth"}, "cannot run here: no disk", "broken"),
    ],
)
def test_a_proof_that_breaks_has_found_nothing(
    tmp_path: Path, figure: dict[str, object], error: str, verdict: Verdict
) -> None:
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs/some_proof.py").write_text(
        f"import json, sys\nprint({error!r}, file=sys.stderr, flush=True)\n"
        f"print(json.dumps({figure!r}), flush=True)\n"
    )
    assert judge_proof(Copy(tmp_path), "some-proof")[0] == verdict


def test_a_test_that_never_came_to_its_end_has_found_nothing() -> None:
    passed = {"test": "a.py::b[1]", "when": "call", "outcome": "passed"}
    skipped = {**passed, "when": "setup", "outcome": "skipped"}
    broken = {**passed, "when": "setup", "outcome": "failed"}
    failed = {**passed, "test": "a.py::b[2]", "outcome": "failed"}
    assert seen_of("a.py::b", []) == "missing"
    assert seen_of("a.py::b", [{**passed, "test": "a.py::bc"}]) == "missing"
    assert seen_of("a.py::b", [passed]) == "passed"
    assert seen_of("a.py::b", [passed, skipped]) == "skipped"
    assert seen_of("a.py::b", [passed, broken]) == "broken"
    assert seen_of("a.py::b", [passed, failed]) == "failed"
    assert seen_of("a.py", [passed, failed]) == "failed"
