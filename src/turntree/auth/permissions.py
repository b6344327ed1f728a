"""What somebody may do: rights as patterns that allow and patterns that deny.

A right is a kind and a name: ``tool:fs.read``, ``credential:GITHUB_TOKEN``, ``action:fork``. A
pattern is a right, or the beginning of rights followed by ``*``. That is all a pattern can say,
on purpose: any two either hold one another or share nothing, so what two sets of rights have in
common can be written down exactly, and whether one lies within another can be decided.

Deny wins, and what nobody allowed is denied. There is no way to put two sets of rights together
that gives more than either. This module must never know who holds the rights.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NewType, TypeAlias, cast, get_args

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

Right = NewType("Right", str)
"""One thing that may be done: ``tool:fs.read``."""

Pattern = NewType("Pattern", str)
"""A right, or the beginning of rights followed by ``*``: ``tool:fs.*``."""

RightKind = Literal["tool", "credential", "action"]
KINDS: Final[tuple[RightKind, ...]] = get_args(RightKind)
NAME_CHARS_MAX: Final = 200
PATTERNS_MAX: Final = 1000
"""How many patterns a set of rights may hold, allowing and denying together."""

Document: TypeAlias = Mapping[str, Any]

_NAME: Final = re.compile(r"[^\s*\x00-\x1f\x7f]+")
_BEYOND: Final = "\0"
"""A sign that no name holds: with it behind, a beginning is a name that nobody wrote down."""


def right(kind: RightKind, name: str) -> Right:
    """Return the right to use a tool or a credential of that name, or to do an action.

    Raises:
        InvalidOperation: That is no name.
    """
    if _NAME.fullmatch(name) is None or len(name) > NAME_CHARS_MAX:
        raise InvalidOperation(f"{name[:NAME_CHARS_MAX]!r} is no name of a {kind}")
    return Right(f"{kind}:{name}")


def pattern(kind: RightKind, text: str) -> Pattern:
    """Return the pattern for names of a kind: a name, ``*``, or a beginning with ``*`` behind.

    Raises:
        InvalidOperation: The star stands elsewhere, or the rest is no name.
    """
    beginning = text.removesuffix("*")
    if beginning or not text:
        right(kind, beginning)
    return Pattern(f"{kind}:{text}")


def holds(whole: Pattern, part: Pattern | Right) -> bool:
    """Say whether everything that ``part`` stands for is stood for by ``whole``."""
    if not whole.endswith("*"):
        return whole == part
    # A beginning followed by a star begins as itself does, so one comparison serves both.
    return part.startswith(whole[:-1])


@value
class Decision:
    """Whether a right is there, and why."""

    right: Right
    allowed: bool
    reason: str
    pattern: Pattern | None = None
    """The pattern that decided it, if one did."""


@value
class Permissions:
    """What may be done: whatever one of ``allow`` holds and none of ``deny``."""

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        """Put the patterns in the one order in which they are written."""
        # The dataclass is frozen for everybody else.
        object.__setattr__(self, "allow", _outermost(self.allow))
        object.__setattr__(self, "deny", _outermost(self.deny))
        if len(self.allow) + len(self.deny) > PATTERNS_MAX:
            raise InvalidOperation(f"a set of rights holds at most {PATTERNS_MAX} patterns")

    def decide(self, wanted: Right) -> Decision:
        """Say whether a right is there, and which pattern says so."""
        denied = next((one for one in self.deny if holds(one, wanted)), None)
        if denied is not None:
            return Decision(wanted, allowed=False, reason=f"{denied} is denied", pattern=denied)
        allowed = next((one for one in self.allow if holds(one, wanted)), None)
        if allowed is None:
            return Decision(wanted, allowed=False, reason=f"nothing allows {wanted}")
        return Decision(wanted, allowed=True, reason=f"{allowed} is allowed", pattern=allowed)

    def permits(self, wanted: Right) -> bool:
        """Say whether a right is there."""
        return self.decide(wanted).allowed

    def intersect(self, other: "Permissions") -> "Permissions":
        """Return what both permit: deny wins from either side."""
        return Permissions(
            tuple(
                _meet(mine, its) for mine in self.allow for its in other.allow if _touch(mine, its)
            ),
            (*self.deny, *other.deny),
        )

    def narrow(
        self, *, allow: Iterable[Pattern] | None = None, deny: Iterable[Pattern] = ()
    ) -> "Permissions":
        """Return fewer of these rights: only what ``allow`` holds, nothing that ``deny`` holds."""
        kept = self if allow is None else self.intersect(Permissions(tuple(allow)))
        return Permissions(kept.allow, (*kept.deny, *deny))

    def within(self, other: "Permissions") -> bool:
        """Say whether ``other`` permits everything that this permits."""
        return self.find_beyond(other) is None

    def find_beyond(self, other: "Permissions") -> Right | Pattern | None:
        """Return something that this permits and ``other`` does not, or None.

        The answer is exact. Which patterns hold a name depends only on the longest of them, or on
        the name being written down itself: one example of each is enough.
        """
        for one in (*self.allow, *self.deny, *other.allow, *other.deny):
            example = Right(one[:-1] + _BEYOND if one.endswith("*") else one)
            if self.permits(example) and not other.permits(example):
                return one
        return None

    def of_kind(self, kind: RightKind) -> "Permissions":
        """Return the rights of one kind."""
        return Permissions(*(_of_kind(side, kind) for side in (self.allow, self.deny)))

    def to_json(self) -> dict[str, Any]:
        """Return the document: under each kind's plural what is allowed and what is denied."""
        document: dict[str, Any] = {}
        for kind in KINDS:
            sides = {
                "allow": [one.partition(":")[2] for one in _of_kind(self.allow, kind)],
                "deny": [one.partition(":")[2] for one in _of_kind(self.deny, kind)],
            }
            if any(sides.values()):
                document[f"{kind}s"] = {name: side for name, side in sides.items() if side}
        return document

    @classmethod
    def from_json(cls, document: Document) -> "Permissions":
        """Return the rights a document stands for; a plain list is what is allowed.

        Raises:
            InvalidOperation: It has a member that is no kind of right, or a pattern that is none.
        """
        known: dict[str, RightKind] = {f"{kind}s": kind for kind in KINDS}
        if strangers := sorted(set(document) - set(known)):
            raise InvalidOperation(
                f"{strangers[0]!r} is no kind of right; there are {', '.join(known)}"
            )
        allow: list[Pattern] = []
        deny: list[Pattern] = []
        for plural, sides in document.items():
            kind = known[plural]
            given = cast("Document", sides) if isinstance(sides, Mapping) else {"allow": sides}
            if not set(given) <= {"allow", "deny"}:
                raise InvalidOperation(f"{plural} has lists to allow and to deny, and nothing else")
            allow += _patterns(kind, given.get("allow", ()))
            deny += _patterns(kind, given.get("deny", ()))
        return cls(tuple(allow), tuple(deny))


