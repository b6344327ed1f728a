"""Mark our hooks as trusted in Codex's settings: Codex runs only hooks that were reviewed.

Codex stores the hash of every trusted hook in ``config.toml``, under the file, the event and the
index of the hook, and silently skips all others. The hash covers the event, the command and its
timeout. Pure: texts go in and come out. Whether to trust a hook is the caller's decision.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, cast

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HEAD: Final = "# Hooks of Turntree, trusted because they were installed with --trust."


@value
class TrustedHook:
    """One hook, as Codex identifies it."""

    key: str
    digest: str


def trusted(file: str, event: str, place: int, command: str, timeout: int) -> TrustedHook:
    """Return the key and the hash under which Codex stores a command."""
    word = _WORD.sub("_", event).lower()
    handler = {"type": "command", "command": command, "timeout": timeout, "async": False}
    told = {"event_name": word, "hooks": [handler]}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return TrustedHook(f"{file}:{word}:{place}:0", f"sha256:{sha256(text.encode()).hexdigest()}")


def list_missing(config: str, hooks: Iterable[TrustedHook]) -> list[TrustedHook]:
    """Return the hooks that Codex would skip.

    Raises:
        InvalidOperation: The settings are not TOML.
    """
    state = _state(config)
    return [hook for hook in hooks if _digest(state.get(hook.key)) != hook.digest]


def with_trust(config: str, hooks: Iterable[TrustedHook]) -> str:
    """Return settings in which Codex trusts the hooks; everything else is unchanged.

    Raises:
        InvalidOperation: The settings are not TOML, or hold another hash for one of the hooks.
    """
    missing = list_missing(config, hooks)
    if not missing:
        return config
    state = _state(config)
    for hook in missing:
        if hook.key in state:
            raise InvalidOperation(
                f"Codex knows another hook as {hook.key}: review it there, with /hooks"
            )
    text = config if not config or config.endswith("\n") else f"{config}\n"
    grown = f"{text}{_block(missing)}"
    list_missing(grown, missing)  # Parse the result before it is written.
    return grown


def without_trust(config: str, hooks: Iterable[TrustedHook]) -> str:
    """Return settings without our hooks, as far as they are unchanged since we wrote them."""
    for hook in hooks:
        config = config.replace(_table(hook), "")
    return config.replace(f"\n{_HEAD}\n", "")


def is_trusting(config: str) -> bool:
    """Whether settings trust hooks of ours."""
    return _HEAD in config


def _block(hooks: Iterable[TrustedHook]) -> str:
    return f"\n{_HEAD}\n{''.join(_table(hook) for hook in hooks)}"


def _table(hook: TrustedHook) -> str:
    return f'[hooks.state.{json.dumps(hook.key)}]\ntrusted_hash = "{hook.digest}"\n'


def _state(config: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(config)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOperation(f"config.toml is not TOML: {error}") from error
    return _table_in(_table_in(document, "hooks"), "state")


def _table_in(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _digest(entry: Any) -> str | None:
    return cast("dict[str, Any]", entry).get("trusted_hash") if isinstance(entry, dict) else None
