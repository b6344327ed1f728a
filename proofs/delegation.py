"""Rights only ever shrink: along chains of delegation, in tokens, and in forks under a persona.

Chains are drawn at random and judged twice: by the product, and by a second opinion that knows no
algebra. It spells every name of a small universe out and asks of each link, by the rules of a
shell's patterns, whether the name may pass. Names are longer than any pattern and hold a letter
that none has, so whatever two sets of rights differ in, they differ in one of these names.

Then the same is asked of products with a planted fault, each of which must be found.
"""

import fnmatch
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from unittest import mock

from proofs.figures import Proof, run
from turntree.auth.delegation import DelegationChain, DelegationLink
from turntree.auth.permissions import KINDS, Pattern, Permissions, pattern, right
from turntree.auth.persona import Identity, Persona
from turntree.auth.persona_fork import PersonaForkRequest, decide_fork
from turntree.auth.token import TokenLimits, issue, narrow, open_token
from turntree.core.errors import PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal, PrincipalKind

CHAINS: Final = 400_000
CHAINS_QUICK: Final = 100_000
TOKENS_SHARE: Final = 10
"""One chain in so many travels as a token too."""
CHAINS_CONTROL: Final = 2_000
LINKS_MAX: Final = 6
DECISIONS_EACH: Final = 3
LETTERS, STRANGER = "ab", "c"
PATTERN_CHARS_MAX: Final = 2
KEY: Final = b"delegation proof key, 32 bytes.."
NOON, LATER = Timestamp("2026-11-15T12:00:00.000Z"), Timestamp("2026-11-15T13:00:00.000Z")

Combine = Callable[[Sequence[Permissions]], Permissions]
"""What is left of the rights of a chain's links."""


