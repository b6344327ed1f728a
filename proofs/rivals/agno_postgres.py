"""agno with its PostgreSQL storage.

An append stores the run and the session's row, as its agent does when a run ends. A fork is
``Agent.fork_session``, which copies every run.
"""

import time
from typing import Any, ClassVar
from uuid import uuid4

from agno.agent import Agent
from agno.db.postgres import PostgresDb
from agno.models.message import Message
from agno.run.agent import RunOutput
from agno.session import AgentSession

from proofs.rivals.contract import TURN_BY_TURN, Place, said_in
from proofs.workload import Exchange


class Agno:
    """A session of runs."""

    distribution: ClassVar[str] = "agno"
    forks_by: ClassVar[str] = "copy"
    forks_max: ClassVar[int | None] = None
    cycle: ClassVar[int] = 1

    async def open(self, place: Place) -> None:
        self._db = PostgresDb(db_url=place.url("psycopg"))
        self._session = AgentSession(
            session_id="main", agent_id="proof", user_id="proof", created_at=int(time.time())
        )
        self._runs = 0
        self._db.upsert_session(self._session)

    async def fill(self, exchanges: list[Exchange]) -> str:
        first, *others = exchanges
        await self.append(self.prepare(first))
        # The first fork of a process imports half the library, which is not what a fork costs.
        await self.fork()
        for exchange in others:
            await self.append(self.prepare(exchange))
        return TURN_BY_TURN

    def prepare(self, exchange: Exchange) -> Any:
        said = said_in(exchange)
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": call.args_text},
            }
            for call in said.calls
        ]
        return RunOutput(
            run_id=str(uuid4()),
            session_id="main",
            agent_id="proof",
            user_id="proof",
            content=said.answer,
            messages=[
                Message(role="user", content=said.question),
                Message(role="assistant", content=said.thought, tool_calls=calls),
                *(
                    Message(role="tool", tool_call_id=call.id, content=call.output_text)
                    for call in said.calls
                ),
                Message(role="assistant", content=said.answer),
            ],
        )

    async def append(self, prepared: Any) -> None:
        self._db.upsert_run(prepared, session_id="main", user_id="proof", run_index=self._runs)
        self._db.upsert_session(self._session)
        self._runs += 1

    async def load(self) -> int:
        return len(self._db.get_session("main").runs)

    async def fork(self) -> None:
        agent = Agent(id="proof", db=self._db, telemetry=False)
        agent.fork_session(source_session_id="main", user_id="proof")

    async def close(self) -> None:
        self._db.close()
