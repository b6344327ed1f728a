"""``trigger``: addresses at which messages of other systems come in and act for you."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote

import click

from turntree.auth.permissions import Permissions
from turntree.cli.command import Terminal, verb
from turntree.cli.common.rotation import keep_hours, tell_secret
from turntree.cli.common.secret_input import read_secret
from turntree.cli.context import with_ledger
from turntree.cli.output.text import age, clean, counted, table
from turntree.cli.settings import find_setting
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.system.shell_words import positional
from turntree.triggers.trigger import SCOPES_DEFAULT, Firing, Trigger

if TYPE_CHECKING:
    from turntree.triggers.service import Triggers

T = TypeVar("T")
Taking: TypeAlias = "Triggers"
"""What does the work: a ledger of this machine, or a server with the same verbs."""
FIRINGS = 50


@value
class TriggerChange:
    """A trigger, and the secret that it got."""

    trigger: Trigger
    secret: str


@click.group()
def trigger() -> None:
    """Let signed messages of other systems come in, which agents and sessions answer.

    A server takes them at an address of each trigger: POST /w/WORKSPACE/api/v1/hooks/TRIGGER. They
    follow Standard Webhooks, and act for you with fewer rights.
    """


_own_secret = click.option(
    "--own-secret", is_flag=True, help="Ask for a secret that the other system made: whsec_…"
)


@verb()
@click.argument("name", metavar="NAME")
@click.argument("target", metavar="TARGET")
@click.option("--prompt", default="", help="What the agent is told before each message.")
@click.option(
    "--allow", metavar="PERMISSION", multiple=True,
    help="Permission of the messages, by default all tools; repeatable.",
)  # fmt: skip
@_own_secret
def create(
    terminal: Terminal,
    name: str,
    target: str,
    *,
    prompt: str,
    allow: tuple[str, ...],
    own_secret: bool,
) -> None:
    """Print the secret of a new trigger; NAME says what it is for, TARGET who answers.

    TARGET is an agent, else a session or a turn. The secret is shown now and never again. Without
    --allow, messages may read, send, begin sessions and use tools, and no credentials.
    """
    secret = read_secret("secret").strip() if own_secret else None
    scopes = Permissions.of_patterns(allow) if allow else SCOPES_DEFAULT

    async def act(taking: Taking, _now: Timestamp) -> TriggerChange:
        made, kept = await taking.create(name, target, prompt=prompt, scopes=scopes, secret=secret)
        return TriggerChange(made, kept)

    made = with_triggers(terminal, act)
    undo = f"turntree trigger delete {positional(made.trigger.id)}"
    where = f"{made.trigger.id} takes messages at {_path(terminal, made.trigger)}"
    tell_secret(terminal, where, made.secret, _document(terminal, made.trigger), undo)


@verb("list")
def list_(terminal: Terminal) -> None:
    """List your triggers; an admin sees those of all members."""

    async def act(taking: Taking, now: Timestamp) -> tuple[list[Trigger], Timestamp]:
        return await taking.list_all(), now

    found, now = with_triggers(terminal, act)
    if terminal.as_json:
        terminal.documents(_document(terminal, one) for one in found)
    elif found:
        terminal.page(table([_row(one, now) for one in found]))
    else:
        terminal.note("there are no triggers.")
        terminal.note(f"next: {terminal.address('turntree trigger create NAME AGENT')}")


@verb()
@click.argument("id", metavar="TRIGGER")
def show(terminal: Terminal, id: str) -> None:
    """Show a trigger, and the address at which it takes messages."""

    async def act(taking: Taking, now: Timestamp) -> tuple[Trigger, Timestamp]:
        return await taking.get(id), now

    found, now = with_triggers(terminal, act)
    if terminal.as_json:
        terminal.document(_document(terminal, found))
        return
    terminal.page(table([_row(found, now)]))
    terminal.say(f"address: {_path(terminal, found)}")
    if found.prompt:
        terminal.say(f"prompt: {clean(found.prompt)}")


@verb()
@click.argument("id", metavar="TRIGGER")
@keep_hours()
@_own_secret
def rotate(terminal: Terminal, id: str, hours: int, own_secret: bool) -> None:
    """Print a new secret of a trigger; for some hours both are accepted."""
    secret = read_secret("secret").strip() if own_secret else None

    async def act(taking: Taking, _now: Timestamp) -> TriggerChange:
        return TriggerChange(*await taking.rotate(id, hours=hours, secret=secret))

    made = with_triggers(terminal, act)
    document = _document(terminal, made.trigger)
    tell_secret(terminal, f"{made.trigger.id} has a new secret", made.secret, document, None)


@verb()
@click.argument("id", metavar="TRIGGER")
def pause(terminal: Terminal, id: str) -> None:
    """Take no messages until the trigger is resumed; senders are refused."""

    async def act(taking: Taking, _now: Timestamp) -> Trigger:
        return await taking.pause(id)

    made = with_triggers(terminal, act)
    undo = f"turntree trigger resume {positional(made.id)}"
    terminal.tell(f"{made.id} is paused", _document(terminal, made), undo=undo)


@verb()
@click.argument("id", metavar="TRIGGER")
def resume(terminal: Terminal, id: str) -> None:
    """Take messages again."""

    async def act(taking: Taking, _now: Timestamp) -> Trigger:
        return await taking.resume(id)

    made = with_triggers(terminal, act)
    undo = f"turntree trigger pause {positional(made.id)}"
    terminal.tell(f"{made.id} is active", _document(terminal, made), undo=undo)


@verb()
@click.argument("id", metavar="TRIGGER")
def delete(terminal: Terminal, id: str) -> None:
    """Delete a trigger and its secrets; what came in by it stays."""

    async def act(taking: Taking, _now: Timestamp) -> Trigger:
        return await taking.delete(id)

    made = with_triggers(terminal, act)
    document = {**_document(terminal, made), "state": "deleted"}
    terminal.tell(f"{made.id} is deleted", document, undo=None)


@verb()
@click.argument("id", metavar="TRIGGER")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=FIRINGS, show_default=True,
              help="Number of messages to show at most.")  # fmt: skip
def firings(terminal: Terminal, id: str, limit: int) -> None:
    """List the messages that came in by a trigger, newest first, each with its run."""

    async def act(taking: Taking, now: Timestamp) -> tuple[list[Firing], Timestamp]:
        return await taking.list_firings(id, limit=limit), now

    found, now = with_triggers(terminal, act)
    if terminal.as_json:
        terminal.documents({"message": one.message, "run": one.run, "at": one.at} for one in found)
    elif found:
        terminal.page(table([(clean(one.message), one.run, age(one.at, now)) for one in found]))
    else:
        terminal.note("nothing has come in yet.")


def with_triggers(terminal: Terminal, act: Callable[[Taking, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the triggers of this machine, or of the server of the command."""
    if terminal.find_server() is None:
        return with_ledger(
            terminal, lambda opened: act(opened.tree.triggers, opened.now), waits=False
        )
    # By its name: what works over a server imports the commands, and not the other way round.
    served = import_module("turntree.cli.client.webhooks")
    call: Callable[[Terminal, Callable[[Taking, Timestamp], Awaitable[T]]], T]
    call = served.call_triggers
    return call(terminal, act)


def _path(terminal: Terminal, one: Trigger) -> str:
    """Return the address at which messages come in; without a server, what comes after its name."""
    server = terminal.find_server()
    if server is None:
        workspace = quote(find_setting("workspace").value or "default", safe="")
        server = f"/w/{workspace}"
    return f"{server.rstrip('/')}/api/v1/hooks/{one.id}"


def _document(terminal: Terminal, one: Trigger) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "owner": one.owner,
        "target": one.target,
        "prompt": one.prompt,
        "scopes": one.scopes.to_json(),
        "state": one.state,
        "address": _path(terminal, one),
        "created_at": one.created_at,
        "secrets": one.secrets,
        "firings": one.firings,
        "fired_at": one.fired_at,
    }


def _row(one: Trigger, now: Timestamp) -> tuple[Any, ...]:
    told = [one.state, counted(one.secrets, "secret"), counted(one.firings, "message")]
    if one.fired_at is not None:
        told.append(f"the last {age(one.fired_at, now)}")
    owner = one.owner.removeprefix("human:")
    return one.id, clean(owner), clean(one.name), f"to {clean(one.target)}", ", ".join(told)


for command in (create, list_, show, rotate, pause, resume, delete, firings):
    trigger.add_command(command)
