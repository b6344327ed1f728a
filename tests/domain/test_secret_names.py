"""Whose secrets go where: to providers of one's own, and where one allowed it."""

import pytest

from turntree.domain.canonical import Json
from turntree.domain.errors import Denied, Refused
from turntree.domain.secret_names import check_secret, destination_of, read_hosts

THERE: dict[str, Json] = {"provider_type": "openai", "base_url": "https://llm.example.org/v1"}


def check(owner: str, hosts: str = "", config: dict[str, Json] | None = None) -> None:
    """Ask whether ana's key may go to somebody's provider."""
    check_secret("KEY", "theirs", config or THERE, owner, "human:ana", read_hosts(hosts))


@pytest.mark.parametrize("owner", ["human:ana", "system:turntree"])
def test_a_secret_goes_to_providers_of_ones_own_and_of_the_system(owner: str) -> None:
    check(owner)


@pytest.mark.parametrize(
    "hosts", ["", "KEY@example.org", "OTHER@llm.example.org", "KEY@type:openai"]
)
def test_no_other_provider_is_given_it(hosts: str) -> None:
    with pytest.raises(Denied, match=r"theirs\) is human:bob's, .*KEY@llm\.example\.org"):
        check("human:bob", hosts)


def test_the_refusal_says_what_allows_it_and_nothing_of_what_was_allowed_before() -> None:
    with pytest.raises(Denied) as refused:
        check("human:bob", "A@b.org")
    assert "`turntree config add secret_hosts KEY@llm.example.org`" in str(refused.value)
    assert "A@b.org" not in str(refused.value)
    check("human:bob", "A@b.org,KEY@llm.example.org")


@pytest.mark.parametrize(
    ("config", "destination"),
    [
        ({"provider_type": "anthropic"}, "type:anthropic"),
        ({"provider_type": "MyType"}, "type:mytype"),
        ({"base_url": "https://LLM.example.org/v1?x"}, "llm.example.org"),
        ({"base_url": "https://LLM.example.org:8443/v1?x"}, "llm.example.org:8443"),
        ({"base_url": "http://[::1]/"}, "::1"),
        ({"base_url": "http://[::1]:8080"}, "[::1]:8080"),
        ({"base_url": "http://localhost:٤٠٠٠"}, None),
        ({"base_url": "https://llm.example.org@evil.example/"}, None),
        ({"base_url": "https://llm.example.org\\@evil.example/"}, None),
        ({"base_url": "https://${KEY}.evil.example/"}, None),
        ({"base_url": "llm.example.org"}, None),
    ],
)
def test_an_address_is_read_as_everybody_reads_it(
    config: dict[str, Json], destination: str | None
) -> None:
    assert destination_of(config) == destination
    if destination is None:
        with pytest.raises(Denied, match="make a provider of your own"):
            check("human:bob", "KEY@llm.example.org", config)


@pytest.mark.parametrize(
    ("pair", "config"),
    [
        ("KEY@localhost:4000", {"base_url": "http://localhost:4000/v1"}),
        ("KEY@Localhost", {"base_url": "http://LOCALHOST/v1"}),
        ("KEY@[::1]", {"base_url": "http://[::1]/v1"}),
        ("KEY@[::1]:4000", {"base_url": "http://[::1]:4000/v1"}),
        ("KEY@type:MyType", {"provider_type": "MyType"}),
    ],
)
def test_a_secret_goes_where_it_may_and_to_no_other_port(
    pair: str, config: dict[str, Json]
) -> None:
    check("human:bob", pair, config)
    elsewhere: dict[str, Json] = {"base_url": "http://localhost:9999/v1"}
    with pytest.raises(Denied, match="secret_hosts KEY@localhost:9999`"):
        check("human:bob", pair, elsewhere)


@pytest.mark.parametrize("text", ["KEY", "KEY@", "@host", "KEY@a b", "KEY=host"])
def test_what_names_no_secret_and_no_host_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="NAME@HOST"):
        read_hosts(text)
