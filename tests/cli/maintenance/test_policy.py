"""``policy``: proposing, testing, activating, and trying a policy on the past."""

import json
from pathlib import Path

from tests.cli.conftest import Call

SOURCE = '''"""Deny removing files."""

TESTS = [
    {"request": {"tool": "fs.remove"}, "decision": "deny", "name": "removing is denied"},
    {"request": {"tool": "fs.read"}, "decision": "VERDICT"},
]


def decide(request):
    if request["tool"] == "fs.remove":
        return {"decision": "deny", "reason": "files stay"}
    return "allow"
'''


def write(folder: Path, verdict: str = "allow") -> str:
    file = folder / "policy.py"
    file.write_text(SOURCE.replace("VERDICT", verdict))
    return str(file)


def test_policy_is_proposed_activated_shown_and_undone(turntree: Call, tmp_path: Path) -> None:
    proposed = turntree("policy", "propose", write(tmp_path), "--note", "files stay")
    assert "policy 1 is proposed; 2 of 2 tests passed" in proposed.out
    assert "turntree policy activate 0" in turntree("policy", "activate", "1").err
    shown = turntree("show", "resource://approval-policy/policy.py").out
    assert shown.startswith('"""Deny removing files."""')
    turntree("policy", "activate", "0")
    first = json.loads(turntree("policy", "history", "--json").lines[0])
    assert (first["number"], first["is_active"], first["notes"]) == (2, True, "the shipped policy")


def test_policy_of_which_a_test_fails_is_not_activated(turntree: Call, tmp_path: Path) -> None:
    proposed = turntree("policy", "propose", write(tmp_path, "ask"))
    assert "test 2: allow instead of ask" in proposed.out
    refused = turntree("policy", "activate", "1")
    assert refused.code == 1
    assert "1 of 2 tests fail" in refused.err
    tested = turntree("policy", "test", "1")
    assert (tested.code, tested.lines[0]) == (1, "1 of 2 tests passed")
    (shipped,) = [
        one
        for one in map(json.loads, turntree("policy", "history", "--json").lines)
        if one["is_active"]
    ]
    assert shipped["number"] == 0


def test_policy_that_fails_passes_no_test(turntree: Call, tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    source = SOURCE.replace("VERDICT", "deny").replace('request["tool"]', 'request["tol"]')
    file.write_text(source)
    tested = turntree("policy", "test", str(file))
    assert (tested.code, tested.lines[0]) == (1, "0 of 2 tests passed")
    assert tested.lines[1] == (
        "  removing is denied: denied: the policy failed: KeyError: tol, line 10"
    )
    turntree("policy", "propose", str(file))
    refused = turntree("policy", "activate", "1")
    assert "2 of 2 tests fail, first 'removing is denied': the policy failed" in refused.err


def test_policy_that_does_not_exist_names_the_history(turntree: Call) -> None:
    refused = turntree("policy", "activate", "7")
    assert refused.code == 3
    assert "turntree policy history" in refused.err


def test_policy_tried_on_imported_calls_lists_what_it_denies(planted: Call, tmp_path: Path) -> None:
    tried = json.loads(planted("policy", "try", write(tmp_path), "--json").out)
    assert tried["calls"] > 0
    assert tried["calls"] == tried["allow"] + len(tried["not_allowed"])


def test_policy_tried_without_calls_says_how_to_get_some(turntree: Call, tmp_path: Path) -> None:
    tried = turntree("policy", "try", write(tmp_path))
    assert (tried.code, tried.out) == (0, "")
    assert "there are no recorded tool calls" in tried.err
    assert "next: turntree import" in tried.err


def test_explain_of_a_turn_without_judged_calls_says_so(planted: Call) -> None:
    assert "no call of this turn was judged" in planted("policy", "explain").err


def test_policy_of_an_agent_that_does_not_exist_is_refused(turntree: Call, tmp_path: Path) -> None:
    refused = turntree("policy", "propose", write(tmp_path), "--agent", "atlsa")
    assert refused.code == 3
    assert "no program 'atlsa'" in refused.err
    assert turntree("policy", "activate", "0", "--agent", "atlsa").code == 3


def test_policy_of_an_agent_is_found_by_its_address(turntree: Call, tmp_path: Path) -> None:
    turntree("agent", "create", "atlas")
    turntree("policy", "propose", write(tmp_path), "--agent", "@(atlas)")
    (first, _) = map(json.loads, turntree("policy", "history", "--agent", "atlas", "--json").lines)
    assert (first["number"], first["agent"]) == (1, "atlas")
