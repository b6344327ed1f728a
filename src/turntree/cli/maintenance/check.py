"""``verify`` and ``fsck``: verify one thread, or check the whole store."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, digits, table
from turntree.cli.param_types import REVISION
from turntree.core.ids import Digest, TurnId, find_long_id
from turntree.core.value import value
from turntree.integrity.findings import ProjectionDiff, Report, VerifyResult, Violation

REPAIRABLE: Final = frozenset({"I14", "I23", "I24", "I27", "I59", "I62", "I63"})
"""Rules that a stale projection can break."""
FILES: Final = "I68"
"""The rule about files outside the database."""


@value
class Address:
    """A turn whose body may be unreadable."""

    id: TurnId
    digest: Digest | None

    @property
    def short(self) -> str:
        """Its short digest."""
        return self.id if self.digest is None else digits(self.digest)


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
@click.pass_context
def verify(context: click.Context, terminal: Terminal, revision: str) -> None:
    """Verify a thread, turn by turn, back to its root.

    Every stored byte is hashed again. Exits with 1 if a turn is broken; an erased message is
    reported and is not a fault.
    """
    head, verified, broken = with_ledger(terminal, partial(_verify, revision=revision))
    proven = verified.whole + verified.erased
    if terminal.as_json:
        terminal.document(
            {
                "head": head.id,
                "digest": head.digest,
                "turns": verified.turns,
                "verified": proven,
                "erased": verified.erased,
                "broken": [{"id": one.id, "digest": one.digest} for one in broken],
            }
        )
    else:
        _tell_verified(terminal, head, verified, broken)
    context.exit(1 if verified.broken else 0)


def _tell_verified(
    terminal: Terminal, head: Address, verified: VerifyResult, broken: list[Address]
) -> None:
    proven = verified.whole + verified.erased
    paint = terminal.paint(f"verified {proven}/{verified.turns}", "bad" if broken else "good")
    terminal.say(f"{paint}   {head.short} back to its root")
    if verified.erased:
        messages = "turn" if verified.erased == 1 else "turns"
        terminal.say(f"erased   {verified.erased} {messages}: messages taken out on request")
    for one in broken:
        sentence = "its bytes are not those that were sealed"
        terminal.say(f"{terminal.paint('broken', 'bad')}   {one.short}: {sentence}")
    if broken:
        terminal.note("next: turntree fsck --full     then restore from a backup")


async def _verify(
    opened: CliContext, *, revision: str
) -> tuple[Address, VerifyResult, list[Address]]:
    head = (await opened.tree.resolve(revision)).turn
    verified = await opened.tree.checks.verify(head)
    broken = [await _address(opened, turn) for turn in verified.broken]
    return await _address(opened, head), verified, broken


async def _address(opened: CliContext, turn: TurnId) -> Address:
    # The body may be the broken part, so it is not read.
    stored = await opened.tree.turns.threads.find_stored(turn)
    return Address(turn, None if stored is None else stored[0])


@verb()
@click.option("--full/--quick", "full", default=True, show_default=True,
              help="Every byte hashed, or structure and heads only.")  # fmt: skip
@click.option("--repair-derived", "repair", is_flag=True,
              help="Repair of derived tables and files first; no event is written.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Preview of what --repair-derived would change.")
@click.pass_context
def fsck(
    context: click.Context, terminal: Terminal, full: bool, repair: bool, dry_run: bool
) -> None:
    """Check the whole store against its invariants.

    The files in snapshots are checked too. Changes nothing, unless --repair-derived is given: it
    rebuilds what follows from the events, which is tool calls, files, model calls, compactions,
    tags, reachability, programs and the search index. Damaged or missing snapshot files are then
    stored again if the same bytes still exist in a folder. Exits with 1 if anything is wrong; text
    that only looks like a secret, or a file that belongs to another home of this machine, is a
    warning.
    """
    if dry_run and not repair:
        raise click.UsageError("--dry-run says what --repair-derived would do; give both")
    with _progress(terminal) as report:
        changes, findings = with_ledger(
            terminal, partial(_fsck, full=full, repair=repair, dry_run=dry_run, report=report)
        )
    faults = [found for found in findings if found.severity == "fault"]
    if terminal.as_json:
        terminal.documents({"kind": "change", **asdict(change)} for change in changes)
        terminal.documents({"kind": "finding", **asdict(found)} for found in findings)
        summary = {
            "kind": "summary", "sound": not faults, "full": full, "faults": len(faults),
            "findings": len(findings), "changes": len(changes), "dry_run": dry_run,
        }  # fmt: skip
        terminal.documents([summary])
    else:
        _tell_changes(terminal, changes, asked=repair, dry_run=dry_run)
        if findings:
            _tell_findings(terminal, findings, repaired=repair and not dry_run)
        if not faults:
            how = "everything was hashed" if full else "structure and heads; hash all with --full"
            terminal.say(f"{terminal.paint('sound', 'good')}   no faults ({how})")
    context.exit(1 if faults else 0)


async def _fsck(
    opened: CliContext, *, full: bool, repair: bool, dry_run: bool, report: Report
) -> tuple[list[ProjectionDiff], list[Violation]]:
    checks = opened.tree.checks
    changes = await checks.repair_derived(dry_run=dry_run) if repair else []
    return changes, await checks.fsck(full=full, report=report)


def _tell_changes(
    terminal: Terminal, changes: list[ProjectionDiff], *, asked: bool, dry_run: bool
) -> None:
    if not asked:
        return
    rows = [(one.table, clean(one.subject), f"-{one.removed} +{one.added}") for one in changes]
    if rows:
        terminal.page(table(rows))
    count = f"{len(changes)} place{'' if len(changes) == 1 else 's'}"
    terminal.note(f"{count} would change" if dry_run else f"{count} rebuilt")


def _tell_findings(terminal: Terminal, findings: list[Violation], *, repaired: bool) -> None:
    rows = [
        (f.invariant, clean(f.subject), "" if f.severity == "fault" else f.severity,
         clean(f.sentence))
        for f in findings
    ]  # fmt: skip
    terminal.page(table(rows))
    terminal.note(f"{len(findings)} finding{'' if len(findings) == 1 else 's'}")
    broken = {found.invariant for found in findings if found.severity == "fault"}
    if broken & REPAIRABLE and not repaired:
        terminal.note("next: turntree fsck --repair-derived     rebuild what follows from events")
    elif broken == {FILES}:
        terminal.note("restore the folder `shadow` of TURNTREE_HOME from a backup")
        if not repaired:
            then = "store again what the folders still contain"
            terminal.note(f"next: turntree fsck --repair-derived     {then}")
    elif broken:
        terminal.note("stop writing, keep a copy of the database, and restore from a backup")
    elif any(found.invariant != FILES for found in findings):
        terminal.note("revoke the key first, then erase the message that holds it")
        turn = next((f.subject for f in findings if find_long_id(f.subject)), None)
        terminal.note(f"next: turntree {f'show {turn}' if turn else 'erase --help'}")


@contextmanager
def _progress(terminal: Terminal) -> Generator[Report]:
    """Show the progress of a long check, if a person watches."""
    if not terminal.is_live:
        yield lambda _stage, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done)

        yield report
