"""What was granted, what was used, what was denied, and what that adds up to.

A grant, a use and a denial are facts; this module writes and reads what such an event holds, and
folds many of them into one report. It judges by the recorded facts alone: it must never ask what
somebody may do today.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from turntree.auth.delegation import Chain
from turntree.auth.permissions import Decision, Pattern, Right, Rights, actions, holds
from turntree.core.canonical import Json
from turntree.core.errors import Refused
from turntree.core.event import Event
from turntree.core.ids import Digest, Instant
from turntree.core.principal import Principal
from turntree.core.value import value

GRANTED: Final = "permission.granted"
USED: Final = "permission.used"
DENIED: Final = "permission.denied"
KINDS: Final = (GRANTED, USED, DENIED)

READING: Final = Pattern("action:read")
"""Reading leaves no event, so nobody can say that it was never used."""

FindingKind = Literal["ungranted", "widened", "unreadable", "denied", "unused"]


@value
class Grant:
    """Somebody was handed rights: by an event, or by the permissions that a turn pins."""

    session: str | None
    """The label of the session it happened in."""
    at: Instant
    who: Principal
    rights: Rights
    is_widened: bool = False
    """Whether the rights go beyond what the chain of delegation leaves of them."""


@value
class Judgement:
    """A right was asked for: it was used, or it was denied."""

    session: str | None
    at: Instant
    who: Principal
    right: Right
    allowed: bool
    reason: str


@value
class Unreadable:
    """A fact that should tell of permissions and does not."""

    session: str | None
    at: Instant
    why: str


Fact: TypeAlias = Grant | Judgement | Unreadable


@value
class Row:
    """How often somebody had to do with a right in a session."""

    session: str | None
    who: str
    right: str
    times: int
    last_at: Instant
    reason: str = ""


@value
class Finding:
    """Something a person should look at."""

    kind: FindingKind
    session: str | None
    who: str
    right: str
    sentence: str


@value
class Audit:
    """The report; each list is sorted by session, principal and right."""

    granted: tuple[Row, ...]
    used: tuple[Row, ...]
    denied: tuple[Row, ...]
    unused: tuple[Row, ...]
    findings: tuple[Finding, ...]


def granted_data(chain: Chain, *, persona: Digest | None = None) -> dict[str, Json]:
    """Return what the event of a grant holds."""
    said: dict[str, Json] = {
        "by": chain.principal.to_json(),
        "links": chain.to_json(),
        "permissions": chain.rights.to_json(),
        "persona": persona,
    }
    return {name: value for name, value in said.items() if value is not None}


def judged_data(who: Principal, decision: Decision) -> dict[str, Json]:
    """Return what the event of a use or of a denial holds."""
    said: dict[str, Json] = {
        "by": who.to_json(),
        "permission": decision.right,
        "reason": decision.reason,
        "pattern": decision.pattern,
    }
    return {name: value for name, value in said.items() if value is not None}


def kind_of(decision: Decision) -> str:
    """Return the kind of the event that a decision leaves."""
    return USED if decision.allowed else DENIED


def read_fact(event: Event, session: str | None) -> Fact:
    """Return what an event of one of the three kinds tells."""
    data: Mapping[str, Any] = event.data
    try:
        who = Principal.from_json(data["by"])
        if event.kind == GRANTED:
            chain, rights = Chain.from_json(data["links"]), Rights.from_json(data["permissions"])
            widened = chain.principal != who or not rights.within(chain.rights)
            return Grant(session, event.at, who, rights, widened)
        return Judgement(
            session, event.at, who, Right(data["permission"]), event.kind == USED, data["reason"]
        )
    except (AttributeError, KeyError, TypeError, Refused) as error:
        return Unreadable(session, event.at, f"{event.kind} cannot be read: {error}")


def read_share(event: Event, session: str | None) -> Fact:
    """Return what an event tells by which somebody was let into a session."""
    data: Mapping[str, Any] = event.data
    try:
        kind, _, id = data["to"].partition(":")
        who = Principal.from_json({"kind": kind, "id": id})
        return Grant(session, event.at, who, Rights(actions(data["access"])))
    except (AttributeError, KeyError, TypeError, Refused) as error:
        return Unreadable(session, event.at, f"{event.kind} cannot be read: {error}")


def read_turn(
    session: str | None,
    at: Instant,
    who: Principal,
    permissions: Mapping[str, Any],
    tools: Iterable[str],
) -> list[Fact]:
    """Return what a sealed turn tells: the permissions it pins and the tools it used."""
    try:
        granted: Fact = Grant(session, at, who, Rights.from_json(permissions))
    except (TypeError, Refused) as error:
        granted = Unreadable(session, at, f"the permissions of a turn cannot be read: {error}")
    uses = [
        Judgement(session, at, who, Right(f"tool:{tool}"), allowed=True, reason="the turn used it")
        for tool in tools
    ]
    return [granted, *uses]


def concerns(fact: Fact, agent: str) -> bool:
    """Say whether an agent acts in a fact, or somebody acts on its behalf."""
    acting: Principal | None = None if isinstance(fact, Unreadable) else fact.who
    while acting is not None:
        if (acting.kind, acting.id) == ("agent", agent):
            return True
        acting = acting.on_behalf_of
    return False


def audit(facts: Iterable[Fact], *, since: Instant | None = None) -> Audit:
    """Return the report on facts in the order in which they happened.

    Grants from before ``since`` count as granted, for what is used later leans on them; uses and
    denials from before it are left out.
    """
    tallies: dict[_Holder, _Tally] = {}
    strange: list[Finding] = []
    for fact in facts:
        if isinstance(fact, Unreadable):
            if since is None or fact.at >= since:
                strange.append(Finding("unreadable", fact.session, "", "", fact.why))
            continue
        tally = tallies.setdefault((fact.session, _told(fact.who)), _Tally({}, {}, {}, {}, []))
        if isinstance(fact, Grant):
            tally.grant(fact)
        elif since is None or fact.at >= since:
            tally.judge(fact)
    order = sorted(tallies, key=lambda holder: (holder[0] or "", holder[1]))
    folded = [(holder, tallies[holder]) for holder in order]
    return Audit(
        granted=_rows((holder, tally.granted) for holder, tally in folded),
        used=_rows((holder, tally.used) for holder, tally in folded),
        denied=_rows((holder, tally.denied) for holder, tally in folded),
        unused=_rows((holder, tally.unused) for holder, tally in folded),
        findings=(*strange, *(one for holder, tally in folded for one in tally.findings(holder))),
    )


_Holder: TypeAlias = tuple[str | None, str]
"""A session and who acted in it."""


@value
class _Count:
    times: int
    last_at: Instant
    reason: str


@dataclass(slots=True)
class _Tally:
    """What one principal had to do with rights in one session."""

    granted: dict[str, _Count]
    used: dict[str, _Count]
    denied: dict[str, _Count]
    ungranted: dict[str, _Count]
    grants: list[Rights]
    is_widened: bool = False

    def grant(self, fact: Grant) -> None:
        self.grants.append(fact.rights)
        self.is_widened |= fact.is_widened
        for one in fact.rights.allow:
            _count(self.granted, one, fact.at, "")

    def judge(self, fact: Judgement) -> None:
        if not fact.allowed:
            _count(self.denied, fact.right, fact.at, fact.reason)
            return
        _count(self.used, fact.right, fact.at, fact.reason)
        # Facts come in order, so a grant that was made afterwards does not help.
        if not any(rights.permits(fact.right) for rights in self.grants):
            _count(self.ungranted, fact.right, fact.at, fact.reason)

    @property
    def unused(self) -> dict[str, _Count]:
        return {
            one: count
            for one, count in self.granted.items()
            if one != READING and not any(holds(Pattern(one), Right(used)) for used in self.used)
        }

    def findings(self, holder: _Holder) -> Iterable[Finding]:
        session, who = holder
        if self.is_widened:
            sentence = f"{who} was granted more than the chain of delegation leaves"
            yield Finding("widened", session, who, "", sentence)
        for one, count in sorted(self.ungranted.items()):
            sentence = f"{who} used {one} {_often(count)} without a grant"
            yield Finding("ungranted", session, who, one, sentence)
        for one, count in sorted(self.denied.items()):
            sentence = f"{who} was denied {one} {_often(count)}: {count.reason}"
            yield Finding("denied", session, who, one, sentence)
        for one in sorted(self.unused):
            sentence = f"{who} was granted {one} and never used it"
            yield Finding("unused", session, who, one, sentence)


def _count(counts: dict[str, _Count], key: str, at: Instant, reason: str) -> None:
    before = counts.get(key)
    counts[key] = _Count(1 if before is None else before.times + 1, at, reason)


def _rows(folded: Iterable[tuple[_Holder, Mapping[str, _Count]]]) -> tuple[Row, ...]:
    return tuple(
        Row(session, who, one, count.times, count.last_at, count.reason)
        for (session, who), counts in folded
        for one, count in sorted(counts.items())
    )


def _told(who: Principal) -> str:
    """Return who acts for whom: ``agent:atlas for human:ana``."""
    names: list[str] = []
    acting: Principal | None = who
    while acting is not None:
        names.append(str(acting))
        acting = acting.on_behalf_of
    return " for ".join(names)


def _often(count: _Count) -> str:
    return "once" if count.times == 1 else f"{count.times} times"
