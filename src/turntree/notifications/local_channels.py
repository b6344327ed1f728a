"""The channels terminal and command: notices on the machine of a worker, for its own user alone.

A person chooses them in their preferences. Which command runs is a setting of the machine, so no
one who writes to the ledger can choose it. What the notices say comes on stdin, never as an
argument.
"""

import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

import anyio

from turntree.core.canonical import Json, canonical
from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.notifications.delivery import (
    ATTEMPT_MAX_S,
    Claim,
    Delivery,
    DeliveryAttempt,
    count_by_kind,
)
from turntree.notifications.sender import DeliverySource

TEXT_CHARS_SHOWN: Final = 200


@value
class TerminalChannel:
    """Shows notices on the terminal of a worker."""

    person: str
    say: Callable[[str], None]

    async def send(
        self, delivery: Delivery, claim: Claim, source: DeliverySource
    ) -> DeliveryAttempt:
        """Print the notices of this worker's user."""
        if delivery.person != self.person:
            return _refusal(self.person)
        self.say(f"{source.name}: {count_by_kind(claim.notices)}")
        for one in claim.notices:
            self.say(f"  {one.kind} from {_plain(one.by)}: {_plain(one.text)}")
        return DeliveryAttempt("delivered")


@value
class CommandChannel:
    """Runs the command of a worker with notices on its stdin."""

    person: str
    words: tuple[str, ...]
    timeout_s: float = ATTEMPT_MAX_S

    async def send(
        self, delivery: Delivery, claim: Claim, source: DeliverySource
    ) -> DeliveryAttempt:
        """Run the command, for a notice of this worker's user."""
        if delivery.person != self.person:
            return _refusal(self.person)
        document: dict[str, Json] = {
            "delivery": delivery.id,
            "workspace": source.name,
            "summary": count_by_kind(claim.notices),
            "notices": [
                {"id": one.id, "kind": one.kind, "by": one.by, "text": one.text,
                 "refs": dict(one.refs), "at": one.at}
                for one in claim.notices
            ],
        }  # fmt: skip
        try:
            with anyio.fail_after(self.timeout_s):
                done = await anyio.run_process(
                    self.words, input=canonical(document), check=False,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )  # fmt: skip
        except TimeoutError:
            return DeliveryAttempt("lost", f"still running after {self.timeout_s:g} s")
        except OSError as error:
            return DeliveryAttempt("refused", f"{type(error).__name__}: {error}")
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()
            return DeliveryAttempt("refused", f"exit {done.returncode}: {said}")
        return DeliveryAttempt("delivered")


def read_command(text: str) -> tuple[str, ...]:
    """Return the words of a command.

    Raises:
        InvalidOperation: It has none, or a quote is left open.
    """
    try:
        words: Sequence[str] = shlex.split(text)
    except ValueError as error:
        raise InvalidOperation(f"{text[:80]!r} is not a command: {error}") from error
    if not words:
        raise InvalidOperation("the command is empty")
    return tuple(words)


def _plain(text: str) -> str:
    """Return text on one line without what a terminal would obey: a model may have written it."""
    line = " ".join(text.split())[:TEXT_CHARS_SHOWN]
    return "".join(char for char in line if char.isprintable())


def _refusal(person: str) -> DeliveryAttempt:
    return DeliveryAttempt("refused", f"this is the worker of {person}")
