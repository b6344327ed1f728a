"""Python functions as tools, described by their signatures.

A function's name, docstring and parameters become the tool's. Arguments are validated before the
call, and whatever it returns or raises becomes a result. A function learns about its run only if it
has a parameter of type ``ToolContext``.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_jsonable_python

from turntree.auth.permissions import Effect, read_effects
from turntree.core.canonical import Json, as_text, tidy
from turntree.core.errors import InvalidOperation
from turntree.core.message import ToolResult, ToolUse
from turntree.core.value import value
from turntree.models.prompt import TOOL_TIMEOUT_MAX_S, TOOL_TIMEOUT_S, ToolSpec
from turntree.tools.isolation import IsolatedLoop, call_here, call_in_thread
from turntree.tools.toolset import ToolContext, ToolFile, ToolReply

F = TypeVar("F", bound=Callable[..., Any])
_MARK: Final = "__turntree_tool__"


@value
class ToolMeta:
    """How a function is presented and handled as a tool."""

    name: str | None = None
    description: str | None = None
    is_repeatable: bool = False
    timeout_s: float = TOOL_TIMEOUT_S
    is_read_only: bool = False
    effects: tuple[Effect, ...] | None = None


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    is_repeatable: bool = False,
    timeout_s: float = TOOL_TIMEOUT_S,
    is_read_only: bool = False,
    effects: Sequence[Effect] | None = None,
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    is_repeatable: bool = False,
    timeout_s: float = TOOL_TIMEOUT_S,
    is_read_only: bool = False,
    effects: Sequence[Effect] | None = None,
) -> F | Callable[[F], F]:
    """Mark a function as a tool; the function itself is returned unchanged.

    ``is_repeatable`` promises that the function is idempotent: only such a call is repeated after a
    crash. ``is_read_only`` promises that it changes no file, so that its calls need no snapshot of
    the session's folder. ``effects`` are what a call may do; a tool that declares none counts as
    having them all.

    Raises:
        InvalidOperation: ``timeout_s`` is out of range, or an effect is unknown.
    """
    if not 0 < timeout_s <= TOOL_TIMEOUT_MAX_S:
        raise InvalidOperation(
            f"timeout_s is {timeout_s:g}: it is more than 0 and at most {TOOL_TIMEOUT_MAX_S:g} "
            "seconds. What takes longer is begun by one tool and looked up by another"
        )
    declared = None if effects is None else read_effects(effects)
    mark = ToolMeta(name, description, is_repeatable, timeout_s, is_read_only, declared)

    def put(marked: F) -> F:
        setattr(marked, _MARK, mark)
        return marked

    return put if function is None else put(function)


function_tool = tool
"""An alias for the package's namespace, where ``tool`` creates a message."""


@value
class _Function:
    call: Callable[..., Any]
    spec: ToolSpec
    shape: type[BaseModel]
    occasion: str | None
    """The name of the ``ToolContext`` parameter, if there is one."""


@dataclass(slots=True)
class FunctionTools:
    """A toolset of Python functions. Implements ``Toolset``."""

    functions: Sequence[Callable[..., Any]]
    apart: IsolatedLoop | None = None
    """The loop for async functions; None means the caller's."""
    name: str = "worker"
    """The server that calls of these functions name."""
    _known: dict[str, _Function] = field(init=False)

    def __post_init__(self) -> None:
        """Read the functions.

        Raises:
            InvalidOperation: Two functions have the same name, or a parameter has no type.
        """
        self._known = {}
        for function in self.functions:
            read = _read(function)
            if read.spec.name in self._known:
                raise InvalidOperation(f"two tools are called {read.spec.name}")
            self._known[read.spec.name] = read

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The specs of the functions, in the order they were given."""
        return tuple(known.spec for known in self._known.values())

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult | ToolReply:
        """Call the function of a tool with validated arguments."""
        known = self._known[use.tool]
        try:
            given = known.shape.model_validate({} if use.args is None else use.args)
        except ValidationError as error:
            # The model reads which argument was wrong and can call again.
            return ToolResult(use.call_id, "error", _complaint(error))
        arguments = {name: getattr(given, name) for name in type(given).model_fields}
        if known.occasion is not None:
            arguments[known.occasion] = occasion
        function = partial(known.call, **arguments)
        # A synchronous function would block the loop, and with it every other run of the worker.
        if not inspect.iscoroutinefunction(known.call):
            ended = await call_in_thread(function)
        elif self.apart is None:
            ended = await call_here(function)
        else:
            ended = await self.apart.call(function)
        if ended.error is not None:
            return ToolResult(use.call_id, "error", ended.said)
        if (pieces := _pieces(ended.value)) is not None:
            return ToolReply(use.call_id, "ok", pieces)
        # A value without a canonical form becomes text.
        return ToolResult(use.call_id, "ok", tidy(to_jsonable_python(ended.value, fallback=str)))


def _pieces(value: Any) -> tuple[str | ToolFile, ...] | None:
    """Return the texts and files that a function returned; None where it returned no file."""
    values: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    if not any(isinstance(one, ToolFile) for one in values):
        return None
    return tuple(
        one
        if isinstance(one, ToolFile | str)
        else as_text(tidy(to_jsonable_python(one, fallback=str)))
        for one in values
    )


def _read(function: Callable[..., Any]) -> _Function:
    mark: ToolMeta = getattr(function, _MARK, ToolMeta())
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    occasion = None
    for name, parameter in inspect.signature(function).parameters.items():
        # Without types the model would have to guess, and nothing would check its guess.
        if name not in hints:
            raise InvalidOperation(f"{function.__name__}: the parameter {name} has no type")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidOperation(
                f"{function.__name__}: a tool takes named parameters, not {parameter}"
            )
        if hints[name] is ToolContext:
            occasion = name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (_described(hints[name]), default)
    # ``forbid``: an argument that is silently ignored would leave the model believing it had an
    # effect.
    shape = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    schema = shape.model_json_schema()
    # The function's name is not part of its arguments' schema.
    parameters: dict[str, Json] = {key: schema[key] for key in schema if key != "title"}
    spec = ToolSpec(
        mark.name or function.__name__,
        mark.description or inspect.getdoc(function) or "",
        parameters,
        mark.is_repeatable,
        mark.timeout_s,
        is_read_only=mark.is_read_only,
        effects=mark.effects,
    )
    return _Function(function, spec, shape, occasion)


def _described(hint: Any) -> Any:
    """Return a type whose string annotation becomes the parameter's description."""
    if get_origin(hint) is Annotated:
        base, *notes = get_args(hint)
        told = [Field(description=note) if isinstance(note, str) else note for note in notes]
        return Annotated[base, *told]
    return hint


def _complaint(error: ValidationError) -> str:
    wrong = [
        f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors()
    ]
    return "the arguments do not fit: " + "; ".join(wrong)
