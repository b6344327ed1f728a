"""The execution context: the acting principal with its permissions, credentials and settings.

An ``ExecutionContext`` propagates through asynchronous calls without being passed: code inside
``entered()`` gets it from ``current()``, and so do the tasks started there. It only ever narrows: a
child has at most its parent's permissions, and a principal that acts for another at most what both
may do.

It must never read the environment (boot passes it in), and it never shows a credential: neither in
its representation nor in a token nor in an error.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from turntree.auth import permissions as permission
from turntree.auth import token
from turntree.auth.delegation import DelegationChain
from turntree.auth.permissions import EVERYTHING, Decision, Permissions, Right
from turntree.auth.persona import Persona
from turntree.core.canonical import Json
from turntree.core.errors import Hint, NotFound, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import ACTIVE, Principal
from turntree.core.value import value


def current() -> "ExecutionContext":
    """Return the active context.

    Raises:
        PermissionDenied: There is none: the work started outside every context.
    """
    found = find_current()
    if found is None:
        raise PermissionDenied("no execution context is active")
    return found


def find_current() -> "ExecutionContext | None":
    """Return the active context, or None."""
    found = ACTIVE.get()
    assert found is None or isinstance(found, ExecutionContext), "only a context is entered"
    return found


@value
class ExecutionContext:
    """A delegation chain with what its end may use."""

    chain: DelegationChain
    credentials: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Credentials by name; they take precedence over the environment."""
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Fallback for credentials that were not passed in."""
    note: Callable[[Decision], None] | None = field(default=None, repr=False, compare=False)
    """Told of every look-up of a credential, allowed or not. The tools of a run have one."""

    @classmethod
    def begin(
        cls,
        principal: Principal,
        rights: Permissions = EVERYTHING,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> "ExecutionContext":
        """Return the context in which a human or the system acts for itself.

        Raises:
            InvalidOperation: An agent or a session cannot begin a chain.
        """
        return cls(DelegationChain.begin(principal, rights), environment=environment or {})

    @contextmanager
    def entered(self) -> Generator["ExecutionContext", None, None]:
        """Make this the active context until the block ends."""
        before = ACTIVE.set(self)
        try:
            yield self
        finally:
            ACTIVE.reset(before)

    @property
    def principal(self) -> Principal:
        """The acting principal, and on whose behalf."""
        return self.chain.principal

    @property
    def links(self) -> list[dict[str, Any]] | None:
        """The delegation chain as documents; None for a person or the system with all rights."""
        only, *more = self.chain.links
        return None if not more and only.rights == EVERYTHING else self.chain.to_json()

    @property
    def rights(self) -> Permissions:
        """The permissions here."""
        return self.chain.rights

    def child(
        self,
        rights: Permissions | None = None,
        *,
        credentials: Mapping[str, str] | None = None,
        config: Mapping[str, Json] | None = None,
    ) -> "ExecutionContext":
        """Return a context for a smaller piece of the same work.

        Credentials and settings given here hide the parent's; a credential that the permissions do
        not name is still out of reach.

        Raises:
            InvalidOperation: The chain is too long.
        """
        return replace(
            self,
            chain=self.chain if rights is None else self.chain.child(rights),
            credentials={**self.credentials, **(credentials or {})},
            config={**self.config, **(config or {})},
        )

    def delegate(self, to: Principal, rights: Permissions) -> "ExecutionContext":
        """Return the context in which another principal acts on behalf of this one.

        Raises:
            InvalidOperation: The principal is in the chain already, or it is too long.
        """
        return replace(self, chain=self.chain.delegate(to, rights))

    def assume(self, persona: Persona) -> "ExecutionContext":
        """Return the context in which an agent acts under a persona, on behalf of this one.

        An acting agent may take another version of its own persona.

        Raises:
            InvalidOperation: The agent is already further up in the chain.
        """
        if (self.chain.last.kind, self.chain.last.id) == ("agent", persona.agent):
            return self.child(persona.permitted)
        return self.delegate(Principal("agent", persona.agent), persona.permitted)

    def decide(self, wanted: Right) -> Decision:
        """Return whether a permission is granted, and why. ``tree.authority`` also records it."""
        return self.chain.decide(wanted)

    def get_credential(self, name: str) -> str:
        """Return a credential that the permissions name, from the context or the environment.

        Raises:
            PermissionDenied: No permission names it, whether or not it exists.
            NotFound: It is neither in the context nor in the environment.
        """
        decision = self.decide(permission.right("credential", name))
        if self.note is not None:
            self.note(decision)
        if not decision.allowed:
            raise PermissionDenied(f"the credential {name} is out of reach: {decision.reason}")
        value = self.credentials.get(name) or self.environment.get(name)
        if not value:
            raise NotFound(
                f"the credential {name} is neither in the context nor in the environment",
                hint=Hint("credential.export", {"credential": name}),
            )
        return value

    def may_list(self, name: str) -> bool:
        """Whether a variable of the environment is a credential that the permissions name."""
        return (
            name in self.environment and self.decide(permission.right("credential", name)).allowed
        )

    def may_read(self, name: str) -> bool:
        """Whether a variable may be read as a credential, which is noted.

        Unlike in ``get_credential``, a refusal is not: libraries ask for many variables, and for
        them this one does not exist.
        """
        if allowed := self.may_list(name):
            self.get_credential(name)
        return allowed

    def get_config(self, name: str, default: Any = None) -> Any:
        """Return a setting, or the default if it is not set."""
        return self.config.get(name, default)

    @classmethod
    def from_token(
        cls,
        text: str,
        *,
        key: bytes,
        audience: str,
        now: Timestamp,
        environment: Mapping[str, str] | None = None,
    ) -> "ExecutionContext":
        """Return the context of a token.

        Raises:
            PermissionDenied: The token is not valid, is for another audience, or has expired.
        """
        opened = token.open_token(text, key=key, audience=audience, now=now)
        return cls(opened.chain, config=opened.config, environment=environment or {})
