"""Success criteria of tasks, and how each is checked.

A criterion that cannot be checked is not met: a task is never complete only because a check was
impossible.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.value import value
from turntree.programs.json_schema import find_faults
from turntree.programs.kinds.typed_config import Address
from turntree.programs.program_kind import ProgramContext

TIMEOUT_DEFAULT_S: Final = 60.0
SHOWN_CHARS_MAX: Final = 200
QUOTING: Final = frozenset({"command", "json_schema"})
"""Criteria whose verdicts quote data: the output of a command, values of a file."""


class _Criterion(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileExists(_Criterion):
    """A file exists."""

    kind: Literal["file_exists"]
    path: str = Field(min_length=1)


class WordCount(_Criterion):
    """A file has a number of words; without a path, the file of another criterion."""

    kind: Literal["word_count"]
    path: str | None = None
    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _check_ends(self) -> "WordCount":
        if self.min is None and self.max is None:
            raise ValueError("say min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is greater than max")
        return self


class CommandSucceeds(_Criterion):
    """A command exits with status 0, inside a sandbox."""

    kind: Literal["command"]
    cmd: str | list[str]
    timeout_s: Annotated[float, Field(gt=0, le=3600)] | None = None


class JsonSchema(_Criterion):
    """A file is JSON that matches a schema, given here or by a program."""

    kind: Literal["json_schema"]
    path: str = Field(min_length=1)
    shape: Address | dict[str, JsonValue] = Field(
        validation_alias="schema", serialization_alias="schema"
    )


def _spell(value: Any) -> Any:
    """Return a criterion under our name for its kind."""
    match value:
        case {"type": kind, **rest} if "kind" not in rest:
            return {**rest, "kind": kind}
        case _:
            return value


Asked: TypeAlias = FileExists | WordCount | CommandSucceeds | JsonSchema
Criterion = Annotated[Asked, Field(discriminator="kind"), BeforeValidator(_spell)]


@value
class CriterionResult:
    """Whether a criterion is met, and the evidence."""

    kind: str
    ok: bool
    seen: str

    def to_json(self, *, is_quoted: bool = True) -> dict[str, Json]:
        """Return the document of a verdict; command output and file contents can be left out."""
        is_whole = is_quoted or self.kind not in QUOTING
        seen = self.seen if is_whole else _word_for(is_met=self.ok)
        return {"kind": self.kind, "ok": self.ok, "seen": seen}


async def judge(criteria: Sequence[Asked], around: ProgramContext) -> list[CriterionResult]:
    """Check every criterion and return a verdict for each.

    The evidence is for the owner of the folder. The author of another user's criteria could read
    any file with them, so authors learn only whether they are met.

    Raises:
        PermissionDenied: The criteria are another user's, and this folder is not lent.
    """
    is_own = await around.is_own()
    default = next((one.path for one in criteria if isinstance(one, FileExists)), None)
    verdicts: list[CriterionResult] = []
    for one in criteria:
        try:
            ok, seen = await _look(one, default, around)
        except PermissionDenied:
            raise
        except InvalidOperation as error:
            # A criterion that cannot be evaluated is not met, and says why. Raising would leave the
            # task neither done nor failed.
            ok, seen = False, str(error)
        if not is_own:
            await around.notify("terminal", f"{one.kind}: {seen[:SHOWN_CHARS_MAX]}")
            seen = _word_for(is_met=ok)
        verdicts.append(CriterionResult(one.kind, ok, seen[:SHOWN_CHARS_MAX]))
    return verdicts


def _word_for(*, is_met: bool) -> str:
    return "passed" if is_met else "failed"


async def _look(asked: Asked, default: str | None, around: ProgramContext) -> tuple[bool, str]:
    match asked:
        case FileExists(path=path):
            data = await around.read_file(path)
            return data is not None, f"{path} is {'not there' if data is None else 'there'}"
        case WordCount():
            return await _count(asked, default, around)
        case CommandSucceeds(cmd=cmd):
            words = ["sh", "-c", cmd] if isinstance(cmd, str) else cmd
            ended = await around.run_command(words, timeout_s=asked.timeout_s or TIMEOUT_DEFAULT_S)
            said = (ended.why or ended.stderr or ended.stdout).strip()
            done = ended.rc == 0 and ended.why is None
            return done, f"status {ended.rc}" + (f": {said}" if said else "")
        case JsonSchema():
            return await _match(asked, around)
        case _:
            assert_never(asked)


async def _count(asked: WordCount, default: str | None, around: ProgramContext) -> tuple[bool, str]:
    path = asked.path or default
    if path is None:
        raise InvalidOperation("no criterion says of which file the words are counted")
    data = await around.read_file(path)
    if data is None:
        return False, f"{path} is not there"
    words = len(data.decode(errors="replace").split())
    low, high = asked.min or 0, asked.max
    return low <= words and (high is None or words <= high), f"{path} has {words} words"


async def _match(asked: JsonSchema, around: ProgramContext) -> tuple[bool, str]:
    data = await around.read_file(asked.path)
    if data is None:
        return False, f"{asked.path} is not there"
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # Agents write such files, also half of one: a report, not an error of ours.
        return False, f"{asked.path} is no JSON: {error}"
    schema: Json
    if isinstance(asked.shape, str):
        program = await around.get(asked.shape)
        schema = program.version.config.get("content")
    else:
        schema = asked.shape
    if not isinstance(schema, Mapping | bool):
        raise InvalidOperation("what should say the shape is no schema")
    faults = await find_faults(schema, value)
    return not faults, "; ".join(faults) if faults else f"{asked.path} is as it should be"
