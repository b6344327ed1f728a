"""``conversation``: people and agents together."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from turntree.cli.command import Command, Terminal, verb
from turntree.cli.common.listen import open_talk
from turntree.cli.common.model_setup import ensure_model
from turntree.cli.common.reply import nothing, talk_options, wait_for
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, counted, table
from turntree.cli.param_types import PROGRAM
from turntree.cli.talk.posts import (
    conversation_document,
    draw_post,
    list_rows,
    participant_rows,
    post_document,
)
from turntree.conversations.conversation import Conversation, Participant
from turntree.conversations.mentions import check_post, write_mention
from turntree.conversations.post import TRIAGE, Post, PostReceipt
from turntree.core.errors import Hint, NotFound, TurntreeError
from turntree.core.ids import Label, RunId, Timestamp
from turntree.core.program import name_in
from turntree.routing.route import Route
from turntree.routing.target import ToSession
from turntree.system.shell_words import positional

if TYPE_CHECKING:
    from turntree.conversations.service import Conversations

LOG_POSTS = 50
SUGGESTED_MAX = 50
T = TypeVar("T")
Talk: TypeAlias = "Conversations"
"""What does the work: a ledger of this machine, or a server with the same verbs."""
PostAnswers: TypeAlias = tuple[list[Post], dict[str, str]]
"""Posts, with the name of each participant."""


@click.group()
def conversation() -> None:
    """Talk with people and agents in one place; each answer is a turn.

    An agent answers when it is mentioned, with --to AGENT or as @[Name](agent:NAME) in the text. It
    reads all that was said since it spoke last. Only participants read a private conversation.
    """


@verb()
@click.argument("name", metavar="NAME")
@click.option("--title", help="Title; by default the name.")
@click.option(
    "--with", "participants", multiple=True, metavar="NAME",
    help="Person or agent to add; repeatable.",
)  # fmt: skip
@click.option("--public", is_flag=True, help="Every member of the workspace may read and join.")
@click.option(
    "--agent-turns", type=click.IntRange(0, 1000), metavar="NUMBER",
    help="Maximum number of agents' turns after a person's post; by default 8.",
)  # fmt: skip
@click.option(
    "--triage/--no-triage", default=False,
    help="Decision by a triage agent who answers a post without a mention; by default none.",
)  # fmt: skip
def create(
    terminal: Terminal,
    name: str,
    *,
    title: str | None,
    participants: tuple[str, ...],
    public: bool,
    agent_turns: int | None,
    triage: bool,
) -> None:
    """Create a conversation; without --public only its participants see it."""

    async def act(talk: Talk, _now: Timestamp) -> Conversation:
        return await talk.create(
            name, title=title, participants=participants,
            visibility="public" if public else "private", agent_turns_max=agent_turns,
            triage=triage,
        )  # fmt: skip

    made = with_conversations(terminal, act)
    shown = clean(made.name)
    terminal.tell(
        f"{shown} begins: {made.visibility}, {counted(made.participants, 'participant')}",
        conversation_document(made),
        undo=f"turntree conversation set-state {positional(made.name)} deleted",
        then=(f"talk with: turntree conversation post {positional(made.name)} MESSAGE",),
    )


@verb("list")
@click.option("--archived", is_flag=True, help="Archived ones too.")
def list_(terminal: Terminal, archived: bool) -> None:
    """List conversations, those with the newest posts first."""

    async def act(talk: Talk, now: Timestamp) -> tuple[list[Conversation], Timestamp]:
        return await talk.list_all(archived=archived), now

    found, now = with_conversations(terminal, act)
    if terminal.as_json:
        terminal.documents(map(conversation_document, found))
    elif found:
        terminal.page(table(list_rows(found, now)))
    else:
        terminal.say("no conversations yet")
        begin = terminal.address("turntree conversation create NAME")
        terminal.say(f"next: {begin}")


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
def show(terminal: Terminal, name: str) -> None:
    """Show a conversation and who takes part, with the session in which each agent answers."""

    async def act(talk: Talk, now: Timestamp) -> tuple[Conversation, list[Participant], Timestamp]:
        return await talk.get(name), await talk.list_participants(name), now

    found, present, now = with_conversations(terminal, act)
    if terminal.as_json:
        people = [asdict(one) for one in present]
        terminal.document({**conversation_document(found), "participants": people})
    else:
        rows = [*table(list_rows([found], now)), "", *table(participant_rows(present, now))]
        terminal.page(rows)


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("text", metavar="MESSAGE")
@click.option(
    "--to", "to", multiple=True, metavar="NAME",
    help="Person or agent to mention; an agent answers; repeatable.",
)  # fmt: skip
@click.option(
    "--idempotency-key", "key", help="Idempotency key: a post with the same key is stored once."
)
@click.option("--wait/--no-wait", default=True, help="Wait for the answers (default).")
@talk_options
def post(
    terminal: Terminal,
    name: str,
    text: str,
    *,
    to: tuple[str, ...],
    key: str | None,
    wait: bool,
    tools: tuple[str, ...],
    no_worker: bool,
) -> None:
    """Say something in a conversation, and print the answers.

    Agents that are mentioned answer, each in a session of its own; an agent that does not take part
    is brought in. Without a mention no agent is woken, unless the conversation has triage.
    """

    async def act(opened: CliContext) -> PostReceipt:
        conversations = opened.tree.conversations
        words = await write_post(conversations, name, text, to)
        route = Route(ToSession(Label(name)), None, None, Label(name), ())
        calls = [one for one in check_post(words) if one.calls]
        for one in calls:
            if one.kind == "agent":
                # Before anything is stored: a set-up that fails leaves no post without an answer.
                await ensure_model(opened, terminal, route, {"agent": one.id})
        if not calls and (await conversations.get(name)).triage:
            for agent in await conversations.list_participants(name):
                # Whether one of them is asked is not known yet: people talk without a model, too.
                if agent.principal.startswith("agent:") and agent.added_by != TRIAGE:
                    with suppress(TurntreeError):
                        options = {"agent": agent.principal.removeprefix("agent:")}
                        await ensure_model(opened, terminal, route, options)
        return await conversations.post(name, words, key=key)

    async def read(opened: CliContext, posted: PostReceipt) -> PostAnswers:
        return await read_answers(opened.tree.conversations, name, posted)

    with open_talk(terminal, tools=tools, serves=wait and not no_worker) as talk:
        posted = talk.call(act)
        note_post(terminal, name, posted)
        if not wait or not is_awaited(posted):
            tell_posted(terminal, name, posted)
            return
        # An answer may address further agents.
        while runs := talk.call(lambda opened: _pending(opened, name, posted)):
            for run in runs:
                wait_for(talk, run, nothing)
        answers = talk.call(partial(read, posted=posted))
    tell_answers(terminal, name, posted, answers)


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=LOG_POSTS, show_default=True,
              help="Number of posts, the newest.")  # fmt: skip
@click.option("--before", type=click.IntRange(1), metavar="NUMBER", help="Only posts before one.")
def log(terminal: Terminal, name: str, limit: int, before: int | None) -> None:
    """Show what was said, oldest first; each answer with its turn."""

    async def act(talk: Talk, _now: Timestamp) -> tuple[list[Post], dict[str, str]]:
        found = await talk.list_posts(name, before=before, limit=limit)
        return found, await _names(talk, name)

    found, names = with_conversations(terminal, act)
    if terminal.as_json:
        terminal.documents(map(post_document, found))
    elif not found:
        terminal.say("nothing was said yet")
        begin = terminal.address(f"turntree conversation post {positional(name)} MESSAGE")
        terminal.say(f"next: {begin}")
    else:
        lines = [line for one in found for line in draw_post(one, names, terminal)]
        if found[0].seq > 1 and len(found) == limit:
            lines.insert(0, terminal.paint(f"({found[0].seq - 1} earlier)", "dim"))
        terminal.page(lines)


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("participant", metavar="NAME")
def add(terminal: Terminal, name: str, participant: str) -> None:
    """Add a person or an agent."""

    async def act(talk: Talk, _now: Timestamp) -> bool:
        return await talk.add(name, participant)

    is_new = with_conversations(terminal, act)
    shown, where = clean(participant), positional(name)
    terminal.tell(
        f"{shown} takes part in {clean(name_in(name))}" + ("" if is_new else " already"),
        {"conversation": name_in(name), "participant": participant, "added": is_new},
        undo=f"turntree conversation remove {where} {positional(participant)}" if is_new else None,
    )


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("participant", metavar="NAME")
def remove(terminal: Terminal, name: str, participant: str) -> None:
    """Remove a person or an agent; they read nothing more of it, in no session and no fork."""

    async def act(talk: Talk, _now: Timestamp) -> None:
        await talk.remove(name, participant)

    with_conversations(terminal, act)
    terminal.tell(
        f"{clean(participant)} no longer takes part in {clean(name_in(name))}",
        {"conversation": name_in(name), "participant": participant, "removed": True},
        undo=f"turntree conversation add {positional(name)} {positional(participant)}",
    )


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
def leave(terminal: Terminal, name: str) -> None:
    """Take part no longer; a participant can add you again."""

    async def act(talk: Talk, _now: Timestamp) -> None:
        await talk.leave(name)

    with_conversations(terminal, act)
    terminal.tell(
        f"you no longer take part in {clean(name_in(name))}",
        {"conversation": name_in(name), "left": True},
        undo=None,
    )


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("new", metavar="[NEW]", required=False)
@click.option("--at", type=click.IntRange(0), metavar="NUMBER", help="Post; by default the last.")
def fork(terminal: Terminal, name: str, new: str | None, at: int | None) -> None:
    """Fork a conversation at one of its posts; its agents go on from there."""

    async def act(talk: Talk, _now: Timestamp) -> Conversation:
        return await talk.fork(name, at=at, name=new)

    made = with_conversations(terminal, act)
    terminal.tell(
        f"{clean(made.name)} is a fork of {clean(name_in(name))} at post {made.forked_seq}",
        conversation_document(made),
        undo=f"turntree conversation set-state {positional(made.name)} deleted",
    )


@verb()
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("number", metavar="NUMBER", type=click.IntRange(1))
@click.option("--reason", default="asked for", show_default=True, help="Reason, for the receipt.")
@click.option("--yes", "-y", is_flag=True, help="No question.")
def erase(terminal: Terminal, name: str, number: int, reason: str, yes: bool) -> None:
    """Erase a post for good, also where agents were told of it; a receipt stays."""
    shown = f"post {number} of {clean(name_in(name))}"
    if not yes:
        click.confirm(f"erase {shown} for good?", abort=True, err=True)

    async def act(talk: Talk, _now: Timestamp) -> bool:
        return await talk.erase(name, number, reason=reason)

    is_new = with_conversations(terminal, act)
    terminal.tell(
        f"{shown} is erased" if is_new else f"{shown} was erased before",
        {"conversation": name_in(name), "post": number, "erased": is_new},
        undo=None,
    )


@verb("set-state")
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("state", type=click.Choice(("active", "archived", "deleted")))
def set_state(terminal: Terminal, name: str, state: str) -> None:
    """Archive or delete a conversation, or take that back; what was said stays readable."""

    async def act(talk: Talk, _now: Timestamp) -> tuple[Conversation, Conversation]:
        return await talk.get(name), await talk.set_state(name, state)

    before, after = with_conversations(terminal, act)
    terminal.tell(
        f"{clean(after.name)} is {after.state}   (it was {before.state})",
        conversation_document(after),
        undo=f"turntree conversation set-state {positional(after.name)} {before.state}",
    )


@verb("set-triage")
@click.argument("name", metavar="CONVERSATION", type=PROGRAM)
@click.argument("state", metavar="{on|off}", type=click.Choice(("on", "off")))
def set_triage(terminal: Terminal, name: str, state: str) -> None:
    """Have a triage agent decide who answers a post without a mention, or no longer."""

    async def act(talk: Talk, _now: Timestamp) -> tuple[Conversation, Conversation]:
        return await talk.get(name), await talk.set_triage(name, on=state == "on")

    before, after = with_conversations(terminal, act)
    was = "on" if before.triage else "off"
    terminal.tell(
        f"triage of {clean(after.name)} is {state}   (it was {was})",
        conversation_document(after),
        undo=f"turntree conversation set-triage {positional(after.name)} {was}",
    )


def is_awaited(posted: PostReceipt) -> bool:
    """Whether an answer to a post may come."""
    return bool(posted.answers) or posted.decision_pending


def tell_posted(terminal: Terminal, name: str, posted: PostReceipt) -> None:
    done = "was posted before" if posted.repeated else "is posted"
    asked = ", ".join(clean(one.agent) for one in posted.answers)
    told = f"; {asked} will answer" if asked else ""
    if posted.decision_pending:
        told = "; who answers is being decided"
    elif posted.decision is not None and not asked:
        told = f"; no agent is asked: {clean(posted.decision.reason)}"
    terminal.tell(
        f"post {posted.seq} {done}{told}",
        _posted(posted),
        undo=None,
        then=tuple(f"follow it with: turntree tail -f {one.run}" for one in posted.answers)
        or (f"read it with: turntree conversation log {positional(name_in(name))}",),
    )


def _posted(posted: PostReceipt) -> dict[str, Any]:
    return {
        "post": posted.seq,
        "id": posted.id,
        "repeated": posted.repeated,
        "answers": [asdict(one) for one in posted.answers],
        "absent": [*posted.absent],
        "held_back": [*posted.held_back],
        "decision": None if posted.decision is None else asdict(posted.decision),
        "decision_pending": posted.decision_pending,
    }


async def _pending(opened: CliContext, name: str, posted: PostReceipt) -> list[RunId]:
    return await opened.tree.conversations.list_pending(name, posted.seq)


def with_conversations(terminal: Terminal, act: Callable[[Talk, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the conversations of this machine, or of the server of the command."""
    if terminal.find_server() is None:
        return with_ledger(
            terminal, lambda opened: act(opened.tree.conversations, opened.now), waits=False
        )
    # By its name: what works over a server imports the commands, and not the other way round.
    served = import_module("turntree.cli.client.conversations")
    call: Callable[[Terminal, Callable[[Talk, Timestamp], Awaitable[T]]], T] = served.call_served
    return call(terminal, act)


