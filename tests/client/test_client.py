"""The client before a real server: each verb, errors, lost connections and cut streams."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from proofs.http_world import TEAM, Team
from tests.client.conftest import Connect
from tests.client.unsteady import unsteady
from tests.server.network import answer_all
from turntree.client import Client
from turntree.client.documents import read_document
from turntree.client.problems import SessionMoved, error_of
from turntree.client.runs import RunNews
from turntree.client.sealed import read_sealed
from turntree.core.errors import (
    Conflict,
    DataMissing,
    Hint,
    InvalidQuery,
    NotFound,
    PermissionDenied,
    ServerUnavailable,
    TurnFailed,
    Unsupported,
)
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.wire.me import Me
from turntree.wire.runs import StepDocument

pytestmark = pytest.mark.anyio
SOON_S = 20.0
LARGE = 200


async def test_caller_is_told_who_they_are(client: Client) -> None:
    me = await client.me()
    assert (me.user, me.workspace, me.home) == ("mia", TEAM, "")


async def test_sessions_are_created_moved_named_and_listed(
    client: Client, connect: Connect
) -> None:
    made = await client.sessions.create("mine")
    assert (made.label, made.head) == ("mine", None)
    fork = await client.sessions.fork("lobby", "side/one")
    lobby = await client.sessions.get("lobby")
    assert fork.head == lobby.head
    back = await client.sessions.rewind("side/one", "side/one", before=True)
    assert back.head is None
    assert (await client.sessions.undo("side/one")).head == lobby.head
    # The administrator configures, a member does not.
    with pytest.raises(PermissionDenied):
        await connect("guest").sessions.rename("side/one", "x")
    assert (await client.sessions.rename("side/one", "side/two")).session == "side/two"
    assert (await client.sessions.set_status("side/two", "archived")).session == "side/two"
    listed = [one.label async for one in client.sessions.list_all()]
    assert (sorted(listed), len(listed)) == (["lobby", "mine"], 2)
    everything = [one.label async for one in client.sessions.list_all(status=None)]
    assert "side/two" in everything
    archived = await client.sessions.list_page(status="archived")
    assert [one.label for one in archived.sessions] == ["side/two"]
    assert (await client.sessions.set_status("side/two", "active")).turn == lobby.head
    page = await client.sessions.list_page(limit=1, words="lobby")
    assert [one.label for one in page.sessions] == ["lobby"]


async def test_turns_are_read_tagged_and_shared(client: Client) -> None:
    turn = await client.turns.get("lobby")
    assert turn.query[0].parts[0].text == "hello"
    assert await client.turns.get_text(turn.id, 1, 0) == "good morning"
    assert (await client.turns.get_raw(turn.id)).digest == turn.digest
    assert (await client.turns.tag(turn.id, "good")).turn == turn.id
    tags = await client.turns.list_tags(tag="good", limit=1)
    assert [(one.tag, one.turn) for one in tags.tags] == [("good", turn.id)]
    assert (await client.turns.untag(turn.id, "good")).turn == turn.id
    assert "<html" in (await client.turns.share(turn.id)).page
    assert (await client.contexts.read(turn.id)).turn == turn.id
    assert (await client.causes.explain(turn.id)).principal
    assert (await client.authority.list_of_turn(turn.id)).records == ()


async def test_thread_longer_than_a_page_is_read_whole(client: Client, team: Team) -> None:
    recorder = await team.tree.recorder("long")
    for number in range(LARGE + 5):
        await recorder.record([user(f"q{number}")], [assistant("a")])
    whole = await client.threads.read("long")
    assert [turn.depth for turn in whole] == [*range(1, LARGE + 6)]
    assert [turn.depth for turn in await client.threads.read("long", last=2)] == [204, 205]
    assert [turn.depth for turn in await client.threads.read("long", first=3)] == [1, 2, 3]
    assert [turn.depth for turn in await client.threads.page("long", low=2, high=203)] == [
        *range(2, 204)
    ]
    ends = await client.threads.compare("long~1", "long")
    assert (ends.left.turns_total, ends.right.turns_total) == (0, 1)


async def test_tree_is_searched_and_outlined(client: Client, team: Team) -> None:
    await team.tree.search.fill()
    page = await client.search("hello", limit=5)
    (hit,) = page.hits
    assert hit.title == "hello"
    assert (await client.search.places("hello")).hits
    shape = await client.shape.read()
    assert shape.turns == 1
    assert (await client.shape.read(after=shape.position)).position
    assert (await client.shape.activity(zone="Europe/Vienna")).agents
    assert (await client.shape.spine("lobby")).turns == 1
    ranges = [(hit.segment, 1, 1)]
    assert [row.turn for row in (await client.shape.lines(ranges)).rows] == [hit.turn]
    assert [row.turn for row in (await client.shape.lines_of([hit.turn])).rows] == [hit.turn]
    assert (await client.stats.list_costs(since="2020-01-01")).rows == ()


async def test_files_of_a_turn_without_any_are_not_found(client: Client) -> None:
    for verb in (client.files.diff, client.files.read, client.files.blame):
        with pytest.raises(NotFound):
            await verb("lobby", "a.py")
    with pytest.raises(NotFound):
        await client.threads.diff("lobby", "lobby", "a.py")
    assert (await client.files.list_entries("lobby")).entries == ()


async def test_message_is_sent_followed_and_answered(client: Client, team: Team) -> None:
    queued = await client.runs.post("lobby", "hello again", key="k")
    assert (await client.runs.post("lobby", "hello again", key="k")).run == queued.run
    assert await client.runs.status(queued.run) == "waiting"
    waiting = asyncio.create_task(client.runs.wait(queued.run, timeout_s=SOON_S))
    await answer_all(team, "lobby")
    turn = await waiting
    assert (turn.id, turn.outcome) == (queued.run, "completed")
    assert (await client.ask("lobby", "hello again", key="k", timeout_s=SOON_S)).id == turn.id
    assert (await client.runs.list_open("lobby", limit=3)).runs == ()


async def test_wait_ends_at_its_limit_and_the_message_stays(client: Client) -> None:
    queued = await client.runs.post("lobby", "hello")
    with pytest.raises(TimeoutError):
        await client.runs.wait(queued.run, timeout_s=0.2)
    assert await client.runs.status(queued.run) == "waiting"


async def test_canceled_message_fails_the_one_who_asks(client: Client, team: Team) -> None:
    queued = await client.runs.post("lobby", "hello", key="k")
    assert await client.runs.cancel(queued.run) == queued.run
    await answer_all(team, "lobby")
    if (await client.runs.get(queued.run)).status == "finished":
        with pytest.raises(TurnFailed):
            await client.ask("lobby", "hello", key="k", timeout_s=SOON_S)
    with pytest.raises(NotFound):
        await client.runs.get("00000000-0000-0000-0000-000000000001")


async def test_problem_is_the_error_of_the_library(client: Client, connect: Connect) -> None:
    with pytest.raises(NotFound):
        await client.turns.get("nothing/here")
    with pytest.raises(InvalidQuery):
        await client.search('"open')
    first = (await client.sessions.get("lobby")).head
    with pytest.raises(SessionMoved) as moved:
        await client.sessions.rewind("lobby", "lobby", before=True, expected_head=str(TurnId(
            "00000000-0000-0000-0000-000000000001")))  # fmt: skip
    assert (moved.value.head, isinstance(moved.value, Conflict)) == (first, True)
    await client.sessions.create("mine")
    with pytest.raises(Conflict):
        await client.sessions.create("mine")
    await client.sessions.set_status("mine", "archived")
    with pytest.raises(PermissionDenied) as denied:
        await connect("narrowed to reading").sessions.create("a")
    assert any("action:create" in note for note in denied.value.__notes__)


async def test_hint_of_an_error_arrives_as_data(client: Client) -> None:
    with pytest.raises(NotFound, match="there is no session") as missing:
        await client.sessions.get("nothing-here")
    assert missing.value.hint == Hint("session.list")
    assert missing.value.__notes__ == [f"next: GET /w/{TEAM}/api/v1/sessions"]


def test_hint_of_a_problem_is_the_hint_of_its_error() -> None:
    document = {
        "type": "urn:turntree:problem:refused", "title": "", "status": 422, "detail": "no",
        "next": ["POST somewhere"], "hint": {"action": "session.fork", "revision": "main~2"},
    }  # fmt: skip
    error = error_of(document, 422)
    assert error.hint == Hint("session.fork", {"revision": "main~2"})
    assert error.__notes__ == ["next: POST somewhere"]


def test_answer_of_another_server_is_an_error_of_ours() -> None:
    assert isinstance(error_of("<html>", 502), ServerUnavailable)
    assert not isinstance(error_of(None, 404), ServerUnavailable)


@pytest.mark.parametrize("caller", ["revoked", "expired", "garbled"])
async def test_key_that_opens_nothing_is_denied_and_not_repeated(
    connect: Connect, team: Team, caller: str
) -> None:
    with pytest.raises(PermissionDenied) as denied:
        await connect(caller).me()
    printed = f"{denied.value} {denied.value.__notes__}"
    assert team.keys[caller] not in printed


async def test_write_whose_answer_is_lost_happens_once(
    connect: Connect, team: Team, url: str
) -> None:
    recorder = await team.tree.recorder("three")
    for number in range(3):
        await recorder.record([user(f"q{number}")], [assistant("a")])
    async with unsteady(url) as proxy:
        # Each client has a connection of its own, which is cut before or in the answer.
        for cut in (0, 40, 120):
            proxy.cuts = [cut]
            await connect("member", proxy.at).runs.post("lobby", f"hello {cut}")
            assert proxy.cuts == []
        assert len(await team.tree.runs.list_waiting("lobby")) == 3
        proxy.cuts = [0]
        made = await connect("member", proxy.at).sessions.create("mine")
        assert (made.label, proxy.cuts) == ("mine", [])
        moving = connect("member", proxy.at)
        # The first connection serves the look at the head, the second one loses the move.
        proxy.cuts = [500, 0]
        assert (await moving.sessions.rewind("three", "three~1")).turns == 2
    assert len(await team.tree.sessions.list_moves("three")) == 5


async def test_server_that_stays_away_is_an_error_with_its_address(connect: Connect) -> None:
    away = connect("member", "http://127.0.0.1:9")
    with pytest.raises(ServerUnavailable, match="cannot be reached"):
        await away.me()


async def test_stream_cut_anywhere_misses_and_doubles_nothing(
    connect: Connect, client: Client, team: Team, url: str
) -> None:
    run = (await client.runs.post("lobby", "hello")).run
    await answer_all(team, "lobby")
    whole = [news async for news in client.runs.follow(run)]
    kinds = [news.news.kind for news in whole if isinstance(news.news, StepDocument)]
    assert kinds[0] == "run.started"
    assert kinds[-1] == "run.finished"
    async with unsteady(url) as proxy:
        for first in range(200, 1700, 150):
            proxy.cuts, before = [first, 700], proxy.connections
            found: list[RunNews] = [
                news async for news in connect("member", proxy.at).runs.follow(run)
            ]
            assert found == whole
            assert proxy.connections > before


async def test_follower_resumes_after_any_position(client: Client, team: Team) -> None:
    run = (await client.runs.post("lobby", "hello")).run
    await answer_all(team, "lobby")
    whole = [news async for news in client.runs.follow(run)]
    for place, news in enumerate(whole):
        rest = [one async for one in client.runs.follow(run, after=news.position)]
        assert rest == whole[place + 1 :]


async def test_stream_of_an_unknown_run_is_an_error(client: Client) -> None:
    with pytest.raises(NotFound):
        async for _ in client.runs.follow("00000000-0000-0000-0000-000000000001"):
            pass


async def test_label_with_a_slash_and_signs_is_one_segment(client: Client) -> None:
    label = "side/a_b.c:d+e"
    made = await client.sessions.create(label)
    assert (await client.sessions.get(label)).id == made.id


async def test_answer_of_another_version_is_refused_in_one_sentence(client: Client) -> None:
    known: dict[str, Any] = json.loads(json.dumps({"user": "mia"}))
    with pytest.raises(Unsupported, match="another form than Me"):
        read_document(Me, known)
    newer = dict.fromkeys(("user", "workspace", "version", "home", "new"), "")
    assert read_document(Me, {**newer, "can_run": True, "sample": False}).can_run


async def test_turns_arrive_as_they_were_sealed(client: Client, team: Team) -> None:
    large = "word " * 200_000
    recorder = await team.tree.recorder("large")
    await recorder.record([user("first")], [assistant(large)])
    await recorder.record([user("second")], [assistant("b")])
    await client.turns.tag("large", "good")
    sealed = await client.threads.read_sealed("large")
    whole = await team.tree.turns.restore([*reversed(await team.tree.threads.read("large"))])
    assert tuple(map(read_sealed, sealed)) == whole
    assert (sealed[0].tags, sealed[0].sessions, sealed[1].sessions) == (("good",), ("large",), ())
    newest = await client.threads.read_sealed("large", last=1)
    assert newest == sealed[:1]
    ids = [one.id for one in sealed]
    assert await client.turns.list_sealed([*ids, "00000000-0000-0000-0000-000000000001"]) == sealed
    view = await client.turns.get_sealed(ids[1])
    assert (view.turn, view.parent, view.children) == (sealed[1], None, sealed[:1])
    assert view.held_by == ("large",)


async def test_page_of_large_turns_ends_early_and_nothing_is_missing(
    client: Client, team: Team
) -> None:
    recorder = await team.tree.recorder("large")
    for number in range(6):
        await recorder.record([user(f"q{number}")], [assistant(f"{number} " * 1_000_000)])
    whole = await client.threads.read_sealed("large")
    assert [one.depth for one in whole] == [6, 5, 4, 3, 2, 1]
    assert await client.turns.list_sealed([one.id for one in whole]) == whole


async def test_private_turns_are_in_no_sealed_list(connect: Connect, team: Team) -> None:
    vault = await team.add_vault(1)
    assert await connect("admin").turns.list_sealed(vault.turns) == ()
    assert len(await connect("owner").turns.list_sealed(vault.turns)) == 2


async def test_turn_whose_bytes_were_changed_is_refused(client: Client) -> None:
    (sealed,) = await client.threads.read_sealed("lobby")
    for changed in (
        replace(sealed, body=sealed.body.replace("good morning", "good night")),
        replace(sealed, body=sealed.body.replace('"completed"', '"failed"')),
        replace(sealed, digest="sha256:" + "0" * 64),
    ):
        with pytest.raises(DataMissing, match="do not match its digest"):
            read_sealed(changed)
    # An erased message leaves a stub with its digest, and the rest can be checked.
    assert read_sealed(sealed).turn.title == "hello"
