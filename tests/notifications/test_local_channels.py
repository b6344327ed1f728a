"""The channels terminal and command: notices of a worker's own user, on its machine."""

import sys
from pathlib import Path

import orjson
import pytest

from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp
from turntree.db.database import Database
from turntree.notifications.delivery import Claim, Delivery
from turntree.notifications.local_channels import CommandChannel, TerminalChannel, read_command
from turntree.notifications.notice import Notice
from turntree.notifications.preferences import NoticePreferences, read_preferences
from turntree.notifications.sender import DeliverySource

pytestmark = pytest.mark.anyio
AT = Timestamp("2026-01-01T00:00:00.000Z")
CLAIM = Claim(1, (Notice("n", "approval", "agent:atlas", "rm\x1b[2J -r\nbuild", {}, AT),))


def delivery(person: str) -> Delivery:
    return Delivery("d", person, "command", "here", AT, 0, NoticePreferences("command", "here"))


async def test_terminal_channel_shows_notices_of_its_user_alone(database: Database) -> None:
    said: list[str] = []
    channel = TerminalChannel("human:ana", said.append)
    source = DeliverySource("tests", database)
    assert (await channel.send(delivery("human:ana"), CLAIM, source)).result == "delivered"
    assert said == ["tests: 1 approval", "  approval from agent:atlas: rm[2J -r build"]
    assert (await channel.send(delivery("human:bob"), CLAIM, source)).result == "refused"
    assert len(said) == 2


async def test_command_channel_gives_notices_on_stdin(database: Database, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'wb').write(sys.stdin.buffer.read())"
    channel = CommandChannel("human:ana", (sys.executable, "-c", code))
    source = DeliverySource("tests", database)
    assert (await channel.send(delivery("human:bob"), CLAIM, source)).result == "refused"
    assert not out.exists()
    assert (await channel.send(delivery("human:ana"), CLAIM, source)).result == "delivered"
    document = orjson.loads(out.read_bytes())
    assert (document["workspace"], document["notices"][0]["by"]) == ("tests", "agent:atlas")


async def test_command_that_fails_is_refused_for_now(database: Database) -> None:
    source = DeliverySource("tests", database)
    failing = CommandChannel("human:ana", (sys.executable, "-c", "raise SystemExit('full')"))
    attempt = await failing.send(delivery("human:ana"), CLAIM, source)
    assert (attempt.result, attempt.error) == ("refused", "exit 1: full")
    absent = CommandChannel("human:ana", ("/nonexistent/notify",))
    assert (await absent.send(delivery("human:ana"), CLAIM, source)).result == "refused"


@pytest.mark.parametrize("text", ["", "  ", "say 'open"])
def test_command_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="command"):
        read_command(text)


@pytest.mark.parametrize("channel", ["terminal", "command"])
def test_local_channel_has_an_address(channel: str) -> None:
    assert read_preferences({"notification_channel": channel}).address == "here"
