"""Delegation: who acts for whom, and which permissions are left at the end.

A chain begins with a human or the system and grows by one link when permissions are narrowed or
delegated. Its end may do what every link permits, so a longer chain never permits more. This module
must never know where permissions come from or what happens to a decision.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, cast, get_args

from turntree.auth.permissions import Decision, Permissions, Right
from turntree.core.errors import InvalidOperation
from turntree.core.principal import Principal, PrincipalKind
from turntree.core.value import value
from turntree.core.viewer import check_id

# Every check walks the chain, and a token carries all of it.
CHAIN_LINKS_MAX: Final = 32
ROOT_KINDS: Final[tuple[PrincipalKind, ...]] = ("human", "system")
"""Principals that may act for themselves."""
HOLDER_KINDS: Final[tuple[PrincipalKind, ...]] = ("agent", "session")
"""Principals that may act for another. A human or the system acts only for itself: what the store
shows and allows depends on a principal's name, so a chain that ended in one would have its powers.
"""
KINDS: Final[tuple[PrincipalKind, ...]] = get_args(PrincipalKind)


@value
class DelegationLink:
    """A principal, and the permissions it received at this point."""

    kind: PrincipalKind
    id: str
    rights: Permissions

    def __str__(self) -> str:
        """Return the principal's short form: ``agent:atlas``."""
        return f"{self.kind}:{self.id}"


@value
class DelegationChain:
    """All principals from the responsible one to the acting one."""

    links: tuple[DelegationLink, ...]

    def __post_init__(self) -> None:
        """Refuse an invalid chain.

        Raises:
            InvalidOperation: It has no responsible principal, delegates to a human or the system,
                leads back to a principal by way of others, is too long, or has
                an id that could be read as two principals.
        """
        if not self.links or self.links[0].kind not in ROOT_KINDS:
            raise InvalidOperation("a chain of delegation begins with a human or the system")
        if len(self.links) > CHAIN_LINKS_MAX:
            raise InvalidOperation(f"a chain of delegation has at most {CHAIN_LINKS_MAX} links")
        check_id(self.links[0].id)
        seen: list[str] = []
        for link in self.links:
            # Narrowing permissions adds a link with the same principal.
            if seen and seen[-1] == str(link):
                continue
            if str(link) in seen:
                raise InvalidOperation(
                    f"{link} would act on its own behalf: {' for '.join(seen[::-1])}"
                )
            if seen:
                check_holder(link.kind, link.id)
            seen.append(str(link))

    @classmethod
    def begin(cls, principal: Principal, rights: Permissions) -> "DelegationChain":
        """Return the chain in which a principal acts for itself.

        Raises:
            InvalidOperation: It acts on behalf of another, or may not act for itself.
        """
        if principal.on_behalf_of is not None:
            raise InvalidOperation(
                f"{principal} acts on behalf of {principal.on_behalf_of}: delegate to it"
            )
        return cls((DelegationLink(principal.kind, principal.id, rights),))

    @property
    def last(self) -> DelegationLink:
        """The acting principal's link."""
        return self.links[-1]

    @property
    def root(self) -> DelegationLink:
        """The link of the principal responsible for the whole chain."""
        return self.links[0]

    @property
    def principal(self) -> Principal:
        """The acting principal, and on whose behalf."""
        acting: Principal | None = None
        for link in self.links:
            if acting is None or str(acting) != str(link):
                acting = Principal(link.kind, link.id, acting)
        assert acting is not None, "a chain has a link"
        return acting

    @property
    def rights(self) -> Permissions:
        """The permissions at the end of the chain: what every link permits."""
        return reduce(Permissions.intersect, (link.rights for link in self.links))

    def child(self, rights: Permissions) -> "DelegationChain":
        """Return the chain in which the same principal has at most these permissions."""
        return DelegationChain((*self.links, DelegationLink(self.last.kind, self.last.id, rights)))

    def delegate(self, to: Principal, rights: Permissions) -> "DelegationChain":
        """Return the chain in which another principal acts on behalf of this one.

        ``rights`` are the new principal's own, for example a persona's; it gets those that the
        chain permits too.

        Raises:
            InvalidOperation: The principal is in the chain already, or it is too long.
        """
        if to.on_behalf_of is not None:
            raise InvalidOperation(f"{to} already acts on behalf of {to.on_behalf_of}")
        if (to.kind, to.id) == (self.last.kind, self.last.id):
            raise InvalidOperation(f"{to} cannot delegate to itself; narrow its rights instead")
        return DelegationChain((*self.links, DelegationLink(to.kind, to.id, rights)))

    def decide(self, wanted: Right) -> Decision:
        """Return whether the end of the chain has a permission, and which link decided."""
        decision = Decision(wanted, allowed=False, reason="the delegation chain is empty")
        for link in self.links:
            decision = link.rights.decide(wanted)
            if not decision.allowed:
                reason = f"{decision.reason} for {link}"
                return Decision(wanted, allowed=False, reason=reason, pattern=decision.pattern)
        whom = " and ".join(dict.fromkeys(map(str, self.links)))
        return Decision(
            wanted, allowed=True, reason=f"{decision.reason} for {whom}", pattern=decision.pattern
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the documents of the links, in order."""
        return [
            {"kind": link.kind, "id": link.id, "rights": link.rights.to_json()}
            for link in self.links
        ]

    @classmethod
    def from_json(cls, documents: Sequence[Mapping[str, Any]]) -> "DelegationChain":
        """Return the chain of its link documents.

        Raises:
            InvalidOperation: They are not a valid chain.
        """
        return cls(tuple(link_from_json(document) for document in documents))


def check_holder(kind: PrincipalKind, id: str) -> None:
    """Refuse to delegate to a principal that acts for itself.

    Raises:
        InvalidOperation: It is a human or the system, or its id could be read as two principals.
    """
    if kind not in HOLDER_KINDS:
        raise InvalidOperation(f"rights are handed to an agent or a session, not to {kind}:{id}")
    check_id(id)


def link_from_json(document: object) -> DelegationLink:
    """Return the link of a document.

    Raises:
        InvalidOperation: The document is malformed.
    """
    match document:
        case {"kind": str(kind), "id": str(id), "rights": Mapping()} if kind in KINDS and id:
            said = cast("Mapping[str, Any]", document)
            return DelegationLink(kind, id, Permissions.from_json(said["rights"]))
        case _:
            raise InvalidOperation(f"{document!r} is not a link of a delegation chain")
