"""The OpenAI Agents SDK with its SQLAlchemy session on PostgreSQL.

An append is one ``add_items`` for the whole turn. It has no fork: items are copied.
"""

from typing import Any, ClassVar
from uuid import uuid4

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from proofs.rivals.contract import FILL_PATIENTLY_MAX, TURN_BY_TURN, Place, said_in
from proofs.workload import Exchange

ITEMS_A_TURN = 7
BATCH_TURNS = 100


class OpenAIAgents:
    """A session of items."""

    distribution: ClassVar[str] = "openai-agents"
    forks_by: ClassVar[str] = "copy"
    forks_max: ClassVar[int | None] = None
    cycle: ClassVar[int] = 1

    async def open(self, place: Place) -> None:
        self._engine = create_async_engine(place.url("asyncpg"))
        self._session = SQLAlchemySession("main", engine=self._engine, create_tables=True)
        await self._session.get_items()

    async def fill(self, exchanges: list[Exchange]) -> str:
        turns = [self.prepare(exchange) for exchange in exchanges]
        if len(turns) <= FILL_PATIENTLY_MAX:
            for turn in turns:
                await self.append(turn)
            return TURN_BY_TURN
        for start in range(0, len(turns), BATCH_TURNS):
            batch = turns[start : start + BATCH_TURNS]
            await self._session.add_items([item for turn in batch for item in turn])
        return f"add_items with {BATCH_TURNS} turns at a time"

    def prepare(self, exchange: Exchange) -> list[Any]:
        said = said_in(exchange)
        return [
            {"role": "user", "content": said.question},
            {"role": "assistant", "content": said.thought},
            *(
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.tool,
                    "arguments": call.args_text,
                }
                for call in said.calls
            ),
            *(
                {"type": "function_call_output", "call_id": call.id, "output": call.output_text}
                for call in said.calls
            ),
            {"role": "assistant", "content": said.answer},
        ]

    async def append(self, prepared: list[Any]) -> None:
        await self._session.add_items(prepared)

    async def load(self) -> int:
        return len(await self._session.get_items()) // ITEMS_A_TURN

    async def fork(self) -> None:
        items = await self._session.get_items()
        await SQLAlchemySession(str(uuid4()), engine=self._engine).add_items(items)

    async def close(self) -> None:
        await self._engine.dispose()
