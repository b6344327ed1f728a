"""Keeps DBOS from loading pickles out of its tables.

DBOS chooses how to read a stored value by the row's own column, whatever serializer it was
configured with. A row that says ``py_pickle`` would run code of its author's choice in every
worker. This module makes every reader in DBOS refuse anything but portable JSON. It then feeds each
reader a pickle to prove it, because another version of DBOS may read its rows differently.
"""

import base64
import pickle
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any, Final, Never

from turntree.core.errors import InvalidOperation

PICKLE: Final = "py_pickle"
"""What DBOS calls a pickle in its column ``serialization``."""
READERS: Final = ("deserialize_value", "deserialize_args", "deserialize_exception")
"""Every way in which DBOS reads values: outputs, events and messages; arguments; errors."""
_loaded: Final[list[str]] = []


class PickleRefused(InvalidOperation):
    """A row of DBOS holds a pickle, which is not loaded."""


@cache
def require_portable_json() -> None:
    """Make DBOS refuse every stored value that is not portable JSON, and verify that it does.

    Raises:
        InvalidOperation: The installed DBOS loads pickles in a way that is not known here.
    """
    serialization = import_module("dbos._serialization")
    install_guard(serialization)
    check_guard(serialization)


def install_guard(serialization: ModuleType) -> None:
    """Replace what loads pickles in the modules of DBOS."""
    default: Any = getattr(serialization, "DefaultSerializer", None)
    if default is not None:
        default.deserialize = _refuse
    for module in _modules():
        # DBOS still writes errors as pickles, into rows marked as such: writing one is harmless.
        if vars(module).get("pickle") is pickle:
            vars(module)["pickle"] = _WriteOnlyPickle


def check_guard(serialization: ModuleType) -> None:
    """Give a pickle to every reader in DBOS, and check that each refuses it.

    Raises:
        InvalidOperation: One of them is missing, or loads it.
    """
    readers = [(name, vars(serialization).get(name)) for name in READERS]
    # A module that imported a reader by name holds its own reference to it.
    readers += [(n, vars(module)[n]) for module in _modules() for n in READERS if n in vars(module)]
    portable = vars(serialization).get("DBOSPortableJSON")
    if any(not _refuses(reader, portable) for _, reader in readers):
        raise InvalidOperation(
            f"DBOS {version('dbos')} would load pickled values from the database, which lets a row"
            " run code in this process; nothing was started. Install the version that Turntree was"
            " made for: pip install --upgrade 'turntree[run]'"
        )


def _modules() -> list[ModuleType]:
    return [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "dbos"]


def _refuses(reader: Callable[..., Any] | None, portable: Any) -> bool:
    _loaded.clear()
    trap = base64.b64encode(pickle.dumps(_Trap())).decode()
    try:
        if reader is not None:
            reader(trap, PICKLE, portable)
    except PickleRefused:
        return not _loaded
    return False


class _Trap:
    """An object whose unpickling leaves a trace in ``_loaded``."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return _loaded.append, ("loaded",)


class _WriteOnlyPickle:
    """The half of ``pickle`` that runs no code: ``dumps`` works, ``loads`` refuses."""

    dumps = staticmethod(pickle.dumps)

    @staticmethod
    def loads(*_: object) -> Never:
        _refuse()


def _refuse(*_: object) -> Never:
    raise PickleRefused("a row of DBOS holds a pickled value; only portable JSON is read")
