"""Webhooks: who makes one, which events leave by it, when, and what is refused."""

import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from standardwebhooks import Webhook as StandardWebhook

from tests.notifications.test_mail import HOUR, MINUTE, add
from tests.webhooks.receiver import ReceivedMessage, WebhookReceiver, receiving_webhooks
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.ledger.feed import Feed
from turntree.notifications.delivery import DELAY_S, GIVE_UP_S
from turntree.notifications.preferences import WEBHOOK
from turntree.notifications.sender import NoticeSender
from turntree.testing.fakes import FakeClock
from turntree.webhooks.channel import WebhookChannel
from turntree.webhooks.event_queue import EventQueue
from turntree.webhooks.store import WebhookStore
from turntree.webhooks.webhook import check_patterns, check_url, matches, read_hosts

pytestmark = pytest.mark.anyio


@pytest.fixture
def receiver() -> Generator[WebhookReceiver, None, None]:
    """A receiver on loopback."""
    with receiving_webhooks() as receiver:
        yield receiver


@pytest.fixture
def world() -> FakeClock:
    """A clock that stands still until it is moved. It begins now: verifiers have the machine's."""
    clock = FakeClock(tick_ms=0)
    clock.ms = round(time.time() * 1000)
    return clock


@pytest.fixture
def ana(database: Database, world: FakeClock, place: Path, receiver: WebhookReceiver) -> Tree:
    """The workspace as its admin sees it."""
    settings = Settings(place, user="ana", webhook_hosts=frozenset({receiver.host}))
    return tree_on(database, settings, world)


@pytest.fixture
def bob(ana: Tree) -> Tree:
    """The same as a member sees it."""
    return ana.act_as(ExecutionContext.begin(Principal("human", "bob")))


@pytest.fixture
def sender(database: Database, world: FakeClock, receiver: WebhookReceiver) -> NoticeSender:
    """What a worker sends with."""
    channel = WebhookChannel(world, frozenset({receiver.host}), timeout_s=1.0)
    queue = EventQueue(world)
    return NoticeSender(database.seen_by(EVERYTHING), world, {WEBHOOK: channel.send}, queue.begin)


async def say(tree: Tree, label: str, text: str = "hello") -> None:
    """Record a turn in a session."""
    await tree.turns.record(label, [user(text)], [assistant("yes")])


def kinds(messages: Sequence[ReceivedMessage]) -> list[str]:
    return [one.document["type"] for one in messages]


async def test_an_event_leaves_once_and_is_signed(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver
) -> None:
    await say(ana, "before")
    made, secret = await ana.webhooks.create(receiver.url, events=["session.created"])
    await say(ana, "one")
    for _ in range(3):
        await sender.look()
    (message,) = receiver.messages
    assert message.document["type"] == "session.created"
    assert message.document["data"]["workspace"] == "tests"
    assert message.document["data"]["event"]["data"]["label"] == "one"
    assert StandardWebhook(secret).verify(message.body, message.headers) == message.document
    (delivery,) = await ana.webhooks.list_deliveries(made.id)
    assert (delivery.id, delivery.state, delivery.kind) == (
        message.id, "delivered", "session.created",
    )  # fmt: skip


async def test_a_secret_is_shown_once_and_by_no_list_or_event(ana: Tree) -> None:
    made, secret = await ana.webhooks.create("https://example.net/x", events=["*"])
    _, second = await ana.webhooks.rotate(made.id)
    assert secret.startswith("whsec_")
    assert second != secret
    shown = repr(await ana.webhooks.list_all())
    told = repr(await ana.feed.read())
    rows = await ana.webhooks.store.database.fetch(b"SELECT secret FROM turntree.webhook_secrets")
    for one in (secret, second):
        assert one not in shown
        assert one not in told
    assert "example.net" not in told
    assert rows == []


