"""Triggers: what a ledger knows about one, what it may do, and the message that it makes.

Knows the rules. Must never know how a request arrives.
"""

import hashlib
from dataclasses import replace
from typing import Final, Literal

from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import RIGHTS, Role
from turntree.auth.permissions import Permissions, actions, tools
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId, Timestamp
from turntree.core.message import Message, user
from turntree.core.principal import Principal
from turntree.core.value import value

TriggerState = Literal["active", "paused", "deleted"]
NAME_CHARS_MAX: Final = 200
PROMPT_CHARS_MAX: Final = 10_000
BODY_BYTES_MAX: Final = 256 * 1024
SCOPES_DEFAULT: Final = Permissions((*actions("read", "invoke", "create"), *tools("*")))
"""What a trigger permits, of what its owner may do, unless it says less: no credentials."""


@value
class Trigger:
    """What a ledger knows about a trigger: never its secret."""

    id: str
    name: str
    """What it is for, in the words of its owner."""
    owner: str
    """The person for whom it acts: ``human:ana``."""
    target: str
    """Where its messages go: an agent, a session or a turn."""
    prompt: str
    """What the agent is told before each message."""
    scopes: Permissions
    """What it permits, of what its owner may do."""
    state: TriggerState
    created_at: Timestamp
    secrets: int
    """How many are valid: two while one is replaced."""
    firings: int
    fired_at: Timestamp | None

    def act_for(self, role: Role) -> ExecutionContext:
        """Return the context in which it acts for its owner, who has a role."""
        owner = Principal("human", self.owner.removeprefix("human:"))
        return ExecutionContext.begin(owner, RIGHTS[role].intersect(self.scopes))


@value
class Firing:
    """A message that a trigger took."""

    message: str
    """Its id, the ``webhook-id``."""
    run: RunId
    """The run that answers it."""
    at: Timestamp
    repeated: bool = False
    """Whether it had come before, and nothing was posted now."""


@value
class IncomingMessage:
    """A message whose signature was right."""

    trigger: Trigger
    acting: ExecutionContext
    """Its owner, with what the trigger permits."""
    id: str
    text: str

    @property
    def digest(self) -> bytes:
        """The sha256 of its text."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def key(self) -> str:
        """The idempotency key under which it is posted."""
        return f"{self.trigger.id} {self.id}"

    def write(self) -> Message:
        """Return the message to the agent; the text of another system is marked as such."""
        begin = f"{self.trigger.prompt}\n\n" if self.trigger.prompt else ""
        said = f"{begin}The webhook {self.trigger.name!r} delivered this:\n\n{self.text}"
        return replace(user(said), source="webhook")


def check_trigger_name(name: str) -> str:
    """Return the name of a trigger.

    Raises:
        InvalidOperation: It is empty, too long, or not printable.
    """
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidOperation(
            f"a trigger's name has 1 to {NAME_CHARS_MAX} printable characters, not {name[:80]!r}"
        )
    return name


def check_prompt(prompt: str) -> str:
    """Return what the agent is told before each message.

    Raises:
        InvalidOperation: It is too long.
    """
    if len(prompt) > PROMPT_CHARS_MAX:
        raise InvalidOperation(f"a trigger's prompt has at most {PROMPT_CHARS_MAX} characters")
    return prompt
