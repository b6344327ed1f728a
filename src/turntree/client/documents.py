"""Reads documents of the API into the values of ``wire``.

pydantic does the same on the server. To import it takes longer than most requests, so a client has
these few lines instead. A member that this version does not know is left out: a server may be newer
than its clients.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from turntree.core.errors import Unsupported

T = TypeVar("T")
_PLAIN: Final = (str, int, float, bool, Any)


def read_document(kind: type[T], document: object) -> T:
    """Return the value that a document describes.

    Raises:
        Unsupported: It lacks what this version expects of it.
    """
    try:
        return cast("T", _read(kind, document))
    except (TypeError, AttributeError, ValueError) as error:
        raise Unsupported(f"the server answers in another form than {kind.__name__}") from error


def _read(kind: Any, document: Any) -> Any:
    if is_dataclass(kind):
        make: Any = kind
        members: Mapping[str, Any] = document
        return make(
            **{
                name: _read(hint, members[name])
                for name, hint in _hints_of(make).items()
                if name in members
            }
        )
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and args[-1] is Ellipsis:
        # The columns of a large tree have a hundred thousand entries.
        return (
            tuple(document)
            if args[0] in _PLAIN
            else tuple([_read(args[0], item) for item in document])
        )
    if origin is tuple:
        return tuple([_read(hint, item) for hint, item in zip(args, document, strict=True)])
    if origin in (Union, UnionType) and document is not None:
        (known, *others) = [hint for hint in args if hint is not type(None)]
        return document if others else _read(known, document)
    return document


@cache
def _hints_of(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)
