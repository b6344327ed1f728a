"""The sample data, which a running server can show instead of the user's own history."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from turntree.boot.open import connect, tree_on
from turntree.core.viewer import sight_of
from turntree.demo.planting import FILES_FOLDER, plant_demo
from turntree.server.context import SampleSwitch, ServerContext
from turntree.server.live import Live


@asynccontextmanager
async def offer_sample(own: ServerContext, workspace: str) -> AsyncGenerator[ServerContext, None]:
    """Yield a context that can also show the sample data, which has a workspace of its own."""
    async with AsyncExitStack() as stack:

        async def open_sample() -> ServerContext:
            settings = own.settings.in_workspace(workspace)
            database = await stack.enter_async_context(connect(settings, own.clock))
            tree = tree_on(database, settings, own.clock)
            await plant_demo(tree, settings.home / FILES_FOLDER)
            live = Live.make(tree)
            await stack.enter_async_context(live.running())
            seen = database.seen_by(sight_of(tree.sessions.by))
            return replace(
                own, tree=tree, database=seen, settings=settings, live=live, sample=switch,
                can_run=False, is_sample=True, models=None,
            )  # fmt: skip

        switch = SampleSwitch(own, open_sample)
        yield replace(own, sample=switch)
