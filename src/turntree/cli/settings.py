"""Settings: from the environment, from a file, or by default, in this order.

Knows which settings exist and where each value came from. Must never open a database: ``config``
has to work when nothing else does.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from turntree.core.errors import InvalidOperation
from turntree.core.secret_refs import read_hosts
from turntree.core.value import value
from turntree.system.head_file import read_head

if TYPE_CHECKING:
    from turntree.transcripts.importer import ToolPaths

Source = Literal["environment", "file", "default"]
_PASSWORD = re.compile(
    # Up to the last @: a password that was not percent-encoded may contain more of them.
    r"(?<=://)(?P<user>[^:@/\s]*):(?:\S*(?P<end>@)|(?!\d+(?:[/?,\s]|$))\S+)"
    r"|(?<=password)\s*=\s*(?:'(?:[^'\\]|\\.)*'?|[^\s&]+)",
    re.IGNORECASE,
)


@value
class Key:
    """A known setting."""

    variable: str
    help: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None
    """Raises on an invalid value."""
    several: bool = False
    """Whether it holds several values, separated by commas."""


RATE_MAX: Final = 1_000_000.0


def read_rate(text: str) -> float:
    """Return a number of requests per second; 0 stands for any number.

    Raises:
        InvalidOperation: It is not one.
    """
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= RATE_MAX:
        raise InvalidOperation(f"{text!r} is not a number of requests per second")
    return rate


def _check_mail_server(text: str) -> object:
    # Loaded where the setting is used.
    from turntree.notifications.mail import check_mail_url

    return check_mail_url(text)


def _check_mail_password(text: str) -> object:
    from turntree.notifications.mail import check_secret_name

    return check_secret_name(text)


def _check_proxies(text: str) -> object:
    from turntree.server.access.proxies import read_proxies

    return read_proxies(text)


def _check_command(text: str) -> object:
    from turntree.notifications.local_channels import read_command

    return read_command(text)


def _check_expiry(text: str) -> object:
    from turntree.policy.approval import read_duration

    return read_duration(text)


def _check_webhook_hosts(text: str) -> object:
    from turntree.webhooks.webhook import read_hosts

    return read_hosts(text)


def _check_tokens(text: str) -> object:
    from turntree.boot.open import read_tokens

    return read_tokens(text)


def _check_profiles(text: str) -> object:
    from turntree.workbench.profile import read_profiles

    return read_profiles(Path(text).expanduser())


KEYS: Final[Mapping[str, Key]] = {
    "database_url": Key("TURNTREE_DATABASE_URL", "your own PostgreSQL, 15 or later"),
    "console_url": Key("TURNTREE_CONSOLE_URL", "the same with a read-only login, for sql"),
    "shards": Key("TURNTREE_SHARDS", "the file that spreads workspaces over databases"),
    "live_url": Key("TURNTREE_LIVE_URL", "a Redis that passes live text between processes"),
    "home": Key("TURNTREE_HOME", "folder of the embedded server's files"),
    "workspace": Key("TURNTREE_WORKSPACE", "the workspace to work in", "default"),
    "user": Key("TURNTREE_USER", "the author of your turns and moves"),
    "identity_providers": Key(
        "TURNTREE_IDENTITY_PROVIDERS", "file with the identity providers of your server"
    ),
    "rate_limit": Key(
        "TURNTREE_RATE_LIMIT",
        "requests per second of one caller of your server; 0 for any number",
        "50",
        check=read_rate,
    ),
    "stranger_rate_limit": Key(
        "TURNTREE_STRANGER_RATE_LIMIT",
        "the same for one address whose sender is not known",
        "10",
        check=read_rate,
    ),
    "trusted_proxies": Key(
        "TURNTREE_TRUSTED_PROXIES",
        "ADDRESS,NETWORK,…: proxies that say whose requests they pass on",
        check=_check_proxies,
        several=True,
    ),
    "server": Key("TURNTREE_SERVER", "a server whose workspace commands work in, as a URL"),
    "server_http": Key(
        "TURNTREE_SERVER_HTTP",
        "whether a key may be sent by http to another machine",
        "no",
        ("yes", "no"),
    ),
    "mail_server": Key(
        "TURNTREE_MAIL_SERVER",
        "smtp://USER@HOST:PORT: what takes notices that leave by mail",
        check=_check_mail_server,
    ),
    "mail_from": Key("TURNTREE_MAIL_FROM", "the address that these mails come from"),
    "mail_password": Key(
        "TURNTREE_MAIL_PASSWORD",
        "${NAME}: the variable with the password of USER",
        check=_check_mail_password,
    ),
    "webhook_hosts": Key(
        "TURNTREE_WEBHOOK_HOSTS",
        "HOST:PORT,…: where webhooks may lead besides public addresses",
        check=_check_webhook_hosts,
        several=True,
    ),
    "agent_tokens_daily": Key(
        "TURNTREE_AGENT_TOKENS_DAILY",
        "tokens that agents may use in conversations for one person in a day",
        check=_check_tokens,
    ),
    "notice_command": Key(
        "TURNTREE_NOTICE_COMMAND",
        "command that your worker runs with your notices on its stdin",
        check=_check_command,
    ),
    "approval_expires": Key(
        "TURNTREE_APPROVAL_EXPIRES",
        "how long a request to a person waits: 12h, 7d or 2w",
        "7d",
        check=_check_expiry,
    ),
    "sandbox_profiles": Key(
        "TURNTREE_SANDBOX_PROFILES",
        "file that says what your agents' commands may reach",
        check=_check_profiles,
    ),
    "unsandboxed_connectors": Key(
        "TURNTREE_UNSANDBOXED_CONNECTORS",
        "names of your connectors whose commands run outside of every sandbox",
        several=True,
    ),
    "embedder_url": Key("TURNTREE_EMBEDDER_URL", "an embedding endpoint, compatible with OpenAI's"),
    "embedder_model": Key("TURNTREE_EMBEDDER_MODEL", "the embedding model"),
    "embedder_dims": Key("TURNTREE_EMBEDDER_DIMS", "the dimensions of its embeddings"),
    "secret_hosts": Key(
        "TURNTREE_SECRET_HOSTS",
        "NAME@HOST,…: where your secrets may be sent",
        check=read_hosts,
        several=True,
    ),
    "redact": Key(
        "TURNTREE_REDACT", "whether secrets are redacted before storing", "yes", ("yes", "no")
    ),
    "import_private": Key(
        "TURNTREE_IMPORT_PRIVATE",
        "whether imported sessions are private",
        "no",
        ("yes", "no"),
    ),
    "color": Key("TURNTREE_COLOR", "when to use colours", "auto", ("auto", "always", "never")),
}


@value
class Setting:
    """A setting's value and where it came from."""

    key: str
    value: str | None
    source: Source
    place: str
    """The variable or the file, for people."""


