"""Where secrets may go is settled in the command that writes a provider, and remembered."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.test_terminal import watch

GATE = ("--type", "openai-compatible", "--base-url", "https://llm.example.org/v1")
KEY = ("--set", "api_key=${TEAM_KEY}")


def test_creating_a_provider_allows_what_the_command_names(turntree: Call, tmp_path: Path) -> None:
    made = turntree("provider", "create", "gate", *GATE, *KEY)
    assert "allowed from now on: TEAM_KEY to llm.example.org" in made.err
    assert turntree("config", "get", "secret_hosts").out == "TEAM_KEY@llm.example.org\n"
    assert (tmp_path / "config.toml").stat().st_mode & 0o777 == 0o600
    again = turntree("program", "create", "provider", "two", "--set", "provider_type=openai",
                     "--set", "base_url=https://llm.example.org/v2", *KEY)  # fmt: skip
    assert (again.code, again.err) == (0, "")


def test_configuring_a_provider_allows_nothing_without_a_person(turntree: Call) -> None:
    turntree("provider", "create", "gate", *GATE)
    told = turntree("provider", "configure", "gate", *KEY).err
    assert "turntree config add secret_hosts TEAM_KEY@llm.example.org" in told
    assert turntree("config", "get", "secret_hosts").code == 3


def test_what_another_wrote_is_never_asked_about(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turntree("provider", "create", "gate", *GATE)
    turntree("program", "grant", "gate", "bob", "configure")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    turntree("provider", "configure", "gate", "--set", "api_key=${AWS_SECRET_ACCESS_KEY}")
    monkeypatch.setenv("TURNTREE_USER", "ana")
    # The config of before stays, so its next version by ana would carry what bob put there.
    turntree("provider", "configure", "gate", "--description", "ours")
    assert turntree("config", "get", "secret_hosts").code == 3


def test_a_vendors_variable_is_settled_for_another_address_if_it_is_set(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = ("--type", "openai", "--base-url", "https://gate.example/v1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "allowed" not in turntree("provider", "create", "one", *gate).err
    monkeypatch.setenv("OPENAI_API_KEY", "hers")
    assert "OPENAI_API_KEY to gate.example" in turntree("provider", "create", "two", *gate).err
    assert "allowed" not in turntree("provider", "create", "three", "--type", "openai").err


@pytest.mark.slow
def test_a_person_is_asked_once_and_may_refuse(turntree: Call) -> None:
    key = ("--set", r"'api_key=${TEAM_KEY}'")
    refused = watch("provider", "create", "gate", *GATE, *key, answers={"be given": "n\n"})
    assert "allow it with: turntree config add secret_hosts" in refused
    assert turntree("config", "get", "secret_hosts").code == 3
    agreed = watch("provider", "create", "two", *GATE, *key, answers={"be given": "y\n"})
    assert "allowed from now on" in agreed
    assert "be given" not in watch("provider", "create", "three", *GATE, *key)


@pytest.mark.slow
def test_a_worker_asks_about_its_users_own_providers_before_it_serves(turntree: Call) -> None:
    turntree("provider", "create", "gate", *GATE)
    turntree("provider", "configure", "gate", *KEY)
    assert turntree("config", "get", "secret_hosts").code == 3
    shown = watch("worker", answers={"be given": "y\n", "SIGTERM stops it": "\x03"})
    assert "may @(gate) be given the secret TEAM_KEY at llm.example.org?" in shown
    assert turntree("config", "get", "secret_hosts").out == "TEAM_KEY@llm.example.org\n"
