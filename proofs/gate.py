"""Runs proofs as CI does: those of truth three at a time, those of time alone or two at a time.

    python -m proofs.gate truth digests plans
    python -m proofs.gate time flat-cost fsck:clean
    python -m proofs.gate waits engine-cost:turn first-hours

``waits`` is for times of proofs that mostly wait: two of them leave each other a processor.

A word after a colon is for ``--only``: so a proof can be run in parts, its truths beside others and
its times alone.

A truth that falls short once is false. A proof that ends in an error is tried once more, and told
as unsteady if it holds then. A figure of time may be spoilt by a neighbour on the machine: it
counts as reached if one attempt of three reaches it. If all figures that fell short belong to one
part of the proof, the next attempt takes that part alone. One whose best attempt stays near its bar
(seconds within 1.5 times of it, a ratio of times within 1.15; a count, never) is told loudly as
slow, and not tried again: another attempt could not change that it passes. One that is farther away
in every attempt fails. ``just prove`` knows no such patience.

The last lines say how long each proof took, the longest first: that is where the gate's time goes.

Knows what a proof prints. Must never know what a proof is about.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

AT_ONCE = {"truth": 3, "waits": 2, "time": 1}
ATTEMPTS_MAX = 3
ERRORS_MAX = 1
ATTEMPT_MAX_S = 900
"""A proof that hangs would hide what every other one has to say."""
CLOCK_UNITS = frozenset({"s", "ms", "us"})
CLOCK_PARDON = 1.5
RATIO_PARDON = 1.15
"""Both sides of a ratio were measured on the same machine: noise spoils it less."""

WORDS = {"slow": "SLOW on this machine", "unsteady": "UNSTEADY", "failed": "!!! failed"}

_speaking = threading.Lock()
_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Short:
    """A figure below its bar."""

    figure: str
    told: str
    is_time: bool
    times_the_bar: float
    """How far it is from its bar: 1.2 for a fifth more time, or a fifth less speed."""
    pardon: float
    """How far it may be, on a machine that others use too."""
    part: str | None = None
    """The part of the proof that shows it, if the proof has parts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one run of a proof showed."""

    short: tuple[Short, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of a proof in the end."""

    kind: Literal["holds", "slow", "unsteady", "failed"]
    why: tuple[str, ...] = ()


def read_attempt(output: str, status: int) -> Attempt:
    """Return what a proof's lines and its status say."""
    lines = [line for line in map(_document, output.splitlines()) if line]
    short = tuple(_short(line) for line in lines if "figure" in line and not line["ok"])
    counted = lines[-1].get("short") if lines else None
    if counted != len(short) or status != (1 if short else 0):
        return Attempt(short, f"it ended in an error, with status {status}")
    return Attempt(short)


def judge(attempts: Sequence[Attempt]) -> Verdict | None:
    """Return the verdict, or None while another attempt may change it."""
    *_, last = attempts
    errors = tuple(one.error for one in attempts if one.error is not None)
    false = tuple(one.told for one in last.short if not one.is_time)
    if false or len(errors) > ERRORS_MAX:
        return Verdict("failed", (*false, *errors))
    if last.error is not None:
        return None
    ended = [one for one in attempts if one.error is None]
    always = set[str].intersection(*({one.figure for one in a.short} for a in ended))
    if not always:
        return Verdict("unsteady", errors) if errors else Verdict("holds")
    best = [
        min(
            (one for a in ended for one in a.short if one.figure == figure),
            key=lambda one: one.times_the_bar,
        )
        for figure in sorted(always)
    ]
    why = (*(one.told for one in best), *errors)
    if all(one.times_the_bar <= one.pardon for one in best):
        return Verdict("slow", why)
    return Verdict("failed", why) if len(ended) == ATTEMPTS_MAX else None


def part_to_repeat(last: Attempt) -> str | None:
    """Return the only part of the proof that the next attempt has to take, or None for all."""
    parts = {short.part for short in last.short}
    return parts.pop() if len(parts) == 1 and last.error is None else None


