"""``remote``, ``push`` and ``pull``: sessions in a folder or a database of several people."""

from typing import Any

import click

from turntree.boot.remotes import PulledHead, PullResult, PushResult, is_url, open_remote
from turntree.boot.remotes import pull as pull_from
from turntree.boot.remotes import push as push_to
from turntree.boot.remotes import withdraw as withdraw_from
from turntree.cli.command import CommandGroup, Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.changes import shown_size
from turntree.cli.output.progress import counting
from turntree.cli.output.text import clean, counted, table
from turntree.cli.param_types import SESSION
from turntree.cli.settings import hide_password, imports_privately
from turntree.cli.transcripts.remote_file import (
    add_remote,
    get_remote,
    list_remotes,
    remotes_path,
    remove_remote,
)
from turntree.cli.transcripts.share import tell_removed
from turntree.core.program import Visibility
from turntree.system.shell_words import joined


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def remote(context: click.Context) -> None:
    """Add, list and remove remotes: folders and databases to push to and pull from.

    A remote is a folder that several people can write to, or a PostgreSQL with a ledger of
    Turntree. The list is yours alone, and a password in it is never printed.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_)


@verb()
@click.argument("name", metavar="NAME")
@click.argument("place", metavar="[FOLDER|URL]", required=False)
def add(terminal: Terminal, name: str, place: str | None) -> None:
    """Add a remote.

    FOLDER may not exist yet: the first push creates it. URL is postgresql://USER@HOST/DATABASE, and
    you can do there what that login may. Without either, adds the remote of that name again that
    you removed last.
    """
    chosen = add_remote(name, place)
    terminal.tell(
        f"{name} is {hide_password(chosen)}",
        _document(name, chosen),
        undo=joined(["turntree", "remote", "remove", name]),
        then=["next: turntree push SESSION"],
    )


@verb("list")
def list_(terminal: Terminal) -> None:
    """List the remotes."""
    remotes = list_remotes()
    if terminal.as_json:
        terminal.documents(_document(name, place) for name, place in remotes.items())
        return
    if not remotes:
        terminal.note("there are no remotes yet")
        terminal.note("next: turntree remote add NAME DIR")
        return
    terminal.say("\n".join(table([(name, hide_password(at)) for name, at in remotes.items()])))
    terminal.note(f"file: {remotes_path()}")


@verb()
@click.argument("name", metavar="NAME")
def remove(terminal: Terminal, name: str) -> None:
    """Remove a remote from the list; what is in it stays."""
    place = remove_remote(name)
    terminal.tell(
        f"{name} is no longer a remote; {hide_password(place)} stays as it is",
        _document(name, place),
        undo=joined(["turntree", "remote", "add", name]),
    )


@verb()
@click.argument("session", metavar="SESSION", type=SESSION)
@click.option("--to", "name", metavar="NAME", help="Remote to push to, if there are several.")
@click.option("--withdraw", is_flag=True, help="Removal of your last push; the turns stay there.")
@click.option("--dry-run", is_flag=True, help="Preview of what would be moved; nothing is written.")
def push(terminal: Terminal, session: str, name: str | None, withdraw: bool, dry_run: bool) -> None:
    """Copy a session to a remote: only the turns that it lacks, without secrets.

    Secrets are removed from messages and files before anything is written, as by `turntree share`.
    If others have continued the session in the remote, both heads are kept there. What was
    interrupted continues with the next push. A database takes no files, which are on your disk.
    """
    if withdraw and dry_run:
        raise click.UsageError("--withdraw has no preview")
    chosen, place = get_remote(name)
    if withdraw:
        _withdraw(terminal, session, chosen, place)
        return
    with counting(terminal, "pushing") as report:

        async def act(opened: CliContext) -> tuple[PushResult, str]:
            label = (await opened.tree.sessions.get(session)).label
            async with open_remote(place, opened.settings) as there:
                done = await push_to(opened.tree, there, chosen, session, report, dry_run=dry_run)
            return done, label

        done, label = with_ledger(terminal, act)
    undo = joined(["turntree", "push", label, "--to", chosen, "--withdraw"])
    has_changed = not dry_run and done.landing not in ("unchanged", "ahead")
    if terminal.as_json:
        terminal.document(
            {
                "remote": chosen,
                "session": done.session,
                "turns": done.turns,
                "turns_known": done.known,
                "bytes": done.bytes,
                "dry_run": dry_run,
                "result": done.landing,
                "stands_at": done.stands_at,
                "removed": done.report.document(),
                "undo": undo if has_changed else None,
            }
        )
        return
    moved = f"{counted(done.turns, 'turn')}"
    if dry_run:
        terminal.say(f"{moved} of {label} would go to {chosen}; {done.known:,} are there")
        return
    terminal.say(f"{moved} of {label} pushed to {chosen} ({shown_size(done.bytes)})")
    if done.turns:
        tell_removed(terminal, done.report)
    if done.landing == "ahead":
        terminal.note(f"{chosen} has more turns of it: turntree pull {chosen}")
    elif done.landing == "diverged":
        terminal.note(f"others have continued {done.session} there; yours is {done.stands_at}")
    if is_url(place) and done.turns:
        terminal.note("files stay on this machine: a database takes none")
    if has_changed:
        terminal.note(f"undo with: {undo}")


@verb()
@click.argument("name", metavar="[NAME]", required=False)
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--private/--public", default=None, help="Visibility of new sessions.")
@click.option("--dry-run", is_flag=True, help="Preview of what would be moved; nothing is stored.")
def pull(
    terminal: Terminal,
    name: str | None,
    session: str | None,
    private: bool | None,
    dry_run: bool,
) -> None:
    """Copy sessions from a remote: only the turns that are not here, all of them verified.

    NAME is a remote, and SESSION one of its sessions; without it, all are pulled. A session that is
    new here is called NAME/SESSION and belongs to you. One that you have not continued moves on. If
    you have, yours stays where it is and the other head becomes NAME/SESSION+OWNER.
    """
    chosen, place = get_remote(name)
    is_private = imports_privately() if private is None else private
    visibility: Visibility = "private" if is_private else "public"
    with counting(terminal, "pulling") as report:

        async def act(opened: CliContext) -> PullResult:
            async with open_remote(place, opened.settings) as there:
                done = await pull_from(
                    opened.tree, there, chosen, session, report,
                    visibility=visibility, dry_run=dry_run,
                )  # fmt: skip
            if any(head.turns for head in done.heads):
                await opened.tree.search.fill()
            return done

        done = with_ledger(terminal, act)
    if terminal.as_json:
        heads = [{**_head(head), "undo": None if dry_run else _undo(head)} for head in done.heads]
        terminal.document(
            {"remote": chosen, "bytes": done.bytes, "dry_run": dry_run, "heads": heads}
        )
        return
    for head in done.heads:
        terminal.say(_told_preview(head) if dry_run else _told(head))
        if not dry_run and (undo := _undo(head)) is not None:
            terminal.note(f"undo with: {undo}")
    if not done.heads:
        terminal.note(f"{chosen} has no sessions")
    elif not dry_run:
        terminal.note(f"{shown_size(done.bytes)} read; every digest matches")


def _withdraw(terminal: Terminal, session: str, name: str, place: str) -> None:
    async def act(opened: CliContext) -> str:
        async with open_remote(place, opened.settings) as there:
            return await withdraw_from(opened.tree, there, name, session)

    label = with_ledger(terminal, act)
    terminal.tell(
        f"your last push of {label} to {name} is taken back; its turns stay there",
        {"remote": name, "session": label},
        undo=joined(["turntree", "push", session, "--to", name]),
    )


def _document(name: str, place: str) -> dict[str, Any]:
    kind = "database" if is_url(place) else "folder"
    return {"name": name, "kind": kind, "place": hide_password(place)}


def _head(head: PulledHead) -> dict[str, Any]:
    return {
        "session": head.session, "owner": head.owner, "result": head.landing,
        "label": head.label, "turns": head.turns, "beside": head.beside,
    }  # fmt: skip


def _undo(head: PulledHead) -> str | None:
    match head.landing:
        case "moved":
            return joined(["turntree", "undo", head.label])
        case "created" | "diverged":
            return joined(["turntree", "session", "archive", head.label])
        case "unchanged" | "ahead":
            return None


def _told_preview(head: PulledHead) -> str:
    is_here = head.landing == "unchanged"
    state = "is here" if is_here else "has turns that are not here"
    return f"{clean(head.session)} of {clean(head.owner)} {state}"


def _told(head: PulledHead) -> str:
    turns = counted(head.turns, "turn")
    match head.landing:
        case "created":
            return f"{head.label} is new: {turns}"
        case "moved":
            return f"{head.label} has moved on: {turns}"
        case "unchanged":
            return f"{head.label} is up to date"
        case "ahead":
            return f"{head.label} has turns that were not pushed"
        case "diverged":
            both = f"you and {head.owner} have both continued {head.beside}"
            return f"{both}: theirs is {head.label}, with {turns} that were not here"


for command in (add, list_, remove):
    remote.add_command(command)
