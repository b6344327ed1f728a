"""Delegation: somebody answers for everything, and handing on never adds a right."""

import pytest
from hypothesis import given

from turntree.auth.delegation import CHAIN_LINKS_MAX, DelegationChain, link_from_json
from turntree.auth.permissions import EVERYTHING, Permissions, Right, right, tools
from turntree.core.errors import InvalidOperation
from turntree.core.principal import SYSTEM, Principal
from turntree.testing.auth_strategies import chains, rights, single_rights

ANA, ATLAS, VERA = (
    Principal("human", "ana"),
    Principal("agent", "atlas"),
    Principal("agent", "vera"),
)
EXEC, READ = right("tool", "exec"), right("tool", "read")


def test_a_chain_says_who_acts_and_on_whose_behalf() -> None:
    chain = (
        DelegationChain.begin(ANA, EVERYTHING)
        .delegate(ATLAS, EVERYTHING)
        .child(Permissions(tools("read")))
    )
    assert chain.principal == Principal("agent", "atlas", ANA)
    assert DelegationChain.begin(SYSTEM, EVERYTHING).principal == SYSTEM


@pytest.mark.parametrize("root", [ATLAS, Principal("session", "main")])
def test_only_a_human_or_the_system_answers_for_a_chain(root: Principal) -> None:
    with pytest.raises(InvalidOperation, match="begins with a human or the system"):
        DelegationChain.begin(root, EVERYTHING)


def test_chain_with_same_principal_twice_is_refused() -> None:
    chain = (
        DelegationChain.begin(ANA, EVERYTHING)
        .delegate(ATLAS, EVERYTHING)
        .delegate(VERA, EVERYTHING)
    )
    with pytest.raises(InvalidOperation, match="agent:atlas would act on its own behalf"):
        chain.delegate(ATLAS, EVERYTHING)
    with pytest.raises(InvalidOperation, match="cannot delegate to itself"):
        chain.delegate(VERA, EVERYTHING)
    with pytest.raises(InvalidOperation, match="acts on behalf of"):
        DelegationChain.begin(chain.principal, EVERYTHING)


def test_a_chain_has_an_end() -> None:
    chain = DelegationChain.begin(ANA, EVERYTHING)
    for number in range(CHAIN_LINKS_MAX - 1):
        chain = chain.delegate(Principal("agent", f"a{number}"), EVERYTHING)
    with pytest.raises(InvalidOperation, match="at most"):
        chain.child(EVERYTHING)


def test_a_decision_names_who_would_not_have_it() -> None:
    chain = DelegationChain.begin(ANA, Permissions(tools("*"))).delegate(
        ATLAS, Permissions(tools("*"), tools("exec"))
    )
    chain = chain.delegate(VERA, Permissions(tools("read")))
    assert chain.decide(EXEC).reason == "tool:exec is denied for agent:atlas"
    assert chain.decide(right("tool", "write")).reason == "nothing allows tool:write for agent:vera"
    assert chain.decide(READ).reason == (
        "tool:read is allowed for human:ana and agent:atlas and agent:vera"
    )


@given(chains(), rights(), single_rights())
def test_handing_on_never_adds_a_right(
    chain: DelegationChain, more: Permissions, wanted: Right
) -> None:
    for longer in (chain.child(more), chain.delegate(Principal("agent", "new"), more)):
        assert longer.rights.within(chain.rights)
        assert longer.rights.within(more)
        assert longer.decide(wanted).allowed == longer.rights.permits(wanted)
        assert longer.decide(wanted).allowed <= chain.decide(wanted).allowed


@given(chains())
def test_a_chain_reads_back(chain: DelegationChain) -> None:
    assert DelegationChain.from_json(chain.to_json()) == chain


@pytest.mark.parametrize(
    "document",
    [None, {}, {"kind": "robot", "id": "r", "rights": {}}, {"kind": "human", "id": "ana"},
     {"kind": "human", "id": "", "rights": {}}, {"kind": "human", "id": "ana", "rights": []}],
)  # fmt: skip
def test_chain_link_without_valid_principal_is_refused(document: object) -> None:
    with pytest.raises(InvalidOperation, match="not a link"):
        link_from_json(document)
