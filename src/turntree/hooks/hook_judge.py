"""Answers a coding agent's hook from the policy in force, without a database.

    judge/policy.json          the policy (see ``policy.local``)
    judge/decisions/*.json     decisions that the ledger does not have yet
    judge/requests/<id>.json   calls that a person is asked about
    judge/decided/<id>.json    what people decided about them, until the call is made
    judge/used/<id>.json       decisions that let their call through, until the ledger knows
    judge/context/*.json       what earlier calls of a session may have done

No answer means that the tool asks its user as it always does, so every failure here ends in
no answer; where the tool asks nothing, the launcher refuses. A call that needs a person is deferred
where the agent can wait for one, and otherwise denied with the name of the request: once it is
approved, the same call goes through one time.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from turntree.auth.permissions import Effect, read_effects
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import instant, uuid7
from turntree.core.value import value
from turntree.hooks.events import JudgeKind
from turntree.hooks.foreign_call import SHELLS, ForeignToolCall, read_call
from turntree.hooks.judge_files import DECISIONS, JudgeFiles
from turntree.policy.call import CallOrigin, JudgedCall
from turntree.policy.decision import PolicyDecision
from turntree.policy.local import FOLDER, load_local, read_private, write_private
from turntree.policy.policy import Policy

CONTEXT: Final = "context"
VERSION: Final = 1
TAIL_BYTES: Final = 4 * 1024 * 1024
"""How much of a transcript's end is read to find the calls that were made together."""
LET_THROUGH_S: Final = 60
"""How long after a call was let through its agent may still ask about it."""
TRANSCRIPT_WAIT_S: Final = 1.0
"""How long a call is looked for in its transcript: Claude Code writes it up to 62 ms later."""
TRANSCRIPT_POLL_S: Final = 0.01
HEADLESS: Final = "sdk-cli"
"""What Claude Code says of itself when it runs without a terminal, as ``claude -p``."""

Decide = Callable[[Policy, JudgedCall], PolicyDecision]


@value
class HookAnswer:
    """What a hook prints; nothing leaves the question to the tool."""

    document: Mapping[str, Any] | None = None
    goes_on: bool = True
    """Whether the tool may make the call now."""
    is_decided: bool = True
    """Whether the policy has decided in time."""


