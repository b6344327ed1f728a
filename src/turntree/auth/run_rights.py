"""Who acts in a run, and with which permissions.

An agent acts on behalf of the sender of the first message. It may do what the sender, its persona
and the message's own limits all permit. Everything here is computed from what the run recorded, so
every worker that takes the run over gets the same answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from turntree.auth.delegation import ROOT_KINDS, DelegationChain
from turntree.auth.permissions import ALL_BUT_CREDENTIALS, EVERYTHING, NOTHING, Permissions
from turntree.auth.persona import Persona
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.principal import SYSTEM, Actor, Principal
from turntree.core.run import ASSISTANT, agent_of, options_of, sender_of


def links_of_sender(
    sender: Principal,
    acting: Actor | None,
    given: Sequence[Mapping[str, Json]] | None = None,
) -> list[dict[str, Any]] | None:
    """Return the links of the chain under which a principal sends; None if it has all rights.

    ``acting`` is the context of the caller. ``given`` are links that were recorded earlier, for
    example when a task was assigned. Naming a sender never widens rights: they are at most those
    of ``acting`` and those of the recorded links.

    Raises:
        InvalidOperation: The recorded links are not a valid chain.
    """
    limits = None if acting is None else acting.links
    if acting is None or limits is None:
        return None if given is None else DelegationChain.from_json(given).to_json()
    if given is None and str(acting.principal) == str(sender):
        return limits
    chain = _begin(sender, EVERYTHING) if given is None else DelegationChain.from_json(given)
    return chain.child(DelegationChain.from_json(limits).rights).to_json()


def principal_in(started: Mapping[str, Json]) -> Principal:
    """Return the principal that acts in a run whose message was sent under a chain."""
    try:
        return chain_of(started, NOTHING).principal
    except InvalidOperation:
        # The agent would act on its own behalf. The run fails, and its turn says who asked for it.
        return _sender_chain(started).principal


def chain_of(started: Mapping[str, Json], rights: Permissions) -> DelegationChain:
    """Return the delegation chain of a run, in which its agent has at most ``rights``.

    Raises:
        InvalidOperation: The agent would act on its own behalf.
    """
    chain, agent = _sender_chain(started), agent_of(started) or ASSISTANT
    if (chain.last.kind, chain.last.id) == ("agent", agent):
        return chain.child(rights)
    return chain.delegate(Principal("agent", agent), rights)


def rights_in(started: Mapping[str, Json], persona: Persona | None) -> Permissions:
    """Return what a run may do: what its sender, the persona and the message's limits permit.

    Raises:
        InvalidOperation: The message's limits are malformed, or the agent would act on its own
            behalf.
    """
    chain = chain_of(started, ALL_BUT_CREDENTIALS if persona is None else persona.granted)
    limits = options_of(started).get("permissions")
    return chain.rights if limits is None else chain.rights.intersect(read_limits(limits))


def read_limits(document: Any) -> Permissions:
    """Return the limits of a message: patterns to allow, by default all, and patterns to deny.

    Raises:
        InvalidOperation: They are malformed.
    """
    if not isinstance(document, Mapping) or not document.keys() <= {"allow", "deny"}:
        raise InvalidOperation(f"{document!r} are not permissions: allow and deny list patterns")
    limits = cast("Mapping[str, Any]", document)
    sides = {name: side for name, side in limits.items() if side is not None}
    if any(not isinstance(side, list | tuple) for side in sides.values()):
        raise InvalidOperation(f"{document!r} are not permissions: allow and deny are lists")
    return Permissions.of_patterns(sides.get("allow", EVERYTHING.allow), sides.get("deny", ()))


def _sender_chain(started: Mapping[str, Json]) -> DelegationChain:
    """Return the chain that the message was sent under, else that of a sender with all rights."""
    sender, links = sender_of(started), options_of(started).get("chain")
    if isinstance(links, list | tuple):
        chain = DelegationChain.from_json(cast("Sequence[Mapping[str, Json]]", links))
        if str(chain.principal) == str(sender):
            return chain
        # Such a message was not sent by this library. What it claims counts for nothing.
        return _begin(sender, NOTHING)
    return _begin(sender, EVERYTHING)


def _begin(sender: Principal, rights: Permissions) -> DelegationChain:
    if sender.kind in ROOT_KINDS:
        return DelegationChain.begin(sender, rights)
    return DelegationChain.begin(SYSTEM, rights).delegate(sender, rights)
