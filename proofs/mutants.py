"""Mutants: bugs planted on purpose, one at a time, are each found by the test that is named for it.

The bugs stand in ``proofs/mutants.toml``: in locks, fences, policies, digests, redaction, paths,
fsync and permissions. Each is put into a copy of the tree, where its test must fail; without the
bug that test must pass. ``--quick`` takes one bug of each subject.

``--proofs`` runs the proofs of reliability instead, whole, on the bugs that a table names as their
own: each must fall short. That takes hours. With ``--quick`` it runs their quick forms, which find
most of them.
"""

import asyncio
import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Literal

from proofs.drills.mutation import (
    SUBJECTS,
    Copy,
    Mutant,
    end,
    lend_copy,
    load_mutants,
    load_own_mutants,
)
from proofs.figures import Proof, run

MUTANTS_MIN = 60
WORKERS_MAX = 2

Verdict = Literal["found", "missed", "broken"]


async def prove(proof: Proof) -> None:
    """Plant every bug that was asked for, and count those that were found."""
    if "proofs" in proof.flags:
        prove_proofs(proof)
        return
    mutants = [one for one in load_mutants() if proof.wants(one.name)]
    chosen = [one for one in mutants if one.quick or not proof.quick]
    sound, missed = await asyncio.to_thread(find, chosen)
    for problem in missed:
        say(f"  missed: {problem}")
    if proof.only is None:
        wanted = len(SUBJECTS) if proof.quick else MUTANTS_MIN
        proof.at_least("bugs planted", len(chosen), "bugs", wanted)
        subjects = len({one.subject for one in chosen})
        proof.at_least("subjects with a bug", subjects, "subjects", len(SUBJECTS))
    tests = len({one.test for one in chosen})
    proof.at_least("their tests that pass without a bug", sound, "tests", tests)
    proof.at_least("bugs found", len(chosen) - len(missed), "bugs", len(chosen))


def find(mutants: Sequence[Mutant]) -> tuple[int, list[str]]:
    """Return how many tests pass without a bug, and which bugs are not found by theirs."""
    with ExitStack() as stack:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        workers = min(os.cpu_count() or 1, WORKERS_MAX)
        for _ in range(workers):
            copies.put(stack.enter_context(lend_copy()))

        def judge(mutant: Mutant) -> str | None:
            copy = copies.get()
            try:
                with copy.planted(mutant):
                    (seen,) = copy.test([mutant.test], "-x").values()
            finally:
                copies.put(copy)
            say(f"{'found' if seen == 'failed' else seen.upper()}: {mutant.name}")
            return None if seen == "failed" else f"{mutant.name}: {mutant.test} {seen}"

        copy = copies.get()
        calm = copy.test(sorted({one.test for one in mutants}), "-n", str(workers))
        copies.put(copy)
        for test, seen in calm.items():
            if seen != "passed":
                say(f"  without a bug: {test} {seen}")
        with ThreadPoolExecutor(workers) as pool:
            missed = [told for told in pool.map(judge, mutants) if told is not None]
        return sum(seen == "passed" for seen in calm.values()), missed


def prove_proofs(proof: Proof) -> None:
    """Run each proof on each of its own bugs."""
    options = ["--quick"] if proof.quick else []
    mutants = {one.name: one for one in load_mutants()}
    with lend_copy() as copy:
        for name, listed in load_own_mutants().items():
            own = [mutant for mutant in listed if proof.wants(f"{name}: {mutant}")]
            found = 0
            for mutant in own:
                with copy.planted(mutants[mutant]):
                    verdict, why = judge_proof(copy, name, *options)
                found += verdict == "found"
                say(
                    f"{name}: {verdict if verdict == 'found' else verdict.upper()}: {mutant}: {why}"
                )
            if own:
                proof.at_least(f"{name}: its own bugs found", found, "bugs", len(own))


def judge_proof(copy: Copy, name: str, *options: str) -> tuple[Verdict, str]:
    """Return whether a proof finds the bug in its copy, and the words that say so.

    A proof that falls short is ended at once. One that ends in an error, or cannot run on this
    machine, has not found anything: it may well do the same without the bug.
    """
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-m", f"proofs.{name.replace('-', '_')}", *options],
            cwd=copy.folder,
            env=copy.environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None, "it was asked for"
        short, last = b"", b""
        try:
            for last in process.stdout:
                if is_short(last):
                    short = last
                    break
        finally:
            end(process)
        errors.seek(0)
        told = errors.read().decode(errors="replace").splitlines()
    if obstacle := next((line for line in told if line.startswith("cannot run here")), None):
        return "broken", obstacle
    if short:
        return "found", read_figure(short)["figure"]
    if "short" in read_figure(last):
        return "missed", "it shows all that it claims"
    return "broken", " ".join(told[-2:])


def is_short(line: bytes) -> bool:
    """Say whether a line of a proof tells of a truth that does not hold."""
    told = read_figure(line)
    return told.get("of") == "truth" and not told["ok"]


def read_figure(line: bytes) -> dict[str, Any]:
    """Return a line of a proof as an object, which is empty if the line is anything else."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def say(words: str) -> None:
    """Tell how far it has come."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    flags = {"proofs": "run each proof on its own bugs instead of tests"}
    run(prove, __doc__.partition("\n")[0], flags)