class HookJudge:
    """Judges the calls of the coding agents of one user."""

    def __init__(self, home: Path, decide: Decide) -> None:
        """Take Turntree's home, and what evaluates a policy."""
        self._home = home
        self._folder = home / FOLDER
        self.files = JudgeFiles(home)
        self._decide = decide
        self._let_through: dict[tuple[str, str], float] = {}

    def answer(
        self,
        kind: JudgeKind,
        origin: str,
        told: Mapping[str, Any],
        folder: str | None,
        entry: str,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> HookAnswer:
        """Return the answer to a hook; ``entry`` is what the agent says of how it was started.

        When it is no longer awaited there is none, and no approval is used up by it.

        Raises:
            InvalidOperation, NotCanonical, OSError, ValueError, KeyError, TypeError: The policy or
                the report cannot be read. The tool has to ask.
        """
        if origin not in ("claude-code", "codex"):
            raise InvalidOperation(f"the calls of {origin} are not judged")
        agent = cast("CallOrigin", origin)
        # Read again for each call: a policy that was activated counts from the next one on.
        local = load_local(self._home)
        session = str(told["session_id"])
        found = read_call(agent, told, folder, local.person, self._context(session))
        if kind == "permit" and self._was_let_through(found):
            return HookAnswer(_permission("allow", "it was judged before"))
        decision = self._decide(local.policy, found.call)
        if not is_awaited():
            return HookAnswer(is_decided=False)
        verdict, reason, approval = decision.verdict, decision.reason, None
        updated = decision.args if verdict == "rewrite" else None
        if verdict == "ask":
            approval, state = self._find_decided(found)
            if approval is not None and state.get("state") in ("approved", "edited"):
                if self.files.use(approval):
                    updated = state.get("args") if state["state"] == "edited" else None
                    verdict = "rewrite" if updated is not None else "allow"
                    reason = f"approved by {state.get('by')}"
            elif approval is not None:
                said = f": {state['note']}" if state.get("note") else ""
                verdict, reason = "deny", f"{state.get('state')} by {state.get('by')}{said}"
        word = self._word(kind, found, verdict, entry)
        if word in ("defer", "deny") and verdict == "ask":
            approval = self._request(found, decision, is_deferred=word == "defer")
            reason = _named(approval, decision.reason) if word == "deny" else decision.reason
        elif verdict == "deny":
            reason = f"denied: {reason}"
        # A plan is made without changing anything, even what a policy would allow.
        changes = set(found.call.worst_effects) - {"reads_private", "untrusted_output"}
        if told.get("permission_mode") == "plan" and word == "allow" and changes:
            word = None
        self._record(found, decision, word, approval)
        if word in ("allow", None) and verdict in ("allow", "rewrite"):
            self._remember(found, updated)
        document = _document(kind, word, reason, updated)
        return HookAnswer(document, goes_on=word not in ("deny", "defer"))

    def _word(
        self, kind: JudgeKind, found: ForeignToolCall, verdict: str, entry: str
    ) -> str | None:
        """Return what the agent is told: allow, deny, ask or defer; None for no answer."""
        if verdict == "deny":
            return "deny"
        is_claude = found.call.origin == "claude-code"
        if verdict == "ask":
            if kind == "permit":
                return None  # Codex is about to ask its user.
            # A person is there, and the tool shows its own question best.
            if is_claude and entry != HEADLESS:
                return "ask"
            is_alone = is_claude and not found.is_subagent and _is_only_call(found)
            return "defer" if is_alone else "deny"
        if not is_claude and kind == "judge" and verdict == "allow":
            return None  # Codex has no such answer: its own rules decide, and ask us again.
        if verdict == "rewrite" and kind == "permit":
            return None
        return "allow"

    def _context(self, session: str) -> tuple[Effect, ...]:
        text = read_private(self._context_path(session))
        return () if text is None else read_effects(json.loads(text))

    def _context_path(self, session: str) -> Path:
        return self._folder / CONTEXT / f"{sha256(session.encode()).hexdigest()[:32]}.json"

    def _remember(self, found: ForeignToolCall, updated: object) -> None:
        """Keep what the calls of a session may have done: later ones are judged by it."""
        known = set(found.call.context_effects)
        if not known.issuperset(found.call.worst_effects):
            together = read_effects([*known, *found.call.worst_effects])
            write_private(self._context_path(found.session), json.dumps(together))
        now = time.monotonic()
        self._let_through = {
            k: at for k, at in self._let_through.items() if now - at < LET_THROUGH_S
        }
        made = found.call if updated is None else replace(found.call, args=cast("Json", updated))
        self._let_through[found.session, _deed(found, made)] = now

    def _was_let_through(self, found: ForeignToolCall) -> bool:
        at = self._let_through.pop((found.session, _deed(found, found.call)), None)
        return at is not None and time.monotonic() - at < LET_THROUGH_S

    def _find_decided(self, found: ForeignToolCall) -> tuple[str | None, dict[str, Any]]:
        """Return the request about exactly this call that a person has decided."""
        request = self._find_request(found)
        state = None if request is None else self.files.find_decided(str(request["id"]))
        if request is None or state is None:
            return None, {}
        is_over = int(state.get("expires_ms", 0)) <= time.time_ns() // 1_000_000
        if state.get("args_digest") != found.call.args_digest or is_over:
            return None, {}
        return str(request["id"]), state

    def _find_request(self, found: ForeignToolCall) -> dict[str, Any] | None:
        key, now = request_key(found), time.time_ns() // 1_000_000
        request: dict[str, Any]
        for _, request in reversed([*self.files.list_requests()]):
            is_over = now >= request.get("expires_ms", now + 1)
            if request.get("key") != key or is_over:
                continue
            if self.files.find_used(str(request["id"])) is None:
                return request
        return None

    def _request(
        self, found: ForeignToolCall, decision: PolicyDecision, *, is_deferred: bool
    ) -> str:
        """Note a question to a person, and return its id; the same call is asked about once."""
        known = self._find_request(found)
        if known is not None:
            if is_deferred and not known["is_deferred"]:
                self.files.note_request({**known, "is_deferred": True})
            return str(known["id"])
        call, now = found.call, time.time_ns() // 1_000_000
        id = uuid7(now, secrets.randbits(74))
        request = {
            "version": VERSION, "id": id, "key": request_key(found), "at_ms": now,
            "origin": call.origin, "tool": call.tool, "args": call.args,
            "args_digest": call.args_digest, "session": found.session, "call_id": found.call_id,
            "cwd": found.cwd, "folder": call.folder, "policy": decision.policy,
            "line": decision.line, "reason": _placed(found, decision.reason),
            "answerers": [*decision.ask], "is_deferred": is_deferred,
        }  # fmt: skip
        self.files.note_request(request)
        return id

    def _record(
        self,
        found: ForeignToolCall,
        decision: PolicyDecision,
        word: str | None,
        approval: str | None,
    ) -> None:
        """Keep a decision for the ledger: never what the arguments are, only their digest."""
        call, at_ns = found.call, time.time_ns()
        record = {
            "version": VERSION, "at": instant(at_ns // 1_000_000), "origin": call.origin,
            "session": found.session, "call_id": found.call_id, "tool": call.tool,
            "server": call.server, "args_digest": call.args_digest, "decision": decision.verdict,
            "answer": word, "reason": decision.reason, "policy": decision.policy,
            "effects": [*call.worst_effects], "chain": [*call.chain], "line": decision.line,
            "approval": approval,
        }  # fmt: skip
        name = f"{at_ns:020d}-{secrets.token_hex(4)}.json"
        write_private(self._folder / DECISIONS / name, json.dumps(record))


def request_key(found: ForeignToolCall) -> str:
    """Return what names a request: the session, the tool, exactly these arguments, and the folder.

    The same line of a shell does something else in another folder.
    """
    call = found.call
    return digest_bytes(
        canonical([call.origin, call.session, call.tool, call.args_digest, _start_of(found)])
    )


def _start_of(found: ForeignToolCall) -> str | None:
    """Return the folder in which a call of a shell begins."""
    return found.cwd if found.call.tool in SHELLS else None


def _is_only_call(found: ForeignToolCall) -> bool:
    """Return whether the model made no other call at once with this one, as far as can be known.

    Claude Code ignores that one of several is deferred, and would go on as if nothing had been
    said. It writes all calls of a reply to the transcript at once.
    """
    if found.transcript is None or found.call_id is None:
        return False
    until = time.monotonic() + TRANSCRIPT_WAIT_S
    while (count := _count_siblings(found.transcript, found.call_id)) is None:
        if time.monotonic() >= until:
            return False
        time.sleep(TRANSCRIPT_POLL_S)
    return count == 1


def _count_siblings(transcript: str, call_id: str) -> int | None:
    """Return how many calls a reply made, this one included; None if the reply is not there."""
    calls: dict[str, set[str]] = {}
    reply = None
    with suppress(OSError, ValueError), Path(transcript).open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        for line in file.read().splitlines():
            if b'"tool_use"' not in line or not line.startswith(b"{"):
                continue
            message: dict[str, Any] = json.loads(line).get("message") or {}
            for part in message.get("content") or ():
                if (
                    isinstance(part, dict)
                    and cast("dict[str, Any]", part).get("type") == "tool_use"
                ):
                    id = str(cast("dict[str, Any]", part).get("id"))
                    calls.setdefault(str(message.get("id")), set()).add(id)
                    reply = str(message.get("id")) if id == call_id else reply
    return None if reply is None else len(calls[reply])


def _placed(found: ForeignToolCall, reason: str) -> str:
    """Return a reason that also names where a line would run, if the folder does not say so."""
    start = _start_of(found)
    return reason if start in (None, found.call.folder) else f"{reason}; it starts in {start}"


def _deed(found: ForeignToolCall, call: JudgedCall) -> str:
    """Return what both hooks of Codex are told of a call; only one is also told a reason."""
    args = call.args if isinstance(call.args, dict) else {}
    return f"{call.tool}\0{args.get('command', call.args_digest)}\0{_start_of(found)}"


def _named(approval: str, reason: str) -> str:
    return (
        f"{reason}; the request {approval} asks a person about it: "
        "once it is approved, the same call goes through one time"
    )


def _document(
    kind: JudgeKind, word: str | None, reason: str, updated: object
) -> dict[str, Any] | None:
    if word is None:
        return None
    if kind == "permit":
        return _permission(word, reason)
    told: dict[str, Any] = {
        "hookEventName": "PreToolUse", "permissionDecision": word,
        # Codex takes no denial without a reason.
        "permissionDecisionReason": f"Turntree: {reason or 'the policy says so'}",
    }  # fmt: skip
    if updated is not None and word == "allow":
        told["updatedInput"] = updated
    return {"hookSpecificOutput": told}


def _permission(word: str, reason: str) -> dict[str, Any]:
    decision: dict[str, Any] = {"behavior": "allow" if word == "allow" else "deny"}
    if word != "allow":
        decision["message"] = f"Turntree: {reason}"
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
