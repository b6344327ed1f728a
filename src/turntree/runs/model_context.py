"""What a model saw: the prompt of every call of a turn, assembled again from what was recorded.

A prompt is not stored. Its parts are: the thread, the manifest and the budget. The digest in the
request proves that they still give the very same prompt, or tells that something is missing.
"""

from collections.abc import Mapping

from turntree.core.canonical import Json
from turntree.core.errors import NotFound, Refused
from turntree.core.ids import TurnId
from turntree.core.message import Erased
from turntree.core.thread import Placed
from turntree.core.value import value
from turntree.ledger.store_port import Ledger
from turntree.ledger.thread_store_port import Threads
from turntree.models.context_window import View
from turntree.models.prompt import Prompt, assemble
from turntree.runs.recorded_calls import TapedCall, list_taped_calls
from turntree.runs.request_builder import Frame, restore_frame
from turntree.runs.request_resolver import Pinning


@value
class SeenCall:
    """One call of a model, and what it was given."""

    taped: TapedCall
    prompt: Prompt

    @property
    def is_same(self) -> bool | None:
        """Whether it is the very prompt that was sent; None if nobody recorded its digest."""
        return None if self.taped.input is None else self.taped.input == self.prompt.digest


@value
class Seen:
    """What the models of a turn were given, call by call."""

    placed: Placed
    calls: tuple[SeenCall, ...]
    absence: str | None = None
    """Why there is nothing to see, if there is not."""
    is_erased: bool = False
    """Whether something that was shown has been erased since."""


@value
class Contexts:
    """Looks at what models were given."""

    pinning: Pinning
    ledger: Ledger
    threads: Threads

    async def read(self, turn: TurnId) -> Seen:
        """Return what the models of a sealed turn saw.

        Raises:
            NotFound: No such turn.
        """
        placed = await self.threads.get_turn(turn)
        taped = list_taped_calls(await self.ledger.facts(turn), placed.turn)
        if not taped:
            return Seen(placed, (), "it was taken elsewhere, and nobody recorded its requests here")
        try:
            frame = await self.restore(placed, taped[0].request)
        except (NotFound, Refused, KeyError) as error:
            return Seen(placed, (), f"what was recorded of it is not enough: {error}")
        calls = tuple(SeenCall(call, _prompt(frame, placed, call)) for call in taped)
        return Seen(placed, calls, is_erased=_has_erased(frame.view, placed))

    async def restore(self, placed: Placed, request: Mapping[str, Json]) -> Frame:
        """Return what the requests of a turn share, as they recorded it.

        Raises:
            NotFound: Something of it is gone.
            Refused: Too little was recorded.
        """
        return await restore_frame(self.pinning, self.threads, placed.parent, request)


def _prompt(frame: Frame, placed: Placed, call: TapedCall) -> Prompt:
    query, budget = placed.turn.query, frame.budget_tokens
    return assemble(frame.view, frame.parts, query, call.reply, budget_tokens=budget)


def _has_erased(view: View, placed: Placed) -> bool:
    turns = [placed, *view.turns, *(() if view.summary is None else (view.summary,))]
    return any(isinstance(said, Erased) for one in turns for said in one.turn.messages)
