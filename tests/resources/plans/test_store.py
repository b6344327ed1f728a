"""No read of the tree depends on how large the tables were when it was first planned."""

from typing import Any
from uuid import UUID

import psycopg
import pytest

from turntree.api import Tree
from turntree.core.message import assistant, user
from turntree.db.database import Database
from turntree.ledger.thread_store import SQL

pytestmark = pytest.mark.anyio


async def test_small_tables_are_read_by_their_indexes_too(
    tree: Tree, database: Database, conninfo: str
) -> None:
    placed = await tree.turns.record("main", [user("hello")], [assistant("hi")])
    turn = UUID(placed.turn.id)
    # With these statistics the planner would rather read the whole table, and a connection keeps
    # such a plan while the table grows.
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute("ANALYZE")
    reads: dict[str, dict[str, Any]] = {
        "find_turn": {"turn": turn},
        "thread_page": {"head": turn, "low": 1, "high": 10},
        "turn_at_depth": {"head": turn, "depth": 1},
        "list_children": {"turn": turn, "after": None, "limit": 10},
        "list_sessions_holding": {"turn": turn},
        "list_turns_by_id": {"low": turn, "high": turn, "limit": 1},
    }
    async with database.connection() as connection:
        for query, params in reads.items():
            scope = {"workspace": database.workspace, **params}
            plan = await connection.execute(b"EXPLAIN " + SQL[query], scope)
            assert "Seq Scan" not in str(await plan.fetchall()), query
