"""Attacks: every hole that was once found by hand is closed, and a test says so.

``proofs/attacks.toml`` lists the holes by severity, and what was attacked and held, each with the
tests that try it. All of them are run here. A hole without a test counts as open, and so does one
whose test is skipped on this machine.

Where ``TURNTREE_PROOF_OUTCOMES`` names what ``proofs.drills.outcomes`` recorded of a run of the
whole suite, the quick form reads that instead of running the same tests again. CI does so.

The whole form lets more races be run, and takes the fixes of everything critical and high out of a
copy of the tree again, one at a time (``proofs/mutants.toml``): its test must notice.
"""

import asyncio
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proofs.drills import outcomes
from proofs.drills.mutation import ROOT, Copy, Mutant, Seen, load_mutants, read_outcomes
from proofs.figures import Proof, run
from proofs.mutants import find

LIST: Final = Path(__file__).with_suffix(".toml")
SEVERITIES: Final = ("critical", "high", "medium", "low")
HELD: Final = "held"
"""What was attacked and not broken: it stays so."""
MUST_BE_NOTICED: Final = ("critical", "high")
RACES: Final = 470
PROCESSES: Final = "2"


@dataclass(frozen=True, slots=True)
class Attack:
    """Something that was tried by hand."""

    name: str
    severity: str
    tests: tuple[str, ...] = ()
    """Tests that try it; a name without parameters stands for all of them."""
    fixes: tuple[str, ...] = ()
    """The mutants that take its fix out again."""


def load_attacks() -> list[Attack]:
    """Return every attack of the list."""
    rows = tomllib.loads(LIST.read_text(encoding="utf-8"))["attack"]
    return [
        Attack(
            row["name"], row["severity"], tuple(row.get("tests", ())), tuple(row.get("fixes", ()))
        )
        for row in rows
    ]


async def prove(proof: Proof) -> None:
    """Run the tests of every attack, and say how many holes are closed."""
    attacks = [attack for attack in load_attacks() if proof.wants(attack.name)]
    if not proof.quick:
        os.environ["TURNTREE_TEST_RACES"] = str(RACES)
    tests = sorted({test for attack in attacks for test in attack.tests})
    recorded = os.environ.get(outcomes.FILE)
    if proof.quick and recorded is not None:
        seen = read_outcomes(Path(recorded), tests)
    else:
        options = ("-n", PROCESSES, "--dist", "worksteal")
        seen = await asyncio.to_thread(Copy(ROOT).test, tests, *options)
    for severity in (*SEVERITIES, HELD):
        show(proof, severity, [one for one in attacks if one.severity == severity], seen)
    proof.note("tests that attack", len(tests), "tests")
    if not proof.quick:
        await prove_fixes(proof, attacks)


def show(proof: Proof, severity: str, attacks: Sequence[Attack], seen: Mapping[str, Seen]) -> None:
    """Show how many attacks of a severity fail."""
    for attack in attacks:
        for test in attack.tests:
            if seen[test] != "passed":
                say(f"  {severity}: {attack.name}: {test} {seen[test]}")
        if not attack.tests:
            say(f"  {severity}: {attack.name}: no test")
    closed = sum(is_closed(attack, seen) for attack in attacks)
    figure = "attacked and not broken" if severity == HELD else f"{severity}: holes closed"
    proof.at_least(figure, closed, "attacks", len(attacks))


def is_closed(attack: Attack, seen: Mapping[str, Seen]) -> bool:
    """Say whether an attack is tried and fails."""
    return bool(attack.tests) and all(seen[test] == "passed" for test in attack.tests)


async def prove_fixes(proof: Proof, attacks: Sequence[Attack]) -> None:
    """Take out each fix that must be noticed, and see whether it is."""
    known = {mutant.name: mutant for mutant in load_mutants()}
    urgent = [attack for attack in attacks if attack.severity in MUST_BE_NOTICED]
    for attack in urgent:
        if not attack.fixes:
            say(f"  {attack.severity}: {attack.name}: no fix of it is ever taken out")
    planned = sum(bool(attack.fixes) for attack in urgent)
    proof.at_least("critical and high: with a fix to take out", planned, "holes", len(urgent))
    mutants = [known[name] for name in sorted({fix for one in urgent for fix in one.fixes})]
    noticed = await asyncio.to_thread(count_noticed, mutants)
    proof.at_least("critical and high: fixes whose loss is noticed", noticed, "fixes", len(mutants))


def count_noticed(mutants: Sequence[Mutant]) -> int:
    """Return how many fixes are missed when they are taken out."""
    _, missed = find(mutants)
    for problem in missed:
        say(f"  not noticed: {problem}")
    return len(mutants) - len(missed)


def say(words: str) -> None:
    """Tell how far it has come."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(prove, __doc__.partition("\n")[0])
