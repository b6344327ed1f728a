"""What becomes of the calls that a model asks for: made, denied, or asked about.

A decision is recorded with the intent that follows from it, in one transaction. What a person
allowed is made with exactly the arguments that the person saw. ``runs.runner`` makes the calls.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from turntree.auth.permissions import EFFECTS, Effect, read_effects
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.ids import Digest, RunId
from turntree.core.message import ToolResult, ToolUse
from turntree.core.principal import Principal
from turntree.core.value import value
from turntree.policy.approval import EXPIRES_S, Approval, approval_id, expiry_after
from turntree.policy.call import JudgedCall
from turntree.policy.call_context import described
from turntree.policy.decision import PolicyDecision
from turntree.policy.judge import PolicyJudge
from turntree.runs.attempt import Attempt, Draft
from turntree.runs.tool_calls import ToolCaller

ApprovalsOf = Callable[[RunId], Awaitable[Mapping[str, Approval]]]
"""Returns the approvals of a run, by call."""


@value
class CallRuling:
    """What becomes of one call."""

    use: ToolUse
    """The call with the arguments to use."""
    drafts: tuple[Draft, ...] = ()
    """The events that come first."""
    denial: ToolResult | None = None
    """What the model reads instead of a result; None if the call is made or waits."""
    waits_for: str | None = None
    """The approval that the call waits for."""
    approval: str | None = None
    """The approval that lets the call through."""
    is_substituted: bool = False
    """Whether the arguments are not those that the model gave."""


@value
class CallJudge:
    """Rules on the calls of runs."""

    judge: PolicyJudge
    approvals_of: ApprovalsOf
    expires_s: int = EXPIRES_S
    """How long a request waits for a person."""

    async def rule(
        self, attempt: Attempt, uses: Sequence[ToolUse], caller: ToolCaller
    ) -> list[CallRuling]:
        """Return what becomes of each call, in their order."""
        asked = _list_asked(attempt)
        is_waiting = any(use.call_id in asked for use in uses)
        approvals: Mapping[str, Approval] = {}
        if is_waiting:
            approvals = await self.approvals_of(attempt.run.id)
        return [
            _rule_answered(attempt, use, asked[str(use.call_id)], approvals.get(str(use.call_id)))
            if use.call_id in asked
            else await self._rule_new(attempt, use, caller)
            for use in uses
        ]

    async def find_edited(self, attempt: Attempt, use: ToolUse) -> ToolUse | None:
        """Return a call with the arguments that a person gave it instead of the model's."""
        approval = (await self.approvals_of(attempt.run.id)).get(str(use.call_id))
        if approval is None or not isinstance(approval.answer, Mapping):
            return None
        return replace(use, args=dict(approval.answer))

    def forget(self) -> None:
        """Read the policies again: another one is in force."""
        self.judge.forget()

    async def _rule_new(self, attempt: Attempt, use: ToolUse, caller: ToolCaller) -> CallRuling:
        call = describe_call(attempt, use, caller)
        if (refusal := caller.refuse(use)) is not None:
            # What is denied for good is not put to a policy.
            decision = PolicyDecision("deny", "the tool was not given to it")
            return CallRuling(use, (_judged(use, call, decision),), refusal)
        decision = await self.judge.decide(call)
        match decision.verdict:
            case "allow":
                return CallRuling(use, (_judged(use, call, decision),))
            case "deny":
                denial = ToolResult(use.call_id, "error", f"denied: {decision.reason}")
                return CallRuling(use, (_judged(use, call, decision),), denial)
            case "rewrite":
                after = replace(use, args=decision.args)
                judged = _judged(after, call, decision, original=call.args_digest)
                drafts = (judged, _substituted(use, after, "rewritten"))
                return CallRuling(after, drafts, is_substituted=True)
            case "ask":
                return self._ask(attempt, use, call, decision)

    def _ask(
        self, attempt: Attempt, use: ToolUse, call: JudgedCall, decision: PolicyDecision
    ) -> CallRuling:
        run = attempt.run
        at = attempt.moment(run.id, run.seq)
        id = approval_id(run.id, str(use.call_id), at)
        requested: dict[str, Json] = {
            "approval": id,
            "kind": "call",
            "call_id": use.call_id,
            "tool": use.tool,
            "args_digest": call.args_digest,
            "reason": decision.reason,
            # Without names the database finds who answers for the session.
            "answerers": [*decision.ask],
            "expires_at": expiry_after(at, self.expires_s),
        }
        requested |= {"policy": decision.policy} if decision.policy else {}
        requested |= {"line": decision.line} if decision.line is not None else {}
        drafts = (_judged(use, call, decision, approval=id), Draft("approval.requested", requested))
        return CallRuling(use, drafts, waits_for=id)