def config_path() -> Path:
    """Return the path of the settings file, whether or not it exists."""
    chosen = os.environ.get("TURNTREE_CONFIG")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_config_path("turntree", appauthor=False) / "config.toml"


def read_file() -> dict[str, str]:
    """Return the contents of the settings file; empty without a file.

    Raises:
        InvalidOperation: The file is not TOML.
    """
    path = config_path()
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    import tomllib

    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOperation(f"{path} is not TOML: {error}\nmend it, or remove it") from error
    return {key: str(value) for key, value in document.items() if key in KEYS}


def write_file(values: Mapping[str, str]) -> Path:
    """Replace the settings file and return its path."""
    path = config_path()
    lines = [f"{key} = {_toml_string(value)}" for key, value in sorted(values.items())]
    write_private(path, "".join(f"{line}\n" for line in lines))
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner may read: a database URL may hold a password."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def find_setting(key: str) -> Setting:
    """Return the value of a setting and where it came from."""
    variable = KEYS[key].variable
    if value := os.environ.get(variable):
        return Setting(key, value, "environment", variable)
    if value := read_file().get(key):
        return Setting(key, value, "file", str(config_path()))
    return Setting(key, KEYS[key].default, "default", "")


def imports_privately() -> bool:
    """Whether imported sessions are private to their importer."""
    return find_setting("import_private").value == "yes"


def merged_environment() -> dict[str, str]:
    """Return the environment with the values of the file and of ``.turntree`` merged in."""
    filed = {KEYS[key].variable: value for key, value in read_file().items()}
    head = read_head(Path.cwd())
    if head is not None:
        filed["TURNTREE_SESSION"] = head
    return {**filed, **{name: value for name, value in os.environ.items() if value}}


def places_here() -> "ToolPaths":
    """Return where tools store their data on this machine."""
    from turntree.transcripts.importer import ToolPaths

    return ToolPaths(Path.home(), os.environ)


def hide_password(conninfo: str) -> str:
    """Return a connection string without its password."""
    return _PASSWORD.sub(
        lambda found: (
            "=***" if found["user"] is None else f"{found['user']}:***{found['end'] or ''}"
        ),
        conninfo,
    )


def _toml_string(value: str) -> str:
    signs = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    escaped = "".join(
        signs.get(sign) or (f"\\u{ord(sign):04x}" if ord(sign) < ord(" ") else sign)
        for sign in value
    )
    return f'"{escaped}"'
