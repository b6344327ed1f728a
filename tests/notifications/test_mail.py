"""Mail: when it leaves, what is in it, and what becomes of it if a mail server does not take it."""

import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.notifications.mail_catcher import MailCatcher, catching_mail
from tests.notifications.test_inbox import ADD
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.notifications.delivery import DELAY_S, GIVE_UP_S, PROBE_S
from turntree.notifications.mail import MailServer, read_mail_server
from turntree.notifications.sender import NoticeSender, make_channels
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

NOON_MS = 1_790_164_800_000  # 2026-09-23T12:00:00Z
MINUTE, HOUR = 60_000, 3_600_000
ADDRESS = "bob@example.org"
WANTED: dict[str, Json] = {"notification_channel": "email", "email": ADDRESS}


@pytest.fixture
def post() -> Generator[MailCatcher, None, None]:
    """A mail server."""
    with catching_mail() as catcher:
        yield catcher


@pytest.fixture
def world() -> FakeClock:
    """A clock that stands still until it is moved."""
    clock = FakeClock(tick_ms=0)
    clock.ms = NOON_MS
    return clock


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The workspace as bob sees it."""
    return tree_on(database, Settings(place, user="bob"), world)


@pytest.fixture
def sender(database: Database, world: FakeClock, post: MailCatcher) -> NoticeSender:
    """What a worker sends notices with."""
    server = MailServer("127.0.0.1", post.port, "none", "turntree@example.net", timeout_s=1.0)
    return NoticeSender(database.seen_by(EVERYTHING), world, make_channels(server))


async def add(tree: Tree, text: str, clock: FakeClock, *, person: str = "human:bob") -> None:
    """Add a notice now, by the clock of the test."""
    query = ADD.replace(b"clock_timestamp()", b"%(at)b::timestamptz")
    await tree.programs.store.database.fetch(
        query, person=person, kind="message", by="human:ana", text=text, key=text, at=clock.now()
    )


async def wants_mail(bob: Tree, **more: Json) -> None:
    """Have bob ask for mail."""
    await bob.programs.ensure("human", "bob", {"preferences": {**WANTED, **more}})


async def outcomes(tree: Tree) -> list[str]:
    rows = await tree.programs.store.database.seen_by(EVERYTHING).fetch(
        b"SELECT coalesce(outcome, 'open') FROM turntree.notice_deliveries ORDER BY created_at, id"
    )
    return [outcome for (outcome,) in rows]


async def test_what_stays_unread_leaves_in_one_mail(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "lunch is ready", world)
    await add(tree, "and the coffee", world)
    await add(tree, "to ana alone", world, person="human:ana")
    await sender.look()
    assert post.accepted == []
    world.ms += DELAY_S * 1000
    await sender.look()
    await sender.look()
    (mail,) = post.accepted
    assert (mail["To"], mail["From"]) == (ADDRESS, "Turntree <turntree@example.net>")
    assert mail["Subject"] == "2 notices in tests"
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_content()
    assert "message from human:ana" in text
    assert "lunch is ready" in text
    assert "and the coffee" in text
    assert "to ana" not in text
    assert await bob.inbox.count_unread() == 2
    assert await outcomes(tree) == ["delivered"]


async def test_what_was_read_is_not_mailed(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "read at once", world)
    await bob.inbox.read()
    world.ms += HOUR
    await sender.look()
    assert post.accepted == []
    # Also between the beginning of a delivery and its next attempt.
    await add(tree, "read later", world)
    world.ms += HOUR
    post.answers = ["451 try again later"]
    await sender.look()
    await bob.inbox.read()
    world.ms += HOUR
    await sender.look()
    assert post.accepted == []
    assert await outcomes(tree) == ["withdrawn"]


async def test_there_is_one_mail_in_an_interval(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob, digest_interval="1h")
    for number in range(12):
        await add(tree, f"number {number}", world)
        world.ms += 10 * MINUTE
        await sender.look()
    assert len(post.accepted) == 2
    world.ms += HOUR
    await sender.look()
    said = "".join(mail.get_content() for mail in post.accepted)
    assert Counter(re.findall(r"number \d+", said)) == {f"number {one}": 1 for one in range(12)}
    assert len(set(post.ids)) == 3


async def test_no_mail_leaves_in_quiet_hours(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    # It is 14:00 in Berlin.
    await wants_mail(bob, quiet_hours="13:00-07:30", time_zone="Europe/Berlin")
    await add(tree, "later", world)
    for _ in range(17):
        await sender.look()
        world.ms += HOUR
    assert post.accepted == []
    # 07:00 there, and half an hour later.
    world.ms += 30 * MINUTE
    await sender.look()
    assert len(post.accepted) == 1


async def test_a_mail_that_was_not_taken_is_sent_again_under_the_same_id(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "persistent", world)
    world.ms += HOUR
    post.answers = ["451 try again later", "drops", "stalls", "accepts and drops"]
    for _ in range(8):
        await sender.look()
        world.ms += HOUR
    # The last one was accepted and its answer lost, so it came twice: under one Message-ID.
    assert len(post.accepted) == 2
    assert len({*post.ids, *post.refused}) == 1
    assert await outcomes(tree) == ["delivered"]


async def test_an_address_that_is_rejected_is_given_up_and_shown(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "to no one", world)
    world.ms += HOUR
    post.answers = ["550 no such mailbox"] * 9
    for _ in range(9):
        await sender.look()
        world.ms += HOUR
    assert len(post.answers) == 6
    (failed,) = await bob.inbox.list_failed()
    assert (failed.address, failed.error) == (ADDRESS, "550 no such mailbox")
    assert await tree.inbox.list_failed() == []
    # A day later it is tried again, and so is another address at once: nothing was lost.
    await wants_mail(bob, email="bob@example.com")
    post.answers = []
    await sender.look()
    assert [mail["To"] for mail in post.accepted] == ["bob@example.com"]
    assert "to no one" in post.accepted[0].get_content()
    assert await bob.inbox.list_failed() == []


async def test_a_rejected_address_is_tried_again_after_a_day(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "much later", world)
    world.ms += HOUR
    post.answers = ["550 full"] * 3
    for _ in range(4):
        await sender.look()
        world.ms += HOUR
    assert await outcomes(tree) == ["failed"]
    world.ms += PROBE_S * 1000
    await sender.look()
    assert len(post.accepted) == 1


async def test_a_server_that_never_answers_is_given_up(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "in vain", world)
    world.ms += HOUR
    post.answers = ["421 busy"] * 3
    await sender.look()
    world.ms += GIVE_UP_S * 1000
    await sender.look()
    assert await outcomes(tree) == ["failed"]


async def test_an_address_that_another_person_set_gets_nothing(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await tree.programs.create("human", "bob", {"preferences": WANTED})
    await tree.programs.grant("bob", "bob", "configure")
    await add(tree, "private", world)
    world.ms += HOUR
    await sender.look()
    # A change of something else does not make it his.
    await bob.programs.configure("bob", {"description": "Bob"})
    await sender.look()
    assert post.accepted == []
    await bob.programs.configure("bob", {"preferences/email": "bob@example.com"})
    await sender.look()
    assert [mail["To"] for mail in post.accepted] == ["bob@example.com"]


async def test_a_removed_member_gets_no_mail(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await tree.members.add("bob")
    await wants_mail(bob)
    await add(tree, "before", world)
    await tree.members.remove("bob")
    world.ms += HOUR
    await sender.look()
    assert post.accepted == []


async def test_a_flood_of_line_breaks_changes_no_header(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender, post: MailCatcher
) -> None:
    await wants_mail(bob)
    await add(tree, "hi\r\n.\r\nBcc: eve@example.org\r\n\x1b[2J\r\n.\r\nQUIT", world)
    world.ms += HOUR
    await sender.look()
    (mail,) = post.accepted
    assert mail["Bcc"] is None
    assert "\x1b" not in mail.get_content()
    assert "Bcc: eve@example.org" in mail.get_content()


async def test_another_person_sees_no_delivery(
    tree: Tree, bob: Tree, world: FakeClock, sender: NoticeSender
) -> None:
    await wants_mail(bob)
    await add(tree, "private", world)
    world.ms += HOUR
    await sender.look()
    for table in (b"notices", b"notice_deliveries", b"delivered_notices"):
        count = b"SELECT count(*) FROM turntree." + table
        assert await tree.programs.store.database.fetch_one(count) == (0,)
        assert await bob.programs.store.database.fetch_one(count) == (1,)


@pytest.mark.parametrize(
    ("preferences", "said"),
    [
        ({"email": "bob"}, "not an e-mail address"),
        ({"email": "bob@example.org\r\nBcc: eve@x"}, "not an e-mail address"),
        ({"notification_channel": "pigeon"}, "there is no channel 'pigeon'"),
        ({"quiet_hours": "22-7"}, "write 22:00-07:00"),
        ({"quiet_hours": "22:00-22:00"}, "never end"),
        ({"time_zone": "Berlin"}, "not a time zone"),
        ({"time_zone": "../etc/passwd"}, "not a time zone"),
        ({"digest_interval": "5s"}, "not an interval"),
    ],
)
async def test_a_preference_that_means_nothing_is_refused(
    tree: Tree, preferences: dict[str, Json], said: str
) -> None:
    with pytest.raises(InvalidOperation, match=said):
        await tree.programs.create("human", "bob", {"preferences": preferences})


def test_a_mail_server_is_encrypted_unless_it_says_otherwise() -> None:
    sender, secrets = "turntree@example.net", {"WORD": "hush"}
    assert read_mail_server(None, sender, None, {}) is None
    plain = read_mail_server("smtp://mail.example.net", sender, None, {})
    assert plain is not None
    assert (plain.security, plain.port, plain.user) == ("starttls", 587, None)
    tls = read_mail_server("smtps://me%40b@mail.example.net", sender, "${WORD}", secrets)
    assert tls is not None
    assert (tls.security, tls.port, tls.user, tls.password) == ("tls", 465, "me@b", "hush")
    assert "hush" not in repr(tls)
    for url, password in (
        ("mail.example.net", None),
        ("smtp://me:hush@mail.example.net", None),
        ("smtp+plain://me@mail.example.net", "${WORD}"),
        ("smtp://me@mail.example.net", "hush"),
        ("smtp://me@mail.example.net", "${OTHER}"),
        ("smtp://mail.example.net:no", None),
    ):
        with pytest.raises(InvalidOperation) as refused:
            read_mail_server(url, sender, password, secrets)
        assert "hush" not in str(refused.value)
    with pytest.raises(InvalidOperation, match="mail_from"):
        read_mail_server("smtp://mail.example.net", None, None, {})
