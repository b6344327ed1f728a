"""``import``: import sessions from other coding agents, once or continuously."""

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import anyio
import click

from turntree.boot.open import importing_on, load_importers
from turntree.cli.command import Terminal, verb
from turntree.cli.common.hook_sync import drain_here
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.progress import counting
from turntree.cli.output.text import counted
from turntree.cli.settings import imports_privately, places_here
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.program import Visibility
from turntree.core.value import value
from turntree.system.clock import SystemClock
from turntree.transcripts.importer import Importer, TranscriptRef, source_bytes
from turntree.transcripts.imports import Progress
from turntree.transfer.archive import FIRST
from turntree.transfer.share_page import is_shared_page, open_shared_page

Found = list[tuple[Importer, TranscriptRef]]
Report = Callable[[Progress], None]
POLL_SECONDS: Final = 2.0
_MB: Final = 1e6


@verb("import")
@click.argument(
    "paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path, exists=True)
)
@click.option(
    "--from", "origins", metavar="TOOL", multiple=True, help="Tool to import from; repeatable."
)
@click.option("--private/--public", default=None, help="Visibility of new sessions.")
@click.option("--no-redact", is_flag=True, help="No redaction: secret keys are stored as they are.")
@click.option(
    "--reparse", is_flag=True, help="Stored records, parsed again with the current importers."
)
@click.option(
    "--follow", is_flag=True, help="Import of each turn once it is complete, until Ctrl-C."
)
@click.option("--for", "seconds", type=float, metavar="SECONDS",
              help="Time limit of --follow in seconds.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Preview of what would be read; nothing is imported.")
def import_(
    terminal: Terminal,
    paths: tuple[Path, ...],
    origins: tuple[str, ...],
    private: bool | None,
    no_redact: bool,
    reparse: bool,
    follow: bool,
    seconds: float | None,
    dry_run: bool,
) -> None:
    """Import sessions from other coding agents.

    Without a PATH, looks where the tools of this machine store them. Importing again reads only
    what has changed, and a session that you have moved elsewhere stays there. Secret keys are
    redacted before anything is stored. --follow imports sessions while the agents work.

    PATH may also be an archive that `turntree export --all` wrote. It is imported with the same ids
    and digests, all of it or nothing, after every digest was verified; --dry-run only verifies it.
    What is here already is skipped, and a name or an id that means something else here is refused.
    A page that `turntree share` wrote becomes a session of yours.

    You own what you import. With --private, or with `turntree config set import_private yes`, new
    sessions are private; existing ones stay as they are. A session of another user is never moved:
    a transcript with its name creates one of your own.
    """
    archives = [path for path in paths if _is_archive(path) or is_shared_page(path)]
    if archives:
        path = archives[0]
        is_private = private is not None and not is_shared_page(path)
        if origins or reparse or no_redact or follow or is_private:
            raise click.UsageError("an archive of Turntree goes with --dry-run only")
        if len(paths) > 1:
            raise click.UsageError("import an archive of Turntree alone")
        _load_archive(terminal, path, dry_run=dry_run, private=private)
        return
    importers = _chosen(origins)
    if follow:
        if paths or reparse or no_redact or dry_run or private is not None:
            raise click.UsageError("--follow goes with --from and --for only")
        _follow(terminal, importers, seconds)
        return
    found = [] if reparse else find_transcripts(importers, paths)
    if dry_run or not (found or reparse):
        _tell_found(terminal, importers, found)
        return
    with progress_bar(terminal) as report:

        async def act(opened: CliContext) -> Progress:
            importing = importing_on(opened.database, SystemClock(), opened.tree.runs.redactor)
            importing.private = imports_privately() if private is None else private
            importing.redacting, importing.report = importing.redacting and not no_redact, report
            done = await (importing.reproject(importers) if reparse else importing.run(found))
            if done.turns_added:
                await opened.tree.search.fill()
            return done

        done = with_ledger(terminal, act, waits=False)
    _tell_done(terminal, done)