async def prove(proof: Proof) -> None:
    """Draw chains, compare both opinions, then look for planted faults."""
    count = CHAINS_QUICK if proof.quick else CHAINS
    started = time.perf_counter()
    chance = random.Random(proof.seed)
    found = judge(draw_chains(chance, count), honest, chance)
    proof.at_least("chains of delegation", found.chains, "chains", 100_000)
    proof.at_least("links that narrowed or handed on", found.links, "links", 100_000)
    proof.at_most("steps after which something more was permitted", found.wider, "steps", 0)
    proof.at_most("chains on which the two opinions differ", found.differing, "chains", 0)
    proof.at_most("chains that decided otherwise on a name", found.misjudged, "chains", 0)
    proof.at_most("pairs whose order was judged wrongly", found.misordered, "pairs", 0)
    proof.note("share of chains that permit anything at their end", found.alive / found.chains, "")
    prove_tokens(proof, count // TOKENS_SHARE)
    prove_forks(proof, count // TOKENS_SHARE)
    prove_controls(proof)
    proof.note("time", time.perf_counter() - started, "s")


@dataclass(slots=True)
class Found:
    """What looking at many chains showed."""

    chains: int = 0
    links: int = 0
    wider: int = 0
    differing: int = 0
    misjudged: int = 0
    misordered: int = 0
    alive: int = 0


def judge(chains: Iterator[DelegationChain], combine: Combine, chance: random.Random) -> Found:
    """Compare what a product says of chains with what the second opinion says."""
    found = Found()
    for chain in chains:
        found.chains += 1
        found.links += len(chain.links) - 1
        rights = [link.rights for link in chain.links]
        before = expected = EVERY_NAME
        for length in range(1, len(rights) + 1):
            permitted = names_of(combine(rights[:length]))
            expected &= names_of(rights[length - 1])
            found.wider += permitted & ~before != 0
            before = permitted
        found.differing += before != expected
        found.misjudged += misjudged(chain, expected, chance)
        found.alive += bool(expected)
        one, other = rights[0], rights[-1]
        found.misordered += one.within(other) != (names_of(one) & ~names_of(other) == 0)
    return found


def misjudged(chain: DelegationChain, expected: int, chance: random.Random) -> bool:
    """Say whether a decision on one of a few names is another than the second opinion's."""
    places = [chance.randrange(len(UNIVERSE)) for _ in range(DECISIONS_EACH)]
    return any(chain.decide(UNIVERSE[n]).allowed != bool(expected >> n & 1) for n in places)


def honest(links: Sequence[Permissions]) -> Permissions:
    """Combine rights as the product does."""
    named = [
        DelegationLink("human", "ana", links[0]),
        *(DelegationLink("agent", f"a{n}", r) for n, r in indexed(links)),
    ]
    return DelegationChain(tuple(named)).rights


def indexed(links: Sequence[Permissions]) -> Iterator[tuple[int, Permissions]]:
    """Return every link but the first with its place."""
    return enumerate(links[1:])


def names_of(rights: Permissions) -> int:
    """Return the names that patterns permit by the rules of a shell, a bit for each."""
    allowed = denied = 0
    for one in rights.allow:
        allowed |= MATCHES[one]
    for one in rights.deny:
        denied |= MATCHES[one]
    return allowed & ~denied


def prove_tokens(proof: Proof, count: int) -> None:
    """A token that anybody narrowed permits what the chain does, and no forgery opens."""
    chance = random.Random(proof.seed + 1)
    differing = wider = opened = forged = lasting = 0
    for chain in draw_chains(chance, count):
        first, *rest = chain.links
        token = issue(
            DelegationChain((first,)), key=KEY, nonce="01234567", audience="run", expires_at=LATER
        )
        for link, before in zip(rest, chain.links, strict=False):
            same = str(link) == str(before)
            to = None if same else Principal(link.kind, link.id)
            token = narrow(token, rights=link.rights, to=to)
        arrived = open_token(token, key=KEY, audience="run", now=NOON).chain
        differing += arrived != chain
        wider += not arrived.rights.within(first.rights)
        forged += 1
        opened += opens(forge(chance, token))
        ended = narrow(token, limits=TokenLimits(expires_at=NOON))
        # A later block cannot give it more time.
        lasting += opens(ended) + opens(narrow(ended, limits=TokenLimits(expires_at=LATER)))
    proof.at_most("tokens that arrived as another chain", differing, "tokens", 0)
    proof.at_most("tokens that permitted more than they were issued with", wider, "tokens", 0)
    proof.note("forged tokens", forged, "tokens")
    proof.at_most("forged tokens that opened", opened, "tokens", 0)
    proof.at_most("tokens that opened after one of their ends", lasting, "tokens", 0)


def forge(chance: random.Random, token: str) -> str:
    """Return a token with a block taken away, exchanged or changed, or another signature."""
    recipe, *blocks, signature = token.split(".")
    match chance.randrange(4):
        case 0 if len(blocks) > 1:
            del blocks[-1]
        case 1 if len(blocks) > 1 and blocks[0] != blocks[1]:
            blocks[0], blocks[1] = blocks[1], blocks[0]
        case 2:
            place = chance.randrange(len(blocks[-1]) - 1)
            sign = "A" if blocks[-1][place] != "A" else "B"
            blocks[-1] = blocks[-1][:place] + sign + blocks[-1][place + 1 :]
        case _:
            signature = ("A" if signature[0] != "A" else "B") + signature[1:]
    return ".".join((recipe, *blocks, signature))


def opens(token: str) -> bool:
    """Say whether a token is accepted."""
    try:
        open_token(token, key=KEY, audience="run", now=NOON)
    except PermissionDenied:
        return False
    return True


def prove_forks(proof: Proof, count: int) -> None:
    """A fork under another persona gives no right that the persona or the caller lacks."""
    chance = random.Random(proof.seed + 2)
    wider = silent = leaked = 0
    for _ in range(count):
        rights, known = draw_rights(chance), draw_scopes(chance)
        target = Persona("atlas", 1, Identity("Atlas"), rights, role="worker", scopes=known)
        asked = PersonaForkRequest(
            source=draw_rights(chance),
            scopes=draw_scopes(chance),
            target=target,
            caller=draw_rights(chance),
            may_read=chance.random() < 0.8,
            owner_grants=chance.random() < 0.5,
            confirmed=chance.random() < 0.5,
        )
        decided = decide_fork(asked)
        permitted = names_of(target.permitted)
        wider += names_of(decided.rights) != permitted & names_of(asked.caller)
        escalates = permitted & ~names_of(asked.source) != 0
        agreed = asked.owner_grants and asked.confirmed
        silent += decided.verdict == "allow" and escalates and not agreed
        leaked += decided.verdict != "deny" and (
            not asked.may_read or not asked.scopes <= target.scopes
        )
    proof.note("forks under another persona", count, "forks")
    proof.at_most("forks with other rights than both sides have", wider, "forks", 0)
    proof.at_most("forks that escalated without grant and confirmation", silent, "forks", 0)
    proof.at_most("forks of what may not be read or known", leaked, "forks", 0)


def prove_controls(proof: Proof) -> None:
    """Every planted fault is found, and soon."""
    chance = random.Random(proof.seed)
    for name, planted in FAULTS.items():
        found = judge(draw_chains(chance, CHAINS_CONTROL), planted, chance)
        caught = found.wider + found.differing
        proof.at_least(f"control: {name} is found", caught, "faults", 1)
    # And one in the product itself, through which everything else goes as it always does.
    with mock.patch.object(
        Permissions, "intersect", lambda one, other: Permissions(other.allow, one.deny)
    ):
        found = judge(draw_chains(random.Random(proof.seed), CHAINS_CONTROL), honest, chance)
    proof.at_least("control: a product that widens is found", found.wider, "faults", 1)


def last_wins(links: Sequence[Permissions]) -> Permissions:
    """Hand on rights without asking what the chain permits."""
    return links[-1]


def forgotten_denials(links: Sequence[Permissions]) -> Permissions:
    """Intersect what is allowed, and keep the newest denials only."""
    return Permissions(honest(links).allow, links[-1].deny)


def larger_half(links: Sequence[Permissions]) -> Permissions:
    """Keep the larger of two patterns of which one holds the other."""
    kept = links[0]
    for rights in links[1:]:
        allow = [
            min(one, other, key=len)
            for one in kept.allow
            for other in rights.allow
            if one.startswith(other.removesuffix("*")) or other.startswith(one.removesuffix("*"))
        ]
        kept = Permissions(tuple(allow), (*kept.deny, *rights.deny))
    return kept


def joined(links: Sequence[Permissions]) -> Permissions:
    """Add rights up."""
    every = [one for rights in links for one in rights.allow]
    return Permissions(tuple(every), tuple(one for rights in links for one in rights.deny))


def skipped_link(links: Sequence[Permissions]) -> Permissions:
    """Look at the first and the last link of a chain, and at nobody between them."""
    return honest([links[0], links[-1]]) if len(links) > 1 else links[0]


FAULTS: Final[dict[str, Combine]] = {
    "a chain that takes the last link's word": last_wins,
    "a chain that forgets denials": forgotten_denials,
    "an intersection that keeps the larger pattern": larger_half,
    "an intersection that adds up": joined,
    "a chain that skips the links between": skipped_link,
}


def draw_chains(chance: random.Random, count: int) -> Iterator[DelegationChain]:
    """Draw chains of every length, each link narrowing or handing on."""
    for _ in range(count):
        root = Principal("system" if chance.random() < 0.2 else "human", "ana")
        chain = DelegationChain.begin(root, draw_rights(chance))
        for number in range(chance.randrange(LINKS_MAX)):
            rights = draw_rights(chance)
            if chance.random() < 0.4:
                chain = chain.child(rights)
            else:
                kind: PrincipalKind = "agent" if chance.random() < 0.7 else "session"
                chain = chain.delegate(Principal(kind, f"a{number}"), rights)
        yield chain


def draw_rights(chance: random.Random) -> Permissions:
    """Draw one of many sets of rights; most allow a good deal, or nothing would be left."""
    allow = chance.choices(PATTERNS, weights=WEIGHTS, k=chance.randrange(1, 5))
    return Permissions(tuple(allow), tuple(chance.sample(PATTERNS, k=chance.choice([0, 0, 1, 2]))))


def draw_scopes(chance: random.Random) -> frozenset[str]:
    """Draw what a thread holds or a persona is cleared for."""
    return frozenset(chance.sample(["payroll", "health"], chance.randrange(3)))


def spell(letters: str, length: int) -> Iterator[str]:
    """Return every word of a length."""
    return ("".join(word) for word in itertools.product(letters, repeat=length))


def all_patterns() -> list[Pattern]:
    """Return every pattern up to a length, for every kind of right."""
    words = [word for n in range(PATTERN_CHARS_MAX + 1) for word in spell(LETTERS, n)]
    texts = [*(word for word in words if word), *(f"{word}*" for word in words)]
    return [pattern(kind, text) for kind in KINDS for text in texts]


UNIVERSE: Final = [
    right(kind, word)
    for kind in KINDS
    for length in range(1, PATTERN_CHARS_MAX + 2)
    for word in spell(LETTERS + STRANGER, length)
]
EVERY_NAME: Final = (1 << len(UNIVERSE)) - 1
PATTERNS: Final = all_patterns()
WEIGHTS: Final = [8 if len(one.partition(":")[2]) == 1 else 1 for one in PATTERNS]
MATCHES: Final = {
    one: sum(fnmatch.fnmatchcase(name, one) << n for n, name in enumerate(UNIVERSE))
    for one in PATTERNS
}
"""What a shell would say of every pattern and every name."""


if __name__ == "__main__":
    run(prove, "rights only ever shrink")
