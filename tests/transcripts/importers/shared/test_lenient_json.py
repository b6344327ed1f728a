"""Files that cannot be trusted: nothing in them may raise."""

import orjson
import pytest

from turntree.core.canonical import TOO_DEEP, canonical, tidy
from turntree.transcripts.importers.shared.lenient_json import moment, parse


@pytest.mark.parametrize("depth", [100, 200, 900, 1000])
def test_a_value_nested_beyond_reason_can_be_spelled(depth: int) -> None:
    told = tidy(orjson.loads("[" * depth + "]" * depth))
    canonical(told)
    assert (TOO_DEEP in orjson.dumps(told).decode()) == (depth > 112)


@pytest.mark.parametrize("depth", [500, 900, 960, 100_000])
def test_half_a_surrogate_pair_in_a_deep_value_does_not_raise(depth: int) -> None:
    parse(b'{"s":"\\ud800","a":' + b"[" * depth + b"]" * depth + b"}")


def test_a_moment_before_1970_is_none() -> None:
    assert moment("1969-12-31T23:59:59Z") is None
    assert moment(-1) is None
    assert moment("1970-01-01T00:00:00Z") == "1970-01-01T00:00:00.000Z"
