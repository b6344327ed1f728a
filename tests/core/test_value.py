"""Values behave as frozen, slotted dataclasses do, and compile nothing before they are used."""

import copy
import inspect
import pickle
import sys
import weakref
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from threading import Barrier, Thread
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest

from turntree.core.errors import InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.core.message import Message, Text
from turntree.core.value import value

T = TypeVar("T")


@value
class Point:
    x: int
    y: "int" = 0
    tags: list[str] = field(default_factory=list, compare=False)
    ORIGIN: ClassVar[str] = "here"

    def __post_init__(self) -> None:
        if self.x < 0:
            raise InvalidOperation("x is negative")


@dataclass(frozen=True, slots=True)
class Model:
    """What Point would be without ``@value``."""

    x: int
    y: "int" = 0
    tags: list[str] = field(default_factory=list, compare=False)
    ORIGIN: ClassVar[str] = "here"


@value
class Deep(Point):
    z: int = 3
    sum: int = field(init=False, repr=False, default=7)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sum", self.x + self.y + self.z)


@value(kw_only=True)
class Named:
    a: int
    b: int = 1


@value
class Empty:
    pass


@value
class Box(Generic[T]):
    content: T
    secret: str = field(default="", repr=False, hash=False)


@value
class Caseless:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caseless) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


def test_value_init_takes_positions_names_and_defaults() -> None:
    assert (Point(1).x, Point(1).y, Point(1, 2).y, Point(y=5, x=4).y) == (1, 0, 2, 5)
    assert Point(1).tags is not Point(1).tags
    assert Named(a=1).b == 1


@pytest.mark.parametrize(
    ("cls", "args", "kwargs"),
    [(Point, (), {}), (Point, (1, 2, [], 4), {}), (Point, (1,), {"w": 2}), (Named, (1,), {})],
)
def test_value_init_with_wrong_arguments_raises_type_error(
    cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=rf"{cls.__name__}\.__init__"):
        cls(*args, **kwargs)


def test_value_init_runs_post_init() -> None:
    with pytest.raises(InvalidOperation):
        Point(-1)
    assert Deep(1, 2).sum == 6


def test_value_set_or_deleted_member_raises_frozen_instance_error() -> None:
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.other = 1
    assert not hasattr(point, "__dict__")


def test_value_equality_and_hash_follow_fields_and_class() -> None:
    assert Point(1, 2) == Point(1, 2, ["ignored"])
    assert Point(1, 2) != Point(2, 1)
    model: object = Model(1)
    assert Point(1) != model
    assert Point(1) != Deep(1)
    assert {Point(1), Point(1), Deep(1)} == {Point(1), Deep(1)}
    assert Box(1, "a") != Box(1, "b")
    assert hash(Box(1, "a")) == hash(Box(1, "b"))
    assert Empty() == Empty()
    assert len({Empty(), Empty()}) == 1
    assert Caseless("A") == Caseless("a")
    assert len({Caseless("A"), Caseless("a")}) == 1


def test_value_repr_is_that_of_a_dataclass() -> None:
    assert repr(Point(1, 2)) == repr(Model(1, 2)).replace("Model", "Point")
    assert repr(Deep(1)) == "Deep(x=1, y=0, tags=[], z=3)"
    assert repr(Box("seen", "hidden")) == "Box(content='seen')"
    assert repr(Empty()) == "Empty()"


def test_value_works_with_the_functions_of_dataclasses() -> None:
    some: Any = Point
    assert is_dataclass(some)
    assert [one.name for one in fields(Deep)] == ["x", "y", "tags", "z", "sum"]
    assert asdict(Point(1)) == {"x": 1, "y": 0, "tags": []}
    assert replace(Point(1, 2), x=3) == Point(3, 2)
    with pytest.raises(InvalidOperation):
        replace(Point(1), x=-1)


def test_value_matches_by_position() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("a point matches its own class")
    assert Point.__match_args__ == Model.__match_args__
    assert Named.__match_args__ == ()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "made",
    [
        Point(1, 2, ["a"]),
        Deep(1, 2),
        Named(a=1),
        Box(Point(1)),
        Message("user", (Text("hi"),)),
        (Point(1), WorkspaceId("w")),
    ],
    ids=lambda made: type(made).__name__,
)
def test_value_survives_pickling(made: object, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(made, protocol))  # noqa: S301
    assert again == made
    assert repr(again) == repr(made)


def test_value_without_fields_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Empty())) == Empty()  # noqa: S301


def test_value_unpickled_before_any_instance_was_made_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "Fresh", _make_class(), raising=False)
    data = pickle.dumps(vars(module)["Fresh"](1))
    monkeypatch.setattr(module, "Fresh", cls := _make_class())
    again = pickle.loads(data)  # noqa: S301
    assert again == cls(1)


def test_value_copies_are_equal_and_deep_ones_share_nothing() -> None:
    point = Point(1, 2, ["a"])
    assert copy.copy(point) == point
    assert copy.copy(point).tags is point.tags
    assert copy.deepcopy(point).tags == point.tags
    assert copy.deepcopy(point).tags is not point.tags


def test_value_signature_is_known_before_the_first_call() -> None:
    cls = _make_class()
    assert str(inspect.signature(cls)) == "(x: int, y: 'int' = 0) -> None"
    cls(1)
    assert get_type_hints(cls.__init__) == {"x": int, "y": int, "return": type(None)}
    assert str(inspect.signature(cls)) == "(x: int, y: 'int' = 0) -> None"


def test_value_subclass_with_an_own_init_keeps_it() -> None:
    class Pair(Point):
        def __init__(self, both: int) -> None:
            super().__init__(both, both)

    assert (Pair(2).x, Pair(2).y) == (2, 2)
    assert str(inspect.signature(Pair)) == "(both: int) -> None"


def test_value_subclass_without_decorator_keeps_its_class_and_is_frozen() -> None:
    class Plain(Point):
        """A subclass without slots of its own: its layout is another."""

    plain: Any = Plain(1, 2)
    with pytest.raises(FrozenInstanceError):
        plain.x = 2
    assert type(plain) is Plain


def test_value_init_that_raises_leaves_its_class_frozen() -> None:
    with pytest.raises(InvalidOperation):
        Point(-1)
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2
    assert type(point) is Point


def test_value_init_is_compiled_at_the_first_call_only() -> None:
    cls = _make_class()
    before = cls.__init__
    cls(1)
    compiled = cls.__init__
    cls(2)
    assert compiled is not before
    assert cls.__init__ is compiled


def test_value_first_calls_by_many_threads_all_succeed() -> None:
    cls, start, made = _make_class(), Barrier(8), []

    def make(number: int) -> None:
        start.wait()
        made.append(cls(number))

    threads = [Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.x for one in made} == set(range(8))


def test_value_weak_reference_needs_the_slot_as_in_dataclasses() -> None:
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(Point(1))

    class Loose(Point):
        """A subclass without slots of its own has a dictionary and can be referred to."""

    loose = Loose(1)
    assert weakref.ref(loose)() is loose


def _make_class() -> Any:
    @value
    class Fresh:
        x: int
        y: "int" = 0

    Fresh.__qualname__ = "Fresh"
    return Fresh
