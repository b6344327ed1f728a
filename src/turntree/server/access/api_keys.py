"""``/keys``: the API keys of the caller, each shown once; an admin sees and revokes all."""

from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.auth.api_key import KEY_DAYS_DEFAULT, KEY_DAYS_MAX, ApiKey
from turntree.auth.member import CREATE_KEYS
from turntree.auth.permissions import EVERYTHING, Permissions
from turntree.core.ids import Timestamp, days_after
from turntree.core.value import value
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute, NoValues
from turntree.wire.accounts import KeyDocument, KeyList, NewKey


@value
class KeyRequest:
    """What a new key is for, and what it may permit."""

    name: str
    allow: tuple[str, ...] | None = None
    """Patterns such as ``action:read``; without them the key permits what its holder may do."""
    agent: str | None = None
    """The agent that acts with it on the caller's behalf."""
    expires_in_days: Annotated[int, Ge(1), Le(KEY_DAYS_MAX)] = KEY_DAYS_DEFAULT


@value
class KeyRevocation:
    """A key to revoke."""

    key: str
    reason: str = ""


async def list_keys(context: ServerContext, _: NoValues) -> KeyList:
    """Return the keys of the caller, or of all for an admin."""
    now = context.clock.now()
    return KeyList(tuple(_document(key, now) for key in await context.tree.keys.list_all()))


async def create_key(context: ServerContext, asked: KeyRequest) -> NewKey:
    """Return a new key of the caller, which is not stored."""
    made, key = await context.tree.keys.create(
        asked.name,
        expires_at=days_after(context.clock.now(), asked.expires_in_days),
        scopes=EVERYTHING if asked.allow is None else Permissions.of_patterns(asked.allow),
        agent=asked.agent,
    )
    return NewKey(key, made.id, made.holder, made.expires_at)


async def revoke_key(context: ServerContext, asked: KeyRevocation) -> None:
    """Revoke a key: from now on it opens nothing."""
    await context.tree.keys.revoke(asked.key, reason=asked.reason)


def _document(key: ApiKey, now: Timestamp) -> KeyDocument:
    return KeyDocument(
        key.id,
        key.name,
        key.holder,
        key.agent,
        key.scopes.allow,
        key.scopes.deny,
        key.created_at,
        key.expires_at,
        key.last_used_at,
        key.state_at(now),
        key.revoked_by,
        key.revoked_at,
        key.reason,
    )


ROUTES: Final = (
    ApiRoute(
        "GET", "/keys", CREATE_KEYS, list_keys,
        "The caller's API keys; for an admin, those of all members.", answers=KeyList,
    ),
    ApiRoute(
        "POST", "/keys", CREATE_KEYS, create_key, "Create an API key, which is shown once.",
        KeyRequest, NewKey, "write",
    ),
    ApiRoute(
        "POST", "/keys/{key}/revoke", CREATE_KEYS, revoke_key, "Revoke an API key.",
        KeyRevocation, None, "write",
    ),
)  # fmt: skip
