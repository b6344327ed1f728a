"""The engine in memory keeps the contract."""

import pytest

from turntree.db.database import Database
from turntree.runs.engines.inline import InlineEngine
from turntree.testing.contracts.engine import EngineContract

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(database: Database) -> InlineEngine:
    """An engine on transactions of the store's."""
    return InlineEngine(database.lend)


class TestInlineEngine(EngineContract):
    """The engine of this process."""
