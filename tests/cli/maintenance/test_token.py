"""``token``: rights that travel, and how they are taken back."""

import json
import re
from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import right
from turntree.auth.token import narrow
from turntree.auth.tokens import Tokens
from turntree.boot.open import Settings, load_token_key, open_tree
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import Timestamp, unix_ms
from turntree.core.principal import Principal
from turntree.system.clock import SystemClock

EVE = Principal("human", "eve")
LATER = Timestamp("2099-01-01T00:00:00.000Z")


def test_a_token_counts_until_it_is_revoked(turntree: Call) -> None:
    assert "next: turntree token issue AUDIENCE\n" in turntree("token", "list").err
    said = ("token", "issue", "worker", "--agent", "atlas", "--allow", "tool:fs.*", "--json")
    made = turntree(*said).document
    (listed,) = turntree("token", "list", "--json").documents
    assert (listed["nonce"], listed["holder"]) == (made["nonce"], "agent:atlas")
    assert made["token"] not in str(listed)
    assert made["nonce"] in turntree("token", "list").out
    revoked = turntree("token", "revoke", made["nonce"], "--reason", "it leaked")
    assert revoked.code == 0
    assert turntree("token", "list").out == ""
    assert "it leaked" in turntree("token", "list", "--all").out
    again = turntree("token", "revoke", made["nonce"])
    assert again.code == 1
    assert "was revoked already: human:ana did so at" in again.err
    assert turntree("token", "revoke", "short").code == 1
    assert turntree("token", "issue", "worker", "--allow", "fs").code == 1


def test_the_event_of_a_token_is_valid_until_the_token_expires(turntree: Call) -> None:
    made = turntree("token", "issue", "worker", "--expires-in", "30", "--json").document
    turntree("token", "revoke", made["nonce"])
    events = [
        json.loads(row["body"])
        for row in turntree(
            "sql", "--json", "--whole",
            "SELECT body FROM turntree.events WHERE kind LIKE 'token.%' ORDER BY n",
        ).documents
    ]  # fmt: skip
    issued, revoked = events
    assert (issued["valid_from"], issued["valid_to"]) == (issued["at"], made["expires_at"])
    assert unix_ms(issued["valid_to"]) - unix_ms(issued["valid_from"]) <= 30 * 60_000
    assert "valid_to" not in revoked, "most events are true from their time on"
    # In UTC with milliseconds, every one of them.
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{3}Z", event["at"]) for event in events)
    assert turntree("fsck").code == 0


def test_a_revoked_token_opens_nothing_nor_do_those_made_from_it(
    turntree: Call, conninfo: str, tmp_path: Path
) -> None:
    del turntree
    settings = Settings(tmp_path, conninfo, workspace="tests", user="ana")
    key = load_token_key(settings)

    async def act() -> None:
        async with open_tree(settings) as tree:
            ana = ExecutionContext.begin(tree.tokens.by)
            made, nonce = await tree.tokens.issue(ana, key=key, audience="worker", expires_at=LATER)
            weaker = narrow(made, rights=ana.rights)
            opened = await tree.tokens.open(weaker, key=key, audience="worker")
            assert opened.decide(right("tool", "read")).allowed
            stranger = Tokens(tree.tokens.permissions, tree.tokens.world, EVE)
            with pytest.raises(PermissionDenied, match="human:ana issued it"):
                await stranger.revoke(nonce)
            await tree.tokens.revoke(nonce, reason="it leaked")
            for one in (made, weaker):
                with pytest.raises(
                    PermissionDenied, match=f"{nonce} was revoked: .*because it leaked"
                ):
                    await tree.tokens.open(one, key=key, audience="worker")
            with pytest.raises(InvalidOperation, match="revoked already"):
                await tree.tokens.revoke(nonce)
            # Offline nobody can know.
            now = tree.tokens.world.now()
            ExecutionContext.from_token(made, key=key, audience="worker", now=now)

    anyio.run(act)


def test_a_nonce_can_be_typed_after_a_command() -> None:
    """One that began with a dash would be taken for an option."""
    assert all(SystemClock().nonce().isalnum() for _ in range(100))
