"""How CI judges a proof: truths once, times with patience, errors with a little."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.figures import Proof
from proofs.gate import Attempt, judge, part_to_repeat, read_attempt

ROOT = Path(__file__).parent.parent
PREAMBLE = """
import sys
from pathlib import Path
from proofs.figures import Proof

proof = Proof(quick=True, seed=0)
before = Path(__file__).with_suffix(".ran")
attempt = len(before.read_text()) if before.exists() else 0
before.write_text("x" * (attempt + 1))
"""


def seen(*figures: tuple[str, float, str, str], unit: str = "ms") -> Attempt:
    """What was read from a proof whose figures fell short."""
    lines: list[dict[str, object]] = [
        {"figure": name, "value": value, "unit": unit, "bar": bar, "ok": False, "of": of}
        for name, value, bar, of in figures
    ]
    ends = [*lines, {"figures": len(lines), "short": len(lines)}]
    return read_attempt("\n".join(map(json.dumps, ends)), 1 if figures else 0)


HELD = seen()
BROKEN = read_attempt("Traceback", 1)


def verdict(*attempts: Attempt) -> str | None:
    found = judge(attempts)
    return None if found is None else found.kind


def test_what_reaches_its_bars_holds() -> None:
    assert verdict(HELD) == "holds"


def test_a_time_that_falls_short_is_taken_again_and_holds_if_it_was_reached_once() -> None:
    slow, far = seen(("wait", 1.2, "<= 1.0", "time")), seen(("wait", 2.0, "<= 1.0", "time"))
    assert verdict(far) is None
    assert verdict(far, far) is None
    assert verdict(far, far, HELD) == "holds"
    assert verdict(far, slow) == "slow"
    assert verdict(slow, seen(("load", 1.2, "<= 1.0", "time"))) == "holds"


@pytest.mark.parametrize(
    ("value", "bar", "unit", "said"),
    [
        (1.5, "<= 1.0", "ms", "slow"),
        (1.6, "<= 1.0", "s", "failed"),
        (1.15, "<= 1.0", "x", "slow"),
        (1.2, "<= 1.0", "x", "failed"),
        (1.05, "<= 1.0", "transactions", "failed"),
        (0.55, ">= 0.6", "x", "slow"),
        (0.5, ">= 0.6", "x", "failed"),
        (0.0, ">= 0.6", "x", "failed"),
        (1.0, "<= 0", "s", "failed"),
    ],
)
def test_a_time_that_falls_short_always_is_pardoned_near_its_bar(
    value: float, bar: str, unit: str, said: str
) -> None:
    slow = seen(("wait", value, bar, "time"), unit=unit)
    assert verdict(slow, slow, slow) == said


def test_the_best_attempt_counts() -> None:
    near, far = seen(("wait", 1.2, "<= 1.0", "time")), seen(("wait", 9.0, "<= 1.0", "time"))
    assert verdict(far, near, far) == "slow"


def test_one_time_beyond_pardon_is_enough_to_fail() -> None:
    both = seen(("wait", 1.2, "<= 1.0", "time"), ("load", 2.0, "<= 1.0", "time"))
    assert verdict(both, both, both) == "failed"


def test_a_truth_is_never_pardoned_nor_tried_again() -> None:
    assert verdict(seen(("lost", 1, "<= 0", "truth"))) == "failed"
    assert verdict(seen(("turns", 99, ">= 100", "truth"))) == "failed"
    slow = seen(("wait", 1.2, "<= 1.0", "time"))
    assert verdict(slow, seen(("turns", 99, ">= 100", "truth"))) == "failed"


def test_an_error_is_tried_once_more_and_is_told_of() -> None:
    assert verdict(BROKEN) is None
    assert verdict(BROKEN, HELD) == "unsteady"
    assert verdict(BROKEN, BROKEN) == "failed"
    slow = seen(("wait", 1.2, "<= 1.0", "time"))
    assert verdict(BROKEN, slow, slow, slow) == "slow"
    assert verdict(slow, BROKEN, slow, BROKEN) == "failed"


def test_part_to_repeat_is_the_only_part_that_fell_short(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def of(*parts: str | None) -> str | None:
        proof = Proof(quick=True, seed=0)
        for part in parts:
            if part is not None:
                assert proof.begins(part)
            proof.at_most(f"wait {part}", 2, "ms", 1, of="time")
        status = proof.conclude()
        return part_to_repeat(read_attempt(capsys.readouterr().out, status))

    assert of("load") == "load"
    assert of("load", "load") == "load"
    assert of("load", "fork") is None
    assert of(None) is None
    assert of(None, "load") is None
    assert part_to_repeat(BROKEN) is None


def test_only_with_several_words_wants_a_part_for_each() -> None:
    proof = Proof(quick=True, seed=0, only="cost,version")
    wanted = [part for part in ("cost", "opens", "version") if proof.wants(part)]
    assert wanted == ["cost", "version"]


def test_part_that_was_not_asked_for_begins_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    proof = Proof(quick=True, seed=0, only="load")
    assert proof.begins("load")
    assert not proof.begins("fork")
    proof.note("turns", 1, "turns")
    assert json.loads(capsys.readouterr().out)["part"] == "load"


@pytest.mark.parametrize("status", [0, 1, 2, -9])
def test_without_its_last_line_a_proof_ended_in_an_error(status: int) -> None:
    short = {
        "figure": "wait",
        "value": 1.2,
        "unit": "x",
        "bar": "<= 1.0",
        "ok": False,
        "of": "time",
    }
    for output in ("", "Traceback", json.dumps(short)):
        assert read_attempt(output, status).error is not None


def test_an_error_after_the_last_line_is_an_error() -> None:
    assert read_attempt('{"figures": 1, "short": 0}', 1).error is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "body", "attempts", "status", "told"),
    [
        ("truth", "proof.at_most('lost', 0, 'turns', 0)", 1, 0, ""),
        (
            "truth",
            "proof.at_most('lost', 1, 'turns', 0)",
            1,
            1,
            "!!! failed: sample: lost: 1 turns",
        ),
        ("time", "proof.at_most('wait', 2 - attempt, 'ms', 1, of='time')", 2, 0, ""),
        (
            "time",
            "proof.at_most('wait', 1.25, 'ms', 1, of='time')",
            1,
            0,
            "SLOW on this machine: sample: wait: 1.25 ms, wanted <= 1",
        ),
        ("time", "proof.at_most('wait', 2, 'ms', 1, of='time')", 3, 1, "!!! failed: sample: wait"),
        (
            "time",
            "proof.at_most('wait', 2, 'ms', 1, of='time'); 1 / 0",
            2,
            1,
            "!!! failed: sample: it ended in an error",
        ),
        (
            "truth",
            "proof.at_most('lost', 0, 'turns', 0); 1 / attempt",
            2,
            0,
            "UNSTEADY: sample: it ended in an error",
        ),
    ],
)
def test_a_proof_is_run_as_often_as_it_needs_and_the_verdict_is_told_twice(
    tmp_path: Path, of: str, body: str, attempts: int, status: int, told: str
) -> None:
    (tmp_path / "proofs").mkdir()
    sample = tmp_path / "proofs/sample.py"
    sample.write_text(f"{PREAMBLE}{body}\nsys.exit(proof.conclude())\n")
    found = tmp_path / "verdicts"
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.gate", of, "sample", "--verdicts", str(found)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'src'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert sample.with_suffix(".ran").read_text() == "x" * attempts
    assert ended.stdout.count('{"figure": ') == attempts
    assert told in ended.stdout
    assert found.read_text().startswith(told)
    assert bool(found.read_text()) == bool(told)


@pytest.mark.slow
def test_proof_with_a_part_is_asked_for_that_part_only(tmp_path: Path) -> None:
    (tmp_path / "proofs").mkdir()
    sample = tmp_path / "proofs/some_sample.py"
    sample.write_text(
        "import sys\nfrom proofs.figures import Proof\n"
        "proof = Proof(quick=True, seed=0)\n"
        "proof.at_least(' '.join(sys.argv[1:]), 1, 'runs', 1)\n"
        "sys.exit(proof.conclude())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.gate", "truth", "some-sample:one,two"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'src'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert '"figure": "--quick --only one,two"' in ended.stdout
    assert "s  some-sample:one,two" in ended.stdout.splitlines()[-1]
