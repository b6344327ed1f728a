"""The declaration of a kind of program, as data.

The registry, the command line and the checks read it and need to know nothing else about a kind.
"""

from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Literal

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.program import Lifecycle, Program, a_kind, address_of, name_in
from turntree.core.value import value

OptionType = Literal["text", "integer", "number", "flag", "address", "json"]


@value
class Option:
    """A member of a config that has a command-line option of its own."""

    flag: str
    """As typed: ``--backend``."""
    member: str
    """The path of the member: ``model_id``, ``harness/max_steps``."""
    help: str
    type: OptionType = "text"
    many: bool = False
    """Whether it is repeatable; the member is then a list."""


@value
class DefaultReference:
    """A reference that is filled in by default with a program that matches one of our members.

    It is resolved when the config is created, among the programs of the owner and the system, and
    stored: programs that another user creates or makes private later do not change it.
    """

    member: str
    """The member to fill in: ``provider``."""
    kind: str
    theirs: str
    """The member of the other program's config to compare: ``provider_type``."""
    ours: str
    """The member of our config that must be equal to it: ``family``."""


@value
class Kind:
    """A kind of program."""

    name: str
    about: str
    """One sentence, for lists and help."""
    lifecycle: Lifecycle
    options: tuple[Option, ...] = ()
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Kinds that a member may refer to, by a pattern of its path: ``tools/*``. By default any."""
    fills: tuple[DefaultReference, ...] = ()
    move_events: Mapping[str, str] = field(default_factory=dict[str, str])
    """State changes with their own event: ``completed``, or ``error>idle`` if both ends matter."""
    earned: Mapping[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    """States reached only by an invocation, and its action: a task is checked first."""
    configured_event: str | None = None
    member_events: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members whose change has an event of its own."""
    configured_state: str | None = None
    """The state that a new version resets the program to, if any."""
    titled_by: str | None = None
    """The member given as the argument of ``create``; the name is derived from it."""
    overlays: str | None = None
    """The member that holds named overlays of the others, if any."""

    @property
    def created(self) -> str:
        """The event of a program's first version."""
        # A session exists before it is configured: its ``session.created`` is another event.
        return "session.configured" if self.name == "session" else f"{self.name}.created"

    def configured(self, before: Mapping[str, Json], after: Mapping[str, Json]) -> str:
        """Return the event of a new version."""
        for member, event in self.member_events.items():
            if before.get(member) != after.get(member):
                return event
        return self.configured_event or f"{self.name}.configured"

    def moved(self, state: str, target: str) -> str:
        """Return the event of a state change."""
        named = self.move_events
        return named.get(f"{state}>{target}") or named.get(target) or f"{self.name}.state_changed"

    def flag_of(self, member: str) -> str:
        """Return how to set a member on the command line: by its own option, or by ``--set``."""
        return next((o.flag for o in self.options if o.member == member), f"--set {member}=…")

    def check_target(self, member: str, target: Program, *, is_new: bool = True) -> None:
        """Refuse a reference to a program that does not fit the member.

        Raises:
            InvalidOperation: The program is of another kind, or is deprecated.
        """
        wanted = next(
            (kinds for way, kinds in self.targets.items() if fnmatchcase(member, way)), None
        )
        if wanted is not None and target.kind not in wanted:
            raise InvalidOperation(
                f"{member} refers to {' or '.join(map(a_kind, wanted))}, and {target.address} is "
                f"{a_kind(target.kind)}",
                hint=Hint("program.list_kind", {"kind": wanted[0]}),
            )
        if is_new and target.state == "deprecated":
            raise InvalidOperation(f"{target.address} is deprecated: nothing new refers to it")


def put_member(config: Mapping[str, Json], way: str, value: Json) -> dict[str, Json]:
    """Return a config with one member set; null removes it.

    Raises:
        InvalidOperation: The path leads through a value without members.
    """
    first, _, rest = way.partition("/")
    if not rest:
        return {k: v for k, v in {**config, first: value}.items() if v is not None}
    inner = config.get(first, {})
    if not isinstance(inner, Mapping):
        raise InvalidOperation(f"{first} has no members: {way} cannot be set")
    return {**config, first: put_member(inner, rest, value)}


def has_member(config: Mapping[str, Json], way: str, value: Json) -> bool:
    """Return whether the member at a path has a value, or is a list that contains it."""
    found: Json = dict(config)
    for name in way.split("/"):
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return found == value or (isinstance(found, list) and value in found)


def as_member(option: Option, value: Json) -> Json:
    """Return the value of an option as it is stored in the config."""
    if option.type != "address":
        return value
    match value:
        case str():
            return address_of(name_in(value))
        case list():
            return [address_of(name_in(str(one))) for one in value]
        case _:
            return value
