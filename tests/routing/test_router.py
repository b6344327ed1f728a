"""Routing: everything that can be addressed resolves to one route, and closed doors stay closed."""

from pathlib import Path

import anyio
import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidQuery, NotFound
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.db.database import Database
from turntree.routing.route import Route
from turntree.routing.target import Overrides, ToContent, ToSession, ToTurn, channel_key, entity_key
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder

pytestmark = pytest.mark.anyio

SYNONYMS = {"automobil": "car", "vehicl": "car"}
MALLORY = Principal("human", "mallory")


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path) -> Tree:
    settings = Settings(place, user="ana", session="main")
    return tree_on(database, settings, world, embedder=HashingEmbedder(synonyms=SYNONYMS))


async def record(tree: Tree, session: str, said: str, answer: str = "done") -> TurnId:
    return (await tree.turns.record(session, [user(said)], [assistant(answer)])).turn.id


def labels(route: Route) -> list[str | None]:
    return [candidate.label for candidate in route.candidates]


async def test_a_session_is_continued_where_it_stands(tree: Tree) -> None:
    await record(tree, "main", "one")
    head = await record(tree, "main", "two")
    route = await tree.router.resolve("main")
    assert (route.head, route.label, route.begins) == (head, "main", False)
    assert route.thread_key == f"turn:{head}"
    assert route.target == ToSession((await tree.sessions.get("main")).label)
    assert await tree.router.resolve("HEAD") == route
    assert route.steps == ("the session main has 2 turns",)


async def test_a_turn_is_continued_itself(tree: Tree) -> None:
    first = await record(tree, "main", "one")
    await record(tree, "main", "two")
    route = await tree.router.resolve("main~1")
    assert (route.head, route.session, route.label) == (first, None, None)
    assert await tree.router.resolve(ToTurn(first)) == route
    with pytest.raises(NotFound):
        await tree.router.resolve("nowhere")


async def test_an_alias_leads_to_its_session(tree: Tree) -> None:
    head = await record(tree, "main", "one")
    await tree.sessions.alias("main", "trunk")
    route = await tree.router.resolve("trunk")
    assert (route.head, route.label) == (head, "main")
    assert route.steps[0] == "trunk is an alias of main"


async def test_a_persona_has_a_main_session_that_begins_when_somebody_writes(tree: Tree) -> None:
    with pytest.raises(NotFound, match="no persona 'atlas'"):
        await tree.router.resolve("@(atlas)")
    await tree.programs.create("agent", "atlas", {})
    route = await tree.router.resolve("@(atlas)")
    assert (route.head, route.session, route.label, route.begins) == (
        None, None, "atlas:main", True,
    )  # fmt: skip
    begun = await tree.router.begin(route)
    assert begun.session is not None
    assert not begun.begins
    head = await record(tree, "atlas:main", "hello")
    again = await tree.router.resolve("persona:atlas")
    assert (again.head, again.session) == (head, begun.session)
    assert await tree.router.begin(again) == again


async def test_a_stranger_has_a_session_by_his_channel(tree: Tree) -> None:
    key = channel_key("telegram", "42")
    route = await tree.router.resolve(key)
    assert (route.label, route.begins) == (key, True)
    begun = await tree.router.begin(route)
    assert (await tree.router.resolve(key)).session == begun.session


async def test_two_who_begin_a_session_at_once_end_with_the_same(tree: Tree) -> None:
    route = await tree.router.resolve(channel_key("telegram", "42"))
    found: list[Route] = []

    async def begin() -> None:
        found.append(await tree.router.begin(route))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(begin)
    assert len({one.session for one in found}) == 1


async def test_a_stranger_whom_we_come_to_know_keeps_his_session(tree: Tree) -> None:
    key = channel_key("telegram", "42")
    before = await tree.router.begin(await tree.router.resolve(key))
    head = await record(tree, key, "it is me, Ana")
    known = await tree.router.identify("telegram", "42", "ana")
    assert (known.id, known.label, known.aliases) == (before.session, entity_key("ana"), (key,))
    for name in (key, entity_key("ana")):
        route = await tree.router.resolve(name)
        assert (route.head, route.session) == (head, before.session)
    # Saying it again changes nothing.
    assert await tree.router.identify("telegram", "42", "ana") == known


async def test_two_strangers_who_are_one_share_a_session(tree: Tree) -> None:
    telegram, mail = channel_key("telegram", "42"), channel_key("mail", "ana@example.com")
    for key in (telegram, mail):
        await tree.router.begin(await tree.router.resolve(key))
        await record(tree, key, f"hello from {key}")
    first = await tree.router.identify("telegram", "42", "ana")
    second = await tree.router.identify("mail", "ana@example.com", "ana")
    assert first.id == second.id
    assert {telegram, mail} <= set(second.aliases)
    assert (await tree.router.resolve(mail)).session == first.id


async def test_somebody_may_be_known_before_he_writes(tree: Tree) -> None:
    known = await tree.router.identify("telegram", "42", "ana")
    assert known.label == entity_key("ana")
    assert (await tree.router.resolve(channel_key("telegram", "42"))).session == known.id


