"""Reconstructs what a model saw: the prompt of every call of a turn.

Prompts are not stored; the thread, the manifest and the budget are. The digest in the request shows
whether they still give the same prompt, or whether something is missing.
"""

from collections.abc import Mapping, Sequence

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import TurnId
from turntree.core.message import ErasedMessage
from turntree.core.thread import ThreadTurn
from turntree.core.value import Facet, value
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import RECIPE, Prompt
from turntree.runs.recorded_calls import RecordedCall, list_taped_calls
from turntree.runs.request_builder import PromptAssembler, RequestFrame, restore_frame
from turntree.runs.request_resolver import RequestResolver


@value
class ModelCallContext:
    """One model call and its prompt."""

    taped: RecordedCall
    prompt: Prompt

    @property
    def is_same(self) -> bool | None:
        """Whether it is the prompt that was sent.

        None if that cannot be said: its digest was not recorded, or it was assembled in another
        way, by an earlier version.
        """
        if self.taped.input is None or self.taped.recipe != RECIPE:
            return None
        return self.taped.input == self.prompt.digest


@value
class TurnContext:
    """The prompts of a turn, call by call."""

    placed: ThreadTurn
    calls: tuple[ModelCallContext, ...]
    absence: str | None = None
    """Why there are no prompts, if there are none."""
    is_erased: bool = False
    """Whether a message in a prompt has been erased since."""


@value
class ModelContexts(Facet):
    """Reads the prompts of sealed turns."""

    pinning: RequestResolver
    ledger: Ledger
    threads: ThreadStore

    async def read(self, turn: TurnId) -> TurnContext:
        """Return the prompts of a sealed turn.

        Raises:
            NotFound: No such turn.
        """
        thread_turn = await self.threads.get_turn(turn)
        taped = list_taped_calls(await self.ledger.facts(turn), thread_turn.turn)
        if not taped:
            return TurnContext(
                thread_turn, (), "it was taken elsewhere, so its requests are not recorded here"
            )
        try:
            frame = await self.restore(thread_turn, taped[0].request)
            calls = await self._restore_calls(thread_turn, frame, taped)
        except (NotFound, InvalidOperation, KeyError) as error:
            # People ask for a context to understand a failure. Say what is missing instead of
            # failing too.
            return TurnContext(thread_turn, (), f"its journal is incomplete: {error}")
        turns = [
            thread_turn,
            *frame.view.turns,
            *(() if frame.view.summary is None else (frame.view.summary,)),
        ]
        return TurnContext(
            thread_turn,
            tuple(calls),
            is_erased=any(
                isinstance(message, ErasedMessage)
                for entry in turns
                for message in entry.turn.messages
            ),
        )

    async def restore(self, placed: ThreadTurn, request: Mapping[str, Json]) -> RequestFrame:
        """Return the frame that the requests of a turn share, from what they recorded.

        Raises:
            NotFound: An object or a turn is gone.
            InvalidOperation: Too little was recorded.
        """
        return await restore_frame(self.pinning, self.threads, placed.parent, request)

    async def _restore_calls(
        self, placed: ThreadTurn, frame: RequestFrame, taped: Sequence[RecordedCall]
    ) -> list[ModelCallContext]:
        assembler = PromptAssembler(frame.view, frame.parts, self.ledger.get_objects)
        calls: list[ModelCallContext] = []
        for call in taped:
            budget = call.request.get("budget_tokens")
            assert isinstance(budget, int), "every request records its budget"
            # After a refusal the budget is smaller; what is read for the larger one suffices.
            prompt = await assembler.assemble(placed.turn.query, call.reply, budget_tokens=budget)
            calls.append(ModelCallContext(call, prompt))
        return calls
