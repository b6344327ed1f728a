"""Who is acting right now, with which rights, credentials and settings.

An ``ExecutionContext`` is carried along by asynchronous calls without being passed: whoever runs
inside ``entered()`` finds it with ``current()``, as do the tasks that are started there. It only
ever narrows: a child has at most its parent's rights, and somebody who acts on another's behalf at
most what both may do.

It must never read the environment (boot hands it in), and it never shows a credential: neither in
its representation nor in a token nor in an error.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, Final

from turntree.auth import permissions as permission
from turntree.auth import token
from turntree.auth.delegation import DelegationChain
from turntree.auth.permissions import EVERYTHING, Decision, Permissions, Right
from turntree.auth.persona import Persona
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.core.value import value

_CURRENT: Final[ContextVar["ExecutionContext | None"]] = ContextVar("turntree", default=None)


def current() -> "ExecutionContext":
    """Return who is acting here.

    Raises:
        PermissionDenied: Nobody is: a piece of work was begun outside of every context.
    """
    found = _CURRENT.get()
    if found is None:
        raise PermissionDenied("nobody acts here: enter an execution context first")
    return found


def find_current() -> "ExecutionContext | None":
    """Return who is acting here, or None."""
    return _CURRENT.get()


@value
class ExecutionContext:
    """A chain of delegation with what its end may use."""

    chain: DelegationChain
    credentials: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What was handed in by name; looked at before the environment."""
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Where a credential is looked for that nobody handed in."""

    @classmethod
    def begin(
        cls,
        principal: Principal,
        rights: Permissions = EVERYTHING,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> "ExecutionContext":
        """Return the context in which a human or the system acts for themselves.

        Raises:
            InvalidOperation: An agent or a session cannot begin a chain.
        """
        return cls(DelegationChain.begin(principal, rights), environment=environment or {})

    @contextmanager
    def entered(self) -> Generator["ExecutionContext", None, None]:
        """Act as this one until the block ends."""
        before = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(before)

    @property
    def principal(self) -> Principal:
        """Who acts, on whose behalf."""
        return self.chain.principal

    @property
    def rights(self) -> Permissions:
        """What may be done here."""
        return self.chain.rights

    def child(
        self,
        rights: Permissions | None = None,
        *,
        credentials: Mapping[str, str] | None = None,
        config: Mapping[str, Json] | None = None,
    ) -> "ExecutionContext":
        """Return a context for a smaller piece of the same work.

        Credentials and settings given here hide those of the parent; a credential that the rights
        do not name stays out of reach all the same.

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
        """Return the context in which somebody else acts on behalf of this one.

        Raises:
            InvalidOperation: They stand in the chain already, or it is too long.
        """
        return replace(self, chain=self.chain.delegate(to, rights))

    def assume(self, persona: Persona) -> "ExecutionContext":
        """Return the context in which an agent acts under a persona, on behalf of this one.

        An agent that acts already may take another version of its own persona.

        Raises:
            InvalidOperation: The agent stands further back in the chain.
        """
        if (self.chain.last.kind, self.chain.last.id) == ("agent", persona.agent):
            return self.child(persona.permitted)
        return self.delegate(Principal("agent", persona.agent), persona.permitted)

    def decide(self, wanted: Right) -> Decision:
        """Say whether a right is there, and why. ``runtime.authority`` also writes it down."""
        return self.chain.decide(wanted)

    def get_credential(self, name: str) -> str:
        """Return a credential that the rights name: from the context, else from the environment.

        Raises:
            PermissionDenied: No right names it, whether or not it exists.
            NotFound: It is neither in the context nor in the environment.
        """
        decision = self.decide(permission.right("credential", name))
        if not decision.allowed:
            raise PermissionDenied(f"the credential {name} is out of reach: {decision.reason}")
        value = self.credentials.get(name) or self.environment.get(name)
        if not value:
            raise NotFound(
                f"the credential {name} is neither in the context nor in the environment: "
                f"`export {name}=…` sets it"
            )
        return value

    def get_config(self, name: str, default: Any = None) -> Any:
        """Return a setting, or the default if nobody set it."""
        return self.config.get(name, default)

    def to_token(self, *, key: bytes, audience: str, expires_at: Timestamp, world: Clock) -> str:
        """Return a token with which another process can go on with these rights.

        Credentials stay here: the token only names which of its own the other may use.
        """
        return token.issue(
            self.chain,
            key=key,
            nonce=world.nonce(),
            audience=audience,
            expires_at=expires_at,
            config=self.config,
        )

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
        """Return the context that a token stands for.

        Raises:
            PermissionDenied: The token proves nothing, is meant for somebody else, or has expired.
        """
        opened = token.open_token(text, key=key, audience=audience, now=now)
        return cls(opened.chain, config=opened.config, environment=environment or {})
