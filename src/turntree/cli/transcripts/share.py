"""``share``: one file to hand a thread to a colleague."""

from pathlib import Path
from typing import Final

import click

from turntree.boot.sharing import SharedFile, share_thread
from turntree.cli.command import Terminal, verb
from turntree.cli.context import with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import shown_path, shown_size
from turntree.cli.output.output_file import output_file
from turntree.cli.output.progress import spinner
from turntree.cli.output.text import counted, digits
from turntree.cli.param_types import REVISION
from turntree.core.errors import InvalidOperation
from turntree.system.shell_words import joined, quoted
from turntree.transfer.share import RedactionReport

FILES_SHOWN_MAX: Final = 10


@verb()
@click.argument("revision", metavar="REV", type=REVISION)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File to write; by default named after the session.",
)
def share(terminal: Terminal, revision: str, output: str | None) -> None:
    """Write a thread as one page that others can read and continue.

    The page shows the words, the tool calls and the changes to files in any browser, and loads
    nothing from the network. `turntree import FILE` reads the same file: it checks every digest
    and creates a session with the files of each turn.

    Secrets are removed from messages and files first, and what was removed is printed and listed
    on the page. Your other sessions are not in it.
    """
    with spinner(terminal, "writing the thread"):
        shared = with_ledger(
            terminal,
            lambda opened: share_thread(opened.tree, revision, "turntree import FILE"),
        )
    name = output or f"{shared.label.replace('/', '-')}.html"
    # A name that the user gave is meant; one that we made up must not cost them a file.
    if output is None and Path(name).exists():
        words = joined(["turntree", "share", revision, "-o", name])
        raise InvalidOperation(f"{name} exists", hint=command_hint(words))
    data = shared.page.encode("utf-8", "replace")
    with output_file(name) as file:
        file.write(data)
    if name == "-":
        return
    _tell(terminal, shared, name, len(data))


def _tell(terminal: Terminal, shared: SharedFile, name: str, size: int) -> None:
    if terminal.as_json:
        document = {"file": name, "bytes": size, "turns": shared.turns, "label": shared.label}
        terminal.document({**document, "removed": shared.report.document()})
        return
    terminal.say(f"{shown_path(name)} holds {counted(shared.turns, 'turn')} ({shown_size(size)})")
    tell_removed(terminal, shared.report)
    terminal.note(f"next: turntree import {quoted(name)}    where it is to be continued")


def tell_removed(terminal: Terminal, report: RedactionReport) -> None:
    """Print what was left out of a thread because of its secrets."""
    if not report.secrets:
        terminal.note("no secrets were found in it")
    for one in report.messages:
        terminal.note(
            f"message {one.message + 1} of {digits(one.turn)} held a secret and is not in it"
        )
    for path, count in report.files[:FILES_SHOWN_MAX]:
        terminal.note(f"{shown_path(path)}: {counted(count, 'secret')} taken out")
    if len(report.files) > FILES_SHOWN_MAX:
        terminal.note(f"secrets taken out of {len(report.files) - FILES_SHOWN_MAX} more files")
    for path in report.files_left_out[:FILES_SHOWN_MAX]:
        terminal.note(f"{shown_path(path)}: left out, too large to check or binary with a secret")
    if report.turns_without_events:
        turns = counted(len(report.turns_without_events), "turn")
        terminal.note(f"the events of {turns} held a secret and are not in it")
    if report.states_missing:
        terminal.note(
            f"the files of {counted(report.states_missing, 'snapshot')} are not stored here"
        )
