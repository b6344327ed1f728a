"""Gives the first admin a key: the code of the one-time link is exchanged for an API key.

The person who starts a server can open its database, so the link gives them nothing that they do
not have. It saves them from typing a command on a machine that may be another one.
"""

from http import HTTPStatus
from typing import Final

from turntree.auth.api_key import KEY_DAYS_DEFAULT
from turntree.core.ids import days_after
from turntree.core.value import value
from turntree.server.access.visitor import Visitor
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute
from turntree.wire.accounts import NewKey

KEY_NAME: Final = "one-time link"


@value
class CodeExchange:
    """The code that stood behind the ``#`` of the link."""

    code: str


async def exchange_code(visitor: Visitor, asked: CodeExchange) -> NewKey:
    """Return a new API key of the person who started the server.

    Raises:
        Refusal: The code was used before, is too old, or is not one of this server's, or the
            server was started for another workspace than the path names.
        PermissionDenied: The person is no member of the workspace.
    """
    context = visitor.base
    # Not redeemed for another workspace, which may exist or not: the link is used up there only
    # where it leads.
    if not visitor.is_at_own or context.keys.redeem_key(asked.code) is None:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "key-refused",
            "this link was used before, is too old, or is for another workspace",
            "ask the person who runs this server for a new link",
        )
    expires_at = days_after(context.clock.now(), KEY_DAYS_DEFAULT)
    made, key = await context.tree.keys.create(KEY_NAME, expires_at=expires_at)
    return NewKey(key, made.id, made.holder, made.expires_at)


ROUTES: Final = (
    ApiRoute(
        "POST", "/first-key", None, exchange_code,
        "Exchange the code of the one-time link for an API key.",
        CodeExchange, NewKey, is_open=True,
    ),
)  # fmt: skip