def _is_archive(path: Path) -> bool:
    """Return whether a file starts as an archive of a ledger does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(FIRST)) == FIRST


def _load_archive(terminal: Terminal, path: Path, *, dry_run: bool, private: bool | None) -> None:
    is_private = imports_privately() if private is None else private
    visibility: Visibility = "private" if is_private else "public"
    with counting(terminal, "verifying" if dry_run else "importing") as report:

        async def act(opened: CliContext) -> _LoadedArchive:
            archives = opened.tree.archives
            with path.open("rb") if _is_archive(path) else open_shared_page(path) as file:
                if dry_run:
                    read = await archives.verify(file, report)
                    return _LoadedArchive(
                        read.lines, read.counts, read.is_partial, read.shared is not None
                    )
                done = await archives.load(file, report, visibility=visibility)
            if done.added.get("turn"):
                await opened.tree.search.fill()
            label = None if done.session is None else done.session.label
            return _LoadedArchive(
                done.lines, done.added, done.is_partial, label is not None, label, done.has_files
            )

        done = with_ledger(terminal, act, waits=False)
    if terminal.as_json:
        name = "lines_by_kind" if dry_run else "added"
        document = {"lines": done.lines, name: done.counts, "partial": done.is_partial}
        terminal.document({**document, "session": done.session})
        return
    kinds = (
        ("turn", "event", "object") if done.is_shared else ("turn", "session", "event", "object")
    )
    held = ", ".join(counted(done.counts.get(kind, 0), kind) for kind in kinds)
    terminal.say(f"{held}; every digest matches" if dry_run else f"{held} added")
    if done.session is not None:
        terminal.say(f"the session is {done.session}")
        if done.has_files:
            terminal.note(
                f"next: turntree worktree {done.session} DIR    its files, in a new folder"
            )
        else:
            terminal.note(f"next: turntree show {done.session}")
        terminal.note(f"undo with: turntree session archive {done.session}")
        return
    if done.is_partial and not done.is_shared:
        terminal.note("the archive is partial: it lacks what was private to others")
    if not dry_run:
        terminal.note("next: turntree session list")


@value
class _LoadedArchive:
    """What an archive holds, or what was added of it."""

    lines: int
    counts: Mapping[str, int]
    is_partial: bool
    is_shared: bool
    session: str | None = None
    has_files: bool = False


def _follow(terminal: Terminal, importers: Mapping[str, Importer], seconds: float | None) -> None:
    """Import turns when they are complete, until the time is over."""
    terminal.note(f"following {', '.join(importers)}; Ctrl-C stops")

    async def act(opened: CliContext) -> None:
        # Opening a database takes a while; even with a short time limit, look once.
        ends = None if seconds is None else time.monotonic() + seconds
        while True:
            importing = importing_on(opened.database, SystemClock(), opened.tree.runs.redactor)
            importing.hold_open, importing.private = True, imports_privately()
            done = await importing.run(find_transcripts(importers))
            if done.turns_added:
                terminal.say(
                    f"{counted(done.turns_added, 'turn')} from "
                    f"{counted(done.bundles_read, 'changed transcript')}"
                )
            await drain_here(opened)
            left = POLL_SECONDS if ends is None else min(ends - time.monotonic(), POLL_SECONDS)
            if left <= 0:
                return
            await anyio.sleep(left)

    try:
        with_ledger(terminal, act, waits=False)
    except KeyboardInterrupt:
        terminal.note("stopped; nothing is lost: turntree import goes on from here")


def _chosen(origins: Sequence[str]) -> dict[str, Importer]:
    importers = load_importers()
    for origin in origins:
        if origin not in importers:
            known = ", ".join(sorted(importers))
            raise NotFound(f"no importer reads {origin!r}; there are {known}")
    return {name: one for name, one in sorted(importers.items()) if not origins or name in origins}


def find_transcripts(importers: Mapping[str, Importer], paths: Sequence[Path] = ()) -> Found:
    """Return the transcripts at the paths, or by default in the usual places of this machine.

    Raises:
        NotFound: No importer recognizes a path.
        InvalidOperation: It is not a file or a folder, or unpacks to more than any transcript does.
    """
    if not paths:
        places = places_here()
        return [(one, bundle) for one in importers.values() for bundle in one.discover(places)]
    found: Found = []
    for path in paths:
        if not (path.is_file() or path.is_dir()):
            raise InvalidOperation(
                f"{path} is a pipe or a device; a file or a folder can be imported"
            )
        here = [(one, bundle) for one in importers.values() for bundle in one.open(path)]
        if not here:
            raise NotFound(f"no importer knows what {path} is; there are {', '.join(importers)}")
        found += here
    return found


def _tell_found(terminal: Terminal, importers: Mapping[str, Importer], found: Found) -> None:
    if terminal.as_json:
        counts = count_found(found)
        nothing = {"transcripts": 0, "bytes": 0}
        terminal.document({name: counts.get(name, nothing) for name in importers})
        return
    draw_found(terminal, importers, found)
    if not found:
        terminal.note("nothing to import: no tool has left transcripts in its usual place here")
        terminal.note("next: turntree import PATH    for an export or a copied folder")
        terminal.note("      turntree demo           for sample data")


def count_found(found: Found) -> dict[str, dict[str, int]]:
    """Return the number of transcripts of each tool, and their bytes."""
    by_origin: dict[str, Found] = {}
    for one, bundle in found:
        by_origin.setdefault(one.origin, []).append((one, bundle))
    return {
        origin: {"transcripts": len(here), "bytes": source_bytes(bundle for _, bundle in here)}
        for origin, here in by_origin.items()
    }


def draw_found(terminal: Terminal, names: Iterable[str], found: Found) -> None:
    """Print one line per tool."""
    counts = count_found(found)
    for name in names:
        of = counts.get(name, {"transcripts": 0, "bytes": 0})
        number, _, noun = counted(of["transcripts"], "transcript").partition(" ")
        size = of["bytes"] / _MB
        terminal.say(f"{name:<14} {number:>6} {noun:<11}  {size:>9.1f} MB")


def _tell_done(terminal: Terminal, done: Progress) -> None:
    if terminal.as_json:
        terminal.document(asdict(done))
        return
    terminal.say(
        f"{counted(done.turns_added, 'turn')} added, {done.turns_known:,} known; "
        f"{counted(done.sessions_begun, 'session')} begun, {done.sessions_moved:,} moved on"
    )
    terminal.say(
        f"{counted(done.bundles_read, 'transcript')} read, {done.bundles_unchanged:,} unchanged; "
        f"{counted(done.records, 'record')} kept"
    )
    note_remarks(terminal, done)
    terminal.note("next: turntree search WORDS      any half-sentence you remember")
    terminal.note("      turntree session list")


def note_remarks(terminal: Terminal, done: Progress) -> None:
    """Print what the user should know about an import besides its counts."""
    # Each sentence is right for one and for many: no verb in it changes with the number.
    for number, noun, sentence in (
        (done.secrets, "secret key", "taken out before anything was stored"),
        (done.repaired, "tool call", "without a result got one that says so"),
        (done.orphans, "record", "of no thread: kept by the tool, and shown nowhere in it"),
        (done.broken, "record", "could not be read; all are kept as they are"),
        (done.sessions_kept, "session", "left at the place you chose"),
        (done.sessions_apart, "session", "of yours began beside another user's of the same name"),
    ):
        if number:
            terminal.note(f"{counted(number, noun)} {sentence}")
    if done.unknown:
        kinds = ", ".join(f"{kind} ({times})" for kind, times in sorted(done.unknown.items()))
        terminal.note(f"kept without being understood: {kinds}")
    for bundle, reason in done.failed.items():
        terminal.note(f"{bundle}: not imported whole; what was read of it is kept: {reason}")


@contextmanager
def progress_bar(terminal: Terminal) -> Generator[Report]:
    """Show the progress of an import, if a person watches."""
    if not terminal.is_live:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("importing"), BarColumn(), TextColumn("{task.fields[done]}"),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None, done="")

        def report(done: Progress) -> None:
            told = f"{done.bundles_read + done.bundles_unchanged}/{done.bundles} transcripts, "
            told += counted(done.turns_added + done.turns_known, "turn")
            bars.update(task, total=done.bytes, completed=done.bytes_read, done=told)

        yield report
