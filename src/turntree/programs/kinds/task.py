"""``task``: a piece of work with success criteria."""

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, TypeAdapter

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.program import Program
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.criteria import Asked, Criterion, judge
from turntree.programs.kinds.typed_config import Address, TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

_CRITERIA: Final[TypeAdapter[list[Asked]]] = TypeAdapter(list[Criterion])


class Spec(TypedConfig):
    """The inputs, outputs, constraints and success criteria of a task."""

    inputs: list[str] | None = None
    outputs: list[str] | None = None
    constraints: list[str] | None = None
    success_criteria: list[Criterion] | None = None


class TaskConfig(TypedConfig):
    """A task's description, assignee and priority."""

    title: str = Field(min_length=1)
    description: str | None = None
    spec: Spec | None = None
    assignee: Address | None = None
    priority: Literal["P0", "P1", "P2", "P3", "P4"] | None = None


class TaskKind:
    """The kind ``task``."""

    kind: Final = Kind(
        "task",
        "A piece of work with success criteria.",
        LIFECYCLES["task"],
        (
            Option("--assignee", "assignee", "Assignee: an agent or a human.", "address"),
            Option("--priority", "priority", "Priority: P0 (now) to P4 (some day)."),
            Option("--input", "spec/inputs", "Input; repeatable.", many=True),
            Option("--output", "spec/outputs", "Output; repeatable.", many=True),
            Option("--constraint", "spec/constraints", "Constraint; repeatable.", many=True),
            Option(
                "--criterion",
                "spec/success_criteria",
                'Success criterion, as JSON: {"kind": "file_exists", "path": "a.md"}.',
                "json",
                many=True,
            ),
            Option("--description", "description", "Description."),
        ),
        targets={"assignee": ("agent", "human"), "spec/success_criteria/*": ("information",)},
        move_events={
            "pending>active": "task.started",
            "completed": "task.completed",
            "failed": "task.failed",
        },
        earned={"completed": {"action": "complete"}},
        member_events={"assignee": "task.assigned"},
        titled_by="title",
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(TaskConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(TaskConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Start the work; once started, check the criteria and complete it if all are met."""
        task, action = call.program, call.request.get("action")
        if action is None:
            action = "report" if task.state == "active" else "start"
        match action:
            case "start":
                task = await call.around.tell(
                    task, self.kind.moved(task.state, "active"), to="active"
                )
                return {"task": task.name, "state": task.state}
            case "report" | "complete":
                return await _report(call, is_last=action == "complete")
            case "fail":
                reason = str(call.request.get("reason") or "")
                task = await call.around.tell(
                    task, "task.failed", to="failed", more={"reason": reason}
                )
                return {"task": task.name, "state": task.state, "reason": reason}
            case _:
                raise InvalidOperation(
                    f"unknown action {action!r} of a task: start, report, complete or fail"
                )


async def _report(call: Invocation, *, is_last: bool) -> dict[str, Json]:
    """Check every criterion, record the results, and complete the task if all are met.

    A task without criteria is completed on request only, never by a check.
    """
    task = call.program
    if is_last and task.state == "failed":
        lines = "\n".join([f"{task.address} has failed, and that is final", *_list_missed(task)])
        raise InvalidOperation(lines, hint=Hint("task.create"))
    if task.state in ("completed", "failed"):
        return {"task": task.name, "state": task.state, "verdicts": task.details.get("verdicts")}
    if is_last and task.state != "active":
        raise InvalidOperation(
            f"{task.address} is {task.state} and cannot be completed from there",
            hint=Hint("task.start", {"task": task.name}),
        )
    verdicts = await judge(_criteria(task), call.around)
    told: list[Json] = [verdict.to_json() for verdict in verdicts]
    if verdicts:
        # The evidence is from the caller's folder, and the whole workspace reads a public task.
        is_private = task.visibility == "private"
        kept: list[Json] = [verdict.to_json(is_quoted=is_private) for verdict in verdicts]
        task = await call.around.tell(task, "task.checked", sets={"verdicts": kept})
    missed = [verdict for verdict in verdicts if not verdict.ok]
    if is_last and missed:
        seen = [f"{verdict.kind}: {verdict.seen}" for verdict in missed]
        raise InvalidOperation(
            "\n".join([f"{task.address} is not done", *seen]),
            hint=Hint("program.show", {"kind": "task", "program": task.name}),
        )
    if task.state == "active" and not missed and (verdicts or is_last):
        task = await call.around.tell(task, "task.completed", to="completed")
    return {"task": task.name, "state": task.state, "verdicts": told}


def _criteria(task: Program) -> list[Asked]:
    match task.version.config.get("spec"):
        case {"success_criteria": list(criteria)}:
            return _CRITERIA.validate_python(criteria)
        case _:
            return []


def _list_missed(task: Program) -> list[str]:
    """Return the evidence of the criteria that the last check did not find met."""
    told = task.details.get("verdicts")
    known = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    return [f"{one['kind']}: {one['seen']}" for one in known if not one["ok"]]
