"""``approve``, ``reject``, ``edit`` and ``answer``: decide what waits for a person."""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from turntree.cli.command import Terminal, is_asked, verb
from turntree.cli.common.foreign_approvals import settle_decided
from turntree.cli.common.request_text import draw_request, request_document
from turntree.cli.common.verdicts import RequestVerbs, ask_for_args, read_answer, read_args
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean
from turntree.core.errors import PermissionDenied, Unsupported
from turntree.core.ids import Timestamp
from turntree.policy.always import allow_always
from turntree.policy.approval import Approval

T = TypeVar("T")
_REQUEST = click.argument("request_id", metavar="[REQUEST]", required=False)
_RESUME = click.option(
    "--resume/--no-resume",
    "resumes",
    default=True,
    help="Resumption of a Claude Code that waits for it.",
)


AGENT_VARIABLES = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_THREAD_ID")
"""What coding agents set in the shells that they run commands in."""


@verb()
@_REQUEST
@click.option("--note", "-m", help="Note that is recorded with the decision.")
@click.option("--always", is_flag=True, help="Proposal of a policy that always allows this call.")
@click.option("--yes", "-y", "is_sure", is_flag=True, help="No question before approving.")
@_RESUME
def approve(
    terminal: Terminal,
    request_id: str | None,
    *,
    note: str | None,
    always: bool,
    is_sure: bool,
    resumes: bool,
) -> None:
    """Allow a waiting tool call, once, with exactly its arguments.

    REQUEST is the beginning or the end of an id. Leave it out if only one request waits for you. If
    Claude Code ended to wait for your answer, it is resumed in its folder.
    """
    require_person()
    if always and terminal.find_server() is not None:
        raise Unsupported("approve --always does not work over a server")
    one, now = _find(terminal, request_id)
    _show(terminal, one, now, is_sure=is_sure)

    async def act(verbs: RequestVerbs, _: Timestamp) -> Approval:
        return await verbs.approve(one.id, note=note)

    _tell(terminal, call_requests(terminal, act), now, resumes=resumes)
    if always:
        _propose(terminal, one)


@verb()
@_REQUEST
@click.option("--note", "-m", help="Note that the model reads.")
def reject(terminal: Terminal, request_id: str | None, note: str | None) -> None:
    """Refuse a waiting tool call or question; the model reads why.

    REQUEST is the beginning or the end of an id. Leave it out if only one request waits for you.
    """
    one, now = _find(terminal, request_id)

    async def act(verbs: RequestVerbs, _: Timestamp) -> Approval:
        return await verbs.reject(one.id, note=note)

    _tell(terminal, call_requests(terminal, act), now)


@verb()
@_REQUEST
@click.argument("arguments", metavar="[JSON]", required=False)
@click.option("--note", "-m", help="Note that is recorded with the decision.")
@_RESUME
def edit(
    terminal: Terminal,
    request_id: str | None,
    arguments: str | None,
    note: str | None,
    resumes: bool,
) -> None:
    """Allow a waiting tool call, once, with other arguments.

    Without JSON, your editor opens with the present arguments.
    """
    require_person()
    if arguments is None and request_id is not None and request_id.lstrip().startswith("{"):
        request_id, arguments = None, request_id
    one, now = _find(terminal, request_id)
    args = read_args(ask_for_args(one) if arguments is None else arguments)

    async def act(verbs: RequestVerbs, _: Timestamp) -> Approval:
        return await verbs.edit(one.id, args, note=note)

    _tell(terminal, call_requests(terminal, act), now, resumes=resumes)


@verb()
@click.argument("words", metavar="[REQUEST] ANSWER", nargs=-1, required=True)
def answer(terminal: Terminal, words: tuple[str, ...]) -> None:
    """Answer a waiting question of a tool.

    ANSWER is JSON, or a text. Leave out REQUEST if only one waits for you.
    """
    require_person()
    *named, said = words
    if len(named) > 1:
        raise click.UsageError("name one request and one answer, in quotes if it has several words")
    one, now = _find(terminal, named[0] if named else None)

    async def act(verbs: RequestVerbs, _: Timestamp) -> Approval:
        return await verbs.answer(one.id, read_answer(one, said))

    _tell(terminal, call_requests(terminal, act), now)


def require_person() -> None:
    """Refuse to decide in the shell of a coding agent: it would approve its own calls.

    Raises:
        PermissionDenied: A coding agent runs this command.
    """
    if name := next((one for one in AGENT_VARIABLES if os.environ.get(one)), None):
        raise PermissionDenied(
            f"an agent cannot decide, and {name} is set here: use another terminal"
        )


def call_requests(terminal: Terminal, act: Callable[[RequestVerbs, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the requests of the ledger, or of the server of a command."""
    if terminal.find_server() is not None:
        from turntree.cli.client.approvals import call_served_requests

        return call_served_requests(terminal, act)
    return with_ledger(terminal, lambda opened: act(opened.tree.approvals, opened.now))


def _propose(terminal: Terminal, one: Approval) -> None:
    """Propose the policy in force with a rule that allows this call: nothing changes by itself."""

    async def act(opened: CliContext) -> int:
        policies = opened.tree.policies
        active, by = await policies.get_active(), f"human:{opened.settings.user}"
        source = allow_always(active.source, one.tool, one.args or {}, by=by)
        return (await policies.propose(source, notes=f"approved for good: {one.tool}")).number

    number = with_ledger(terminal, act)
    terminal.note(f"proposed as policy {number}; next: turntree policy activate {number}")


def _find(terminal: Terminal, start: str | None) -> tuple[Approval, Timestamp]:
    async def act(verbs: RequestVerbs, now: Timestamp) -> tuple[Approval, Timestamp]:
        return await verbs.find(start), now

    return call_requests(terminal, act)


def _show(terminal: Terminal, one: Approval, now: Timestamp, *, is_sure: bool) -> None:
    """Show what is about to be allowed, and ask where a person can answer."""
    if terminal.as_json:
        return
    for line in draw_request(one, now):
        terminal.note(line)
    if not is_sure and is_asked(terminal):
        click.confirm("approve?", abort=True, err=True)


def _tell(terminal: Terminal, one: Approval, now: Timestamp, *, resumes: bool = True) -> None:
    what = "the question" if one.kind == "question" else f"the call of {clean(one.tool)}"
    follows = () if one.run is None else (f"follow it with: turntree tail -f {one.run}",)
    terminal.tell(f"{what} is {one.state}", request_document(one, now), undo=None, then=follows)
    settle_decided(terminal, one, resumes=resumes)
