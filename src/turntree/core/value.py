"""``@value``: a frozen, slotted dataclass whose ``__init__`` is compiled at its first call.

``@dataclass(frozen=True, slots=True)`` compiles six methods of each class while its module is
imported: 0.65 ms a class where this was measured, and half of the CPU time of listing a thread on
the command line, because a process imports far more classes than it ever makes instances of.
``@value`` asks ``dataclasses`` for fields, slots and ``__match_args__`` only, which takes 0.05 ms,
shares one implementation of the methods that need no source, and compiles ``__init__`` when an
instance is first made. The method could also be taken from a twin that ``make_dataclass`` built,
but to build one takes five times as long.

Everything that works with a dataclass works with a value: ``replace``, ``fields``, ``asdict``,
``match``, subclasses, ``__post_init__``, ``copy`` and ``pickle``. ``InitVar`` is not supported.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable
from operator import attrgetter
from types import new_class
from typing import Any, Final, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_MISSING: Final = dataclasses.MISSING
_PLAIN_STORES_MIN: Final = 3
"""Fields from which on ``_open_class`` pays: entering and leaving it costs as much as two calls."""
_SET_CLASS: Final = vars(object)["__class__"].__set__
_Fields = tuple["dataclasses.Field[Any]", ...]


@overload
def value(cls: type[T], /) -> type[T]: ...
@overload
def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def value(cls: type[Any] | None = None, /, *, kw_only: bool = False) -> Any:
    """Return the class as an immutable value; fields work as in ``dataclasses``."""

    def wrap(plain: type[Any]) -> type[Any]:
        own = {name for name, member in vars(plain).items() if member is not None}
        if not plain.__doc__:  # Otherwise dataclasses would write the signature there, slowly.
            plain.__doc__ = plain.__name__
        made: type[Any] = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=True, kw_only=kw_only
        )(plain)
        methods = _shared_methods(dataclasses.fields(made))
        methods["__init__"] = _compile_at_first_call(made)
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        if "__init__" not in own:
            made.__signature__ = _SignatureOfInit(made)
        return made

    return wrap if cls is None else wrap(cls)


class Facet:
    """Offers its methods and properties, and hides what it is made of from completion."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """Return the public methods and properties; fields are the parts it works with."""
        classes = reversed(type(self).__mro__[:-1])
        members = {name: member for cls in classes for name, member in vars(cls).items()}
        return sorted(
            name
            for name, member in members.items()
            if not name.startswith("_") and (callable(member) or isinstance(member, property))
        )


def _shared_methods(fields: _Fields) -> dict[str, Callable[..., Any]]:
    compared = _reader([field.name for field in fields if field.compare])
    hashed = _reader(
        [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    )
    shown = [field.name for field in fields if field.repr]

    def is_equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def compute_hash(self: Any) -> int:
        return hash(hashed(self))

    def represent(self: Any) -> str:
        members = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({members})"

    return {
        "__eq__": is_equal,
        "__hash__": compute_hash,
        "__repr__": represent,
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        # Without these two, pickle and copy would set slots by the __setattr__ that refuses.
        "__getstate__": _get_state,
        "__setstate__": _set_state,
    }


def _reader(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads these members of an instance as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        (name,) = names
        return lambda instance: (getattr(instance, name),)
    return lambda _: ()


def _compile_at_first_call(cls: type[Any]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        # Two threads may both get here; the second replaces the method with an equal one.
        compiled = _compile_init(cls)
        cls.__init__ = compiled
        compiled(self, *args, **kwargs)

    return __init__


def _compile_init(cls: type[Any]) -> Callable[..., None]:
    """Return the ``__init__`` that ``dataclasses`` would write for a frozen class."""
    fields = dataclasses.fields(cls)
    given: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": _MISSING, "_cls": cls}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    stored: dict[str, str] = {}
    for field in fields:
        name, default, make = field.name, field.default, field.default_factory
        if default is not _MISSING:
            given[f"_default_{name}"] = default
        elif make is not _MISSING:
            given[f"_make_{name}"] = make
        if field.init:
            source = (
                f"{name}=_default_{name}" if default is not _MISSING
                else f"{name}=_MISSING" if make is not _MISSING
                else name
            )  # fmt: skip
            (named if field.kw_only else positional).append(source)
        if make is not _MISSING:
            condition = f"if {name} is _MISSING: " if field.init else ""
            body.append(f"{condition}{name} = _make_{name}()")
            stored[name] = name
        elif field.init:
            stored[name] = name
        elif default is not _MISSING:
            stored[name] = f"_default_{name}"
    calls = [f"_set(self, {name!r}, {source})" for name, source in stored.items()]
    if len(stored) < _PLAIN_STORES_MIN:
        body += calls
    else:
        given |= {"_set_class": _SET_CLASS, "_open": _open_class(cls)}
        body += [
            "if self.__class__ is _cls:",
            "  _set_class(self, _open)",
            *(f"  self.{name} = {source}" for name, source in stored.items()),
            "  self.__class__ = _cls",
            "else:",
            *(f"  {call}" for call in calls),
        ]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    source = "\n  ".join([f" def __init__({arguments}):", *(body or ["pass"])])
    made: dict[str, Any] = {}
    # With the globals of its module, where string annotations can be looked up.
    scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    exec(f"def _make({', '.join(given)}):\n{source}\n return __init__", scope, made)  # noqa: S102
    init: Callable[..., None] = made["_make"](**given)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init}
    init.__annotations__["return"] = None
    return init


def _open_class(cls: type[Any]) -> type[Any]:
    """Return a class of the same layout whose members can be set.

    ``__init__`` gives an instance this class while it stores the members, because a frozen class
    makes each of them a call of ``object.__setattr__``: three to four times the CPU time for the
    fourteen members of a turn's header. Loading a thread makes twenty values for each turn. No
    other code sees the instance before it is frozen again.
    """
    # Both methods, because they are one slot: with either in Python, a store is a call again.
    members = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
    }
    return new_class(cls.__name__, (cls,), exec_body=lambda namespace: namespace.update(members))


class _SignatureOfInit:
    """Answers ``inspect.signature`` of a class whose ``__init__`` was not compiled yet."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature:
        if owner.__init__ is not self.cls.__init__:
            raise AttributeError("__signature__")  # A subclass that has its own.
        full = inspect.signature(_compile_init(self.cls))
        return full.replace(parameters=list(full.parameters.values())[1:])


def _refuse_to_set(_: object, name: str, __: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, member in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, member)
