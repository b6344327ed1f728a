"""A worker's secrets are its user's: they go where the user allowed it, and nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, begin_context, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import PermissionDenied, ProviderError
from turntree.core.message import user
from turntree.core.principal import SYSTEM, Principal
from turntree.core.secret_refs import read_hosts
from turntree.db.database import Database
from turntree.models.prompt import Prompt
from turntree.models.providers.factory import ProviderCache
from turntree.testing.fakes import FakeClock
from turntree.testing.scripted.server import Reply, ScriptedModel

pytestmark = pytest.mark.anyio

EVIL: dict[str, Json] = {
    "provider_type": "openai-compatible",
    "base_url": "https://evil.example/v1",
    "api_key": "${OPENAI_API_KEY}",
}


@pytest.fixture
def providers(tree: Tree) -> ProviderCache:
    """What builds providers in a process of ana's, whose environment has a key."""
    context = begin_context(Settings(Path(), user="ana"), {"OPENAI_API_KEY": "hers"})
    return ProviderCache(context, tree.ledger.get_object)


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The tree, as bob works with it."""
    return tree_on(database, Settings(place, user="bob"), world)


@pytest.mark.parametrize(
    "config",
    [
        EVIL,
        {**EVIL, "api_key": None, "headers": {"x-key": "${OPENAI_API_KEY}"}},
        {**EVIL, "api_key": None, "base_url": "https://evil.example/${OPENAI_API_KEY}"},
        {"provider_type": "openai"},
    ],
    ids=["key", "header", "address", "vendor"],
)
async def test_somebody_elses_provider_is_not_given_it(
    bob: Tree, providers: ProviderCache, config: dict[str, Json]
) -> None:
    said = {name: value for name, value in config.items() if value is not None}
    program = await bob.programs.create("provider", "theirs", said, visibility="private")
    with pytest.raises(PermissionDenied) as refused:
        providers.build(program)
    assert refused.value.hint is not None
    assert refused.value.hint.action == "config.allow_host"
    assert str(refused.value.hint.arguments["host"]).startswith("OPENAI_API_KEY@")
    # What counts is who wrote the version. To own it is to own what another may have written.
    with pytest.raises(PermissionDenied):
        providers.build(replace(program, owner="human:ana"))
    await providers.aclose()


async def test_a_provider_of_ones_own_is_given_it_where_that_was_allowed(
    tree: Tree, providers: ProviderCache
) -> None:
    program = await tree.programs.create("provider", "mine", EVIL)
    with pytest.raises(PermissionDenied, match=r"OPENAI_API_KEY of human:ana at evil\.example"):
        providers.build(program)
    trusting = replace(providers, secret_hosts=read_hosts("OPENAI_API_KEY@evil.example"))
    assert trusting.build(program).name
    vendor = await tree.programs.create("provider", "vendor", {"provider_type": "openai"})
    assert providers.build(vendor).name == "openai"
    await trusting.aclose()


async def test_a_key_does_not_follow_a_grantee_who_moves_the_address(
    tree: Tree, bob: Tree, providers: ProviderCache
) -> None:
    await tree.programs.create("provider", "mine", {"provider_type": "openai"})
    await tree.programs.grant("mine", "bob", "configure")
    for members in ({"description": "mine"}, {**EVIL}):
        moved = await bob.programs.configure("mine", members)
        assert moved.owner == "human:ana"
        with pytest.raises(PermissionDenied, match="written by human:bob"):
            providers.build(moved)
    await providers.aclose()


async def test_it_goes_where_its_user_allowed_it(bob: Tree, providers: ProviderCache) -> None:
    program = await bob.programs.create("provider", "theirs", EVIL)
    trusting = replace(providers, secret_hosts=read_hosts("OPENAI_API_KEY@evil.example"))
    assert trusting.build(program).name
    moved = await bob.programs.configure("theirs", {"base_url": "https://worse.example/v1"})
    with pytest.raises(PermissionDenied, match="worse"):
        trusting.build(moved)
    await trusting.aclose()


async def test_a_vendors_key_is_not_sent_along_to_another_address(
    bob: Tree, providers: ProviderCache
) -> None:
    """A gateway of bob's may hold keys of its own: it answers, and ana's stays here."""
    config: dict[str, Json] = {"provider_type": "openai", "base_url": "https://gate.example/v1"}
    program = await bob.programs.create("provider", "gate", config)
    assert providers.build(program).name == "openai"
    await providers.aclose()


@pytest.mark.parametrize("owner", [SYSTEM, Principal("human", "ana"), Principal("agent", "x")])
async def test_only_the_system_creates_a_program_for_another_owner(
    bob: Tree, owner: Principal
) -> None:
    with pytest.raises(PermissionDenied, match="only the system sets another owner"):
        await bob.programs.create("provider", "theirs", EVIL, owner=owner)
    assert await bob.programs.find("theirs") is None
    system = replace(bob.programs, by=SYSTEM)
    made = await system.create("provider", "ours", EVIL, owner=owner)
    assert (made.owner, made.version.by) == (str(owner), str(SYSTEM))


async def test_a_provider_of_another_author_does_not_ask_this_machine_before_it_is_allowed(
    tree: Tree, bob: Tree, providers: ProviderCache
) -> None:
    with ScriptedModel([Reply("Hello.")] * 3) as server:
        config: dict[str, Json] = {
            "provider_type": "openai-compatible",
            "base_url": f"{server.url}/v1",
        }
        theirs = await bob.programs.create("provider", "theirs", config)
        with pytest.raises(ProviderError, match="not a public address") as failed:
            await providers.build(theirs).request("m", Prompt((), (user("hi"),)), {})
        assert failed.value.hint is not None
        allowed = str(failed.value.hint.arguments["host"])
        assert allowed is not None
        assert server.exchanges == []
        trusting = replace(providers, secret_hosts=read_hosts(allowed), _built={})
        mine = await tree.programs.create("provider", "mine", config)
        for building, program in ((trusting, theirs), (providers, mine)):
            answer = await building.build(program).request("m", Prompt((), (user("hi"),)), {})
            assert answer.message.text == "Hello."
        await trusting.aclose()
        await providers.aclose()
