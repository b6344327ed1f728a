import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from turntree.core.errors import InvalidOperation
from turntree.hooks.hook_judge import HookJudge
from turntree.hooks.judge_files import JudgeFiles
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision, Verdict
from turntree.policy.local import POLICY, load_local, publish_local, shipped_policy
from turntree.policy.policy import Policy, read_policy

ALLOW = """\
'Allow.'
def decide(request):
    return "allow"
TESTS = [{"request": {}, "decision": "allow"}]
"""


class Judged:
    """A judge whose policy says what a test wants."""

    def __init__(self, home: Path, verdict: Verdict) -> None:
        self.home, self.verdict = home, verdict
        self.args: dict[str, Any] | None = None
        self.calls: list[JudgedCall] = []
        self.judge = HookJudge(home, self.decide_call)
        self.files = JudgeFiles(home)

    def decide_call(self, policy: Policy, call: JudgedCall) -> PolicyDecision:
        self.calls.append(call)
        return PolicyDecision(self.verdict, "because", policy.digest, self.args)

    def ask(
        self,
        command: str = "ls",
        *,
        kind: Any = "judge",
        origin: str = "claude-code",
        entry: str = "cli",
        **told: Any,
    ) -> Mapping[str, Any] | None:
        document = {
            "session_id": "s1", "cwd": str(self.home), "tool_name": "Bash",
            "tool_input": {"command": command}, "tool_use_id": "toolu_1", **told,
        }  # fmt: skip
        answer = self.judge.answer(kind, origin, document, str(self.home), entry).document
        return None if answer is None else answer["hookSpecificOutput"]

    def word(self, command: str = "ls", **told: Any) -> str | None:
        answer = self.ask(command, **told)
        return None if answer is None else answer["permissionDecision"]

    def decide(self, state: str, **more: Any) -> None:
        ((_, request),) = self.files.list_requests()
        self.files.note_decided(request["id"], {
            "state": state, "by": "human:bob", "args_digest": request["args_digest"],
            "allowed_digest": request["args_digest"], "expires_ms": 1 << 50, **more,
        })  # fmt: skip


def transcript(path: Path, *calls: str) -> str:
    records = [
        {"type": "assistant", "message": {"id": "m1", "content": [{"type": "tool_use", "id": id}]}}
        for id in calls
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("verdict", "origin", "word"),
    [
        ("allow", "claude-code", "allow"),
        ("deny", "claude-code", "deny"),
        ("ask", "claude-code", "ask"),
        # It has no answer that says yes before its own rules do.
        ("allow", "codex", None),
        ("deny", "codex", "deny"),
        ("ask", "codex", "deny"),
    ],
)
def test_verdict_becomes_what_the_tool_understands(
    tmp_path: Path, verdict: Verdict, origin: str, word: str | None
) -> None:
    assert Judged(tmp_path, verdict).word(origin=origin) == word


def test_rewrite_gives_the_new_arguments(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "rewrite")
    judged.args = {"command": "ls -l"}
    answer = judged.ask()
    assert answer is not None
    assert (answer["permissionDecision"], answer["updatedInput"]) == ("allow", judged.args)


