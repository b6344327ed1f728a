"""Triggers: whose messages come in, what they become, and what they may do."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as StandardWebhook

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions
from turntree.auth.webhook_signature import TOLERANCE_S, check_secret, make_secret, sign, verify
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import Conflict, InvalidOperation, NotFound, PermissionDenied
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.runs.engines.inline import InlineEngine
from turntree.testing.fakes import FakeClock
from turntree.triggers.trigger import BODY_BYTES_MAX, Firing

pytestmark = pytest.mark.anyio
OTHER_MADE = "whsec_" + "QUJDRA" * 8


@pytest.fixture
def world() -> FakeClock:
    """A clock that stands still until it is moved. It begins now: signers have the machine's."""
    clock = FakeClock(tick_ms=0)
    clock.ms = round(time.time() * 1000)
    return clock


@pytest.fixture
def ana(database: Database, world: FakeClock, place: Path) -> Tree:
    """The workspace as its admin sees it."""
    return tree_on(database, Settings(place, user="ana"), world, engine=InlineEngine(database.lend))


def signed(
    secret: str, world: FakeClock, id: str = "msg_1", body: bytes = b'{"type":"build.failed"}'
) -> tuple[dict[str, str], bytes]:
    """Return a message as another system sends it."""
    at = datetime.fromtimestamp(world.ms / 1000, UTC)
    signature = StandardWebhook(secret).sign(id, at, body.decode())
    headers = {
        "webhook-id": id, "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }  # fmt: skip
    return headers, body


async def fire(tree: Tree, id: str, message: tuple[Mapping[str, str], bytes]) -> Firing:
    """Take a message as a server does."""
    incoming = await tree.triggers.accept(id, *message)
    return await tree.act_as(incoming.acting).triggers.fire(incoming)


async def waiting(tree: Tree, label: str) -> list[Any]:
    """Return the messages that wait in a session."""
    session = await tree.sessions.get(label)
    database = tree.programs.store.database.seen_by(EVERYTHING)
    rows = await database.fetch(
        b"SELECT payload, options::text FROM turntree.queued_messages"
        b" WHERE session_id = %(session)b::text::uuid ORDER BY seq",
        session=session.id,
    )
    return [(json.loads(payload), json.loads(options)) for payload, options in rows]


async def test_a_signed_message_is_posted_once_to_an_agent(ana: Tree, world: FakeClock) -> None:
    await ana.programs.create("agent", "builder", {})
    made, secret = await ana.triggers.create("builds", "builder", prompt="Look into it.")
    first = await fire(ana, made.id, signed(secret, world))
    again = await fire(ana, made.id, signed(secret, world))
    assert (first.run, first.repeated) == (again.run, False)
    assert again.repeated
    ((message, options),) = await waiting(ana, "builder:main")
    assert (message["role"], message["source"]) == ("user", "webhook")
    text = str(message["parts"])
    assert "Look into it." in text
    assert "build.failed" in text
    rights = options["chain"][-1]["rights"]
    assert "credentials" not in rights
    events = [event for _, event in await ana.feed.read() if event.kind == "trigger.fired"]
    assert [event.data["message"] for event in events] == ["msg_1"]
    (firing,) = await ana.triggers.list_firings(made.id)
    assert (firing.message, firing.run) == ("msg_1", first.run)
    found = await ana.triggers.get(made.id)
    assert (found.firings, found.secrets) == (1, 1)


async def test_a_message_that_is_not_signed_or_of_another_time_is_refused(
    ana: Tree, world: FakeClock
) -> None:
    made, secret = await ana.triggers.create("builds", "main")
    headers, body = signed(secret, world)
    wrong: list[tuple[dict[str, str], bytes]] = [
        ({}, body),
        (headers, body + b" "),
        ({**headers, "webhook-id": "msg_2"}, body),
        ({**headers, "webhook-id": ""}, body),
        ({**headers, "webhook-timestamp": "soon"}, body),
        ({**headers, "webhook-signature": "v1,"}, body),
        ({**headers, "webhook-signature": headers["webhook-signature"].replace("v1", "v1a")}, body),
        signed(make_secret("another"), world),
    ]
    for message in wrong:
        with pytest.raises(PermissionDenied):
            await fire(ana, made.id, message)
    with pytest.raises(PermissionDenied):
        await fire(ana, "tr-unknown", (headers, body))
    for ms in (1000 * (TOLERANCE_S + 1), -2000 * (TOLERANCE_S + 1)):
        world.ms += ms
        with pytest.raises(PermissionDenied):
            await fire(ana, made.id, (headers, body))
    assert await ana.triggers.list_firings(made.id) == []


async def test_another_message_under_the_same_id_is_a_conflict(ana: Tree, world: FakeClock) -> None:
    made, secret = await ana.triggers.create("builds", "main")
    await fire(ana, made.id, signed(secret, world))
    with pytest.raises(Conflict):
        await fire(ana, made.id, signed(secret, world, body=b"{}"))


async def test_a_body_is_text_of_a_limited_length(ana: Tree, world: FakeClock) -> None:
    made, secret = await ana.triggers.create("builds", "main")
    for body in (b"x" * (BODY_BYTES_MAX + 1), b"\xff"):
        headers = sign([secret], "msg_1", world.ms // 1000, body)
        with pytest.raises(InvalidOperation):
            await fire(ana, made.id, (headers, body))


async def test_both_secrets_are_accepted_while_one_is_replaced(ana: Tree, world: FakeClock) -> None:
    made, first = await ana.triggers.create("builds", "main", secret=OTHER_MADE)
    assert first == OTHER_MADE
    _, second = await ana.triggers.rotate(made.id, hours=1)
    await fire(ana, made.id, signed(first, world, "msg_1"))
    await fire(ana, made.id, signed(second, world, "msg_2"))
    world.ms += 60 * 60 * 1000
    await fire(ana, made.id, signed(second, world, "msg_3"))
    with pytest.raises(PermissionDenied):
        await fire(ana, made.id, signed(first, world, "msg_4"))
    told = repr([await ana.feed.read(), await ana.triggers.list_all()])
    assert first not in told
    assert second not in told


async def test_a_trigger_that_is_paused_or_deleted_takes_nothing(
    ana: Tree, world: FakeClock
) -> None:
    made, secret = await ana.triggers.create("builds", "main")
    await ana.triggers.pause(made.id)
    with pytest.raises(PermissionDenied):
        await fire(ana, made.id, signed(secret, world))
    await ana.triggers.resume(made.id)
    await fire(ana, made.id, signed(secret, world))
    await ana.triggers.delete(made.id)
    with pytest.raises(PermissionDenied):
        await fire(ana, made.id, signed(secret, world, "msg_2"))
    with pytest.raises(NotFound):
        await ana.triggers.get(made.id)


async def test_a_trigger_acts_for_its_owner_and_no_further(ana: Tree, world: FakeClock) -> None:
    await ana.members.add("bob")
    await ana.members.add("gus", role="guest")
    bob, gus = (
        ana.act_as(ExecutionContext.begin(Principal("human", name))) for name in ("bob", "gus")
    )
    with pytest.raises(PermissionDenied):
        await gus.triggers.create("builds", "main")
    await ana.programs.create("agent", "secretary", {}, visibility="private")
    with pytest.raises(NotFound):
        await bob.triggers.create("builds", "@(secretary)")
    reads = Permissions.of_patterns(["action:read"])
    made, secret = await bob.triggers.create("builds", "main", scopes=reads)
    with pytest.raises(PermissionDenied):
        await fire(ana, made.id, signed(secret, world))
    made, secret = await bob.triggers.create("builds", "bobs")
    # An admin stops it, and only bob starts it again.
    await ana.triggers.pause(made.id)
    with pytest.raises(PermissionDenied):
        await ana.triggers.resume(made.id)
    with pytest.raises(PermissionDenied):
        await ana.triggers.rotate(made.id)
    await bob.triggers.resume(made.id)
    await fire(ana, made.id, signed(secret, world))
    await ana.members.remove("bob")
    with pytest.raises(PermissionDenied):
        await fire(ana, made.id, signed(secret, world, "msg_2"))


async def test_a_message_approves_nothing(ana: Tree, world: FakeClock) -> None:
    await ana.programs.create("human", "ana", {"permissions": ["approve"]})
    asked = await ana.programs.invoke("ana", {"ask": "deploy it"})
    made, secret = await ana.triggers.create("builds", "ana")
    assert isinstance(asked, dict)
    body = json.dumps({"decide": asked["request"], "approve": True}).encode()
    await fire(ana, made.id, signed(secret, world, body=body))
    kinds = {event.kind for _, event in await ana.feed.read()}
    assert "human.approval_requested" in kinds
    assert kinds.isdisjoint({"human.approved", "human.rejected"})


def test_a_secret_has_a_form_and_a_length() -> None:
    assert check_secret(OTHER_MADE) == OTHER_MADE
    for wrong in ("", "QUJDRA", "whsec_", "whsec_%%%%", "whsec_QUJD", "whsec_" + "QUJD" * 30):
        with pytest.raises(InvalidOperation) as refused:
            check_secret(wrong)
        assert wrong == "" or wrong.removeprefix("whsec_") == "" or wrong not in str(refused.value)


def test_signatures_are_those_of_the_standard() -> None:
    secret, body = make_secret("one"), b'{"a":1}'
    now = int(time.time())
    headers = sign([make_secret("two"), secret], "msg_1", now, body)
    assert StandardWebhook(secret).verify(body, headers) == {"a": 1}
    assert verify([secret], headers, body, now_s=now) == "msg_1"
