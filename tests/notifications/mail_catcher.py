"""A mail server on loopback that accepts mail, or does what a test wants instead."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

ACCEPTS = "250 accepted"
STALLS, DROPS = "stalls", "drops"
STALL_S = 60.0


@dataclass(slots=True)
class MailCatcher:
    """What a mail server was given, and how it answers."""

    answers: list[str] = field(default_factory=list[str])
    """The answers to the next mails; it accepts those after them."""
    accepted: list[EmailMessage] = field(default_factory=list[EmailMessage])
    refused: list[str] = field(default_factory=list[str])
    """The Message-IDs of what it did not accept."""
    port: int = 0

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a mail, as the library calls it."""
        del session
        mail = message_from_bytes(cast("bytes", envelope.content), policy=policy.default)
        answer = self.answers.pop(0) if self.answers else ACCEPTS
        match answer:
            case "250 accepted":
                self.accepted.append(mail)
                return answer
            case "accepts and drops":
                # The mail is taken, and the client never hears of it.
                self.accepted.append(mail)
                _drop(server)
                return answer
            case "drops":
                _drop(server)
            case "stalls":
                await asyncio.sleep(STALL_S)
            case _:
                pass
        self.refused.append(str(mail["Message-ID"]))
        return answer

    @property
    def ids(self) -> list[str]:
        """The Message-IDs of what was accepted, in order."""
        return [str(mail["Message-ID"]) for mail in self.accepted]


def _drop(server: SMTP) -> None:
    transport: Any = server.transport
    transport.abort()


@contextmanager
def catching_mail() -> Generator[MailCatcher, None, None]:
    """Yield a mail server on a free port of loopback, without encryption."""
    catcher = MailCatcher()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        catcher.port = free.getsockname()[1]
    controller = Controller(catcher, hostname="127.0.0.1", port=catcher.port, ready_timeout=60)
    controller.start()
    try:
        yield catcher
    finally:
        controller.stop()
