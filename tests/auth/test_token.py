"""Tokens: narrowed by anybody who holds one, widened by nobody."""

import base64
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.auth.delegation import DelegationChain
from turntree.auth.permissions import EVERYTHING, Permissions, right, tools
from turntree.auth.token import (
    BLOCKS_MAX,
    OpenedToken,
    TokenLimits,
    _decode,
    _encode,
    _sign,
    issue,
    narrow,
    open_token,
)
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.testing.auth_strategies import chains, rights

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
NOON, LATER, LATE = (Timestamp(f"2026-11-15T{h}:00:00.000Z") for h in ("12", "13", "14"))
ANA, ATLAS = Principal("human", "ana"), Principal("agent", "atlas")
VERA = Principal("agent", "vera")
READ, WRITE = right("tool", "read"), right("tool", "write")


def token(chain: DelegationChain | None = None) -> str:
    own = chain or DelegationChain.begin(ANA, Permissions(tools("*")))
    return issue(own, key=KEY, nonce="01234567", audience="run-1", expires_at=LATER)


def opened(
    text: str, *, key: bytes = KEY, audience: str = "run-1", now: Timestamp = NOON
) -> OpenedToken:
    return open_token(text, key=key, audience=audience, now=now)


@given(chains())
def test_a_token_brings_its_chain_along(chain: DelegationChain) -> None:
    assert opened(token(chain)).chain == chain


@given(chains(), st.lists(st.tuples(rights(), st.booleans()), max_size=4))
def test_a_narrowed_token_is_the_narrowed_chain(
    chain: DelegationChain, steps: list[tuple[Permissions, bool]]
) -> None:
    text, expected = token(chain), chain
    for number, (more, hands_on) in enumerate(steps):
        to = Principal("agent", f"n{number}") if hands_on else None
        text = narrow(text, rights=more, to=to)
        before = expected
        expected = expected.delegate(to, more) if to else expected.child(more)
        assert expected.rights.within(before.rights)
    assert opened(text).chain == expected


def test_a_block_that_claims_more_gives_nothing() -> None:
    text = narrow(token(), rights=Permissions(tools("read")))
    wider = narrow(text, rights=EVERYTHING)
    assert opened(wider).chain.rights == Permissions(tools("read"))


def test_no_block_can_be_taken_away() -> None:
    text = narrow(token(), rights=Permissions(tools("read")))
    recipe, first, _second, signature = text.split(".")
    for forged in (f"{recipe}.{first}.{signature}", f"{recipe}.{first}.{token().split('.')[-1]}x"):
        with pytest.raises(PermissionDenied):
            opened(forged)


def test_no_block_can_be_exchanged() -> None:
    recipe, first, second, signature = narrow(token(), rights=Permissions(tools("read"))).split(".")
    with pytest.raises(PermissionDenied, match="changed"):
        opened(f"{recipe}.{second}.{first}.{signature}")
    with pytest.raises(PermissionDenied, match="changed"):
        opened(f"{recipe}.{first}.{spelt({'rights': EVERYTHING.to_json()})}.{signature}")


@given(st.data())
def test_token_with_one_changed_character_is_refused(data: st.DataObject) -> None:
    text = narrow(token(), rights=Permissions(tools("read")))
    place = data.draw(st.integers(0, len(text) - 1))
    sign = data.draw(st.sampled_from("abzAZ09-_.=+ é"))
    if text[place] != sign:
        with pytest.raises(PermissionDenied):
            opened(text[:place] + sign + text[place + 1 :])


@given(st.text(max_size=40))
def test_no_text_is_mistaken_for_a_token(text: str) -> None:
    for told in (text, f"tt1.{text}", f"tt1.{text}.{text}"):
        with pytest.raises(PermissionDenied):
            opened(told)


def test_another_key_opens_nothing() -> None:
    with pytest.raises(PermissionDenied, match="not signed with this key"):
        opened(token(), key=OTHER_KEY)


def test_a_token_counts_for_one_audience_and_for_a_time() -> None:
    with pytest.raises(PermissionDenied, match="meant for run-1"):
        opened(token(), audience="run-2")
    with pytest.raises(PermissionDenied, match="expired"):
        opened(token(), now=LATER)


def test_limits_only_get_tighter() -> None:
    sooner = narrow(token(), limits=TokenLimits(expires_at=NOON))
    with pytest.raises(PermissionDenied, match="expired"):
        opened(sooner)
    later = narrow(token(), limits=TokenLimits(expires_at=LATE))
    assert opened(later).expires_at == LATER
    elsewhere = narrow(token(), limits=TokenLimits(audience="run-2"))
    for audience in ("run-1", "run-2"):
        with pytest.raises(PermissionDenied, match="meant for"):
            opened(elsewhere, audience=audience)


