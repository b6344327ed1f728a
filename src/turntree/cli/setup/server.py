"""``init``, ``down`` and ``status``: the current folder and the server behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from turntree.boot.open import Settings
from turntree.cli.command import Terminal, verb
from turntree.cli.context import SESSION_DEFAULT, CliContext, load_settings, with_ledger
from turntree.cli.output.progress import spinner
from turntree.cli.output.session import session_row_document, stand
from turntree.cli.output.text import age, clean, counted, cut, table
from turntree.cli.param_types import SESSION
from turntree.cli.settings import hide_password
from turntree.cli.talk.inbox import notice_document
from turntree.core.errors import TurntreeError
from turntree.core.ids import Timestamp
from turntree.core.revision import check_label
from turntree.core.session import Session
from turntree.core.value import value
from turntree.db.embedded.server import EmbeddedServer, ServerState
from turntree.hooks.launcher import launcher_path
from turntree.notifications.delivery import FailedDelivery
from turntree.notifications.notice import Notice
from turntree.runs.inbox import Backlog, FailedRun, OpenRun
from turntree.system.head_file import FOLDER, read_head, write_head
from turntree.system.shell_words import quoted

if TYPE_CHECKING:
    from turntree.hooks.silence import SilentHook

AGAIN: Final = "the next turn of an agent with hooks starts it again"
RUNS_SHOWN_MAX = 10
REASON_WIDTH_MAX = 120


@verb()
@click.option("--session", "-s", metavar="LABEL", default=SESSION_DEFAULT, show_default=True,
              type=SESSION, help="Current session of the folder.")  # fmt: skip
def init(terminal: Terminal, session: str) -> None:
    """Give this folder a current session of its own.

    Creates .turntree/HEAD. If the folder has one already, nothing changes.
    """
    here, label = Path.cwd(), check_label(session)
    is_new = not (here / FOLDER / "HEAD").is_file()
    if is_new:
        # Created first, so that a .turntree folder further up is not written instead.
        (here / FOLDER).mkdir(exist_ok=True)
        (here / FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
        write_head(here, label)
    head = read_head(here)
    if terminal.as_json:
        terminal.document({"place": str(here / FOLDER), "session": head, "created": is_new})
        return
    made = "is a place now" if is_new else "is a place already"
    terminal.say(f"{here} {made}; HEAD is {head}")
    if not is_new:
        terminal.note("next: turntree log")
        return
    if _is_session(terminal, label):
        terminal.note(f"next: turntree log     what was said in {label}")
        terminal.note(f"undo with: rm -r {quoted(str(here / FOLDER))}")
        return
    terminal.note("next: turntree on                    bring home what your agents have kept")
    terminal.note(f"      turntree session create {head}   begin an empty session")
    terminal.note("      turntree demo                  or plant sample data to look around in")
    terminal.note(f"undo with: rm -r {quoted(str(here / FOLDER))}")


def _is_session(terminal: Terminal, label: str) -> bool:
    """Whether such a session exists; does not start the server to find out."""

    async def find(opened: CliContext) -> bool:
        return await opened.tree.sessions.ledger.find(label) is not None

    settings = load_settings()
    state = None if settings.database_url else EmbeddedServer(settings.home).state()
    try:
        return _is_up(settings, state) and with_ledger(terminal, find, waits=False)
    except TurntreeError:
        # The next command that needs the database reports what is wrong with it.
        return False


def _is_up(settings: Settings, state: ServerState | None) -> bool:
    return _is_prepared(settings) if state is None else state.name == "running"


@verb()
def down(terminal: Terminal) -> None:
    """Stop the embedded database server and the hook daemon.

    All data stays. The next command starts the server again, and the next turn of an agent with
    hooks starts both.
    """
    from turntree.cli.hook_process.daemon import stop_daemon
    from turntree.cli.setup.hook import list_recording
    from turntree.hooks.spool import FOLDER as SPOOL
    from turntree.hooks.spool import Spool

    settings = load_settings()
    with spinner(terminal, "stopping the server"):
        # First the daemon: what it still reports would start the server again.
        daemon = stop_daemon(Spool(settings.home / SPOOL))
        stopped = settings.database_url is None and EmbeddedServer(settings.home).stop()
    if settings.database_url:
        where = hide_password(settings.database_url)
        sentence = f"nothing to stop: the database is {where}"
        document: dict[str, Any] = {"stopped": False, "database": where}
    else:
        sentence = "the server has stopped" if stopped else "the server was not running"
        document = {"stopped": stopped, "home": str(settings.home)}
    if daemon is not None:
        sentence += f"; the hook daemon (process {daemon}) has stopped"
    then = [AGAIN] if daemon is not None or list_recording() else []
    document |= {"daemon": daemon, "recording": bool(then)}
    terminal.tell(sentence, document, undo="turntree on" if stopped else None, then=then)


@value
class InboxState:
    """What the user has not read."""

    unread: int = 0
    newest: tuple[Notice, ...] = ()
    """The newest of them, the last one last."""
    failed: tuple[FailedDelivery, ...] = ()
    """Channels whose last message to the user was given up."""


@value
class Counts:
    """What a workspace holds."""

    turns: int
    sessions: int
    current: Session | None
    chosen: str | None
    now: Timestamp
    workers: tuple[str, ...] = ()
    runs: tuple[OpenRun, ...] = ()
    piles: tuple[Backlog, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    """Failed runs of sessions that have not moved since."""
    plans: int = 0
    """Number of unfinished forks and moves with files on this machine."""
    inbox: InboxState = field(default_factory=InboxState)


@verb()
def status(terminal: Terminal) -> None:
    """Show the server, the workspace, the current session and the running turns.

    Says too which agents have hooks, and which of these no longer report. Starts nothing.
    """
    settings = load_settings()
    state = None if settings.database_url else EmbeddedServer(settings.home).state()
    counts = with_ledger(terminal, _count, waits=False) if _is_up(settings, state) else None
    recording: list[str] = []
    silent: Sequence[SilentHook] = ()
    # Looking for hooks costs as much as all the rest, and without a launcher none can report.
    if launcher_path(settings.home).exists():
        from turntree.cli.setup.hook import list_recording, list_silent

        recording, silent = list_recording(), list_silent()
    if terminal.as_json:
        hooks = {"installed": recording, "silent": [hook.to_json() for hook in silent]}
        terminal.document({**_document(settings, state, counts), "hooks": hooks})
        return
    rows = list(_rows(settings, state, counts))
    if recording:
        rows.append(("hooks", ", ".join(recording)))
    terminal.say("\n".join(table(rows)))
    if silent:
        from turntree.cli.setup.hook import note_silence

        note_silence(terminal, silent)
    elif counts is None:
        terminal.note("next: turntree on")
    elif counts.sessions == 0:
        terminal.note("next: turntree on     turntree demo     turntree session create main")
    elif counts.current is None:
        terminal.note("next: turntree switch SESSION     (see turntree session list)")


def _is_prepared(settings: Settings) -> bool:
    """Whether an external database holds a ledger; checking must not create one."""
    import anyio

    from turntree.db.health import examine

    health = anyio.run(examine, settings.database_url or "")
    return not health.missing_migrations


async def _count(opened: CliContext) -> Counts:
    sessions = [session async for session in opened.tree.sessions.list_all()]
    turns = await opened.tree.turns.index.count()
    current = await opened.find_current()
    workers = await opened.tree.runs.workers.list_workers()
    runs = await opened.tree.runs.list_open()
    piles = await opened.tree.runs.inbox.list_piles()
    failed = await opened.tree.runs.list_failed()
    plans = await opened.tree.plans.count_left()
    return Counts(
        turns, len(sessions), current, opened.current, opened.now, tuple(workers), tuple(runs),
        tuple(piles), tuple(failed), plans, await _read_inbox(opened),
    )  # fmt: skip


async def _read_inbox(opened: CliContext) -> InboxState:
    inbox = opened.tree.inbox
    newest = await inbox.list_page(limit=RUNS_SHOWN_MAX)
    count = await inbox.count_unread() if len(newest) == RUNS_SHOWN_MAX else len(newest)
    return InboxState(count, tuple(newest[::-1]), tuple(await inbox.list_failed()))


def _rows(
    settings: Settings, state: ServerState | None, counts: Counts | None
) -> Iterator[tuple[str, str]]:
    if state is None:
        yield "server", "your own"
        yield "database", hide_password(settings.database_url or "")
    else:
        pid = f" as process {state.pid}" if state.pid else ""
        version = f" (PostgreSQL {state.version})" if state.version else ""
        yield "server", f"embedded, {state.name}{pid}{version}"
        yield "data", str(state.data)
    yield "workspace", clean(settings.workspace)
    yield "user", clean(settings.user)
    if counts is None:
        yield "session", clean(settings.session or "not chosen")
        return
    yield (
        "holds",
        f"{_so_many(counts.turns, 'turn')}, {_so_many(counts.sessions, 'active session')}",
    )
    yield from _running_rows(counts)
    if counts.plans:
        yield "plans", f"{counts.plans} left unfinished; turntree plan resume"
    yield from _inbox_rows(settings.user, counts)
    current = counts.current
    if current is not None:
        moved = age(current.updated_at, counts.now)
        yield "session", f"{clean(current.label)}, {stand(current)}, moved {moved}"
    elif counts.chosen is not None:
        yield "session", f"{clean(counts.chosen)}, which does not exist yet"
    else:
        yield "session", "none is current"


def _inbox_rows(user: str, counts: Counts) -> Iterator[tuple[str, str]]:
    """Yield the newest notices of the user, and what waits for their decision."""
    inbox = counts.inbox
    for one in inbox.newest:
        text = cut(clean(one.text), REASON_WIDTH_MAX)
        if one.kind == "question" and "request" in one.refs:
            way = (
                f"turntree human approve {clean(user)} {clean(str(one.refs['request']))}, or reject"
            )
            yield one.kind, f"{text}; {way}"
        elif one.kind == "approval":
            yield one.kind, text  # It begins with who asks.
        else:
            yield one.kind, f"{text}, from {clean(one.by)}"
    if inbox.unread:
        more = inbox.unread - len(inbox.newest)
        left = f"{more} more; " if more else ""
        yield "", f"{left}turntree inbox shows them, turntree inbox read empties it"
    for failed in inbox.failed:
        yield failed.channel, f"to {clean(failed.address)} fails: {clean(failed.error)}"


def _so_many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _running_rows(counts: Counts) -> Iterator[tuple[str, str]]:
    """Yield the workers and the running turns; nothing if there never were any."""
    if counts.workers:
        yield "workers", clean(", ".join(counts.workers))
    elif counts.runs or counts.piles:
        yield "workers", "none serves; start one with: turntree worker"
    for run in counts.runs[:RUNS_SHOWN_MAX]:
        waits = f" for {clean(run.parked_reason)}" if run.parked_reason else ""
        ending = ", asked to end" if run.is_canceled else ""
        since = age(run.started_at, counts.now)
        yield "run", f"{run.run} {run.status}{waits}{ending}, began {since}"
    if (left := len(counts.runs) - RUNS_SHOWN_MAX) > 0:
        yield "", f"{left} more"
    for pile in counts.piles[:RUNS_SHOWN_MAX]:
        what = _so_many(pile.count, "message")
        yield "waiting", f"{what} in {clean(pile.label)}, sent {age(pile.since, counts.now)}"
    if (left := len(counts.piles) - RUNS_SHOWN_MAX) > 0:
        yield "", counted(left, "more session")
    yield from _failed_rows(counts)


def _failed_rows(counts: Counts) -> Iterator[tuple[str, str]]:
    """Yield failed messages, newest first, with what to do about them."""
    for failed in counts.failed[: -RUNS_SHOWN_MAX - 1 : -1]:
        why = cut(clean(failed.reason or "unknown reason"), REASON_WIDTH_MAX)
        when = age(failed.at, counts.now)
        yield "failed", f"a message to {clean(failed.label)}, {when}: {why}"
        yield "", f"turntree tail {failed.run} reads it, turntree rerun {failed.run} asks again"
    if (left := len(counts.failed) - RUNS_SHOWN_MAX) > 0:
        yield "", f"{left} more"


def _run_document(run: OpenRun) -> dict[str, Any]:
    return {
        "run": run.run,
        "session": run.session,
        "status": run.status,
        "started_at": run.started_at,
        "worker": run.worker,
        "canceled": run.is_canceled,
        "parked_reason": run.parked_reason,
    }


def _pile_document(pile: Backlog) -> dict[str, Any]:
    return {
        "session": pile.session,
        "label": pile.label,
        "messages": pile.count,
        "since": pile.since,
    }


def _failed_document(failed: FailedRun) -> dict[str, Any]:
    return {
        "run": failed.run,
        "session": failed.session,
        "label": failed.label,
        "at": failed.at,
        "reason": failed.reason,
    }


def _document(
    settings: Settings, state: ServerState | None, counts: Counts | None
) -> dict[str, Any]:
    current = None if counts is None else counts.current
    return {
        "server": "external" if state is None else state.name,
        "pid": None if state is None else state.pid,
        "data": None if state is None else str(state.data),
        "database": hide_password(settings.database_url or "") or None,
        "workspace": settings.workspace,
        "user": settings.user,
        "turns": None if counts is None else counts.turns,
        "sessions": None if counts is None else counts.sessions,
        "workers": None if counts is None else list(counts.workers),
        "runs": None if counts is None else [_run_document(run) for run in counts.runs],
        "waiting": None if counts is None else [_pile_document(pile) for pile in counts.piles],
        "failed": None if counts is None else [_failed_document(run) for run in counts.failed],
        "plans": None if counts is None else counts.plans,
        "inbox": [] if counts is None else [notice_document(one) for one in counts.inbox.newest],
        "unread": 0 if counts is None else counts.inbox.unread,
        "head": settings.session if counts is None else counts.chosen,
        "session": None if current is None else session_row_document(current, current=current),
    }
