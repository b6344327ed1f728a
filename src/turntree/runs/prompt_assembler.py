"""Assembles the prompts of one run, call by call, and reads the objects that they show.

The thread is shown the same way in all calls of a run, so its messages are made once. This module
must never know a journal: replays and inspections use it too.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from turntree.core.ids import Digest
from turntree.core.message import ErasedMessage, Message
from turntree.models.context_window import ContextWindow
from turntree.models.folding import Excerpt, excerpt_of, list_large
from turntree.models.prompt import Prompt, PromptPlan, PromptPrefix, plan_prompt


@dataclass(slots=True)
class PromptAssembler:
    """Assembles prompts from a thread and what precedes it."""

    view: ContextWindow
    parts: PromptPrefix
    get_object: Callable[[Digest], Awaitable[bytes]]
    _excerpts: dict[Digest, Excerpt] = field(default_factory=dict[Digest, Excerpt])
    _planned: tuple[int, PromptPlan, list[Message]] | None = None

    async def assemble(
        self,
        query: Sequence[Message | ErasedMessage],
        reply: Sequence[Message | ErasedMessage],
        *,
        budget_tokens: int,
    ) -> Prompt:
        """Return the prompt that follows a reply so far.

        Raises:
            NotFound: An object is gone.
        """
        known = self._planned
        if known is None or known[0] != budget_tokens or known[1].query != tuple(query):
            plan = plan_prompt(self.view, self.parts, query, budget_tokens=budget_tokens)
            await self._read(plan.large_objects)
            known = (budget_tokens, plan, plan.show_thread(self._excerpts))
            self._planned = known
        await self._read(list_large(reply))
        return known[1].assemble(known[2], reply, self._excerpts)

    async def _read(self, digests: Iterable[Digest]) -> None:
        for digest in digests:
            if digest not in self._excerpts:
                self._excerpts[digest] = excerpt_of(await self.get_object(digest))
