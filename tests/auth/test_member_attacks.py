"""Attacks on the members of a workspace: a person who is not an admin never gets an admin's rights."""

from pathlib import Path

import psycopg
import pytest

from tests.auth.test_token import forge
from tests.db.test_row_security import acting
from turntree.api import Tree
from turntree.auth.delegation import DelegationChain
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import EVERYTHING
from turntree.auth.token import issue, narrow, open_token
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.core.viewer import sight_of
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
NOW = Timestamp("2026-11-18T12:00:00.000Z")
KEY = b"k" * 32
BOB = Principal("human", "bob")
FALSE_AGENT = Principal("agent", "x for human:ana")
REQUIRE_ADMIN = "SELECT turntree.require_role(%s, 'human:bob', 'member.manage', '{admin}')"


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another person."""
    return tree_on(database, Settings(place, user="bob"), world)


async def roles(tree: Tree) -> dict[str, str]:
    return {one.name: one.role for one in await tree.members.list_all()}


def test_an_agent_named_like_a_pair_gets_no_token() -> None:
    chain = DelegationChain.begin(BOB, EVERYTHING)
    text = issue(chain, key=KEY, nonce="01234567", audience="here", expires_at=LATER)
    with pytest.raises(InvalidOperation, match="not the id of a principal"):
        narrow(text, to=FALSE_AGENT, rights=EVERYTHING)
    # A holder signs any block: what narrow refuses, an attacker writes.
    to = {"kind": FALSE_AGENT.kind, "id": FALSE_AGENT.id}
    forged = forge(text, {"to": to, "rights": EVERYTHING.to_json()})
    with pytest.raises(PermissionDenied, match="not the id of a principal"):
        open_token(forged, key=KEY, audience="here", now=NOW)


def test_no_context_and_no_viewer_has_an_id_that_reads_like_a_pair() -> None:
    with pytest.raises(InvalidOperation, match="not the id of a principal"):
        ExecutionContext.begin(BOB).delegate(FALSE_AGENT, EVERYTHING)
    for root in (Principal("human", "bob for human:ana"), Principal("system", "x for human:ana")):
        with pytest.raises(InvalidOperation, match="not the id of a principal"):
            ExecutionContext.begin(root)
    for who in (
        Principal("agent", FALSE_AGENT.id, BOB),
        Principal("agent", "x", Principal("human", "bob for human:ana")),
        Principal("human", "bob for human:ana"),
    ):
        with pytest.raises(InvalidOperation, match="not the id of a principal"):
            sight_of(who)


async def test_the_person_behind_a_viewer_is_the_last_one(
    tree: Tree, database: Database, conninfo: str
) -> None:
    await tree.members.add("bob", "guest")
    viewer = f"{FALSE_AGENT} for {BOB}"
    with acting(conninfo, "turntree_app", database.workspace, viewer) as connection:
        found = connection.execute("SELECT turntree.person_behind(turntree.viewer())").fetchone()
        assert found == ("human:bob",)
        assert connection.execute("SELECT turntree.is_admin()").fetchone() == (False,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(REQUIRE_ADMIN, (database.workspace,))
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is a guest"):
            connection.execute(
                "SELECT turntree.require_member(%s, NULL, 'create')", (database.workspace,)
            )