def main() -> int:
    """Run the proofs that were asked for and return the exit status of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("of", choices=[*AT_ONCE])
    parser.add_argument("proofs", nargs="+")
    parser.add_argument("--verdicts", type=Path, help="a file that is told what does not hold")
    asked = parser.parse_args()
    began = time.monotonic()
    # A shell's background job ignores Ctrl-C, and so would every program that a proof interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ThreadPoolExecutor(AT_ONCE[asked.of]) as pool:
        try:
            outcomes = list(pool.map(lambda name: timed(name, began), asked.proofs))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in tuple(_running):
                _end(process)
            os._exit(130)
    _say(began, "how long each took", *_list_times(asked.proofs, [took for _, took in outcomes]))
    verdicts = [verdict for verdict, _ in outcomes]
    if asked.verdicts is not None:
        with asked.verdicts.open("a", encoding="utf-8") as file:
            for name, verdict in zip(asked.proofs, verdicts, strict=True):
                file.writelines(f"{line}\n" for line in _told(name, verdict))
    return 1 if any(verdict.kind == "failed" for verdict in verdicts) else 0


def timed(name: str, began: float) -> tuple[Verdict, float]:
    """Run one proof, and return its verdict and the seconds it took with all its attempts."""
    start = time.monotonic()
    verdict = prove(name, began)
    return verdict, time.monotonic() - start


def prove(name: str, began: float) -> Verdict:
    """Run one proof as often as it needs, telling each run when it is over."""
    attempts: list[Attempt] = []
    verdict: Verdict | None = None
    while verdict is None:
        part = part_to_repeat(attempts[-1]) if attempts else None
        _say(began, f"proof: {name} begins" if part is None else f"proof: {name} begins: {part}")
        output, status = _run(name, *([] if part is None else ["--only", part]))
        attempts.append(read_attempt(output, status))
        verdict = judge(attempts)
        lines = [f"attempt {len(attempts)} fell short: {one.told}" for one in attempts[-1].short]
        lines += [] if verdict is None else _told(name, verdict)
        said = "once more" if verdict is None else verdict.kind
        _say(began, f"proof: {name}: {said}", output, *lines)
    return verdict


def _list_times(names: Sequence[str], seconds: Sequence[float]) -> list[str]:
    longest_first = sorted(zip(seconds, names, strict=True), reverse=True)
    return [f"{took:6.1f} s  {name}" for took, name in longest_first]


def _told(name: str, verdict: Verdict) -> list[str]:
    return [f"{WORDS[verdict.kind]}: {name}: {why}" for why in verdict.why]


def _run(name: str, *options: str) -> tuple[str, int]:
    module, _, part = name.partition(":")
    if part and not options:
        options = ("--only", part)
    command = [sys.executable, "-m", f"proofs.{module.replace('-', '_')}", "--quick", *options]
    with tempfile.TemporaryFile() as file:
        # A group of its own, so that a proof that hangs takes its programs along when it is ended.
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        _running.add(process)
        try:
            status = process.wait(ATTEMPT_MAX_S)
        except subprocess.TimeoutExpired:
            file.write(f"it did not end within {ATTEMPT_MAX_S} s\n".encode())
            status = -signal.SIGKILL
        finally:
            _end(process)
            _running.discard(process)
        file.seek(0)
        return file.read().decode(errors="replace"), status


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _document(line: str) -> dict[str, object]:
    try:
        found: object = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _short(line: dict[str, object]) -> Short:
    value, bar = float(str(line["value"])), str(line["bar"])
    direction, _, number = bar.partition(" ")
    above, below = (value, float(number)) if direction == "<=" else (float(number), value)
    told = f"{line['figure']}: {value:g} {line['unit']}, wanted {bar}"
    return Short(
        str(line["figure"]),
        told,
        line.get("of") == "time",
        above / below if below > 0 else float("inf"),
        CLOCK_PARDON if line["unit"] in CLOCK_UNITS else RATIO_PARDON if line["unit"] == "x" else 1,
        cast("str | None", line.get("part")),
    )


def _say(began: float, heading: str, *paragraphs: str) -> None:
    with _speaking:
        print(f"--- [{time.monotonic() - began:4.0f} s] {heading}")
        for paragraph in paragraphs:
            print(paragraph.rstrip("\n"))
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
