"""The accepted tools of one connector, for one run. Implements ``Toolset``.

A call is made with the description that the run pinned, or not at all. A server that asks a person
something parks the run; its state waits in the journal, and any worker continues the call. A server
that no longer accepts its state is called anew, with the answers already given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import orjson

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, TurntreeError
from turntree.core.message import ToolResult, ToolUse
from turntree.core.program import Program
from turntree.models.prompt import ToolSpec
from turntree.programs.service import Programs
from turntree.tools.mcp.connection import (
    ConnectionLostError,
    RefusedStateError,
    ServerAnswer,
    ServerConnection,
)
from turntree.tools.mcp.connections import ServerConnections, ToolServer
from turntree.tools.mcp.content import read_result
from turntree.tools.mcp.description import accepted_of, offered_names
from turntree.tools.mcp.question import (
    ASKED_MAX,
    STATE_CHARS_MAX,
    CallState,
    ServerQuestion,
    read_answer,
)
from turntree.tools.toolset import GivenAnswer, ToolContext, ToolOutcome, ToolQuestion

ROUNDS_MAX: Final = 10
"""How often a server may be answered without asking a person."""


@dataclass(slots=True)
class ConnectorTools:
    """The tools of a connector, as a run pinned it."""

    connections: ServerConnections
    programs: Programs
    program: Program
    """In the version that the run pinned."""
    specs: tuple[ToolSpec, ...]
    name: str = field(init=False)
    _names: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Look up the server's own names of the tools."""
        self.name = f"mcp:{self.program.name}"
        self._names = offered_names(self.program.name, accepted_of(self.program.config))

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolOutcome:
        """Call a tool of the server, or continue a call that asked a question."""
        if not isinstance(use.args, Mapping | None):
            return ToolResult(use.call_id, "error", "the arguments must be a JSON object")
        tool = self._names[use.tool]
        try:
            await self.programs.check_right(await self.programs.get(self.program.id), "invoke")
            server = await self.connections.get(self.programs, self.program)
            told = await server.connection.list_tools()
            pinned = accepted_of(self.program.config)[tool]["digest"]
            if tool not in told or told[tool].digest != pinned:
                await self.connections.note_changes(self.programs, self.program, told)
                why = "describes it otherwise now" if tool in told else "has it no longer"
                return ToolResult(
                    use.call_id, "error", f"{self.name} {why}; a person has to accept it first"
                )
            return await self._continue(server, use, tool, occasion.answer)
        except ConnectionLostError as error:
            return ToolResult(
                use.call_id,
                "interrupted",
                f"the connection to {self.name} ended during the call, which may have been made: "
                f"{error}",
            )
        except TurntreeError as error:
            # The model reads the error as the tool's result and can correct its call.
            return ToolResult(use.call_id, "error", str(error))

    async def _continue(
        self, server: ToolServer, use: ToolUse, tool: str, given: GivenAnswer | None
    ) -> ToolOutcome:
        state = CallState() if given is None else CallState.from_json(given.state)
        answers = dict(state.answers or {})
        if given is not None and state.asked is not None:
            answers[state.asked] = _response(given)
        keys = dict(state.keys or {})
        open_keys = [digest for digest in keys if digest not in answers]
        if open_keys:
            # The server waits for several answers: the next question is known already.
            questions = {keys[d]: _stored(given, d) for d in keys}
            return self._asking(server, use, questions, answers, state.request_state)
        responses: dict[str, Json] | None = {keys[d]: answers[d] for d in keys} or None
        request_state = state.request_state
        for _ in range(ROUNDS_MAX):
            answer = await self._ask(
                server.connection, tool, use.args, answers, responses, request_state
            )
            if answer.result is not None:
                return read_result(use.call_id, _hidden(server, answer.result))
            if answer.refused is not None:
                told = f"{self.name} wants {answer.refused}, which is not offered to servers"
                return ToolResult(use.call_id, "error", told)
            digests = {key: question.digest for key, question in answer.questions.items()}
            if any(digest not in answers for digest in digests.values()):
                return self._asking(server, use, answer.questions, answers, answer.request_state)
            responses = {key: answers[digest] for key, digest in digests.items()} or None
            request_state = answer.request_state
        return ToolResult(
            use.call_id, "error", f"{self.name} asks the same again, however it is answered"
        )

    async def _ask(
        self,
        connection: ServerConnection,
        tool: str,
        args: Any,
        answers: Mapping[str, Json],
        responses: Mapping[str, Json] | None,
        request_state: str | None,
    ) -> ServerAnswer:
        try:
            return await connection.call(
                tool, args or {}, answers, responses=responses, request_state=request_state
            )
        except RefusedStateError:
            # Expired, or another process of the server drew another key: it begins anew.
            return await connection.call(tool, args or {}, answers)

    def _asking(
        self,
        server: ToolServer,
        use: ToolUse,
        questions: Mapping[str, ServerQuestion],
        answers: Mapping[str, Json],
        request_state: str | None,
    ) -> ToolOutcome:
        """Return the first question that has no answer yet."""
        if len(answers) >= ASKED_MAX or len(request_state or "") > STATE_CHARS_MAX:
            return ToolResult(use.call_id, "error", f"{self.name} asks too much")
        first = next(one for one in questions.values() if one.digest not in answers)
        state = CallState(
            request_state,
            first.digest,
            {one.digest: key for key, one in questions.items()},
            answers,
        )
        document = state.to_json()
        document["questions"] = {
            one.digest: {"text": one.text, "schema": _plain(one.schema), "url": one.url}
            for one in questions.values()
        }
        text = server.hide(first.shown(self.name))
        return ToolQuestion(use.call_id, text, first.schema, document)


def _response(given: GivenAnswer) -> Json:
    """Return an answer as the protocol has it."""
    if given.decision == "rejected":
        return {"action": "decline"}
    questions = given.state.get("questions")
    asked = questions.get(str(given.state.get("asked"))) if isinstance(questions, Mapping) else None
    schema = asked.get("schema") if isinstance(asked, Mapping) else None
    content = read_answer(given.answer, schema if isinstance(schema, Mapping) else None)
    return {"action": "accept", "content": content} if schema is not None else {"action": "accept"}


def _stored(given: GivenAnswer | None, digest: str) -> ServerQuestion:
    assert given is not None, "questions are stored with the answer to one of them"
    questions: Any = given.state["questions"]
    told = questions[digest]
    return ServerQuestion(told["text"], told.get("schema"), told.get("url"))


def _plain(schema: Mapping[str, Json] | None) -> Json:
    return None if schema is None else dict(schema)


def _hidden(server: ToolServer, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result without the secrets that the server was given."""
    if not server.secrets:
        return result
    document: Any = orjson.loads(server.hide(orjson.dumps(dict(result)).decode()))
    if not isinstance(document, Mapping):
        raise InvalidOperation("a result is a document")
    return cast("Mapping[str, Any]", document)