def test_headless_call_that_is_alone_is_deferred(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    alone = transcript(tmp_path / "alone.jsonl", "toolu_1")
    assert judged.word(entry="sdk-cli", transcript_path=alone) == "defer"
    ((_, request),) = judged.files.list_requests()
    assert request["is_deferred"]
    assert judged.word(entry="sdk-cli", transcript_path=alone) == "defer"
    assert len([*judged.files.list_requests()]) == 1


def test_headless_call_waits_for_its_transcript_and_is_deferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Judged(tmp_path, "ask")
    late = tmp_path / "late.jsonl"
    waits: list[float] = []

    def write(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            transcript(late, "toolu_1")

    monkeypatch.setattr("turntree.hooks.hook_judge.time.sleep", write)
    assert judged.word(entry="sdk-cli", transcript_path=str(late)) == "defer"
    assert len(waits) == 3


def test_request_that_was_denied_is_deferred_when_asked_again_alone(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    path = transcript(tmp_path / "one.jsonl", "toolu_1", "toolu_2")
    assert judged.word(entry="sdk-cli", transcript_path=path) == "deny"
    path = transcript(tmp_path / "one.jsonl", "toolu_1")
    assert judged.word(entry="sdk-cli", transcript_path=path) == "defer"
    ((_, request),) = judged.files.list_requests()
    assert request["is_deferred"]


@pytest.mark.parametrize(
    "more", [{"transcript_path": None}, {"transcript_path": "two"}, {"agent_id": "a1"}]
)
def test_headless_call_that_cannot_be_deferred_is_denied_by_name(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    judged = Judged(tmp_path, "ask")
    if more.get("transcript_path"):
        more = {"transcript_path": transcript(tmp_path / "two.jsonl", "toolu_1", "toolu_2")}
    elif "agent_id" in more:
        more = {**more, "transcript_path": transcript(tmp_path / "one.jsonl", "toolu_1")}
    answer = judged.ask(entry="sdk-cli", **more)
    ((_, request),) = judged.files.list_requests()
    assert answer is not None
    assert answer["permissionDecision"] == "deny"
    assert request["id"] in answer["permissionDecisionReason"]


def test_approved_call_goes_through_once_with_its_arguments(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    assert judged.word("rm x", entry="sdk-cli") == "deny"
    judged.decide("approved")
    assert judged.word("rm y", entry="sdk-cli") == "deny"
    assert judged.word("rm x", entry="sdk-cli", session_id="s2") == "deny"
    assert judged.word("rm x", entry="sdk-cli") == "allow"
    assert judged.word("rm x", entry="sdk-cli") == "deny"


@pytest.mark.parametrize("origin", ["claude-code", "codex"])
def test_approved_line_goes_through_in_its_folder_only(tmp_path: Path, origin: str) -> None:
    judged, here, there = Judged(tmp_path, "ask"), str(tmp_path / "a"), str(tmp_path / "b")
    judged.ask("rm -r x", origin=origin, entry="sdk-cli", cwd=here)
    ((_, request),) = judged.files.list_requests()
    assert request["reason"] == f"because; it starts in {here}"
    judged.decide("approved")
    assert judged.word("rm -r x", origin=origin, entry="sdk-cli", cwd=there) == "deny"
    assert judged.word("rm -r x", origin=origin, entry="sdk-cli", cwd=here) != "deny"


def test_codex_asks_its_user_about_a_line_that_was_judged_in_another_folder(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "allow")
    judged.ask("rm x", origin="codex", cwd=str(tmp_path / "a"))
    judged.verdict = "ask"
    told = {"origin": "codex", "kind": "permit"}
    assert judged.ask("rm x", cwd=str(tmp_path / "b"), **told) is None
    assert judged.ask("rm x", cwd=str(tmp_path / "a"), **told) is not None


def test_edited_call_goes_through_as_edited(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    judged.word("rm x", entry="sdk-cli")
    judged.decide("edited", args={"command": "ls x"})
    answer = judged.ask("rm x", entry="sdk-cli")
    assert answer is not None
    assert (answer["permissionDecision"], answer["updatedInput"]) == ("allow", {"command": "ls x"})


def test_rejected_call_is_denied_with_the_note(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    judged.word("rm x", entry="sdk-cli")
    judged.decide("rejected", note="not today")
    answer = judged.ask("rm x", entry="sdk-cli")
    assert answer is not None
    assert answer["permissionDecision"] == "deny"
    assert "rejected by human:bob: not today" in answer["permissionDecisionReason"]


def test_approval_that_expired_allows_nothing(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    judged.word("rm x", entry="sdk-cli")
    judged.decide("approved", expires_ms=1)
    assert judged.word("rm x", entry="sdk-cli") == "deny"


def test_approval_for_other_arguments_allows_nothing(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    judged.word("rm x", entry="sdk-cli")
    judged.decide("approved", args_digest="sha256:" + "0" * 64)
    assert judged.word("rm x", entry="sdk-cli") == "deny"


def test_codex_asks_its_user_only_about_what_was_not_judged(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "ask")
    judged.ask("rm x", origin="codex")
    judged.decide("approved")
    assert judged.ask("rm x", origin="codex") is None
    permitted = judged.ask("rm x", origin="codex", kind="permit")
    assert permitted == {
        "hookEventName": "PermissionRequest", "decision": {"behavior": "allow"},
    }  # fmt: skip
    assert judged.ask("rm x", origin="codex", kind="permit") is None


def test_plan_allows_nothing_that_changes(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "allow")
    assert judged.word("rm x", permission_mode="plan") is None
    assert judged.word(tool_name="Read", tool_input={"file_path": "x"},
                       permission_mode="plan") == "allow"  # fmt: skip


def test_effects_of_earlier_calls_are_context_of_later_ones(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "allow")
    judged.ask("cat x")
    HookJudge(tmp_path, judged.decide_call).answer(
        "judge", "claude-code",
        {"session_id": "s1", "cwd": str(tmp_path), "tool_name": "WebFetch",
         "tool_input": {"url": "http://127.0.0.1/"}}, str(tmp_path), "cli",
    )  # fmt: skip
    assert judged.calls[-1].context_effects == ("reads_private", "exec")


def test_decision_is_recorded_without_arguments(tmp_path: Path) -> None:
    judged = Judged(tmp_path, "deny")
    judged.ask("echo secret-word")
    ((path, decision),) = judged.files.list_decisions()
    assert (decision["decision"], decision["answer"]) == ("deny", "deny")
    assert decision["args_digest"] == judged.calls[0].args_digest
    assert "secret-word" not in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o077 == 0


def test_policy_file_is_private_and_read_back(tmp_path: Path) -> None:
    assert load_local(tmp_path).policy == shipped_policy()
    assert publish_local(tmp_path, read_policy(ALLOW), "human:ana")
    assert not publish_local(tmp_path, read_policy(ALLOW), "human:ana")
    local = load_local(tmp_path)
    assert (local.policy.source, local.person) == (ALLOW, "human:ana")
    assert (tmp_path / "judge" / POLICY).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("how", ["changed", "garbage", "writable", "link", "version"])
def test_policy_file_that_cannot_be_trusted_answers_nothing(tmp_path: Path, how: str) -> None:
    publish_local(tmp_path, read_policy(ALLOW), "human:ana")
    path = tmp_path / "judge" / POLICY
    text = path.read_text(encoding="utf-8")
    match how:
        case "changed":
            path.write_text(text.replace("Allow.", "Allow!"), encoding="utf-8")
        case "garbage":
            path.write_text("{", encoding="utf-8")
        case "writable":
            path.chmod(0o666)
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            path.write_text(text.replace('"version": 1', '"version": 2'), encoding="utf-8")
    judged = Judged(tmp_path, "allow")
    with pytest.raises(InvalidOperation):
        judged.ask()
    assert judged.calls == []
