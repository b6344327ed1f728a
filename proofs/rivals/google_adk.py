"""Google's Agent Development Kit with its database session service on PostgreSQL.

An append is four ``append_event``, since an event is what its model says in one go. It has no
fork: events are appended again, one by one, to another session.
"""

from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import psycopg
from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from proofs.figures import load_statements
from proofs.rivals.contract import FILL_PATIENTLY_MAX, TURN_BY_TURN, Place, said_in
from proofs.workload import Exchange

STATEMENTS = load_statements(Path(__file__).with_name("rivals.sql"))
EVENTS_A_TURN = 4
KEY = {"app_name": "proof", "user_id": "proof"}


class GoogleADK:
    """A session of events."""

    distribution: ClassVar[str] = "google-adk"
    forks_by: ClassVar[str] = "copy"
    forks_max: ClassVar[int | None] = 1000
    cycle: ClassVar[int] = 1

    async def open(self, place: Place) -> None:
        self._place = place
        self._service = DatabaseSessionService(place.url("asyncpg"))
        self._session = await self._service.create_session(session_id="main", **KEY)

    async def fill(self, exchanges: list[Exchange]) -> str:
        patiently = exchanges[:FILL_PATIENTLY_MAX]
        for exchange in patiently:
            await self.append(self.prepare(exchange))
        copies = len(exchanges) // len(patiently) - 1
        if copies:
            with psycopg.connect(self._place.conninfo) as connection:
                connection.execute(STATEMENTS["multiply_adk_events"], (copies,))
        self._session = await self._read()
        return f"{len(patiently)} turns, multiplied in SQL" if copies else TURN_BY_TURN

    def prepare(self, exchange: Exchange) -> list[Any]:
        said = said_in(exchange)
        calls = [FunctionCall(id=c.id, name=c.tool, args=c.args) for c in said.calls]
        results = [FunctionResponse(id=c.id, name=c.tool, response=c.output) for c in said.calls]
        contents = [
            Content(role="user", parts=[Part(text=said.question)]),
            Content(
                role="model",
                parts=[Part(text=said.thought), *(Part(function_call=call) for call in calls)],
            ),
            Content(role="user", parts=[Part(function_response=result) for result in results]),
            Content(role="model", parts=[Part(text=said.answer)]),
        ]
        authors = ("user", "agent", "agent", "agent")
        turn = str(uuid4())
        return [
            Event(author=author, invocation_id=turn, content=content)
            for author, content in zip(authors, contents, strict=True)
        ]

    async def append(self, prepared: list[Any]) -> None:
        for event in prepared:
            await self._service.append_event(self._session, event)

    async def load(self) -> int:
        return len((await self._read()).events) // EVENTS_A_TURN

    async def fork(self) -> None:
        other = await self._service.create_session(**KEY)
        for event in (await self._read()).events:
            await self._service.append_event(other, event.model_copy(update={"id": str(uuid4())}))

    async def close(self) -> None:
        await self._service.close()

    async def _read(self) -> Any:
        return await self._service.get_session(session_id="main", **KEY)
