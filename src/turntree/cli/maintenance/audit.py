"""``audit``: permissions that were granted, used, denied or never used."""

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from turntree.auth.audit import Audit, AuditFinding, AuditRow
from turntree.cli.command import Paint, Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, table
from turntree.cli.param_types import SESSION
from turntree.core.ids import Timestamp
from turntree.core.time_phrases import EXAMPLES, find_moment
from turntree.core.value import value


@value
class _AuditArgs:
    session: str | None
    agent: str | None
    since: str | None
    until: str | None


@verb()
@click.option("--session", metavar="SESSION", type=SESSION, help="Session to report on.")
@click.option("--agent", metavar="NAME", help="Agent to report on, and all that act for it.")
@click.option("--since", metavar="TIME", help=f"Earliest use or denial: {EXAMPLES}.")
@click.option("--until", metavar="TIME", help="End of the period.")
@click.pass_context
def audit(
    context: click.Context,
    terminal: Terminal,
    session: str | None,
    agent: str | None,
    since: str | None,
    until: str | None,
) -> None:
    """List permissions that were granted, used, denied or never used.

    Reads the permission events of sessions and runs, and the permissions recorded with turns. Exits
    with 1 if there is a finding: a permission used without a grant, a grant that exceeds its
    delegation chain, a denial, a permission never used.
    """
    asked = _AuditArgs(session, agent, since, until)
    found, now = with_ledger(terminal, partial(_audit, asked=asked))
    if terminal.as_json:
        terminal.document(_document(found))
    else:
        _tell(terminal, found, now)
    context.exit(1 if found.findings else 0)


async def _audit(opened: CliContext, *, asked: _AuditArgs) -> tuple[Audit, Timestamp]:
    session = None if asked.session is None else await opened.tree.sessions.get(asked.session)
    found = await opened.tree.authority.audit(
        session=None if session is None else session.id,
        agent=asked.agent,
        since=_moment(asked.since, opened.now),
        until=_moment(asked.until, opened.now),
    )
    return found, opened.now


def _tell(terminal: Terminal, found: Audit, now: Timestamp) -> None:
    if not (found.granted or found.used or found.denied or found.findings):
        terminal.note("no permission is recorded here")
        return
    sections: tuple[tuple[str, tuple[AuditRow, ...], Paint], ...] = (
        ("granted", found.granted, "strong"),
        ("used", found.used, "good"),
        ("denied", found.denied, "bad"),
        ("never used", found.unused, "warn"),
    )
    lines = [
        line
        for heading, rows, paint in sections
        for line in _section(terminal, heading, rows, paint, now)
    ]
    lines += [terminal.paint("findings", "head")] if found.findings else []
    lines += [f"  {_sentence(finding)}" for finding in found.findings]
    terminal.page(lines)
    if not found.findings:
        terminal.note("nothing to look at")


def _section(
    terminal: Terminal, heading: str, rows: tuple[AuditRow, ...], paint: Paint, now: Timestamp
) -> list[str]:
    if not rows:
        return []
    told = [
        (
            f"  {clean(row.right)}",
            clean(row.who),
            clean(row.session or "-"),
            f"{row.times}×" if not terminal.is_ascii else f"{row.times}x",
            age(row.last_at, now),
            clean(row.reason),
        )
        for row in rows
    ]
    return [terminal.paint(heading, paint), *table(told), ""]


def _sentence(finding: AuditFinding) -> str:
    where = "" if finding.session is None else f" in {clean(finding.session)}"
    return f"{finding.kind}: {clean(finding.sentence)}{where}"


def _document(found: Audit) -> dict[str, Any]:
    return {
        "granted": [asdict(row) for row in found.granted],
        "used": [asdict(row) for row in found.used],
        "denied": [asdict(row) for row in found.denied],
        "never_used": [asdict(row) for row in found.unused],
        "findings": [asdict(finding) for finding in found.findings],
    }


def _moment(words: str | None, now: Timestamp) -> Timestamp | None:
    if words is None:
        return None
    moment = find_moment(words, now)
    if moment is None:
        raise click.UsageError(f"{words!r} is not a time; write {EXAMPLES}")
    return moment
