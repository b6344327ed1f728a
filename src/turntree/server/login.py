"""Exchanges the one-time key of the address for the cookie that every other request carries."""

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from turntree.core.value import value
from turntree.server.context import ServerContext
from turntree.server.keys import COOKIE_LIFE_S
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute


@value
class KeyExchange:
    """The key that stood behind the ``#`` of the address."""

    key: str


async def exchange_key(context: ServerContext, values: KeyExchange) -> Response:
    """Return 204 with the cookie.

    Raises:
        Refusal: The key was used before, is too old, or is not one of this server's.
    """
    cookie = context.keys.redeem_key(values.key)
    if cookie is None:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "key-refused",
            "this address was used before, or is too old",
            "ask the command line for a new address",
        )
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    response.set_cookie(
        context.keys.cookie_name, cookie, max_age=COOKIE_LIFE_S, httponly=True, samesite="strict"
    )
    return response


ROUTES: Final = (
    ApiRoute(
        "POST",
        "/session-key",
        None,
        exchange_key,
        "Exchange the one-time key of the address for a cookie.",
        asks=KeyExchange,
        is_open=True,
        is_local=True,
    ),
)
