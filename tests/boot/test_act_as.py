"""``tree.act_as``: one open tree, used by many principals."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import turntree
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, tools
from turntree.boot.open import Settings
from turntree.core.canonical import Json
from turntree.core.errors import NotFound, Unsupported
from turntree.core.message import assistant, user
from turntree.core.principal import SYSTEM, Principal
from turntree.resources.files import Files

pytestmark = pytest.mark.anyio

ANA, BOB = (ExecutionContext.begin(Principal("human", name)) for name in ("ana", "bob"))
SCRIPT: dict[str, Json] = {"provider_type": "scripted"}
ECHO: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}


@pytest.fixture(params=[False, True])
async def shared(
    conninfo: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[Tree, None]:
    """A tree that a server opened, which serves sessions from the beginning or on demand."""
    settings = Settings(tmp_path, database_url=conninfo, workspace="shared", user="owner")
    async with turntree.open(settings, worker=request.param) as tree:
        await tree.programs.ensure("provider", "script", SCRIPT)
        await tree.programs.ensure("model", "echo", ECHO)
        yield tree


async def list_labels(tree: Tree) -> set[str]:
    return {session.label async for session in tree.sessions.list_all()}


async def test_each_principal_sees_and_does_what_it_may(shared: Tree) -> None:
    trees = {name: shared.act_as(own) for name, own in (("ana", ANA), ("bob", BOB))}
    for name, tree in trees.items():
        await tree.programs.create("session", f"of-{name}", {}, visibility="private")
        placed = await tree.turns.record(f"of-{name}", [user("q")], [assistant("a")])
        assert str(placed.turn.header.by) == f"human:{name}"
    assert await list_labels(trees["ana"]) == {"of-ana"}
    assert await list_labels(trees["bob"]) == {"of-bob"}
    assert await list_labels(shared) == set()
    assert await list_labels(shared.act_as(ExecutionContext.begin(SYSTEM))) == {"of-ana", "of-bob"}
    with pytest.raises(NotFound):
        await trees["bob"].turns.get("of-ana")


async def test_an_agent_sees_what_it_and_its_principal_may(shared: Tree) -> None:
    ana = shared.act_as(ANA)
    await ana.programs.create("session", "closed", {}, visibility="private")
    await ana.turns.record("open", [user("q")], [assistant("a")])
    atlas = ANA.delegate(Principal("agent", "atlas"), Permissions(tools("fs.read")))
    assert await list_labels(shared.act_as(atlas)) == {"open"}
    assert await list_labels(ana) == {"open", "closed"}


async def test_a_message_is_sent_as_its_principal(shared: Tree) -> None:
    bob = shared.act_as(BOB)
    answer = await bob.ask("talk", "Say this again.", model="echo")
    assert answer.text == "Say this again."
    assert answer.turn.turn.header.by.person == Principal("human", "bob")
    (started, *_) = await shared.ledger.facts(answer.turn.turn.id)
    assert started.event.data["by"] == "human:bob"


async def test_a_program_is_invoked_as_its_principal(shared: Tree) -> None:
    bob = shared.act_as(BOB)
    await bob.programs.create("session", "closed", {}, visibility="private")
    await bob.programs.invoke("closed", {"message": "Say this again.", "model": "echo"})
    (started, *_) = await bob.ledger.facts((await bob.turns.get("closed")).turn.id)
    assert started.event.data["by"] == "human:bob"
    with pytest.raises(NotFound):
        await shared.act_as(ANA).programs.invoke(
            "closed", {"message": "Say this again.", "model": "echo"}
        )


async def test_a_narrowed_message_keeps_its_rights_narrow(shared: Tree) -> None:
    narrow = BOB.child(Permissions(tools("fs.read")))
    answer = await shared.act_as(narrow).ask("talk", "Say this again.", model="echo")
    (started, *_) = await shared.ledger.facts(answer.turn.turn.id)
    assert narrow.links is not None
    options = started.event.data["options"]
    assert isinstance(options, Mapping)
    assert options["chain"] == narrow.links


async def test_live_text_is_shared(shared: Tree) -> None:
    assert shared.act_as(ANA).runs.hub is shared.runs.hub is shared.act_as(BOB).runs.hub


async def test_the_folder_of_the_process_stays_its_owners(shared: Tree) -> None:
    ana = shared.act_as(ANA).act_as(BOB)
    assert str(ana.programs.by) == "human:bob"
    assert str(ana.programs.user) == "human:owner"


async def test_a_tree_with_foreign_parts_is_refused(shared: Tree) -> None:
    own = shared.with_facets(files=Files(replace(shared.resources)))
    with pytest.raises(Unsupported, match="open for one user: files"):
        own.act_as(ANA)
