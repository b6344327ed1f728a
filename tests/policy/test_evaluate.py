"""A policy decides alike in both lanes, and one that is broken denies."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.policy import default_policy
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision, read_decision
from turntree.policy.evaluate import Evaluator, defaults_of
from turntree.policy.policy import Policy, PolicyLane, PolicyTest, read_policy
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.monty import MontyLane
from turntree.sandbox.node import find_node

pytestmark = pytest.mark.anyio
DEFAULT = read_policy(Path(default_policy.__file__).read_text())
LANES: tuple[PolicyLane, ...] = ("monty", "process")
BROKEN = {
    "raises": "return 1 / 0",
    "returns nothing": "pass",
    "returns a word": 'return "perhaps"',
    "returns a set": 'return {"allow"}',
    "returns no number": 'return {"decision": "allow", "reason": float("nan")}',
    "returns a member more": 'return {"decision": "allow", "because": "x"}',
    "rewrites to nothing": 'return {"decision": "rewrite"}',
    "asks an agent": 'return {"decision": "ask", "ask": ["agent:helper"]}',
    "asks when it denies": 'return {"decision": "deny", "ask": ["human:ana"]}',
    "imports a package": "import turntree\n    return 'allow'",
    "reads a file": "return open('/etc/passwd').read()",
    "takes memory": "return 'x' * 10**10",
    "never ends": "while True:\n        pass",
    "calls itself": "return decide(request)",
}


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    monty, sandbox = MontyLane(), Bubblewrap(node=find_node())
    yield Evaluator(monty, lambda: sandbox)
    monty.close()


def policy_of(body: str, lane: PolicyLane) -> Policy:
    source = f"def decide(request):\n    {body}\n"
    return Policy(source, "python", "A policy.", (), lane)


async def decide(evaluator: Evaluator, policy: Policy, **members: Json) -> PolicyDecision:
    return await evaluator.decide_request(policy, defaults_of(members))


@pytest.mark.parametrize("test", DEFAULT.tests, ids=lambda test: test.name)
async def test_default_policy_passes_its_tests(evaluator: Evaluator, test: PolicyTest) -> None:
    decision = await evaluator.decide_request(DEFAULT, defaults_of(test.request))
    assert decision.verdict == test.verdict
    assert decision.line is not None


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
async def test_broken_policy_denies(evaluator: Evaluator, body: str, lane: PolicyLane) -> None:
    decision = await decide(evaluator, policy_of(body, lane))
    assert decision.verdict == "deny"
    assert "the policy" in decision.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BROKEN["never ends"], "the policy failed: it took longer than 100 ms"),
        (BROKEN["takes memory"], "the policy failed: it needs more than 64 MiB of memory"),
    ],
)
async def test_policy_over_a_limit_says_which(evaluator: Evaluator, body: str, reason: str) -> None:
    assert (await decide(evaluator, policy_of(body, "monty"))).reason == reason


async def test_policy_without_monty_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    decision = await decide(
        Evaluator(MontyLane(), Bubblewrap), policy_of('return "allow"', "monty")
    )
    assert decision.verdict == "deny"
    assert decision.reason == "the policy could not run: Monty is not installed"


@pytest.mark.parametrize("lane", LANES)
async def test_decision_in_both_lanes_says_line_and_drops_prints(
    evaluator: Evaluator, lane: PolicyLane, capfd: pytest.CaptureFixture[str]
) -> None:
    body = 'print("here")\n    return {"decision": "rewrite", "args": {"n": [1, None]}}'
    decision = await decide(evaluator, policy_of(body, lane))
    assert (decision.verdict, decision.args, decision.line) == ("rewrite", {"n": [1, None]}, 3)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("language", ["javascript", "typescript"])
async def test_script_decides_as_a_process(evaluator: Evaluator, language: str) -> None:
    kind = ": any" if language == "typescript" else ""
    source = (
        "/** Deny b. */\n"
        'const TESTS = [\n{"request": {"tool": "b"}, "decision": "deny"}\n]\n'
        f'function decide(request{kind}) {{ return request.tool === "b" ? "deny" : "allow" }}\n'
    )
    policy = read_policy(source, "typescript" if kind else "javascript")
    assert (await decide(evaluator, policy, tool="b")).verdict == "deny"
    assert (await decide(evaluator, policy, tool="a")).verdict == "allow"


async def test_calls_of_monty_share_nothing(evaluator: Evaluator) -> None:
    once = 'SEEN.append(1)\n    return "allow" if len(SEEN) == 1 else "deny"'
    policy = Policy(f"SEEN = []\n\n{policy_of(once, 'monty').source}")
    assert [(await decide(evaluator, policy)).verdict for _ in range(3)] == ["allow"] * 3


@pytest.mark.parametrize("answer", [None, 1, [], {}, "ALLOW", {"decision": "rewrite"}])
def test_read_decision_of_something_else_is_refused(answer: object) -> None:
    with pytest.raises(InvalidOperation):
        read_decision(answer)


def test_judged_call_lists_paths_outside_of_its_folder() -> None:
    call = JudgedCall("t", {}, folder="/srv/a", paths=("/srv/a/b", "/srv/ab", "/srv/a"))
    assert call.outside == ("/srv/ab",)
    assert call.to_json()["effects_declared"] is False