async def test_a_message_finds_its_thread_by_words_of_several_turns(tree: Tree) -> None:
    await record(tree, "billing", "the invoice renderer leaks memory")
    head = await record(tree, "billing", "which error was it?", "E4127")
    await record(tree, "other", "the invoice is wrong")
    await record(tree, "weather", "will it rain?")
    route = await tree.router.resolve(text="did E4127 of the invoice come back?")
    assert (route.label, route.head, route.target) == ("billing", head, ToContent())
    best, second = route.candidates[:2]
    assert set(best.matched) == {"E4127", "invoice"}
    assert best.score > second.score
    assert labels(route)[:2] == ["billing", "other"]


async def test_a_message_finds_its_thread_by_what_it_means(tree: Tree) -> None:
    await record(tree, "garage", "the car broke down")
    await record(tree, "kitchen", "bake some bread")
    with pytest.raises(NotFound, match="no thread fits"):
        await tree.router.resolve(text="my automobile")
    await tree.search.fill_meanings()
    route = await tree.router.resolve(text="my automobile")
    assert route.label == "garage"
    assert route.candidates[0].likeness > 0.3


async def test_the_best_turn_of_a_fork_leads_to_the_fork(tree: Tree) -> None:
    await record(tree, "main", "the login page drops the query")
    await tree.sessions.fork("main", "side")
    head = await record(tree, "side", "try a middleware")
    await record(tree, "main", "try a decorator")
    route = await tree.router.resolve(text="login by middleware")
    assert (route.label, route.head) == ("side", head)
    assert labels(route) == ["side", "main"]


async def test_an_archived_session_is_not_continued_but_its_turns_are(tree: Tree) -> None:
    turn = await record(tree, "old", "zebras")
    await tree.sessions.set_status("old", "archived")
    route = await tree.router.resolve(text="zebras")
    assert (route.head, route.session, route.label) == (turn, None, None)


async def test_a_closed_thread_is_absent_whichever_way_it_is_addressed(tree: Tree) -> None:
    turn = await record(tree, "secret", "zebras in the cellar")
    await record(tree, "open", "zebras in the zoo")
    await tree.search.fill_meanings()
    await tree.programs.create("session", "secret", {}, visibility="private")
    mine = await tree.router.resolve(text="zebras in the cellar")
    assert mine.label == "secret"
    theirs = await tree.router.resolve(text="zebras in the cellar", sender=MALLORY)
    assert labels(theirs) == ["open"]
    for target in ("secret", f"turn:{turn}", ToTurn(turn)):
        await tree.router.resolve(target)
        with pytest.raises(NotFound):
            await tree.router.resolve(target, sender=MALLORY)
    alone = await tree.router.resolve(text="cellar zebras", sender=MALLORY)
    assert alone.candidates[0].words == 1.0, "a hidden word leaves no trace in a score"
    await tree.programs.invite("secret", str(MALLORY))
    assert (await tree.router.resolve("secret", sender=MALLORY)).head == turn


async def test_what_was_said_before_a_closed_fork_stays_open(tree: Tree) -> None:
    await record(tree, "open", "zebras")
    await tree.sessions.fork("open", "secret")
    await record(tree, "secret", "giraffes")
    await tree.programs.create("session", "secret", {}, visibility="private")
    assert labels(await tree.router.resolve(text="zebras", sender=MALLORY)) == ["open"]
    with pytest.raises(NotFound):
        await tree.router.resolve(text="giraffes", sender=MALLORY)


async def test_a_private_persona_is_addressed_by_who_may_see_it(tree: Tree) -> None:
    await tree.programs.create("agent", "atlas", {}, visibility="private")
    assert (await tree.router.resolve("@(atlas)")).label == "atlas:main"
    for _ in range(2):
        with pytest.raises(NotFound):
            await tree.router.resolve("@(atlas)", sender=MALLORY)
        await record(tree, "atlas:main", "hello")
    await tree.programs.invite("atlas", str(MALLORY))
    route = await tree.router.resolve("@(atlas)", sender=MALLORY)
    assert (route.label, route.begins, route.is_private) == ("atlas:with-mallory", True, True)
    await tree.programs.invite("atlas:main", str(MALLORY))
    assert (await tree.router.resolve("@(atlas)", sender=MALLORY)).label == "atlas:main"


async def test_what_is_alike_is_not_shown_from_closed_threads(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    await record(tree, "secret", "the car in the cellar")
    await tree.programs.create("session", "secret", {}, visibility="private")
    await tree.meanings.fill()
    stranger = tree_on(
        database,
        Settings(place, user="mallory"),
        world,
        embedder=HashingEmbedder(synonyms=SYNONYMS),
    )
    assert [one.described.kind for one in await tree.meanings.similar_to_text("car")] == [
        "turn", "session",
    ]  # fmt: skip
    assert await stranger.meanings.similar_to_text("car") == []


async def test_settings_of_a_message_travel_with_its_route(tree: Tree) -> None:
    await record(tree, "main", "one")
    wanted = Overrides({"model": "opus"}, {"deny": ["bash"]})
    assert (await tree.router.resolve("main", overrides=wanted)).overrides == wanted


async def test_nothing_to_route_by_is_said(tree: Tree) -> None:
    with pytest.raises(InvalidQuery, match="empty"):
        await tree.router.resolve(text="  ")
    with pytest.raises(NotFound, match="no thread fits"):
        await tree.router.resolve(text="zebras")
