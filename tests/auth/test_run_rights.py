"""The rights under which a message is sent, in its sender's name or in another."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.auth.delegation import DelegationChain
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import EVERYTHING, Permissions, tools
from turntree.auth.run_rights import links_of_sender
from turntree.core.principal import Principal
from turntree.testing.auth_strategies import chains

ANA, BOB = Principal("human", "ana"), Principal("human", "bob")
READING = Permissions(tools("fs.read"))


def test_a_person_with_all_rights_has_no_links() -> None:
    assert links_of_sender(ANA, None) is None
    assert links_of_sender(ANA, ExecutionContext.begin(ANA)) is None


def test_a_narrowed_person_sends_narrowed() -> None:
    narrow = ExecutionContext.begin(ANA, READING)
    assert links_of_sender(ANA, narrow) == narrow.links


def test_a_message_for_another_principal_is_narrowed_too() -> None:
    links = links_of_sender(BOB, ExecutionContext.begin(ANA, READING))
    assert links is not None
    chain = DelegationChain.from_json(links)
    assert (chain.principal, chain.rights) == (BOB, READING)


@given(chains(), st.none() | chains())
def test_rights_are_at_most_those_of_both(
    acting: DelegationChain, recorded: DelegationChain | None
) -> None:
    sender = (recorded or acting).principal
    given_links = None if recorded is None else recorded.to_json()
    links = links_of_sender(sender, ExecutionContext(acting), given_links)
    rights = EVERYTHING if links is None else DelegationChain.from_json(links).rights
    assert rights.within(acting.rights)
    assert recorded is None or rights.within(recorded.rights)