def test_token_contains_chain_of_principals() -> None:
    text = narrow(token(), to=ATLAS, rights=Permissions(tools("read", "write")))
    assert opened(text).chain.principal == Principal("agent", "atlas", ANA)
    again = narrow(narrow(text, to=VERA, rights=EVERYTHING), to=ATLAS, rights=EVERYTHING)
    with pytest.raises(PermissionDenied, match="on its own behalf"):
        opened(again)


@pytest.mark.parametrize("to", [Principal("human", "ceo"), Principal("system", "turntree"), ANA])
def test_a_token_is_handed_to_agents_and_sessions_alone(to: Principal) -> None:
    with pytest.raises(InvalidOperation, match="an agent or a session"):
        narrow(token(), to=to, rights=EVERYTHING)
    block = {"to": {"kind": to.kind, "id": to.id}, "rights": EVERYTHING.to_json()}
    text = narrow(token(), to=ATLAS, rights=EVERYTHING)
    with pytest.raises(PermissionDenied):
        opened(forge(text, block))
    with pytest.raises(InvalidOperation):
        DelegationChain.begin(ANA, EVERYTHING).delegate(ATLAS, EVERYTHING).delegate(to, EVERYTHING)
    session = narrow(token(), to=Principal("session", "s"), rights=EVERYTHING)
    assert opened(session).chain.principal.kind == "session"


def test_a_later_block_adds_settings_and_replaces_none() -> None:
    own = DelegationChain.begin(ANA, EVERYTHING)
    text = issue(own, key=KEY, nonce="01234567", audience="run-1", expires_at=LATER,
                 config={"sandbox": "code"})  # fmt: skip
    more = narrow(text, config={"timeout_s": 9, "sandbox": "code"})
    assert opened(more).config == {"sandbox": "code", "timeout_s": 9}
    for setting in ({"sandbox": "none"}, {"timeout_s": 99}):
        with pytest.raises(PermissionDenied, match="replaces the setting"):
            opened(narrow(more, config=setting))


@pytest.mark.parametrize(
    "block",
    [
        {"rights": 3}, {"rights": {"tools": 3}}, {"config": []}, {"links": []}, {"to": "ana"},
        {"to": {"kind": "robot", "id": "r"}, "rights": {}}, {"expires_at": "soon"},
        {"only_on_sundays": True}, [], None, {"nonce": "x"}, {"to": {"kind": "agent", "id": "x"}},
    ],
)  # fmt: skip
def test_what_a_holder_may_have_written_is_never_trusted(block: object) -> None:
    # Whoever holds a token can sign any block; this is what narrow() does without asking.
    with pytest.raises(PermissionDenied):
        opened(forge(token(), block))


def forge(text: str, block: object) -> str:
    *head, signature = text.split(".")
    spelling = spelt(block)
    return ".".join((*head, spelling, _encode(_sign(_decode(signature), _decode(spelling)))))


def test_a_token_has_an_end() -> None:
    text = token()
    for _ in range(BLOCKS_MAX - 1):
        text = narrow(text, rights=Permissions(tools("read")))
    with pytest.raises(InvalidOperation, match="at most"):
        narrow(text, rights=Permissions(tools("read")))
    tokens = [token(), narrow(token(), rights=Permissions(tools("read")))]
    assert all(len(short) < len(long) for short, long in pairwise(tokens))


@pytest.mark.parametrize(
    ("key", "nonce", "audience", "expires_at"),
    [(b"short", "01234567", "a", LATER), (KEY, "1", "a", LATER), (KEY, "01234567", "", LATER),
     (KEY, "01234567", "a", Timestamp("soon"))],
)  # fmt: skip
def test_a_token_that_protects_nothing_is_not_issued(
    key: bytes, nonce: str, audience: str, expires_at: Timestamp
) -> None:
    with pytest.raises(InvalidOperation):
        issue(DelegationChain.begin(ANA, EVERYTHING), key=key, nonce=nonce, audience=audience,
              expires_at=expires_at)  # fmt: skip


def test_nothing_to_narrow_is_refused() -> None:
    with pytest.raises(InvalidOperation, match="nothing to narrow"):
        narrow(token())
    with pytest.raises(InvalidOperation, match="with permissions"):
        narrow(token(), to=ATLAS)


def spelt(block: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(block).encode()).rstrip(b"=").decode()
