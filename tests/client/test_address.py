"""Where a key may be sent."""

import pytest

from turntree.client import Client
from turntree.client.address import read_address
from turntree.core.errors import InvalidOperation

KEY = "ttk_team_secret"


@pytest.mark.parametrize("end", ["", "/", "/api/v1", "/api/v1/", "/api"])
def test_address_with_or_without_the_path_of_the_api_is_the_same(end: str) -> None:
    address = read_address(f"https://turntree.example.net/w/team{end}")
    assert address.api == "https://turntree.example.net/w/team/api/v1"


def test_address_below_a_path_of_a_proxy_keeps_it() -> None:
    assert read_address("https://a.example/tt/w/team").api == "https://a.example/tt/w/team/api/v1"


@pytest.mark.parametrize("host", ["localhost:8744", "127.0.0.1", "127.3.2.1:1", "[::1]:8744"])
def test_http_to_loopback_is_accepted(host: str) -> None:
    assert read_address(f"http://{host}/w/team").url == f"http://{host}/w/team"


@pytest.mark.parametrize(
    "host", ["192.168.0.2", "turntree.example.net", "localhost.example.net", "127.0.0.1.nip.io"]
)
def test_http_to_another_machine_is_refused_unless_allowed(host: str) -> None:
    url = f"http://{host}/w/team"
    with pytest.raises(InvalidOperation, match="unencrypted"):
        Client(url, KEY)
    assert read_address(url, allow_http=True).url == url


@pytest.mark.parametrize(
    "url",
    ["", "turntree.example.net/w/team", "ftp://a/w/team", "https://a.example", "https:///w/team",
     "https://a.example/w/", "https://a.example/w/team/else", "https://a.example:port/w/team"],
)  # fmt: skip
def test_url_that_is_no_workspace_is_refused(url: str) -> None:
    with pytest.raises(InvalidOperation):
        read_address(url)


@pytest.mark.parametrize("url", [f"https://{KEY}@a.example/w/team", KEY])
def test_key_in_the_place_of_the_url_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidOperation) as refused:
        read_address(url)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("key", ["", "two words", f"{KEY}\nx-other: 1", "ключ"])
def test_key_that_no_header_can_carry_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(InvalidOperation) as refused:
        Client("https://a.example/w/team", key)
    assert not key or key not in str(refused.value)


def test_representation_of_a_client_has_no_key() -> None:
    assert KEY not in repr(Client("https://a.example/w/team", KEY))
