"""Gives the first admin a key: the code of the one-time link is exchanged for an API key.

The person who starts a server can open its database, so the link gives them nothing that they do
not have. It saves them from typing a command on a machine that may be another one.
"""

from http import HTTPStatus
from typing import Final

from turntree.core.ids import instant, unix_ms
from turntree.core.value import value
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute

KEY_NAME: Final = "one-time link"
KEY_LIFE_DAYS: Final = 90
_DAY_MS: Final = 24 * 60 * 60 * 1000


@value
class CodeExchange:
    """The code that stood behind the ``#`` of the link."""

    code: str


@value
class FirstKey:
    """An API key, which is shown this once."""

    key: str
    id: str
    holder: str
    """The person whose rights it has: ``human:ana``."""
    expires_at: str


async def exchange_code(context: ServerContext, asked: CodeExchange) -> FirstKey:
    """Return a new API key of the person who started the server.

    Raises:
        Refusal: The code was used before, is too old, or is not one of this server's.
        PermissionDenied: The person is no member of the workspace.
    """
    if context.keys.redeem_key(asked.code) is None:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "key-refused",
            "this link was used before, or is too old",
            "ask the person who runs this server for a new link",
        )
    expires_at = instant(unix_ms(context.clock.now()) + KEY_LIFE_DAYS * _DAY_MS)
    made, key = await context.tree.keys.create(KEY_NAME, expires_at=expires_at)
    return FirstKey(key, made.id, made.holder, made.expires_at)


ROUTES: Final = (
    ApiRoute(
        "POST", "/first-key", None, exchange_code,
        "Exchange the code of the one-time link for an API key.",
        CodeExchange, FirstKey, is_open=True,
    ),
)  # fmt: skip
