"""The config of a provider: its keys are named, and stand nowhere."""

import pytest

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.programs.kinds.provider import ProviderKind


def config(**members: Json) -> dict[str, Json]:
    return ProviderKind().check({"provider_type": "anthropic", **members})


def test_keys_and_headers_are_kept_as_names() -> None:
    headers = {"cf-aig-authorization": "Bearer ${CF_AIG_TOKEN}", "x-team": "blue"}
    kept = config(api_key="${MY_KEY}", headers=headers, cache=False, timeout_s=30)
    assert kept == {
        "provider_type": "anthropic",
        "api_key": "${MY_KEY}",
        "headers": headers,
        "cache": False,
        "timeout_s": 30,
    }


def test_what_a_vendor_alone_understands_is_kept_as_it_is() -> None:
    assert config(script=[{"text": "hello"}])["script"] == [{"text": "hello"}]


@pytest.mark.parametrize(
    "members",
    [
        {"api_key": "hunter2"},
        {"apiKey": "hunter2"},
        {"headers": {"cf-aig-authorization": "Bearer hunter2"}},
        {"headers": {"X-Api-Key": "hunter2 ${NAME}"}},
    ],
)
def test_a_key_that_is_written_down_is_refused_and_not_repeated(members: dict[str, Json]) -> None:
    with pytest.raises(InvalidOperation, match="never stored") as refused:
        config(**members)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "members", [{"timeout_s": 0}, {"cache": "forever"}, {"headers": {"x": 1}}, {"headers": "x"}]
)
def test_what_makes_no_sense_is_refused(members: dict[str, Json]) -> None:
    with pytest.raises(InvalidOperation):
        config(**members)
