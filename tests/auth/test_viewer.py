"""Who acts on another's behalf sees at most what both may see."""

from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import NotFound
from turntree.core.principal import SYSTEM, Principal
from turntree.core.viewer import sight_of
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


def looking(database: Database, world: FakeClock, place: Path, who: Principal) -> Tree:
    return tree_on(database, Settings(place, user="x"), world, sight=sight_of(who))


async def test_an_agent_sees_no_session_that_is_private_to_one_of_the_two(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    bob = tree_on(database, Settings(place, user="bob"), world)
    await tree.programs.create("session", "hers", {}, visibility="private")
    await bob.programs.create("session", "his", {}, visibility="private")
    await bob.programs.create("session", "open", {})
    # bob lets the agent in when it acts for him. That is nothing to whom it acts for otherwise.
    await bob.programs.grant("his", "agent:atlas", "read")
    for_ana = looking(database, world, place, Principal("agent", "atlas", tree.programs.by))
    assert (await for_ana.sessions.get("open")).label == "open"
    for label in ("hers", "his"):
        with pytest.raises(NotFound):
            await for_ana.sessions.get(label)
    alone = looking(database, world, place, Principal("agent", "atlas", SYSTEM))
    assert (await alone.sessions.get("his")).label == "his"
    await tree.programs.grant("hers", "agent:atlas for human:ana", "read")
    assert (await for_ana.sessions.get("hers")).label == "hers"


def test_no_chain_sees_as_the_system_or_as_another_human() -> None:
    ana = Principal("human", "ana")
    assert sight_of(ana) == "human:ana"
    assert sight_of(Principal("agent", "atlas", ana)) == "agent:atlas for human:ana"
    through = Principal("session", "s", Principal("agent", "atlas", ana))
    assert sight_of(through) == "session:s for human:ana"
    assert sight_of(Principal("agent", "atlas", SYSTEM)) == "agent:atlas"
