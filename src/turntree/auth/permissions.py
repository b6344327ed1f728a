"""Permissions: patterns that allow and patterns that deny.

A permission is a kind and a name: ``tool:fs.read``, ``credential:GITHUB_TOKEN``, ``action:fork``. A
pattern is a permission, or a prefix followed by ``*``. Patterns can say no more than that, on
purpose: of any two, either one contains the other or they share nothing. So the intersection of two
sets of permissions can be written down exactly, and whether one is within another can be decided.

Deny wins, and what is not allowed is denied. No way of combining two sets of permissions gives more
than either. This module must never know who holds the permissions.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NewType, TypeAlias, cast, get_args

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

Right = NewType("Right", str)
"""One permission: ``tool:fs.read``."""

Pattern = NewType("Pattern", str)
"""A permission, or a prefix followed by ``*``: ``tool:fs.*``."""

RightKind = Literal["tool", "credential", "action"]
KINDS: Final[tuple[RightKind, ...]] = get_args(RightKind)
Effect = Literal["reads_private", "untrusted_output", "external_write", "exec", "destructive"]
"""What calling a tool may do, as the tool declares: it returns what only some may read; it returns
text that others wrote, in which instructions may be hidden; it changes or tells something outside
of the conversation; it runs commands; it overwrites or deletes."""
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)
NAME_CHARS_MAX: Final = 200
PATTERNS_MAX: Final = 1000
"""Maximum number of patterns in a set, allow and deny together."""

Document: TypeAlias = Mapping[str, Any]

_NAME: Final = re.compile(r"[^\s*\x00-\x1f\x7f]+")
_BEYOND: Final = "\0"
"""A character that no name contains: a prefix with it appended is a name no pattern lists."""


def right(kind: RightKind, name: str) -> Right:
    """Return the permission to use a tool or a credential, or to do an action.

    Raises:
        InvalidOperation: The name is invalid.
    """
    if _NAME.fullmatch(name) is None or len(name) > NAME_CHARS_MAX:
        raise InvalidOperation(f"{name[:NAME_CHARS_MAX]!r} is not a valid {kind} name")
    return Right(f"{kind}:{name}")


def pattern(kind: RightKind, text: str) -> Pattern:
    """Return a pattern for names of a kind: a name, ``*``, or a prefix followed by ``*``.

    Raises:
        InvalidOperation: The star is not at the end, or the rest is not a valid name.
    """
    beginning = text.removesuffix("*")
    if beginning or not text:
        right(kind, beginning)
    return Pattern(f"{kind}:{text}")


def read_pattern(text: object) -> Pattern:
    """Return a pattern that names its kind: ``tool:fs.*``.

    Raises:
        InvalidOperation: The kind is unknown, or the pattern is invalid.
    """
    kind, _, name = str(text).partition(":")
    for known in KINDS:
        if known == kind:
            return pattern(known, name)
    raise InvalidOperation(
        f"{text!r} is not a permission: write KIND:NAME, with a kind of {', '.join(KINDS)}"
    )


def holds(whole: Pattern, part: Pattern | Right) -> bool:
    """Whether ``whole`` covers everything that ``part`` covers."""
    if not whole.endswith("*"):
        return whole == part
    # A prefix pattern starts with its own prefix, so one comparison serves names and patterns.
    return part.startswith(whole[:-1])


@value
class Decision:
    """Whether a permission is granted, and why."""

    right: Right
    allowed: bool
    reason: str
    pattern: Pattern | None = None
    """The pattern that decided it, if any."""


@value
class Permissions:
    """A set of permissions: everything ``allow`` covers, except what ``deny`` covers."""

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        """Sort the patterns into their canonical order."""
        # The class is frozen, so the canonical order has to be set this way.
        object.__setattr__(self, "allow", _outermost(self.allow))
        object.__setattr__(self, "deny", _outermost(self.deny))
        if len(self.allow) + len(self.deny) > PATTERNS_MAX:
            raise InvalidOperation(f"a set of permissions holds at most {PATTERNS_MAX} patterns")

    def decide(self, wanted: Right) -> Decision:
        """Return whether a permission is granted, and by which pattern."""
        denied = next((one for one in self.deny if holds(one, wanted)), None)
        if denied is not None:
            return Decision(wanted, allowed=False, reason=f"{denied} is denied", pattern=denied)
        allowed = next((one for one in self.allow if holds(one, wanted)), None)
        if allowed is None:
            return Decision(wanted, allowed=False, reason=f"nothing allows {wanted}")
        return Decision(wanted, allowed=True, reason=f"{allowed} is allowed", pattern=allowed)

    def permits(self, wanted: Right) -> bool:
        """Whether a permission is granted."""
        return self.decide(wanted).allowed

    def intersect(self, other: "Permissions") -> "Permissions":
        """Return what both permit: deny wins from either side."""
        return Permissions(
            tuple(
                its if holds(mine, its) else mine
                for mine in self.allow
                for its in other.allow
                if holds(mine, its) or holds(its, mine)
            ),
            (*self.deny, *other.deny),
        )

    def narrow(
        self, *, allow: Iterable[Pattern] | None = None, deny: Iterable[Pattern] = ()
    ) -> "Permissions":
        """Return a subset: only what ``allow`` covers, nothing that ``deny`` covers."""
        kept = self if allow is None else self.intersect(Permissions(tuple(allow)))
        return Permissions(kept.allow, (*kept.deny, *deny))

    def within(self, other: "Permissions") -> bool:
        """Whether ``other`` permits everything that this permits."""
        return self.find_beyond(other) is None

    def find_beyond(self, other: "Permissions") -> Right | Pattern | None:
        """Return something that this permits and ``other`` does not, or None.

        The answer is exact. Which patterns cover a name depends only on the longest of them, or on
        the name being listed itself: one example of each is enough.
        """
        for one in (*self.allow, *self.deny, *other.allow, *other.deny):
            example = Right(one[:-1] + _BEYOND if one.endswith("*") else one)
            if self.permits(example) and not other.permits(example):
                return one
        return None

    def of_kind(self, kind: RightKind) -> "Permissions":
        """Return the permissions of one kind."""
        return Permissions(*(_of_kind(side, kind) for side in (self.allow, self.deny)))

    def to_json(self) -> dict[str, Any]:
        """Return the document: the allowed and denied names under each kind's plural."""
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
    def of_patterns(cls, allow: Iterable[object], deny: Iterable[object] = ()) -> "Permissions":
        """Return the permissions of patterns that name their kind: ``tool:fs.*``.

        Raises:
            InvalidOperation: One of them is not a pattern.
        """
        return cls(tuple(map(read_pattern, allow)), tuple(map(read_pattern, deny)))

    @classmethod
    def from_json(cls, document: Document) -> "Permissions":
        """Return the permissions of a document; a plain list is what is allowed.

        Raises:
            InvalidOperation: It has an unknown kind of permission, or an invalid pattern.
        """
        known: dict[str, RightKind] = {f"{kind}s": kind for kind in KINDS}
        if strangers := sorted(set(document) - set(known)):
            raise InvalidOperation(
                f"unknown kind of permission {strangers[0]!r}; known: {', '.join(known)}"
            )
        allow: list[Pattern] = []
        deny: list[Pattern] = []
        for plural, sides in document.items():
            kind = known[plural]
            given = cast("Document", sides) if isinstance(sides, Mapping) else {"allow": sides}
            if not set(given) <= {"allow", "deny"}:
                raise InvalidOperation(f"{plural} may hold only the lists allow and deny")
            allow += _patterns(kind, given.get("allow", ()))
            deny += _patterns(kind, given.get("deny", ()))
        return cls(tuple(allow), tuple(deny))