def describe_call(attempt: Attempt, use: ToolUse, caller: ToolCaller) -> JudgedCall:
    """Return a call of a run as a policy sees it."""
    spec = caller.find_spec(use.tool)
    return described(
        use,
        server=caller.server_of(use.tool),
        effects=None if spec is None else spec.effects,
        started=attempt.started,
        chain=_list_chain(attempt.acting),
        context_effects=_effects_so_far(attempt),
        source=_source_of(attempt),
        session=attempt.session,
    )


def _list_asked(attempt: Attempt) -> dict[str, str]:
    """Return the approval that was requested for each call."""
    return {
        str(fact.event.data["call_id"]): str(fact.event.data["approval"])
        for fact in attempt.facts
        if fact.event.kind == "approval.requested" and fact.event.data.get("kind") == "call"
    }


def _rule_answered(
    attempt: Attempt, use: ToolUse, id: str, approval: Approval | None
) -> CallRuling:
    """Return what becomes of a call about which a person was asked."""
    now = attempt.moment(attempt.run.id, attempt.run.seq)
    state = "pending" if approval is None else approval.verdict_at(now)
    if approval is None or state == "pending":
        return CallRuling(use, waits_for=id)
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    match state:
        case "approved" if approval.allowed_digest == digest_bytes(canonical(use.args)):
            return CallRuling(use, approval=id)
        case "edited" if approval.allowed_args is not None:
            after = replace(use, args=dict(approval.allowed_args))
            judged = _edited(attempt, after, id, f"edited{by}")
            drafts = (judged, _substituted(use, after, "edited"))
            return CallRuling(after, drafts, approval=id, is_substituted=True)
        case "rejected":
            said = f": {approval.note}" if approval.note else ""
            return CallRuling(use, denial=_denied(use, f"denied{by}{said}"))
        case "expired":
            return CallRuling(use, denial=_denied(use, "denied: the request expired unanswered"))
        case "canceled":
            return CallRuling(use, denial=_denied(use, f"denied: the request was canceled{by}"))
        case _:
            return CallRuling(use, denial=_denied(use, f"denied: the request is {state}"))


def _denied(use: ToolUse, text: str) -> ToolResult:
    return ToolResult(use.call_id, "error", text)


def _judged(
    use: ToolUse,
    call: JudgedCall,
    decision: PolicyDecision,
    *,
    original: Digest | None = None,
    approval: str | None = None,
) -> Draft:
    data: dict[str, Json] = {
        "call_id": use.call_id,
        "tool": use.tool,
        "server": call.server,
        "args_digest": digest_bytes(canonical(use.args)),
        "decision": decision.verdict,
        "reason": decision.reason,
        "effects": [*call.worst_effects],
        "effects_declared": call.effects is not None,
        "chain": [*call.chain],
        "source": call.started_by,
    }
    optional: dict[str, Any] = {
        "agent": call.agent, "policy": decision.policy, "line": decision.line,
        "approval": approval, "original_digest": original,
    }  # fmt: skip
    return Draft("tool_call.judged", data | {k: v for k, v in optional.items() if v is not None})


def _edited(attempt: Attempt, use: ToolUse, approval: str, reason: str) -> Draft:
    """Return the decision about arguments that a person wrote: those, and no others."""
    before: dict[str, Json] = {}
    for fact in attempt.facts:
        if fact.event.kind == "tool_call.judged" and fact.event.data["call_id"] == use.call_id:
            before = dict(fact.event.data)
    given = digest_bytes(canonical(use.args))
    data = {**before, "args_digest": given, "decision": "allow", "reason": reason}
    return Draft("tool_call.judged", {**data, "approval": approval})


def _substituted(use: ToolUse, after: ToolUse, reason: str) -> Draft:
    """Return the event that other arguments replace those of the model."""
    data: dict[str, Json] = {
        "call_id": use.call_id,
        "original_args": digest_bytes(canonical(use.args)),
        "replacement_args": digest_bytes(canonical(after.args)),
        "reason": reason,
    }
    return Draft("event.substituted", data)


def _list_chain(principal: Principal | None) -> tuple[str, ...]:
    chain: list[str] = []
    while principal is not None:
        chain.append(str(principal))
        principal = principal.on_behalf_of
    return tuple(chain)


def _source_of(attempt: Attempt) -> str:
    """Return who or what sent the message that a run answers."""
    # A sealed turn's first message says so too; the events alone do not.
    message = attempt.facts[0].message
    return "human" if message is None or message.source is None else message.source


def _effects_so_far(attempt: Attempt) -> tuple[Effect, ...]:
    """Return what the calls that were made in this run may have done."""
    judged: dict[str, Sequence[object]] = {}
    effects: set[object] = set()
    for fact in attempt.facts:
        data = fact.event.data
        if fact.event.kind == "tool_call.judged":
            judged[str(data["call_id"])] = cast("Sequence[object]", data["effects"])
        elif fact.event.kind == "tool_call.started":
            effects |= {*judged.get(str(data["call_id"]), EFFECTS)}
    return read_effects(effects)
