"""Who is asking."""

from importlib.metadata import version
from typing import Final

from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute, NoValues
from turntree.wire.me import Me


async def get_me(context: ServerContext, _: NoValues) -> Me:
    """Return the user, the workspace and what this server can do."""
    settings = context.settings
    return Me(
        user=settings.user,
        workspace=settings.workspace,
        version=version("turntree"),
        home=str(settings.home) if context.is_local else "",
        can_run=context.can_run,
        sample=context.is_sample,
    )


ROUTES: Final = (
    ApiRoute("GET", "/me", READ, get_me, "The user and what this server can do.", answers=Me),
)
