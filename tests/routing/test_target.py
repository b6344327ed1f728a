"""Where a message may be sent, and the names that routers give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.errors import InvalidRevision
from turntree.core.ids import Label, TurnId
from turntree.core.revision import Revision, check_label
from turntree.routing.target import (
    Overrides,
    ToContent,
    ToPersona,
    ToSender,
    ToSession,
    ToTurn,
    TriggerRouting,
    channel_key,
    entity_key,
    main_session,
    parse_target,
)


def test_everything_that_can_be_addressed_is_told_apart() -> None:
    assert parse_target("") == parse_target("  ") == ToContent()
    assert parse_target("@(atlas)") == parse_target("persona:atlas") == ToPersona("atlas")
    assert parse_target("channel:telegram:42") == ToSender(Label("channel:telegram:42"))
    assert parse_target("entity:ana") == ToSender(Label("entity:ana"))
    for text in ("main", "main~3", "e9177", "atlas:main", "@(atlas)~1", "channel:x", ":/words"):
        assert isinstance(parse_target(text), Revision), text
    with pytest.raises(InvalidRevision):
        parse_target("two words")


def test_a_persona_is_addressed_by_its_main_session() -> None:
    assert main_session("atlas") == "atlas:main"
    with pytest.raises(InvalidRevision):
        main_session("not a name")


def test_a_sender_has_the_name_that_the_channel_knows() -> None:
    assert channel_key("telegram", "42") == "channel:telegram:42"
    assert entity_key("ana") == "entity:ana"
    assert channel_key("mail", "ana@example.com") == "channel:mail:ana+40+example+2e+com"
    for label in ("atlas:main", "entity:"):
        assert not isinstance(parse_target(label), ToSender)


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_no_two_senders_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (channel_key(*one) == channel_key(*other)) == (one == other)
    for key in (channel_key(*one), entity_key(one[0])):
        assert check_label(key) == key
        assert parse_target(key) == ToSender(key)


def test_a_long_name_is_shortened_to_its_digest() -> None:
    first, second = channel_key("mail", "x" * 300), channel_key("mail", "x" * 301)
    assert first != second
    assert len(first) < 60


def test_a_trigger_addresses_its_persona_unless_it_says_otherwise() -> None:
    assert TriggerRouting().target_for("atlas") == ToPersona("atlas")
    assert TriggerRouting(target="zoe").target_for("atlas") == ToPersona("zoe")
    assert TriggerRouting("session", "main").target_for("atlas") == ToSession(Label("main"))
    assert TriggerRouting("thread", "turn:x").target_for("atlas") == ToTurn(TurnId("x"))
    for mode in ("session", "thread"):
        with pytest.raises(InvalidRevision, match="names one"):
            TriggerRouting(mode).target_for("atlas")


def test_settings_of_a_message_win_over_those_before() -> None:
    first = Overrides({"model": "a", "temperature": 0}, {"deny": ["bash"]})
    assert first.merged(Overrides({"model": "b"})) == Overrides(
        {"model": "b", "temperature": 0}, {"deny": ["bash"]}
    )
