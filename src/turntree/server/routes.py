"""The table of all routes: what is not here is not served."""

from typing import Final

from turntree.server import login
from turntree.server.access import api_keys, first_admin, identities, invitations, logins, members
from turntree.server.acts import (
    approvals,
    forks,
    handoffs,
    messages,
    moves,
    names,
    reverts,
    session_moves,
    triggers,
    webhooks,
)
from turntree.server.acts import conversations as conversation_acts
from turntree.server.reads import (
    answering,
    compare,
    conversations,
    costs,
    files,
    inbox,
    inspection,
    me,
    runs,
    sealed,
    search,
    sessions,
    shape,
    sharing,
    sources,
    stream,
    tags,
    threads,
)
from turntree.server.route import ApiRoute

ROUTES: Final[tuple[ApiRoute, ...]] = (
    *login.ROUTES,
    *me.ROUTES,
    *shape.ROUTES,
    *sources.ROUTES,
    *stream.ROUTES,
    *sessions.ROUTES,
    *threads.ROUTES,
    *sealed.ROUTES,
    *files.ROUTES,
    *inspection.ROUTES,
    *compare.ROUTES,
    *search.ROUTES,
    *costs.ROUTES,
    *forks.ROUTES,
    *handoffs.ROUTES,
    *moves.ROUTES,
    *names.ROUTES,
    *reverts.ROUTES,
    *sharing.ROUTES,
    *tags.ROUTES,
    *runs.ROUTES,
    *answering.ROUTES,
    *inbox.ROUTES,
    *approvals.ROUTES,
    *conversations.ROUTES,
    *messages.ROUTES,
    *conversation_acts.ROUTES,
    *session_moves.ROUTES,
    *webhooks.ROUTES,
    *triggers.ROUTES,
)

ACCOUNT_ROUTES: Final[tuple[ApiRoute, ...]] = (
    *first_admin.ROUTES,
    *invitations.ROUTES,
    *members.ROUTES,
    *api_keys.ROUTES,
    *logins.ROUTES,
    *identities.ROUTES,
    *triggers.HOOK_ROUTES,
)
"""Who and what gets in, over the network: a local server has one user."""

NETWORK_ROUTES: Final[tuple[ApiRoute, ...]] = (
    *ACCOUNT_ROUTES,
    *(route for route in ROUTES if not route.is_local),
)
"""The table of a server on the network, which has no user of its own machine."""
