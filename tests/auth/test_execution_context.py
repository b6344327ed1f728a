"""The execution context: found by whoever runs in it, narrower at every step, silent on secrets."""

import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from turntree.auth.execution_context import ExecutionContext, current, find_current
from turntree.auth.permissions import EVERYTHING, Permissions, credentials, right, tools
from turntree.auth.persona import Identity, Persona
from turntree.auth.token import issue
from turntree.boot.open import Settings, begin_context, load_token_key
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

ANA, ATLAS = Principal("human", "ana"), Principal("agent", "atlas")
ENVIRONMENT = {"GITHUB_TOKEN": "from-environment", "AWS_KEY": "hidden"}
GITHUB = Permissions(credentials("GITHUB_TOKEN"))
KEY = b"k" * 32
NOON, LATER = Timestamp("2026-11-15T12:00:00.000Z"), Timestamp("2026-11-15T13:00:00.000Z")


def begun(rights: Permissions = EVERYTHING) -> ExecutionContext:
    return ExecutionContext.begin(ANA, rights, environment=ENVIRONMENT)


def test_current_without_context_is_refused() -> None:
    assert find_current() is None
    with pytest.raises(PermissionDenied, match="no execution context is active"):
        current()


async def test_every_task_that_is_started_inside_finds_it() -> None:
    seen: list[str] = []

    async def look() -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(str(current().principal))

    async with anyio.create_task_group() as group:
        with begun().entered():
            group.start_soon(look)
            await look()
            seen.append(await anyio.to_thread.run_sync(lambda: str(current().principal)))
        with begun().delegate(ATLAS, EVERYTHING).entered():
            group.start_soon(look)
    assert sorted(seen) == ["agent:atlas", "human:ana", "human:ana", "human:ana"]
    assert find_current() is None


def test_an_inner_context_ends_with_its_block() -> None:
    with begun().entered() as outer:
        inner = outer.child(GITHUB)
        with pytest.raises(PermissionDenied), inner.entered():
            current().get_credential("AWS_KEY")
        assert current() is outer
    assert find_current() is None


def test_a_child_has_at_most_the_rights_of_its_parent() -> None:
    narrow = begun(Permissions(tools("read"))).child(EVERYTHING)
    assert narrow.decide(right("tool", "read")).allowed
    assert not narrow.decide(right("tool", "exec")).allowed
    assert narrow.principal == ANA


def test_delegated_context_has_intersection_of_permissions() -> None:
    acting = begun(Permissions(tools("read", "write"))).delegate(
        ATLAS, Permissions(tools("write", "exec"))
    )
    assert acting.rights == Permissions(tools("write"))
    assert acting.principal.on_behalf_of == ANA
    with pytest.raises(InvalidOperation, match="own behalf"):
        acting.delegate(ANA, EVERYTHING)


def test_an_agent_acts_under_its_persona() -> None:
    persona = Persona("atlas", 1, Identity("Atlas"), Permissions(tools("read")))
    acting = begun().assume(persona)
    assert acting.principal == Principal("agent", "atlas", ANA)
    assert acting.decide(right("tool", "read")).allowed
    assert not acting.decide(right("tool", "exec")).allowed


def test_a_credential_comes_from_the_context_before_the_environment() -> None:
    context = begun(GITHUB)
    assert context.get_credential("GITHUB_TOKEN") == "from-environment"
    handed = context.child(credentials={"GITHUB_TOKEN": "handed-in"})
    assert handed.get_credential("GITHUB_TOKEN") == "handed-in"


def test_a_credential_that_no_right_names_is_out_of_reach() -> None:
    context = begun(GITHUB).child(credentials={"AWS_KEY": "handed-in"})
    for name in ("AWS_KEY", "NO_SUCH_KEY"):
        with pytest.raises(PermissionDenied, match=f"{name} is out of reach"):
            context.get_credential(name)
    with pytest.raises(PermissionDenied):
        begun().delegate(ATLAS, GITHUB).get_credential("AWS_KEY")


def test_a_credential_that_is_nowhere_is_not_found() -> None:
    with pytest.raises(NotFound, match="neither in the context nor in the environment"):
        begun().get_credential("NO_SUCH_KEY")


def test_settings_have_defaults_and_can_be_hidden() -> None:
    context = begun().child(config={"timeout": 30})
    assert context.get_config("timeout") == 30
    assert context.child(config={"timeout": 5}).get_config("timeout") == 5
    assert context.get_config("retries", 2) == 2


def token_of(context: ExecutionContext) -> str:
    return issue(
        context.chain,
        key=KEY,
        nonce=FakeClock().nonce(),
        audience="run",
        expires_at=LATER,
        config=context.config,
    )


def test_no_secret_is_ever_shown() -> None:
    context = begun().child(credentials={"GITHUB_TOKEN": "handed-in"})
    told = token_of(context)
    for shown in (repr(context), str(context), told):
        assert "handed-in" not in shown
        assert "hidden" not in shown


def test_another_process_goes_on_with_the_same_rights_and_no_more(tmp_path: Path) -> None:
    context = begun().delegate(ATLAS, GITHUB).child(config={"timeout": 5})
    told = token_of(context)
    program = tmp_path / "other.py"
    program.write_text(OTHER_PROCESS, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, program, told], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.splitlines() == ["agent:atlas for human:ana", "own", "5", "Denied"]


OTHER_PROCESS = """
import sys
from turntree.core.errors import PermissionDenied
from turntree.core.ids import Timestamp
from turntree.auth.execution_context import ExecutionContext

context = ExecutionContext.from_token(
    sys.argv[1], key=b"k" * 32, audience="run", now=Timestamp("2026-11-15T12:00:00.000Z"),
    environment={"GITHUB_TOKEN": "own", "AWS_KEY": "own too"},
)
print(context.principal, "for", context.principal.on_behalf_of)
print(context.get_credential("GITHUB_TOKEN"))
print(context.get_config("timeout"))
try:
    context.get_credential("AWS_KEY")
except PermissionDenied:
    print("Denied")
"""


def test_the_user_of_the_settings_acts_for_themselves() -> None:
    context = begin_context(Settings(Path(), user="ana"), {"KEY": "value"})
    assert (context.principal, context.get_credential("KEY")) == (ANA, "value")


def test_a_key_is_drawn_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "home")
    key = load_token_key(settings)
    assert len(key) == 32
    assert load_token_key(settings) == key
    kept = settings.home / "token.key"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in settings.home.iterdir()] == ["token.key"]
    kept.write_bytes(b"short")
    with pytest.raises(InvalidOperation, match="is not a key"):
        load_token_key(settings)
