"""Where secrets go: to the destinations that their user allowed, whoever owns the provider."""

import pytest

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, PermissionDenied
from turntree.core.secret_refs import (
    VENDOR_PAIRS,
    check_secret,
    destination_of,
    list_unallowed,
    read_hosts,
)

THERE: dict[str, Json] = {"provider_type": "openai", "base_url": "https://llm.example.org/v1"}


def check(
    author: str, hosts: str = "", config: dict[str, Json] | None = None, name: str = "KEY"
) -> None:
    """Ask whether ana's key may go where the author of a config wants it."""
    check_secret(name, "gate", config or THERE, author, "human:ana", read_hosts(hosts))


@pytest.mark.parametrize(
    "hosts", ["", "KEY@example.org", "OTHER@llm.example.org", "KEY@type:openai"]
)
@pytest.mark.parametrize("author", ["human:ana", "system:turntree", "human:bob"])
def test_secret_without_permission_is_not_sent(author: str, hosts: str) -> None:
    with pytest.raises(PermissionDenied, match=r"gate\).*secret KEY .*llm\.example\.org"):
        check(author, hosts)
    check(author, "KEY@llm.example.org")


def test_the_refusal_names_the_author_of_the_config() -> None:
    with pytest.raises(PermissionDenied, match="written by human:bob"):
        check("human:bob")
    with pytest.raises(PermissionDenied) as refused:
        check("human:ana")
    assert "written by" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ANTHROPIC_API_KEY", {"provider_type": "anthropic"}),
        ("OPENAI_API_KEY", {"provider_type": "openai"}),
        ("OPENAI_API_KEY", {"provider_type": "x", "base_url": "https://api.openai.com/v1"}),
        ("GEMINI_API_KEY", {"provider_type": "google"}),
    ],
)
def test_vendor_variable_goes_to_vendor_only_for_own_configs(
    name: str, config: dict[str, Json]
) -> None:
    for author in ("human:ana", "system:turntree"):
        check(author, "", config, name)
    with pytest.raises(PermissionDenied, match="written by human:bob"):
        check("human:bob", "", config, name)
    with pytest.raises(PermissionDenied):
        check("human:ana", "", config, "AWS_SECRET_ACCESS_KEY")


def test_what_is_not_allowed_yet_is_listed_once() -> None:
    assert list_unallowed(["A", "B", "A"], THERE, read_hosts("B@llm.example.org")) == [
        ("A", "llm.example.org")
    ]
    assert list_unallowed(["A"], {"base_url": "https://${A}.example/"}, frozenset()) == []
    openai: dict[str, Json] = {"provider_type": "openai"}
    assert list_unallowed(["OPENAI_API_KEY"], openai, frozenset()) == []
    assert ("OPENAI_API_KEY", "api.openai.com") in VENDOR_PAIRS


def test_secret_refusal_hides_other_permissions() -> None:
    with pytest.raises(PermissionDenied) as refused:
        check("human:bob", "A@b.org")
    assert refused.value.hint == Hint("config.allow_host", {"host": "KEY@llm.example.org"})
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
def test_destination_of_config_is_parsed(config: dict[str, Json], destination: str | None) -> None:
    assert destination_of(config) == destination
    if destination is None:
        with pytest.raises(PermissionDenied, match="whose host is not certain"):
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
def test_secret_is_sent_only_to_allowed_host_and_port(pair: str, config: dict[str, Json]) -> None:
    check("human:bob", pair, config)
    elsewhere: dict[str, Json] = {"base_url": "http://localhost:9999/v1"}
    with pytest.raises(PermissionDenied, match="at localhost:9999, which"):
        check("human:bob", pair, elsewhere)


@pytest.mark.parametrize("text", ["KEY", "KEY@", "@", "K-Y@host", "KEY@a b", "KEY=host"])
def test_what_names_no_secret_and_no_host_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="NAME@HOST"):
        read_hosts(text)