def note_post(terminal: Terminal, name: str, posted: PostReceipt) -> None:
    """Say what became of a post besides its answers."""
    if posted.redacted:
        what = counted(posted.redacted, "secret key")
        terminal.note(f"{what} redacted before the post was stored")
    for absent in posted.absent:
        who = absent.removeprefix("human:")
        terminal.note(f"{clean(who)} takes no part and is not told")
        add_them = f"turntree conversation add {positional(name)} {positional(who)}"
        terminal.note(f"next: {terminal.address(add_them)}")


def tell_answers(terminal: Terminal, name: str, posted: PostReceipt, found: PostAnswers) -> None:
    answers, names = found
    if terminal.as_json:
        terminal.document({**_posted(posted), "posts": [post_document(one) for one in answers]})
        return
    if not answers and posted.decision_pending:
        terminal.say(f"post {posted.seq} is posted; no agent was asked")
        why = terminal.address(f"turntree why {positional(f'{name_in(name)}#{posted.seq}')}")
        terminal.say(f"why: {why}")
    for one in answers:
        for line in draw_post(one, names, terminal):
            terminal.say(line)


async def read_answers(talk: Talk, name: str, posted: PostReceipt) -> PostAnswers:
    """Return the answers to a post, with the names of all who take part, or did."""
    found = await talk.list_posts(name, after=posted.seq)
    return [one for one in found if one.cause == posted.seq], await _names(talk, name)


