"""Settle the hook judge's files on an open ledger.

The hook judge works without a database. Here its decisions become records and its requests wait in
the inbox; what a person decides is written where the judge finds it.

Must never print, and never open a ledger.
"""

from pathlib import Path
from typing import Any, Final

from turntree.api import Tree
from turntree.boot.open import Settings, judged_on
from turntree.core.errors import Conflict, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.db.database import Database
from turntree.hooks.judge_files import JudgeFiles
from turntree.policy.approval import Approval, ForeignCall
from turntree.policy.local import publish_local
from turntree.system.clock import SystemClock
from turntree.transcripts.store import ImportStore

KEPT_MAX_MS: Final = 7 * 24 * 3600 * 1000
"""A decision older than this is about a session that its tool will never record."""


async def settle_judge(
    database: Database, tree: Tree, settings: Settings, imports: ImportStore
) -> list[str]:
    """Tell the ledger what the judge did, and the judge what the ledger knows.

    Returns what is wrong, in sentences; the rest is done.
    """
    files, complaints = JudgeFiles(settings.home), list[str]()
    if not files.folder.is_dir():
        return []
    active = await tree.policies.get_active()
    publish_local(settings.home, active.policy, f"human:{settings.user}")
    now = SystemClock().now()
    await _record_decisions(files, database, tree, imports, now)
    for _, request in [*files.list_requests()]:
        try:
            await _settle_request(files, tree, request, imports, now)
        except (NotFound, InvalidOperation, Conflict, PermissionDenied) as error:
            # The other requests still reach the inbox.
            complaints.append(f"the request {request['id']} was not settled: {error}")
    return complaints


async def _record_decisions(
    files: JudgeFiles, database: Database, tree: Tree, imports: ImportStore, now: Timestamp
) -> None:
    store = judged_on(database, tree)
    for path, decision in files.list_decisions():
        session = await imports.find_session(decision["origin"], decision["session"])
        if session is not None and session.is_own:
            left_out = ("version", "at", "session")
            data = {name: value for name, value in decision.items() if name not in left_out}
            known = {name: value for name, value in data.items() if value is not None}
            await store.record(session.id, decision["at"], known)
        elif unix_ms(now) - unix_ms(decision["at"]) < KEPT_MAX_MS:
            # Its transcript is imported when the turn has ended.
            continue
        path.unlink(missing_ok=True)


async def _settle_request(
    files: JudgeFiles, tree: Tree, request: dict[str, Any], imports: ImportStore, now: Timestamp
) -> None:
    if "ledger_id" not in request:
        session = await imports.find_session(request["origin"], request["session"])
        found = await tree.approvals.request_foreign(
            ForeignCall(
                request["origin"], request["tool"], request["args"], request["key"],
                call_id=request["call_id"], session=None if session is None else session.id,
                folder=request["folder"], policy=request["policy"], line=request["line"],
                reason=request["reason"], answerers=tuple(request["answerers"]),
                id=request["id"], at=instant(request["at_ms"]),
            )
        )  # fmt: skip
        # The ledger has the arguments now, where an erasure finds them; the digest is enough here.
        request |= {"ledger_id": found.id, "expires_ms": unix_ms(found.expires_at), "args": None}
        files.note_request(request)
    else:
        found = await tree.approvals.get(request["ledger_id"])
    if (used := files.find_used(request["id"])) is not None:
        await tree.approvals.use_foreign(found.id, used["allowed_digest"])
        files.forget(request["id"])
    else:
        publish_decision(files, request, found, now)


def tell_judge(home: Path, found: Approval) -> None:
    """Tell the judge of this machine what a person decided, if one of its agents asked."""
    files = JudgeFiles(home)
    request = files.find_request(found.id) if found.kind == "foreign_call" else None
    if request is not None:
        publish_decision(files, request, found, SystemClock().now())


def publish_decision(
    files: JudgeFiles, request: dict[str, Any], found: Approval, now: Timestamp
) -> None:
    """Write what a person decided where the judge finds it."""
    verdict = found.verdict_at(now)
    if verdict == "pending":
        return
    if verdict in ("expired", "canceled", "used"):
        # The same call is asked about anew: what a person did not decide in time allows nothing.
        files.forget(request["id"])
        return
    files.note_decided(request["id"], {
        "state": verdict, "by": found.decided_by, "note": found.note,
        "args_digest": request["args_digest"], "allowed_digest": found.allowed_digest,
        "args": found.allowed_args if verdict == "edited" else None,
        "expires_ms": unix_ms(found.expires_at),
    })  # fmt: skip