async def test_both_secrets_sign_while_one_is_replaced(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    made, first = await ana.webhooks.create(receiver.url, events=["session.created"])
    rotated, second = await ana.webhooks.rotate(made.id, hours=1)
    assert rotated.secrets == 2
    await say(ana, "one")
    await sender.look()
    (message,) = receiver.messages
    for secret in (first, second):
        StandardWebhook(secret).verify(message.body, message.headers)
    world.ms += HOUR
    await say(ana, "two")
    await sender.look()
    assert len(receiver.messages[-1].headers["webhook-signature"].split()) == 1
    assert (await ana.webhooks.get(made.id)).secrets == 1


async def test_only_an_admin_has_events_sent(
    ana: Tree, bob: Tree, receiver: WebhookReceiver
) -> None:
    await ana.members.add("bob")
    with pytest.raises(PermissionDenied):
        await bob.webhooks.create(receiver.url, events=["*"])
    mine, _ = await bob.webhooks.create(receiver.url)
    hers, _ = await ana.webhooks.create(receiver.url, events=["*"])
    assert [one.id for one in await bob.webhooks.list_all()] == [mine.id]
    assert {one.id for one in await ana.webhooks.list_all()} == {mine.id, hers.id}
    for act in (bob.webhooks.pause, bob.webhooks.delete, bob.webhooks.rotate):
        with pytest.raises(NotFound):
            await act(hers.id)
    # An admin may stop what leaves, and learns no secret with which another person signs.
    with pytest.raises(PermissionDenied):
        await ana.webhooks.rotate(mine.id)
    await ana.webhooks.delete(mine.id)
    assert await bob.webhooks.list_all() == []


async def test_an_owner_who_is_no_admin_any_more_is_sent_nothing(
    ana: Tree, bob: Tree, sender: NoticeSender, receiver: WebhookReceiver
) -> None:
    await ana.members.add("bob", role="admin")
    made, _ = await bob.webhooks.create(receiver.url, events=["session.created"])
    receiver.answers = [500]
    await say(ana, "one")
    await sender.look()
    await ana.members.set_role("bob", "member")
    await say(ana, "two")
    sender.world.ms += HOUR  # type: ignore[attr-defined]
    await sender.look()
    await sender.look()
    assert len(receiver.messages) == 1
    states = [one.state for one in await bob.webhooks.list_deliveries(made.id)]
    assert states == ["withdrawn"]


async def test_an_event_of_a_hidden_session_does_not_leave(
    ana: Tree, bob: Tree, sender: NoticeSender, receiver: WebhookReceiver
) -> None:
    await ana.members.add("bob", role="admin")
    await bob.webhooks.create(receiver.url, events=["session.*"])
    await ana.sessions.create("open")
    await ana.sessions.create("hidden")
    await ana.programs.set_visibility("hidden", "private")
    await sender.look()
    labels = [one.document["data"]["event"]["data"].get("label") for one in receiver.messages]
    assert "open" in labels
    assert "hidden" not in labels


async def test_what_fails_is_tried_again_and_then_given_up_and_resent(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    made, _ = await ana.webhooks.create(receiver.url, events=["session.created"])
    receiver.answers = [500] * 200
    await say(ana, "one")
    for _ in range(GIVE_UP_S // 3600 + 2):
        await sender.look()
        world.ms += HOUR
    (failed,) = await ana.webhooks.list_deliveries(made.id, failed=True)
    assert failed.error is not None
    assert failed.error.startswith("500: no")
    assert "\x1b" not in failed.error
    assert len(failed.error) < 400
    tried = len(receiver.messages)
    assert tried == failed.attempts
    assert {one.id for one in receiver.messages} == {failed.id}
    assert (await ana.webhooks.get(made.id)).failed == 1
    assert [one.channel for one in await ana.inbox.list_failed()] == ["webhook"]
    receiver.answers = []
    assert (await ana.webhooks.resend(failed.id)).state == "waiting"
    await sender.look()
    assert len(receiver.messages) == tried + 1
    assert receiver.messages[-1].id == failed.id
    (done,) = await ana.webhooks.list_deliveries(made.id)
    assert done.state == "delivered"
    with pytest.raises(NotFound):
        await ana.webhooks.resend("msg-unknown")


async def test_a_redirect_is_not_followed_and_gone_is_given_up(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    made, _ = await ana.webhooks.create(receiver.url, events=["session.created"])
    receiver.answers = [302, 410, 410, 410]
    await say(ana, "one")
    for _ in range(6):
        await sender.look()
        world.ms += HOUR
    assert len(receiver.messages) == 4
    (failed,) = await ana.webhooks.list_deliveries(made.id)
    assert failed.state == "failed"


async def test_a_receiver_that_says_nothing_holds_up_no_other(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver
) -> None:
    with receiving_webhooks() as stalled:
        channel = WebhookChannel(
            sender.world, frozenset({receiver.host, stalled.host}), timeout_s=0.5
        )
        slow, _ = await replace(ana.webhooks, permitted=frozenset({stalled.host})).create(
            stalled.url, events=["session.created"]
        )
        await ana.webhooks.create(receiver.url, events=["session.created"])
        stalled.answers = [0, 0, 0]
        for number in range(3):
            await say(ana, f"s{number}")
        await replace(sender, channels={WEBHOOK: channel.send}).look()
        assert len(receiver.messages) == 3
        # The next ones wait for the first one, which may have been taken.
        assert len(stalled.messages) == 1
        states = {one.state for one in await ana.webhooks.list_deliveries(slow.id)}
        assert states == {"waiting"}


async def test_what_happens_while_a_webhook_is_paused_leaves_later(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver
) -> None:
    made, _ = await ana.webhooks.create(receiver.url, events=["session.created"])
    assert (await ana.webhooks.pause(made.id)).state == "paused"
    await say(ana, "one")
    await sender.look()
    assert receiver.messages == []
    assert (await ana.webhooks.resume(made.id)).state == "active"
    await sender.look()
    assert kinds(receiver.messages) == ["session.created"]


async def test_nothing_leaves_by_a_webhook_that_is_deleted(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    made, _ = await ana.webhooks.create(receiver.url, events=["session.created"])
    receiver.answers = [500]
    await say(ana, "one")
    await sender.look()
    await ana.webhooks.delete(made.id)
    await say(ana, "two")
    world.ms += HOUR
    await sender.look()
    assert len(receiver.messages) == 1
    with pytest.raises(NotFound):
        await ana.webhooks.get(made.id)


async def test_two_workers_begin_each_delivery_once(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver
) -> None:
    await ana.webhooks.create(receiver.url, events=["session.*"])
    for number in range(5):
        await say(ana, f"s{number}")
    store = WebhookStore(sender.database)
    (listening,) = await store.list_listening()
    end = await Feed(sender.database).end()
    events = [event for _, event in await ana.feed.read(listening.position)]
    assert await store.begin(listening, end, events, at=sender.world.now())
    assert not await store.begin(listening, end, events, at=sender.world.now())
    await sender.look()
    assert len({one.id for one in receiver.messages}) == len(receiver.messages) == len(events)


async def test_notices_leave_by_a_webhook_of_their_person(
    ana: Tree, bob: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    await ana.members.add("bob")
    made, secret = await bob.webhooks.create(receiver.url)
    wanted: dict[str, Json] = {"notification_channel": "webhook", "webhook": made.id}
    await bob.programs.create("human", "bob", {"preferences": wanted})
    await add(ana, "lunch is ready", world)
    await add(ana, "to ana alone", world, person="human:ana")
    world.ms += DELAY_S * 1000
    for _ in range(3):
        await sender.look()
        world.ms += MINUTE
    (message,) = receiver.messages
    assert message.document["type"] == "inbox.notices"
    assert [one["text"] for one in message.document["data"]["notices"]] == ["lunch is ready"]
    assert b"to ana" not in message.body
    StandardWebhook(secret).verify(message.body, message.headers)
    (delivery,) = await bob.webhooks.list_deliveries(made.id)
    assert delivery.kind == "inbox.notices"
    assert await ana.webhooks.list_deliveries(made.id) == []
    with pytest.raises(InvalidOperation):
        await bob.webhooks.resend(delivery.id)


async def test_notices_do_not_leave_by_the_webhook_of_another_person(
    ana: Tree, bob: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    await ana.members.add("bob")
    hers, _ = await ana.webhooks.create(receiver.url)
    wanted: dict[str, Json] = {"notification_channel": "webhook", "webhook": hers.id}
    await bob.programs.create("human", "bob", {"preferences": wanted})
    # Nor does it count what an admin has chosen for another person.
    own, _ = await bob.webhooks.create(receiver.url)
    chosen: dict[str, Json] = {"notification_channel": "webhook", "webhook": own.id}
    await ana.programs.create("human", "carl", {"preferences": chosen})
    await add(ana, "for bob", world)
    await add(ana, "for carl", world, person="human:carl")
    for _ in range(4):
        world.ms += HOUR
        await sender.look()
    assert receiver.messages == []
    (failed,) = await bob.inbox.list_failed()
    assert failed.error == f"{hers.id} is not a webhook of this person"


REFUSED = [
    "http://example.net/", "ftp://example.net/", "https://", "https://u:p@example.net/",
    "https://example.net/#x", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/",
    "https://169.254.169.254/latest", "https://192.168.0.1:8443/", "https://example.net:99999/",
    "https://exa mple.net/", f"https://example.net/{'x' * 2000}",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_is_not_public_or_not_a_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidOperation):
        check_url(url, frozenset())


def test_a_host_that_is_named_is_permitted() -> None:
    hosts = read_hosts("127.0.0.1:8080, hooks.internal")
    assert check_url("http://127.0.0.1:8080/x", hosts)
    assert check_url("http://hooks.internal/x", hosts)
    with pytest.raises(InvalidOperation):
        check_url("http://127.0.0.1:8081/x", hosts)
    with pytest.raises(InvalidOperation):
        read_hosts("http://x/")


def test_patterns_cover_the_kinds_that_they_name() -> None:
    patterns = check_patterns(["run.failed", "session.*", "run.failed"])
    assert patterns == ("run.failed", "session.*")
    assert matches(patterns, "session.created")
    assert matches(patterns, "run.failed")
    assert not matches(patterns, "run.started")
    assert matches(["*"], "acme.deployed")
    for wrong in ("run", "run.f*", "", "Run.failed", "*.failed"):
        with pytest.raises(InvalidOperation):
            check_patterns([wrong])


async def test_a_name_that_changes_its_address_gains_nothing(
    ana: Tree, sender: NoticeSender, receiver: WebhookReceiver, world: FakeClock
) -> None:
    asked: list[str] = []

    async def rebind(host: str, port: int) -> Sequence[str]:
        asked.append(f"{host}:{port}")
        return ["127.0.0.1"]

    channel = WebhookChannel(world, resolve=rebind)
    made, _ = await ana.webhooks.create(
        f"https://hooks.example.org:{receiver.port}/", events=["session.created"]
    )
    await say(ana, "one")
    await replace(sender, channels={WEBHOOK: channel.send}).look()
    assert len(asked) == 1
    assert receiver.messages == []
    (delivery,) = await ana.webhooks.list_deliveries(made.id)
    assert delivery.error == "hooks.example.org is not a public address"
