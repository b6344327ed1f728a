"""The claim: what runs untrusted code lets nothing out, and a decision of a policy costs little.

Every attempt of the sandbox contract is made in both lanes of policies: as a process in the
sandbox, and, if it is Python, as a function in Monty. Every attack on the tools of the workbench is
made on ``shell.exec`` and ``fs.*``, and those that a process can make also by a tool server that a
person has connected, which does whatever it is told. Faults are planted in its sandbox, to see that
the same attacks find them. Then decisions of the shipped policy are timed: in Monty, and as a
process beside two starts of a bare interpreter in the same rounds.

Not here: a server that its user lets run outside of every sandbox.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from proofs.attacked_server import SERVER_ATTACKS, a_hostile_server
from proofs.figures import Proof, run
from proofs.own_tools import ATTACKS, attack
from turntree.boot.open import CODE_SANDBOX, find_sandboxes
from turntree.policy.call import JudgedCall
from turntree.policy.evaluate import Evaluator
from turntree.policy.local import shipped_policy
from turntree.policy.policy import Policy
from turntree.sandbox.monty import MontyError, MontyLane
from turntree.testing.contracts.sandbox import ATTEMPTS, Host, a_host, attempt

MONTY_P50_MS: Final = 5.0
ROUNDS: Final = 40
SLOW: Final = frozenset({"a race against a link", "a command that was canceled"})
"""Attacks that wait for seconds, of which the whole form has the time."""
CALL: Final = JudgedCall("fs.write", {"path": "a.py"}, ("destructive",), "workbench")


async def prove(proof: Proof) -> None:
    """Attack the lanes, and time them."""
    sandbox = find_sandboxes()[CODE_SANDBOX]
    if (fault := sandbox.find_fault()) is not None:
        raise RuntimeError(f"no sandbox here: {fault}")
    monty = MontyLane()
    try:
        if proof.begins("attempts"):
            names = [*ATTEMPTS][:: 3 if proof.quick else 1]
            with a_host() as host:
                got = [name for name in names if await attempt(sandbox, name, host) is not None]
                proof.at_most(f"of {len(names)} attempts, that got out of a process", len(got),
                              "attempts", 0)  # fmt: skip
                python = [name for name, code in ATTEMPTS.items() if code.language == "python"]
                out = [name for name in python if _attempt_in_monty(monty, name, host)]
                proof.at_most(f"of {len(python)} attempts, that got out of Monty", len(out),
                              "attempts", 0)  # fmt: skip
        if proof.begins("attacks"):
            names = [*ATTACKS][:: 4 if proof.quick else 1]
            leaks = [name for name in names if await attack(name) is not None]
            proof.at_most(f"of {len(names)} attacks, that got out of the workbench", len(leaks),
                          "attacks", 0)  # fmt: skip
            await _show_server_attacks(proof)
        if proof.begins("cost"):
            await _show_cost(proof, Evaluator(monty, lambda: sandbox))
    finally:
        monty.close()


async def _show_server_attacks(proof: Proof) -> None:
    async with a_hostile_server() as server:
        works = await server.works()
        proof.at_least("a tool server in its sandbox changes its folder", int(works), "of 1", 1)
        names = [name for name in SERVER_ATTACKS if not proof.quick or name not in SLOW]
        leaks = 0
        for name in names:
            if (got := await server.attack(name)) is not None:
                leaks += 1
                print(f"{name}: {got[:300]}", file=sys.stderr)
        proof.at_most(f"of {len(names)} attacks, that got out of a tool server", leaks, "attacks",
                      0)  # fmt: skip
        for fault, is_found in (await server.show_planted()).items():
            proof.at_least(f"planted and found in a server's sandbox: {fault}", int(is_found),
                           "of 1", 1)  # fmt: skip


def _attempt_in_monty(monty: MontyLane, name: str, host: Host) -> str | None:
    """Make an attempt in Monty; return what it got."""
    frame = ATTEMPTS[name].source
    body = frame[frame.index("def go():") : frame.index("\ntry:\n")]
    source = f"import json, os, sys\n{body.replace('def go():', 'def go(asked):')}\n"
    try:
        answer = monty.call(source, "go", host.to_json())
    except MontyError:
        answer = None
    marks = [path for path in host.folder.iterdir() if path not in (host.secret, host.unix_path)]
    return f"it left {marks[0].name}" if marks else str(answer) if answer else None


async def _show_cost(proof: Proof, evaluator: Evaluator) -> None:
    shipped = shipped_policy()
    as_process = Policy(shipped.source, "python", shipped.docstring, shipped.tests, "process")
    await evaluator.decide(shipped, CALL)
    rounds = ROUNDS // 2 if proof.quick else ROUNDS
    in_monty: list[float] = []
    ratios: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await evaluator.decide(shipped, CALL)
        in_monty.append((time.perf_counter() - begun) * 1000)
        begun = time.perf_counter()
        await evaluator.decide(as_process, CALL)
        process_s = time.perf_counter() - begun
        ratios.append(process_s / (2 * _time(_start_python)))
    p50, ratio = statistics.median(in_monty), statistics.median(ratios)
    proof.at_most("a decision in Monty, p50", p50, "ms", MONTY_P50_MS, of="time")
    proof.at_most("a decision as a process, of two bare starts", ratio, "×", 1.0, of="time")


def _start_python() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _time(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    run(prove, __doc__ or "")
