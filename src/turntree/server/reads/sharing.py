"""A thread as one page for another person, without its secrets."""

from typing import Final

from turntree.boot.sharing import share_thread
from turntree.server.access.rights import READ
from turntree.server.commands import short, spell
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.system.shell_words import joined
from turntree.transfer.share import RedactionReport
from turntree.wire.sharing import (
    CleanedFile,
    RemovedFromMessage,
    RemovedParts,
    SharedPage,
    ShareQuery,
)


async def share(context: ServerContext, query: ShareQuery) -> SharedPage:
    """Return a thread up to a turn as a page, and what was removed from it.

    Raises:
        NotFound: The revision or the session names nothing.
        InvalidOperation: What cannot be left out holds a secret, such as a path or a tag.
    """
    found = await context.tree.resolve(query.revision)
    revision = short((await context.tree.turns.get(found.turn)).turn.digest)
    if query.session is not None:
        session = await context.tree.sessions.get(query.session)
        revision = session.label if session.head == found.turn else revision
    shared = await share_thread(context.tree, revision, _spell_import("FILE"))
    name = f"{shared.label.replace('/', '-')}.html"
    # A lone surrogate in a message has no bytes, in the file or in this answer.
    data = shared.page.encode("utf-8", "replace")
    return SharedPage(
        name=name,
        page=data.decode(),
        bytes=len(data),
        turns=shared.turns,
        removed=_removed(shared.report),
        command=spell(context, "share", revision, "-o", name),
        command_to_import=_spell_import(name),
    )


def _spell_import(file: str) -> str:
    # Another person types it, who has workspaces of their own.
    return joined(["turntree", "import", file])


def _removed(report: RedactionReport) -> RemovedParts:
    return RemovedParts(
        report.secrets,
        tuple(
            RemovedFromMessage(short(one.turn), one.message + 1, one.secrets)
            for one in report.messages
        ),
        tuple(CleanedFile(path, secrets) for path, secrets in report.files),
        report.files_left_out,
        len(report.turns_without_events),
        report.states_missing,
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "GET", "/turns/{revision}/share", READ, share,
        "Return a thread up to a turn as one page without secrets, and what was removed.",
        ShareQuery, SharedPage,
    ),
)  # fmt: skip
