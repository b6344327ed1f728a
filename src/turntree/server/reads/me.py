"""Who is asking."""

from importlib.metadata import version
from typing import Final

from turntree.auth.member import CREATE_KEYS, MANAGE_KEYS, MANAGE_MEMBERS
from turntree.auth.permissions import Right
from turntree.server.access.rights import CONFIGURE, CREATE, INVOKE, READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute, NoValues
from turntree.wire.me import Me

TOLD: Final[tuple[Right, ...]] = (
    READ, INVOKE, CREATE, CONFIGURE, CREATE_KEYS, MANAGE_KEYS, MANAGE_MEMBERS,
)  # fmt: skip
"""The rights that say which acts a client offers."""


async def get_me(context: ServerContext, _: NoValues) -> Me:
    """Return the user, the workspace and what this server can do."""
    settings = context.settings
    acting = context.tree.authority.own
    permitted = (right for right in TOLD if acting.decide(right).allowed)
    return Me(
        user=settings.user,
        workspace=settings.workspace,
        version=version("turntree"),
        home=str(settings.home) if context.is_local else "",
        can_run=context.can_run,
        sample=context.is_sample,
        may=tuple(right.partition(":")[2] for right in permitted),
        login=context.login,
    )


ROUTES: Final = (
    ApiRoute("GET", "/me", READ, get_me, "The user and what this server can do.", answers=Me),
)
