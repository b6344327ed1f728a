"""``approve``, ``reject``, ``edit`` and ``answer``: decide what waits for a person."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from turntree.cli.command import Terminal, is_asked, verb
from turntree.cli.common.foreign_approvals import settle_decided
from turntree.cli.common.request_text import draw_request, request_document, short_request
from turntree.cli.common.verdicts import (
    RequestVerbs,
    ask_for_args,
    read_answer,
    read_args,
    require_person,
)
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.text import clean
from turntree.core.errors import Hint, InvalidOperation, Unsupported
from turntree.core.ids import Timestamp
from turntree.policy.always import allow_always
from turntree.policy.approval import Approval
from turntree.system.shell_words import quoted

if TYPE_CHECKING:
    from turntree.policy.store import PolicyVersion

T = TypeVar("T")
_REQUEST = click.argument("request_id", metavar="[REQUEST]", required=False)
_RESUME = click.option(
    "--resume/--no-resume",
    "resumes",
    default=True,
    help="Resumption of the Claude Code session that waits for it.",
)


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
    Claude Code ended and waits for your answer, it is resumed in its folder.
    """
    require_person()
    if always and terminal.find_server() is not None:
        raise Unsupported("approve --always does not work over a server")
    one, now = _find(terminal, request_id)
    _require_call(one)
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
    require_person()
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
    _require_call(one)
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
    if one.kind != "question":
        raise InvalidOperation(
            f"{short_request(one)} is a call, which cannot be answered",
            hint=command_hint(f"turntree approve {short_request(one)}"),
        )

    async def act(verbs: RequestVerbs, _: Timestamp) -> Approval:
        return await verbs.answer(one.id, read_answer(one, said))

    _tell(terminal, call_requests(terminal, act), now)


def call_requests(terminal: Terminal, act: Callable[[RequestVerbs, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the requests of the ledger, or of the server of a command."""
    if terminal.find_server() is not None:
        from turntree.cli.client.approvals import call_served_requests

        return call_served_requests(terminal, act)
    return with_ledger(terminal, lambda opened: act(opened.tree.approvals, opened.now))


def _propose(terminal: Terminal, one: Approval) -> None:
    """Propose the policy in force with a rule that allows this call: nothing changes by itself."""
    kind, _, name = one.requested_by.partition(" ")[0].partition(":")

    async def act(opened: CliContext) -> "PolicyVersion":
        policies, by = opened.tree.policies, f"human:{opened.settings.user}"
        active = await policies.get_active(agent=name if kind == "agent" else None)
        source = allow_always(active.source, one.tool, one.args or {}, by=by)
        return await policies.propose(
            source, language=active.language, lane=active.lane, agent=active.agent,
            notes=f"approved for good: {one.tool}",
        )  # fmt: skip

    made = with_ledger(terminal, act)
    of = "" if made.agent is None else f" --agent {quoted(made.agent)}"
    terminal.note(
        f"proposed as policy {made.number}; next: turntree policy activate {made.number}{of}"
    )


def _find(terminal: Terminal, start: str | None) -> tuple[Approval, Timestamp]:
    async def act(verbs: RequestVerbs, now: Timestamp) -> tuple[Approval, Timestamp]:
        return await verbs.find(start), now

    one, now = call_requests(terminal, act)
    if one.verdict_at(now) == "expired":
        raise InvalidOperation(f"{short_request(one)} has expired", hint=Hint("approval.list"))
    return one, now


def _require_call(one: Approval) -> None:
    if one.kind == "question":
        raise InvalidOperation(
            f"{short_request(one)} is a question, which is answered or rejected",
            hint=command_hint(f"turntree answer {short_request(one)} ANSWER"),
        )


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
