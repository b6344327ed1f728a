"""Hypothesis strategies for permissions, personas and delegation chains.

Needs Hypothesis, which Turntree itself does not. Names are short and share prefixes, so that
patterns often cover one another; all values drawn are valid.
"""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from turntree.auth.delegation import DelegationChain
from turntree.auth.permissions import KINDS, Pattern, Permissions, Right, pattern, right
from turntree.auth.persona import Identity, Persona
from turntree.core.principal import Principal, PrincipalKind
from turntree.core.turn import AGENT_ROLES

LETTERS = "ab"
NAME_CHARS_MAX = 3
LINKS_MAX = 6


def names() -> SearchStrategy[str]:
    """Draw a name that often has other names as prefixes."""
    return st.text(LETTERS, min_size=1, max_size=NAME_CHARS_MAX)


def patterns() -> SearchStrategy[Pattern]:
    """Draw a name, or a prefix followed by a star."""
    beginnings = st.text(LETTERS, max_size=NAME_CHARS_MAX - 1).map(lambda text: f"{text}*")
    return st.builds(pattern, st.sampled_from(KINDS), st.one_of(names(), beginnings))


def single_rights() -> SearchStrategy[Right]:
    """Draw one permission, one letter longer than any pattern."""
    spelt = st.text(f"{LETTERS}c", min_size=1, max_size=NAME_CHARS_MAX + 1)
    return st.builds(right, st.sampled_from(KINDS), spelt)


def rights() -> SearchStrategy[Permissions]:
    """Draw a set of permissions."""
    several = st.lists(patterns(), max_size=5).map(tuple)
    return st.builds(Permissions, several, several)


@st.composite
def chains(draw: DrawFn) -> DelegationChain:
    """Draw a chain: a root principal, then permissions narrowed and delegated."""
    root = draw(st.sampled_from([Principal("human", "ana"), Principal("system", "turntree")]))
    chain = DelegationChain.begin(root, draw(rights()))
    for number in range(draw(st.integers(0, LINKS_MAX - 1))):
        if draw(st.booleans()):
            chain = chain.child(draw(rights()))
        else:
            kind: PrincipalKind = "agent" if draw(st.booleans()) else "session"
            chain = chain.delegate(Principal(kind, f"a{number}"), draw(rights()))
    return chain


def personas() -> SearchStrategy[Persona]:
    """Draw a persona; only a private one is cleared for anything."""
    scopes = st.frozensets(st.sampled_from(["payroll", "health"]))
    return st.builds(
        Persona,
        agent=st.sampled_from(["atlas", "vera"]),
        version=st.integers(1, 9),
        identity=st.builds(Identity, st.just("Atlas"), st.sampled_from(["", "You are calm."])),
        rights=rights(),
        sandbox=st.sampled_from([None, "code"]),
        role=st.sampled_from(AGENT_ROLES),
        scopes=scopes,
    )
