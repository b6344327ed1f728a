"""Mentions in posts: what is one, how it is written, and what it costs at most."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.conversations.mentions import (
    CONTAINERS_MAX,
    MENTION_NAME_CHARS_MAX,
    NESTING_MAX,
    POST_BYTES_MAX,
    POST_LINES_MAX,
    POST_MENTIONS_MAX,
    check_post,
    find_mentions,
    plain_text,
    show_mentions,
    write_mention,
)
from turntree.core.errors import InvalidOperation
from turntree.core.ids import short_id

# The tests of the page read the same cases.
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "mentions.json").read_text(encoding="utf-8")
)
ID = "0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_mentions_are_those_of_the_table(case: dict[str, Any]) -> None:
    text = case["text"]
    mentions = find_mentions(text)
    assert [
        {
            "kind": mention.kind,
            "id": mention.id,
            "name": mention.name,
            "silent": mention.silent,
            "quoted": mention.quoted,
        }
        for mention in mentions
    ] == case["mentions"]
    for mention in mentions:
        written = text[mention.start : mention.end]
        assert written.startswith("@")
        assert written.endswith(f"({mention.kind}:{mention.id})")


@given(
    name=st.text(max_size=250),
    kind=st.sampled_from(["user", "agent"]),
    silent=st.booleans(),
    before=st.text("ab *_>#-\n", max_size=9),
)
def test_written_mention_is_found_again(*, name: str, kind: Any, silent: bool, before: str) -> None:
    written = write_mention(kind, "atlas", name, silent=silent)
    (mention,) = find_mentions(f"{before}.{written}")
    assert (mention.kind, mention.id, mention.silent) == (kind, "atlas", silent)
    assert write_mention(kind, "atlas", mention.name, silent=silent) == written


def test_write_mention_flattens_and_cuts_names() -> None:
    assert write_mention("user", "ana", " Ana\n[B]` ") == "@[Ana \\[B\\]\\`](user:ana)"
    assert write_mention("agent", "atlas", "\n") == "@[atlas](agent:atlas)"
    (mention,) = find_mentions(write_mention("user", "ana", "[" * 300))
    assert mention.name == "[" * (MENTION_NAME_CHARS_MAX - 1) + "…"


def test_write_mention_of_no_program_is_refused() -> None:
    for id in ("", "a b", "a)", "-a", "a" * 201):
        with pytest.raises(InvalidOperation, match="is not a program"):
            write_mention("user", id, "Ana")


def test_both_forms_of_an_id_are_one_target() -> None:
    long, short = find_mentions(f"@[A](agent:{ID}) @[A](agent:{short_id(ID)})")
    assert long.target == short.target == ("agent", ID)
    assert find_mentions(f"@[A](user:{ID})")[0].target != long.target


def test_silent_and_quoted_mentions_call_no_one() -> None:
    mentions = find_mentions("@[A](user:a) @_[B](user:b)\n\n> @[C](user:c)")
    assert [mention.calls for mention in mentions] == [True, False, False]


def test_show_mentions_has_present_names() -> None:
    text = "> @[Old](user:ana), @_[Atlas](agent:atlas) `@[Old](user:ana)` @[X](user:x) @[Y](user:y)"
    names = {("user", "ana"): "New [B]", ("agent", "atlas"): "Atlas", ("user", "x"): None}
    shown = show_mentions(text, names)  # type: ignore[arg-type]
    assert shown == (
        "> @[New \\[B\\]](user:ana), @_[Atlas](agent:atlas) `@[Old](user:ana)`"
        " @[X (deleted)](user:x) @[Y](user:y)"
    )
    assert show_mentions(shown, names) == shown  # type: ignore[arg-type]


def test_plain_text_has_names() -> None:
    text = "hi @[Ana \\[B\\]](user:ana),\r\n@_[Atlas](agent:atlas) and `@[No](user:x)`"
    assert plain_text(text) == "hi @Ana [B],\r\n@Atlas and `@[No](user:x)`"


def test_post_that_is_too_long_is_refused_and_mentions_nothing() -> None:
    mention = "@[A](user:a)"
    largest = "é" * ((POST_BYTES_MAX - len(mention) - 2) // 2) + "\n\n" + mention
    assert len(check_post(largest)) == 1
    with pytest.raises(InvalidOperation, match="at most 65536 bytes, and this has 65538"):
        check_post(largest + " .")
    assert find_mentions(largest + " .") == ()
    lines = "a\r\n" * (POST_LINES_MAX - 1) + mention
    assert len(check_post("\n" * (POST_LINES_MAX - 1) + mention)) == 1
    with pytest.raises(InvalidOperation, match="at most 1500 lines, and this has 1501"):
        check_post(lines + "\r")
    assert find_mentions(lines + "\r") == ()


def test_post_with_too_many_targets_is_refused() -> None:
    names = [f"@[A](agent:a{number})" for number in range(POST_MENTIONS_MAX)]
    assert len(check_post("\n".join([*names, *names]))) == 2 * POST_MENTIONS_MAX
    with pytest.raises(InvalidOperation, match="mentions at most 50, and this 51"):
        check_post("\n".join([*names, "@[A](user:a0)"]))


def test_mark_beyond_a_limit_is_text() -> None:
    deep = "> " * NESTING_MAX
    assert find_mentions(f"{deep}- @[A](user:a)")[0].name == "A"
    assert find_mentions(f"{deep}-     @[A](user:a)")[0].name == "A"
    assert find_mentions(f"{deep[2:]}-     @[A](user:a)") == ()
    items = "- a\n" * (CONTAINERS_MAX + 1)
    assert find_mentions(f"{items}- @[A](user:a)")[0].name == "A"


@pytest.mark.parametrize(
    "text", ["[a](user:b)\n>+ <!u\n>", ">     [a](user:b)\n>", "\u2028\n@\n@[A](user:a)"]
)
def test_text_that_ends_a_parser_is_read(text: str) -> None:
    for mention in find_mentions(text):
        assert text[mention.start : mention.end] == "@[A](user:a)"
