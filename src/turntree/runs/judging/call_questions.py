"""Calls that ask a person something before they go on.

A question is an approval of the kind ``question``: the run is parked with the state that the tool
needs, and any worker continues the call with the answer. Continuing is recorded before it is done:
a call whose worker dies after that is not continued a second time, unless it is repeatable.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, ToolUse
from turntree.core.value import value
from turntree.policy.approval import EXPIRES_S, Approval, approval_id, expiry_after
from turntree.runs.attempt import Attempt, Draft
from turntree.tools.toolset import GivenAnswer, ToolQuestion

QUESTION: Final = "question"
"""Why a run is parked that waits for an answer."""
REASON: Final = "a tool asks before it goes on"


@value
class AskedCalls:
    """What became of the open calls that asked a question."""

    waiting: Mapping[str, str] = field(default_factory=dict[str, str])
    """The approval that each call waits for."""
    answers: Mapping[str, GivenAnswer] = field(default_factory=dict[str, GivenAnswer])
    """The answer with which each call continues."""
    ended: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """The result of calls that will get no answer."""
    approvals: Mapping[str, str] = field(default_factory=dict[str, str])
    """The approval of each answer."""

    def continuing(self) -> list[Draft]:
        """Return the events that come before the calls continue."""
        return [
            Draft("tool_call.continued", {"call_id": call, "approval": self.approvals[call]})
            for call in self.answers
        ]


@value
class CallQuestions:
    """Asks people for calls, and finds what they answered."""

    approvals_of: Callable[[RunId], Awaitable[Mapping[str, Approval]]]
    """Returns the newest approval of each call of a run."""
    expires_s: int = EXPIRES_S
    """How long a question waits for a person."""

    def ask(self, attempt: Attempt, use: ToolUse, question: ToolQuestion) -> Draft:
        """Return the event that asks a person."""
        run = attempt.run
        at = attempt.moment(run.id, run.seq)
        # A request names the arguments of the model, which the journal has, also where others
        # replaced them.
        written = [one for said in run.reply for one in said.tool_uses]
        own = next((one for one in written if one.call_id == use.call_id), use)
        args = own.args if isinstance(own, ToolUse) else use.args
        asked: dict[str, Json] = {"message": question.text}
        if question.schema is not None:
            asked["schema"] = dict(question.schema)
        data: dict[str, Json] = {
            "approval": approval_id(run.id, use.call_id, at),
            "kind": "question",
            "call_id": use.call_id,
            "tool": use.tool,
            "args_digest": digest_bytes(canonical(args)),
            "reason": REASON,
            # Without names the database finds who answers for the session.
            "answerers": [],
            "expires_at": expiry_after(at, self.expires_s),
            "question": asked,
            "state": dict(question.state),
        }
        return Draft("approval.requested", data)

    async def sort(self, attempt: Attempt, call_ids: Sequence[str]) -> AskedCalls:
        """Return which of a run's open calls wait, continue or end."""
        asked: dict[str, Mapping[str, Json]] = {}
        for fact in attempt.facts:
            data = fact.event.data
            call = str(data.get("call_id"))
            if fact.event.kind == "approval.requested" and data.get("kind") == "question":
                asked[call] = data
            elif fact.event.kind == "tool_call.continued":
                asked.pop(call, None)
        asked = {call: data for call, data in asked.items() if call in call_ids}
        if not asked:
            return AskedCalls()
        approvals = await self.approvals_of(attempt.run.id)
        now = attempt.moment(attempt.run.id, attempt.run.seq)
        waiting: dict[str, str] = {}
        answers: dict[str, GivenAnswer] = {}
        ended: dict[str, ToolResult] = {}
        for call, data in asked.items():
            approval = approvals.get(call)
            # What was answered in time continues, however late a worker does so.
            state = "pending" if approval is None else approval.state
            if approval is not None and state == "pending":
                state = approval.verdict_at(now)
            document: Any = data.get("state")
            match state:
                case "pending":
                    waiting[call] = str(data["approval"])
                case "answered":
                    assert approval is not None, "it has a state"
                    answers[call] = GivenAnswer(document, "answered", approval.answer)
                case "rejected":
                    answers[call] = GivenAnswer(document, "rejected")
                case _:
                    text = f"the tool's question was not answered: it {_ended(state)}"
                    ended[call] = ToolResult(call, "error", text)
        named = {call: str(data["approval"]) for call, data in asked.items()}
        return AskedCalls(waiting, answers, ended, named)


def parking(waiting: Mapping[str, str], reason: str = QUESTION) -> Draft:
    """Return the event that parks a run until what its calls wait for is decided."""
    calls: list[Json] = [*waiting]
    approvals: list[Json] = [*waiting.values()]
    data: dict[str, Json] = {"reason": reason, "calls": calls, "approvals": approvals}
    return Draft("run.parked", data)


def _ended(state: str) -> str:
    return "expired" if state == "expired" else f"was {state}"