def tools(*names: str) -> tuple[Pattern, ...]:
    """Return patterns for tools."""
    return tuple(pattern("tool", name) for name in names)


def credentials(*names: str) -> tuple[Pattern, ...]:
    """Return patterns for credentials."""
    return tuple(pattern("credential", name) for name in names)


def actions(*names: str) -> tuple[Pattern, ...]:
    """Return patterns for actions."""
    return tuple(pattern("action", name) for name in names)


def _touch(one: Pattern, other: Pattern) -> bool:
    return holds(one, other) or holds(other, one)


def _meet(one: Pattern, other: Pattern) -> Pattern:
    """Return the smaller of two patterns of which one holds the other."""
    return other if holds(one, other) else one


def _outermost(patterns: Sequence[Pattern]) -> tuple[Pattern, ...]:
    """Return the patterns in order, without those that another one holds."""
    kept: list[Pattern] = []
    # A shorter beginning sorts before what it holds, so looking back once is enough.
    for one in sorted(
        set(patterns), key=lambda each: (each.removesuffix("*"), not each.endswith("*"))
    ):
        if not (kept and holds(kept[-1], one)):
            kept.append(one)
    return tuple(kept)


def _of_kind(patterns: Sequence[Pattern], kind: RightKind) -> tuple[Pattern, ...]:
    return tuple(one for one in patterns if one.startswith(f"{kind}:"))


def _patterns(kind: RightKind, texts: object) -> list[Pattern]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidOperation(f"the names of {kind}s stand in a list, not {texts!r}")
    found: list[Pattern] = []
    for text in cast("Sequence[object]", texts):
        if not isinstance(text, str):
            raise InvalidOperation(f"{text!r} is no name of a {kind}")
        found.append(pattern(kind, text))
    return found


NOTHING: Final = Permissions()
EVERYTHING: Final = Permissions(tuple(Pattern(f"{kind}:*") for kind in KINDS))
