"""Tool calls that the ledger has, as a policy would have seen them: of our runs and of imports.

A call of a run that was judged is described as it was then. An imported one is described from what
its tool recorded, as the hook of that tool would have.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

import orjson

from turntree.auth.permissions import EFFECTS, Effect, read_effects
from turntree.core.canonical import Json
from turntree.core.ids import TurnId
from turntree.core.message import Message, ObjectRef, ToolUse, part_from_json
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.db.database import Database, as_uuids
from turntree.db.sql import load_statements
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.policy.call import WORKER, JudgedCall
from turntree.policy.call_context import WORKBENCH, described
from turntree.policy.decision import VERDICTS, Verdict

SQL = load_statements(__file__)
PAGE_TURNS: Final = 200

DescribeForeign = Callable[[str, str, Json, str | None, Sequence[Effect]], JudgedCall]
"""Describes a call of another coding agent: the agent, the tool, the arguments, the folder and the
effects of the calls before it."""
RecordedToolCall = tuple[str, JudgedCall, Verdict | None]
"""The turn, the call, and how it was judged when it was made."""


@value
class RecordedToolCalls:
    """Reads recorded calls, as the viewer of its database sees them."""

    database: Database
    ledger: Ledger
    describe_foreign: DescribeForeign

    async def read(self, limit: int) -> AsyncGenerator[RecordedToolCall, None]:
        """Yield the newest calls, at most so many."""
        threads, count = ThreadStore(self.database), 0
        before: tuple[str, UUID] | None = None
        while count < limit:
            rows = await self.database.fetch(
                SQL["list_called_turns"], limit=PAGE_TURNS,
                before=None if before is None else before[0],
                turn=None if before is None else before[1],
            )  # fmt: skip
            if not rows:
                return
            before = rows[-1][1], UUID(rows[-1][0])
            ids = [TurnId(id) for id, *_ in rows]
            turns = {one.turn.id: one.turn for one in await threads.list_turns(ids)}
            journals = await self._read_journals(ids)
            for id, _, origin, folder in rows:
                turn = turns.get(TurnId(id))
                if turn is None:
                    continue
                uses = await self._list_uses(turn)
                calls = self._describe(uses, journals.get(id, []), origin, folder)
                # The newest first, as the turns.
                for call, verdict in reversed(calls):
                    yield id, call, verdict
                    count += 1
                    if count >= limit:
                        return

    async def _read_journals(self, turns: Sequence[TurnId]) -> dict[str, list[Mapping[str, Any]]]:
        journals: dict[str, list[Mapping[str, Any]]] = {}
        for stream, body in await self.database.fetch(SQL["list_judgments"], turns=as_uuids(turns)):
            journals.setdefault(stream, []).append(orjson.loads(body))
        return journals

    async def _list_uses(self, turn: Turn) -> list[ToolUse]:
        parts = [
            part
            for message in turn.reply
            if isinstance(message, Message)
            for part in message.tool_uses
        ]
        offloaded = [part.object for part in parts if isinstance(part, ObjectRef)]
        objects = await self.ledger.find_objects(offloaded)
        uses: list[ToolUse] = []
        for part in parts:
            if isinstance(part, ToolUse):
                uses.append(part)
            elif (stored := objects.get(part.object)) is not None:
                uses.append(cast("ToolUse", part_from_json(orjson.loads(stored))))
        return uses

    def _describe(
        self,
        uses: Sequence[ToolUse],
        journal: Sequence[Mapping[str, Any]],
        origin: str | None,
        folder: str | None,
    ) -> list[tuple[JudgedCall, Verdict | None]]:
        if origin is not None:
            return self._describe_foreign(uses, origin, folder)
        none: Mapping[str, Any] = {}
        started: Mapping[str, Any] = next(
            (e["data"] for e in journal if e["kind"] == "run.started"), none
        )
        calls: list[tuple[JudgedCall, Verdict | None]] = []
        for use in uses:
            data: Mapping[str, Any] = {}
            context: set[object] = set()
            judged: dict[str, Sequence[object]] = {}
            for event in journal:
                about = event["data"]
                if event["kind"] == "tool_call.judged":
                    if about["call_id"] == use.call_id:
                        # The first decision is that about the arguments of the model.
                        data = about
                        break
                    judged[about["call_id"]] = about["effects"]
                elif event["kind"] == "tool_call.started":
                    if about["call_id"] == use.call_id:
                        data = {"server": about.get("server", WORKER)}
                        break
                    context |= {*judged.get(about["call_id"], EFFECTS)}
            effects = read_effects(data["effects"]) if data.get("effects_declared") else None
            call = described(
                use, server=_server_of(data), effects=effects, started=started,
                chain=tuple(data.get("chain", ())), context_effects=read_effects(context),
                source=str(data.get("source", "human")), session=started.get("session"),
            )  # fmt: skip
            verdict: Verdict | None = next(
                (one for one in VERDICTS if one == data.get("decision")), None
            )
            calls.append((call, verdict))
        return calls

    def _describe_foreign(
        self, uses: Sequence[ToolUse], origin: str, folder: str | None
    ) -> list[tuple[JudgedCall, Verdict | None]]:
        context: set[object] = set()
        calls: list[tuple[JudgedCall, Verdict | None]] = []
        for use in uses:
            before = read_effects(context)
            call = self.describe_foreign(origin, str(use.tool), use.args, folder, before)
            context |= {*call.worst_effects}
            calls.append((call, None))
        return calls


def _server_of(data: Mapping[str, Any]) -> str:
    # The workbench was called the sandbox before calls were judged.
    server = str(data.get("server", WORKER))
    return WORKBENCH if server == "sandbox" else server
