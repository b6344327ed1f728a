"""LangGraph with its PostgreSQL checkpointer: a graph of one node, a state of messages.

An append is one ``invoke``, as an agent's turn is one there; it reads the state before it
writes. A fork is ``update_state`` at the head's checkpoint with no values: the docs' way to
branch, without the new message that their example writes.
"""

from typing import Annotated, Any, ClassVar
from uuid import uuid4

import psycopg
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from psycopg.rows import dict_row
from typing_extensions import TypedDict

from proofs.rivals.contract import FILL_PATIENTLY_MAX, TURN_BY_TURN, Place, said_in
from proofs.workload import Exchange

MESSAGES_A_TURN = 5
CONFIG = {"configurable": {"thread_id": "main"}}


class Whole(TypedDict):
    """A state whose messages are written whole at each step: the default."""

    messages: Annotated[list[Any], add_messages]


class Delta(TypedDict):
    """A state of which only changes are written, and a snapshot now and then."""

    messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer)]


class LangGraph:
    """A thread of checkpoints."""

    distribution: ClassVar[str] = "langgraph"
    forks_by: ClassVar[str] = "new checkpoint"
    forks_max: ClassVar[int | None] = None
    cycle: ClassVar[int] = 1
    state: ClassVar[type] = Whole

    async def open(self, place: Place) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(
            place.conninfo, autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        saver = PostgresSaver(self._connection)
        saver.setup()
        self._reply: list[Any] = []
        graph = StateGraph(self.state).add_node("agent", lambda _: {"messages": self._reply})
        graph = graph.add_edge(START, "agent").add_edge("agent", END)
        self._graph = graph.compile(checkpointer=saver)

    async def fill(self, exchanges: list[Exchange]) -> str:
        turns = [self.prepare(exchange) for exchange in exchanges]
        if len(turns) <= FILL_PATIENTLY_MAX:
            for turn in turns:
                await self.append(turn)
            return TURN_BY_TURN
        whole = [message for turn in turns for message in turn]
        self._graph.update_state(CONFIG, {"messages": whole}, as_node="agent")
        return "one update_state with every message"

    def prepare(self, exchange: Exchange) -> list[Any]:
        said = said_in(exchange)
        calls = [{"name": call.tool, "args": call.args, "id": call.id} for call in said.calls]
        return [
            HumanMessage(said.question, id=str(uuid4())),
            AIMessage(said.thought, id=str(uuid4()), tool_calls=calls),
            *(
                ToolMessage(call.output_text, tool_call_id=call.id, id=str(uuid4()))
                for call in said.calls
            ),
            AIMessage(said.answer, id=str(uuid4())),
        ]

    async def append(self, prepared: list[Any]) -> None:
        question, *self._reply = prepared
        self._graph.invoke({"messages": [question]}, CONFIG)

    async def load(self) -> int:
        return len(self._graph.get_state(CONFIG).values["messages"]) // MESSAGES_A_TURN

    async def fork(self) -> None:
        self._graph.update_state(CONFIG, None)

    async def close(self) -> None:
        self._connection.close()


class LangGraphDelta(LangGraph):
    """The same with the opt-in channel that writes changes only."""

    # Two updates a turn, and a snapshot of everything every hundred of them.
    cycle: ClassVar[int] = 50
    state: ClassVar[type] = Delta
