"""``llm`` and its log store: the nearest in design, a chain of hashed messages, in SQLite."""

from typing import Any, ClassVar

import sqlite_utils
from llm.logs import LogStore
from llm.parts import Message, TextPart, ToolCallPart, ToolResultPart

from proofs.rivals.contract import FILL_PATIENTLY_MAX, TURN_BY_TURN, Place, said_in
from proofs.workload import Exchange

MESSAGES_A_TURN = 4


class LLMLogStore:
    """A thread of messages, in a file."""

    distribution: ClassVar[str] = "llm"
    forks_by: ClassVar[str] = "pointer"
    forks_max: ClassVar[int | None] = None
    cycle: ClassVar[int] = 1

    async def open(self, place: Place) -> None:
        self._db = sqlite_utils.Database(place.folder / "logs.db")
        self._store = LogStore(self._db)
        self._thread = self._store.create_thread("main")

    async def fill(self, exchanges: list[Exchange]) -> str:
        turns = [self.prepare(exchange) for exchange in exchanges]
        if len(turns) <= FILL_PATIENTLY_MAX:
            for turn in turns:
                await self.append(turn)
            return TURN_BY_TURN
        with self._db.atomic():
            for turn in turns:
                await self.append(turn)
        return "turn by turn, in one transaction"

    def prepare(self, exchange: Exchange) -> list[Any]:
        said = said_in(exchange)
        calls = [
            ToolCallPart(name=call.tool, arguments=call.args, tool_call_id=call.id)
            for call in said.calls
        ]
        results = [
            ToolResultPart(name=call.tool, output=call.output_text, tool_call_id=call.id)
            for call in said.calls
        ]
        return [
            Message(role="user", parts=[TextPart(text=said.question)]),
            Message(role="assistant", parts=[TextPart(text=said.thought), *calls]),
            Message(role="tool", parts=results),
            Message(role="assistant", parts=[TextPart(text=said.answer)]),
        ]

    async def append(self, prepared: list[Any]) -> None:
        self._store.append(self._thread, prepared)

    async def load(self) -> int:
        return len(self._store.thread_messages(self._thread)) // MESSAGES_A_TURN

    async def fork(self) -> None:
        self._store.fork(self._store.thread_tip(self._thread), forked_from=self._thread)

    async def close(self) -> None:
        self._db.close()
