"""The channel e-mail: how a delivery is written, and how it is handed to a mail server.

A delivery keeps its Message-ID in each attempt. A mail server cannot be asked whether it accepted a
message whose answer was lost, so the message is sent again, and mail systems fold the two.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import anyio

from turntree.core.errors import InvalidOperation
from turntree.core.secret_refs import NAMED
from turntree.core.value import value
from turntree.notifications.delivery import ATTEMPT_MAX_S, Delivery, DeliveryAttempt, count_by_kind
from turntree.notifications.notice import Notice
from turntree.notifications.preferences import check_address

Security = Literal["tls", "starttls", "none"]
SCHEMES: Final[Mapping[str, tuple[Security, int]]] = {
    "smtps": ("tls", 465),
    "smtp": ("starttls", 587),
    "smtp+plain": ("none", 25),
}
"""How a mail server is reached, with the port: encrypted at once, after STARTTLS, or not at all."""
NEVER_CODE: Final = 500
"""From this code on, a mail server means for good what it refuses."""
TEXT_CHARS_SHOWN: Final = 2_000
"""Of each notice; the inbox has all of it."""


@value
class MailServer:
    """The mail server that takes what leaves by mail."""

    host: str
    port: int
    security: Security
    sender: str
    """The address that mails come from."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_s: float = ATTEMPT_MAX_S


def read_mail_server(
    url: str | None, sender: str | None, password: str | None, secrets: Mapping[str, str]
) -> MailServer | None:
    """Return the mail server that settings name; None if they name none.

    ``url`` is ``smtp://USER@HOST:PORT``, and ``password`` names a variable: ``${NAME}``.

    Raises:
        InvalidOperation: A setting is invalid or missing.
    """
    if not url:
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidOperation("the mail server is not a URL: smtp://USER@HOST:PORT") from error
    if parts.scheme not in SCHEMES or not host or parts.path.strip("/") or parts.query:
        raise InvalidOperation("the mail server is smtp://USER@HOST:PORT, or smtps://USER@HOST")
    if parts.password is not None:
        # Not quoted: it is the secret.
        raise InvalidOperation("the URL of the mail server has a password: name it as ${NAME}")
    security, default_port = SCHEMES[parts.scheme]
    user = None if parts.username is None else unquote(parts.username)
    if user is not None and security == "none" and not _is_near(host):
        raise InvalidOperation(f"a password would travel to {host} unencrypted: use smtp or smtps")
    if not sender:
        raise InvalidOperation("mails have no sender: set mail_from")
    return MailServer(
        host, port or default_port, security, check_address(sender), user,
        None if user is None else _read_secret(password, secrets),
    )  # fmt: skip


def check_mail_url(url: str) -> object:
    """Refuse a URL that is not one of a mail server.

    Raises:
        InvalidOperation: It is not.
    """
    return read_mail_server(url, "me@example.net", "${PASSWORD}", {"PASSWORD": "-"})


def check_secret_name(text: str) -> object:
    """Refuse what is not the name of a secret, ``${NAME}``.

    Raises:
        InvalidOperation: It is not.
    """
    if NAMED.fullmatch(text) is None:
        raise InvalidOperation("mail_password names a variable, such as ${MAIL_PASSWORD}")
    return text


def write_mail(
    delivery: Delivery, notices: Sequence[Notice], server: MailServer, workspace: str
) -> EmailMessage:
    """Return the mail of a delivery. Its headers have no text of a notice."""
    count = "a notice" if len(notices) == 1 else f"{len(notices)} notices"
    # A name of ours has no line break, but nothing here relies on it.
    place = "".join(char for char in workspace if char.isprintable())
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["Message-ID"] = message_id(delivery, server)
    mail["Date"] = format_datetime(datetime.fromisoformat(delivery.created_at))
    mail["From"] = f"Turntree <{server.sender}>"
    mail["To"] = delivery.address
    mail["Subject"] = f"{count[0].upper()}{count[1:]} in {place}"
    mail["Auto-Submitted"] = "auto-generated"
    lines = [f"Unread in {place}: {count_by_kind(notices)}.", ""]
    for one in notices:
        text = one.text.strip()
        if len(text) > TEXT_CHARS_SHOWN:
            text = f"{text[:TEXT_CHARS_SHOWN]} …"
        lines += [f"{one.kind} from {one.by}, {one.at}", _plain(text), ""]
    lines += ["Your inbox in Turntree shows them in full."]
    mail.set_content("\n".join(lines), cte="base64")
    return mail


def message_id(delivery: Delivery, server: MailServer) -> str:
    """Return the Message-ID of a delivery, the same in each attempt."""
    return f"<{delivery.id}@{server.sender.partition('@')[2]}>"


async def send_mail(mail: EmailMessage, server: MailServer) -> DeliveryAttempt:
    """Hand a mail to the server, and return what became of it."""
    # Only where mail is sent: it is an extra.
    import aiosmtplib  # noqa: PLC0415

    client = aiosmtplib.SMTP(
        hostname=server.host, port=server.port, timeout=server.timeout_s,
        use_tls=server.security == "tls", start_tls=server.security == "starttls",
        tls_context=None if server.security == "none" else ssl.create_default_context(),
    )  # fmt: skip
    is_known, is_under_way = False, False
    try:
        with anyio.fail_after(server.timeout_s):
            await client.connect()
            if server.user is not None:
                await client.login(server.user, server.password or "")
            is_known = True
            await client.mail(server.sender)
            await client.rcpt(mail["To"])
            is_under_way = True
            await client.data(mail.as_bytes(policy=SMTP_POLICY))
        return DeliveryAttempt("delivered")
    except aiosmtplib.SMTPResponseException as error:
        said = f"{error.code} {error.message}"
        # A server that refuses us refuses every address: that may be set right.
        is_final = error.code >= NEVER_CODE and is_known
        return DeliveryAttempt("rejected" if is_final else "refused", said)
    except (aiosmtplib.SMTPException, OSError) as error:
        said = f"{type(error).__name__}: {error}"
        return DeliveryAttempt("lost" if is_under_way else "refused", said)
    finally:
        client.close()


def _is_near(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_secret(text: str | None, secrets: Mapping[str, str]) -> str:
    found = NAMED.fullmatch(text or "")
    if found is None:
        raise InvalidOperation("the mail server has a user: name its password in mail_password")
    if not secrets.get(found[1]):
        raise InvalidOperation(f"mail_password names the variable {found[1]}, which is not set")
    return secrets[found[1]]


def _plain(text: str) -> str:
    """Return text without control characters, which a terminal that shows the mail would obey."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())