async def _names(talk: Talk, name: str) -> dict[str, str]:
    found = await talk.list_participants(name, all=True)
    return {one.principal: one.name for one in found}


async def write_post(talk: Talk, name: str, text: str, to: Sequence[str]) -> str:
    """Return the words of a post, with mentions of people and agents before them.

    Raises:
        NotFound: One of them is neither a member nor an agent that may be used.
    """
    return " ".join([*[await _mention(talk, name, one) for one in to], text])


async def _mention(talk: Talk, conversation: str, name: str) -> str:
    bare = name_in(name).removeprefix("human:").removeprefix("agent:")
    wanted = {"human:": "user", "agent:": "agent"}.get(name[:6])
    found = await talk.suggest(conversation, bare, limit=SUGGESTED_MAX)
    for one in found:
        if bare in (one.id, one.name) and wanted in (None, one.kind):
            return write_mention(one.kind, one.id, one.name)
    others = [one.id for one in found] or [one.id for one in await talk.suggest(conversation)]
    raise NotFound(
        f"{bare} is neither a member nor an agent that you may use"
        + (f"\ndid you mean {' or '.join(others[:3])}?" if others else ""),
        hint=Hint("program.list_kind", {"kind": "agent"}),
    )


COMMANDS: Sequence[Command | click.Command] = (
    create, list_, show, post, log, add, remove, leave, fork, erase, set_state, set_triage,
)  # fmt: skip
for _one in COMMANDS:
    conversation.add_command(_one)
