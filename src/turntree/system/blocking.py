"""A tree, or a client, for programs without an event loop: each call waits for its result.

One background thread runs the event loop, so it also works in a notebook, whose own loop is
running. Nothing here names a facet or a method. What exists on a tree exists here, and the types
are generated from it (``sync_tree.pyi``), so the two cannot differ.
"""

import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing
from functools import wraps
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from turntree.core.errors import InvalidOperation
from turntree.core.value import Facet


class BlockingProxy:
    """Offers what an object with asynchronous methods offers, without ``await``."""

    def __init__(self, portal: BlockingPortal, target: Any, noun: str) -> None:
        """Call the target in the event loop behind a portal; the noun is for errors."""
        self._portal = portal
        self._target = target
        self._noun = noun

    def __dir__(self) -> list[str]:
        """Return the names that the target shows."""
        return dir(self._target)

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"

    def __getattr__(self, name: str) -> Any:
        # In the loop's thread: a facet is created at its first use, and may need the loop.
        member = self._do(lambda: getattr(self._target, name))
        is_method = callable(member) and not isinstance(member, BlockingProxy)
        return self._wrap(member) if is_method else member

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the target itself, as in ``tree.search("oak")``."""
        return self._do(lambda: self._target(*args, **kwargs))

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._do(lambda: method(*args, **kwargs))

        return call

    def _do(self, act: Callable[[], Any]) -> Any:
        async def run() -> Any:
            result = act()
            return await result if isawaitable(result) else result

        result = self._wait(run)
        if isinstance(result, Facet):
            return BlockingProxy(self._portal, result, self._noun)
        if hasattr(result, "__anext__"):
            return self._iterate(result)
        if hasattr(result, "__aenter__"):
            return self._portal.wrap_async_context_manager(result)
        return result

    def _wait(self, act: Callable[..., Any]) -> Any:
        try:
            future: Future[Any] = self._portal.start_task_soon(act)
        except RuntimeError as error:
            if str(error) != "This portal is not running":
                raise
            raise InvalidOperation(f"the {self._noun} is closed") from None
        try:
            return future.result()
        finally:
            # Ctrl-C ends the wait in this thread only; the call must not go on in the other one.
            future.cancel()

    def _iterate(self, items: AsyncGenerator[Any, Any]) -> Generator[Any, None, None]:
        """Yield the items of an asynchronous generator.

        It runs in one task from its beginning to its end, because it may hold a cancel scope or a
        context variable over its ``yield``, which another task could not leave.
        """
        send, receive = anyio.create_memory_object_stream[Any](0)

        async def pump() -> None:
            async with send, aclosing(items):
                async for item in items:
                    await send.send(item)

        pumping: Future[None] = self._portal.start_task_soon(pump)
        try:
            while True:
                try:
                    item = self._wait(receive.receive)
                except anyio.EndOfStream:
                    pumping.result()
                    return
                yield item
        finally:
            pumping.cancel()
            receive.close()


class BlockingTree(BlockingProxy):
    """A tree in an event loop of its own, until it is closed."""

    def __init__(
        self, opens: Callable[[], AbstractAsyncContextManager[Any]], noun: str = "tree"
    ) -> None:
        """Start the event loop and open the tree, or something like it, in it."""
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio", name="turntree"))
            tree = stack.enter_context(portal.wrap_async_context_manager(opens()))
            self._stack = stack.pop_all()
        # Also at the end of the process: a worker gives back what it holds.
        self._close = weakref.finalize(self, self._stack.close)
        super().__init__(portal, tree, noun)

    def close(self) -> None:
        """Close the tree and end its thread; closing it again does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The block of the asynchronous tree gets the error too: it ends what it was doing.
        if self._close.detach() is not None:
            self._stack.__exit__(kind, error, trace)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), "close"])