def read_effects(names: Iterable[object]) -> tuple[Effect, ...]:
    """Return effects in their order, each once.

    Raises:
        InvalidOperation: One of the names is not an effect.
    """
    given = list(names)
    if strangers := [name for name in given if name not in EFFECTS]:
        raise InvalidOperation(f"{strangers[0]!r} is not an effect; there are {', '.join(EFFECTS)}")
    return tuple(effect for effect in EFFECTS if effect in given)


def tools(*names: str) -> tuple[Pattern, ...]:
    """Return patterns for tools."""
    return tuple(pattern("tool", name) for name in names)


def credentials(*names: str) -> tuple[Pattern, ...]:
    """Return patterns for credentials."""
    return tuple(pattern("credential", name) for name in names)


def actions(*names: str) -> tuple[Pattern, ...]:
    """Return patterns for actions."""
    return tuple(pattern("action", name) for name in names)


def _outermost(patterns: Sequence[Pattern]) -> tuple[Pattern, ...]:
    """Return the patterns in order, without those that another one covers."""
    kept: list[Pattern] = []
    # A prefix sorts before what it covers, so looking back once is enough.
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
        raise InvalidOperation(f"the names of {kind}s must be a list, not {texts!r}")
    found: list[Pattern] = []
    for text in cast("Sequence[object]", texts):
        if not isinstance(text, str):
            raise InvalidOperation(f"{text!r} is not a valid {kind} name")
        found.append(pattern(kind, text))
    return found


NOTHING: Final = Permissions()
EVERYTHING: Final = Permissions(tuple(Pattern(f"{kind}:*") for kind in KINDS))
MANAGING: Final = actions(
    "member.manage", "key.manage", "webhook.manage", "trigger.manage", "policy.activate"
)
"""The actions that decide who may do what in a workspace: an admin's."""
ALL_BUT_CREDENTIALS: Final = Permissions((*tools("*"), *actions("*")), MANAGING)
"""What an agent without a list of permissions may do. Credentials are granted by name only, and who
may do what is for people to decide, or for an agent whose list names it."""
