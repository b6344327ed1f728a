"""``on`` and ``off``: record your agents, from nothing to your own history, or stop recording.

``on`` installs the hooks first, because they need no database. Then it starts the server, looks
where tools store their transcripts, asks, imports, and prints a summary, which
``cli.output.import_summary`` formats. Without a terminal to ask on, nothing is imported unless an
option says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import anyio
import click

from turntree.boot.open import (
    embedded_conninfo,
    importing_on,
    load_importers,
    load_prices,
    stats_on,
)
from turntree.cli.command import Terminal, is_asked, verb
from turntree.cli.common.hook_sync import drain_here
from turntree.cli.context import CliContext, load_settings, with_ledger
from turntree.cli.output.import_summary import draw_tally, tally_document
from turntree.cli.output.progress import spinner
from turntree.cli.settings import hide_password, imports_privately, places_here
from turntree.cli.setup.hook import (
    ToolInstall,
    install_hooks,
    list_found,
    make_installer,
    remove_hooks,
    tell_installed,
)
from turntree.cli.transcripts.import_ import (
    Found,
    Report,
    count_found,
    draw_found,
    find_transcripts,
    note_remarks,
    progress_bar,
)
from turntree.core.errors import InvalidOperation, Unsupported
from turntree.core.value import value
from turntree.db.embedded.server import EmbeddedServer
from turntree.hooks.coding_agents import TOOLS
from turntree.stats.import_summary import ImportedTranscript, ImportSummary, deletion_of, take_tally
from turntree.stats.spending import CONTEXT_BANDS, SpendingTotal, sum_of
from turntree.system.clock import SystemClock
from turntree.transcripts.importer import HasDefaultPaths, Importer, source_bytes
from turntree.transcripts.imports import Progress


@verb()
@click.option("--yes", "-y", is_flag=True, help="No question before the import.")
@click.option("--no-import", is_flag=True, help="No import, and no question about it.")
@click.option(
    "--hooks/--no-hooks", default=True, show_default=True,
    help="Hooks in the coding agents found, so that they are recorded while they work.",
)  # fmt: skip
def on(terminal: Terminal, yes: bool, no_import: bool, hooks: bool) -> None:
    """Record your coding agents from now on, and import the sessions they have stored.

    Finds the coding agents of this machine and installs hooks into their settings, which record
    each turn and the files it found and left. Then it starts the database and asks whether to
    import what the agents have stored; their files are only read. Without a terminal nothing is
    imported unless --yes is given. `turntree off` removes the hooks. The server keeps running until
    `turntree down`; every other command starts it too, if need be. If you use your own database, it
    is migrated instead.
    """
    installed = _install_hooks(terminal) if hooks else []
    started = _start(terminal)
    importers = {} if no_import else dict(sorted(load_importers().items()))
    found = find_transcripts(importers)
    asks = is_asked(terminal) and not yes
    document: dict[str, Any] = {"found": None, "imported": None, "tally": None}
    if not terminal.as_json:
        terminal.say(started.sentence)
    newest: str | None = None
    if not no_import and not found:
        document |= _tell_nothing(terminal, importers, is_recording=bool(installed))
    elif found:
        document["found"] = count_found(found)
        if not terminal.as_json:
            draw_found(terminal, document["found"], found)
        if yes or asks:
            tally = _bring_home(terminal, found, document, yes=yes)
            newest = None if tally is None else tally.newest or "SESSION"
    undo = _undo(started, installed)
    if terminal.as_json:
        document["hooks"] = [result.document() for result in installed]
        terminal.document({**started.document, **document, "undo": undo})
    else:
        if undo is not None:
            terminal.note(f"undo with: {undo}     (everything: turntree uninstall)")
        if no_import:
            terminal.note("next: turntree status")
        elif newest is not None:
            # The summary above has a command for each thing that the user can do now.
            terminal.note("next: turntree search WORDS      any half-sentence you remember")
        elif found and not asks:
            terminal.note("nothing was imported: there is no terminal to ask on")
            terminal.note("next: turntree on --yes")
    if any(result.error is not None for result in installed):
        raise click.exceptions.Exit(1)


@verb()
def off(terminal: Terminal) -> None:
    """Stop recording: remove the hooks from all your coding agents.

    Takes them out of your settings and out of every project, and nothing is recorded any more, also
    not by agents that are running. What was recorded stays. `turntree down` stops the server, and
    `turntree uninstall` removes everything.
    """
    files = make_installer().list_files()
    remove_hooks(terminal, files)
    removed = [{"tool": tool.name, "path": str(path)} for path, tool in files.items()]
    told = [f"{tool.title} tells Turntree nothing any more: {path}" for path, tool in files.items()]
    terminal.tell(
        "\n".join(told) or "no hooks are installed",
        {"hooks": removed},
        undo="turntree on" if files else None,
        then=["(what was recorded stays: turntree log)"] if files else [],
    )


@value
class RunningServer:
    """A running server."""

    sentence: str
    document: Mapping[str, Any]
    undo: str | None


def _start(terminal: Terminal) -> RunningServer:
    settings = load_settings()
    if settings.database_url:
        where = hide_password(settings.database_url)
        # Opening a ledger migrates it.
        with_ledger(terminal, partial(_catch_up, terminal), waits=False)
        document = {"state": "external", "database": where, "pid": None}
        return RunningServer(f"ready, nothing to start: the database is {where}", document, None)
    reports: list[str] = []
    is_first = EmbeddedServer(settings.home).state().name == "absent"
    with spinner(terminal, "starting the server") as show:

        def report(text: str) -> None:
            reports.append(text)
            show(text)

        conninfo = anyio.run(embedded_conninfo, settings, report)
    if is_first and terminal.is_live:
        # The spinner has wiped them out, and the first says where the data is.
        for text in reports:
            terminal.note(text)
    with_ledger(terminal, partial(_catch_up, terminal), waits=False)
    state = EmbeddedServer(settings.home).state()
    return RunningServer(
        f"PostgreSQL {state.version} runs as process {state.pid}",
        {"state": state.name, "database": conninfo, "pid": state.pid, "home": str(settings.home)},
        "turntree down",
    )


async def _catch_up(terminal: Terminal, opened: CliContext) -> None:
    """Import pending hook events, and recover unfinished plans."""
    await drain_here(opened)
    try:
        outcomes = await opened.tree.plans.reconcile()
    except InvalidOperation as error:
        terminal.note(f"{error}     next: turntree plan resume")
        return
    for outcome in outcomes:
        ended = "finished" if outcome.end == "completed" else "taken back"
        terminal.note(f"a {outcome.plan.kind} that was left in the middle was {ended}")


def _tell_nothing(
    terminal: Terminal, importers: Mapping[str, Importer], *, is_recording: bool
) -> dict[str, Any]:
    places = places_here()
    looked = {
        name: [str(path) for path in one.usual_places(places)]
        for name, one in importers.items()
        if isinstance(one, HasDefaultPaths)
    }
    if terminal.as_json:
        pass
    elif is_recording:
        # An agent that has just been installed has no history yet: nothing is wrong.
        terminal.note("there are no earlier sessions to import")
        terminal.note("next: turntree ui        new turns appear there by themselves")
    else:
        terminal.note("no tool has left transcripts where they usually do; looked in")
        for name, paths in looked.items():
            for path in paths:
                terminal.note(f"  {name:<12} {path}")
        terminal.note("next: turntree import PATH    for an export or a copied folder")
        terminal.note("      turntree demo           for sample data to look around in")
    return {"found": {}, "looked_in": looked}


def _bring_home(
    terminal: Terminal, found: Found, document: dict[str, Any], *, yes: bool
) -> ImportSummary | None:
    """Import what was found, unless the user declines; the figures go to the document too."""
    pending = with_ledger(terminal, partial(_list_pending, found), waits=False)
    if pending and not yes and not _ask(terminal, len(pending), len(found)):
        terminal.note("nothing was imported     next: turntree import --dry-run")
        return None
    with progress_bar(terminal) as report:
        done, tally, spent = with_ledger(terminal, partial(_import, found, report), waits=False)
    document |= {"imported": asdict(done), "tally": tally_document(tally)}
    if not terminal.as_json:
        note_remarks(terminal, replace(done, repaired=0))  # The summary prints it.
        for line in draw_tally(tally, terminal, spent):
            terminal.say(line)
    return tally


def _install_hooks(terminal: Terminal) -> list[ToolInstall]:
    """Install hooks in the tools that were found, and tell which have them now."""
    found = list_found()
    try:
        installed = install_hooks(found, "user")
    except Unsupported as error:
        # What the agents have stored can still be imported.
        terminal.note(f"no hooks were installed: {error}")
        return []
    if terminal.as_json:
        return installed
    if not found:
        terminal.note(f"no coding agent found; looked for {', '.join(TOOLS)}")
    tell_installed(terminal, installed)
    return installed


def _undo(started: RunningServer, installed: Sequence[ToolInstall]) -> str | None:
    hooks = "turntree off" if any(result.changed for result in installed) else None
    return " && ".join(filter(None, (hooks, started.undo))) or None


async def _list_pending(found: Found, opened: CliContext) -> Found:
    importing = importing_on(opened.database, SystemClock(), opened.tree.runs.redactor)
    return await importing.list_pending(found)


def _ask(terminal: Terminal, pending: int, found: int) -> bool:
    what = "them" if pending == found else f"the {pending:,} that have changed"
    terminal.note(
        "their files are only read, and secret keys are taken out before anything is kept"
    )
    return click.confirm(f"import {what}?", default=True, err=True)


async def _import(
    found: Found, report: Report, opened: CliContext
) -> tuple[Progress, ImportSummary, SpendingTotal]:
    importing = importing_on(opened.database, SystemClock(), opened.tree.runs.redactor)
    importing.report, importing.private = report, imports_privately()
    done = await importing.run(found)
    # Index all words now, so that the first search does not wait.
    await opened.tree.search.fill(everything=True)
    cursors = await importing.imports.list_cursors()
    still = {(bundle.origin, bundle.id) for _, bundle in found}
    gone = [cursor for cursor in cursors if (cursor.origin, cursor.bundle) not in still]
    # A file that is already gone is not at risk of deletion.
    brought = [ImportedTranscript(c.origin, c.report, None) for c in gone]
    brought += [
        ImportedTranscript(c.origin, c.report, deletion_of(c.heads))
        for c in cursors
        if (c.origin, c.bundle) in still
    ]
    before = source_bytes(bundle for _, bundle in found) + sum(cursor.raw_bytes for cursor in gone)
    stats = stats_on(opened.database)
    held, sizes = await stats.count_imported(), await stats.measure()
    prices = load_prices()
    rows = await stats.list_spending(CONTEXT_BANDS)
    spent = sum_of([replace(one, cost=prices.find_cost(one)) for one in rows])
    return done, take_tally(held, before, sizes, brought, opened.now), spent
