"""Whether a thread may continue under another persona: the decision, with every reason.

A fork under another persona is allowed and never silent. Permissions are not inherited from the
thread: the fork gets what both the new persona and the caller may do. The thread's text may come
from untrusted sources, so passing it to a stronger persona needs the owner's grant and a
confirmation; passing it to one that is not cleared for its contents is refused. This module must
never know how a thread is read.
"""

from typing import Literal

from turntree.auth.permissions import Permissions
from turntree.auth.persona import Persona
from turntree.core.value import value

Change = Literal["same", "restriction", "escalation"]
"""Whether the new persona may do the same as the old one, less, or something more."""

Verdict = Literal["allow", "confirm", "deny"]


@value
class PersonaForkRequest:
    """A fork under another persona, and the facts that decide it."""

    source: Permissions
    """The permissions of the thread's persona; empty if it has none."""
    scopes: frozenset[str]
    """The confidential scopes that the thread and its ancestors were cleared for."""
    target: Persona
    caller: Permissions
    may_read: bool
    """Whether the caller may read the thread."""
    owner_grants: bool = False
    """Whether the owner of the target lets the caller fork threads to it."""
    confirmed: bool = False


@value
class PersonaForkDecision:
    """Whether the fork is allowed, with which permissions, and why."""

    verdict: Verdict
    change: Change
    rights: Permissions
    """The permissions of the fork: what both the new persona and the caller may do."""
    reasons: tuple[str, ...]


def decide_fork(asked: PersonaForkRequest) -> PersonaForkDecision:
    """Return whether a thread may be forked under another persona.

    It lists every reason against it, not only the first.
    """
    target = asked.target
    rights = target.permitted.intersect(asked.caller)
    change = _change(asked.source, target.permitted)
    against: list[str] = []
    if not asked.may_read:
        against.append("the caller may not read the thread")
    if unknown := sorted(asked.scopes - target.scopes):
        whom = f"{target.agent} is {target.visibility}"
        against.append(f"the thread holds {', '.join(unknown)}, and {whom} and not cleared for it")
    if change == "escalation" and not asked.owner_grants:
        against.append(f"the owner of {target.agent} has not granted it")
    if against:
        return PersonaForkDecision("deny", change, rights, tuple(against))
    if change != "escalation":
        return PersonaForkDecision("allow", change, rights, (_told(change, asked),))
    if asked.confirmed:
        reason = f"{_told(change, asked)}; the owner granted it and it was confirmed"
        return PersonaForkDecision("allow", change, rights, (reason,))
    reason = f"{_told(change, asked)}; what the thread says may carry instructions: confirm it"
    return PersonaForkDecision("confirm", change, rights, (reason,))


def _change(source: Permissions, target: Permissions) -> Change:
    if not target.within(source):
        return "escalation"
    return "same" if source.within(target) else "restriction"


def _told(change: Change, asked: PersonaForkRequest) -> str:
    match change:
        case "same":
            return f"{asked.target.agent} may do what the thread's persona might"
        case "restriction":
            return f"{asked.target.agent} may do less than the thread's persona might"
        case "escalation":
            beyond = asked.target.permitted.find_beyond(asked.source)
            return f"{asked.target.agent} may do more: {beyond}"
