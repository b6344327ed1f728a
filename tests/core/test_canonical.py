"""The recipe of every digest: pinned vectors, and the fast path against a slow judge."""

import json
import math
import struct
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import (
    INTEGER_MAX,
    NESTING_MAX,
    Json,
    canonical,
    digest,
    digest_bytes,
    digest_from_raw,
    digest_raw,
    parse_digest,
)
from turntree.core.errors import NotCanonical
from turntree.core.ids import Digest

GOLDEN: dict[str, list[dict[str, str]]] = json.loads(
    (Path(__file__).parent / "golden/canonical.json").read_text(encoding="utf-8")
)
EMPTY = Digest("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


def name_of(case: dict[str, str]) -> str:
    return case["name"]


def double(bits: str) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert isinstance(number, float)
    return number


# Signs that sort, escape or encode differently from one library to the next.
signs = st.sampled_from('aZ_~ \x00\x1f\x7f"\\/é\u2028\ue000\ufb33\uffff\U00010000\U0001f600')
texts = st.text(st.one_of(signs, st.characters(exclude_categories=["Cs"])), max_size=8)
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=8)
integers = st.integers(-INTEGER_MAX, INTEGER_MAX)
floats = st.floats(-INTEGER_MAX, INTEGER_MAX)


def documents(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> Any:
    return st.recursive(
        leaves,
        lambda below: st.one_of(
            st.lists(below, max_size=5),
            st.lists(below, max_size=3).map(tuple),
            st.dictionaries(keys, below, max_size=6),
        ),
        max_leaves=20,
    )


plain = documents(st.one_of(st.none(), st.booleans(), integers, texts), ascii_texts)
lawful = documents(st.one_of(st.none(), st.booleans(), integers, floats, texts), texts)


@pytest.mark.parametrize("case", GOLDEN["values"], ids=name_of)
def test_the_bytes_and_digest_of_a_value_never_change(case: dict[str, str]) -> None:
    value = json.loads(case["json"])
    assert canonical(value).decode() == case["canonical"]
    assert digest(value) == case["digest"]


@pytest.mark.parametrize("case", GOLDEN["numbers"], ids=name_of)
def test_the_spelling_of_a_number_never_changes(case: dict[str, str]) -> None:
    assert canonical(double(case["double"])).decode() == case["canonical"]


@pytest.mark.parametrize("case", GOLDEN["refused_numbers"], ids=name_of)
def test_a_number_that_reads_back_differently_is_refused(case: dict[str, str]) -> None:
    with pytest.raises(NotCanonical, match=r"^parts\[0\]\.args\.n: "):
        canonical({"parts": [{"args": {"n": double(case["double"])}}]})


@pytest.mark.parametrize("case", GOLDEN["refused_values"], ids=name_of)
def test_refusal_names_the_path(case: dict[str, str]) -> None:
    with pytest.raises(NotCanonical) as refusal:
        canonical(json.loads(case["json"]))
    assert str(refusal.value).startswith(f"{case['place']}: ")


def test_the_vectors_would_catch_a_naive_encoder() -> None:
    """The control: sorted orjson without the check fails many of them."""
    wrong = [
        case["name"]
        for case in GOLDEN["values"]
        if naive(json.loads(case["json"])).decode() != case["canonical"]
    ]
    assert "keys by UTF-16 unit: an astral key before a private one" in wrong
    assert "floats among members" in wrong
    assert [
        case["name"]
        for case in GOLDEN["numbers"]
        if naive(double(case["double"])).decode() != case["canonical"]
    ]
    assert naive(math.nan) == b"null"


@given(plain)
def test_the_fast_path_writes_what_the_judge_writes(value: Json) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(lawful)
def test_canonical_bytes_match_rfc8785_library(value: Json) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(lawful)
def test_canonical_bytes_read_back_give_the_same_bytes(value: Json) -> None:
    written = canonical(value)
    assert canonical(json.loads(written)) == written
    assert canonical(orjson.loads(written)) == written


@given(st.dictionaries(texts, integers, max_size=6), st.randoms(use_true_random=False))
def test_member_order_does_not_change_bytes(value: dict[str, int], random: Any) -> None:
    members = list(value.items())
    random.shuffle(members)
    assert digest(dict(members)) == digest(value)


@given(documents(st.one_of(integers, texts), texts), st.integers(min_value=INTEGER_MAX + 1))
def test_canonical_unsafe_integer_is_refused_anywhere(value: Json, big: int) -> None:
    for number in (big, -big):
        with pytest.raises(NotCanonical, match=r"^tail\[1\]: .* is beyond 2\^53 - 1"):
            canonical({"body": value, "tail": [0, number]})


@pytest.mark.parametrize("number", [2.0**53, -(2.0**53), 1e300])
def test_float_of_two_to_the_53_or_more_is_refused(number: float) -> None:
    assert canonical([float(INTEGER_MAX)])
    with pytest.raises(NotCanonical, match=r"is not below 2\^53"):
        canonical([number])


def test_canonical_huge_integer_is_refused_without_printing() -> None:
    with pytest.raises(NotCanonical, match="an integer of 33220 bits"):
        canonical([10**10_000])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {2, 3}]}, r"^a\[1\]: a set is not JSON$"),
        ({"a": b"x"}, r"^a: a bytes is not JSON$"),
        ({1: "a"}, r"^the value: a key must be a string, not a int$"),
        ({"a": {None: 1}}, r"^a: a key must be a string, not a NoneType$"),
        (object(), r"^the value: a object is not JSON$"),
        ({"odd key": {"é": [set()]}}, r"^\['odd key'\]\['\\xe9'\]\[0\]: a set is not JSON$"),
        ({"k" * 99: set()}, r"^\['k{40}\.\.\.'\]: a set is not JSON$"),
    ],
)
def test_what_is_not_json_is_refused(value: Any, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        canonical(value)


def test_canonical_str_subclass_is_written_as_str() -> None:
    class Role(StrEnum):
        USER = "user"

    assert canonical({"role": Role.USER}) == b'{"role":"user"}'
    assert canonical({Role.USER: 1}) == b'{"user":1}'


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}, lambda v: ["é", 0.5, v]])
def test_nesting_has_a_limit_that_does_not_depend_on_the_path(wrap: Callable[[Any], Any]) -> None:
    value: Any = []
    for _ in range(NESTING_MAX):
        value = wrap(value)
    assert canonical(value) == rfc8785.dumps(value)
    with pytest.raises(NotCanonical, match=f"nested deeper than {NESTING_MAX} levels"):
        canonical(wrap(value))


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    with pytest.raises(NotCanonical, match="nested deeper"):
        canonical(endless)


def test_a_digest_names_its_algorithm() -> None:
    assert digest_bytes(b"") == EMPTY
    assert parse_digest(EMPTY) == EMPTY


@given(st.binary(max_size=64))
def test_a_digest_survives_its_stored_form(data: bytes) -> None:
    raw = digest_raw(digest_bytes(data))
    assert len(raw) == 32
    assert digest_from_raw(raw) == digest_bytes(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        EMPTY[:-1],
        EMPTY + "0",
        EMPTY + "\n",
        EMPTY.upper(),
        EMPTY.replace("e3", "E3"),
        EMPTY.replace("sha256", "sha512"),
        EMPTY.removeprefix("sha256:"),
        EMPTY.replace("e3", "zz"),
    ],
)
def test_digest_has_one_valid_spelling(text: str) -> None:
    with pytest.raises(NotCanonical):
        parse_digest(text)


def test_a_stored_digest_has_32_bytes() -> None:
    with pytest.raises(NotCanonical, match="not 31"):
        digest_from_raw(bytes(31))


def naive(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
