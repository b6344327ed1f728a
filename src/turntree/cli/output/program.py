"""Print programs, as text and JSON. Pure, like ``cli.output.text``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turntree.cli.output.text import age, clean, clean_block, digits, table
from turntree.core.canonical import Json
from turntree.core.ids import Timestamp
from turntree.core.program import Program, list_secrets, name_in
from turntree.programs.catalog import ProgramReference, VersionRow
from turntree.programs.model_choice import find_window_size


def program_document(program: Program) -> dict[str, Any]:
    """Return a program in JSON."""
    return {
        "id": program.id,
        "kind": program.kind,
        "name": program.name,
        "address": program.address,
        "owner": program.owner,
        "state": program.state,
        "visibility": program.visibility,
        "version": program.version.number,
        "digest": program.version.digest,
        "config": program.config,
        "details": program.details,
        "secrets": list_secrets(program.config),
        "tags": list(program.tags),
        "created_at": program.created_at,
        "updated_at": program.updated_at,
    }


def called(program: Program, typed: str) -> str:
    """Return a program's name as the user typed it, if its own name is a session's id."""
    return clean(name_in(typed) if program.kind == "session" else program.name)


def program_rows(programs: Sequence[Program], now: Timestamp) -> list[str]:
    """Return one line per program."""
    return table(
        [
            (
                clean(one.name),
                one.kind,
                one.state,
                f"v{one.version.number}",
                clean(one.owner),
                age(one.updated_at, now),
                _remark(one),
            )
            for one in programs
        ]
    )


def program_lines(
    program: Program,
    used: Sequence[ProgramReference],
    uses: Sequence[ProgramReference],
    now: Timestamp,
    last_active: Timestamp | None = None,
) -> list[str]:
    """Return everything about a program; of an agent also when it last acted."""
    rows = [
        (program.kind, f"{clean(program.address)}  {program.state}"),
        ("id", program.id),
        ("owner", f"{clean(program.owner)}, {program.visibility}"),
        ("version", f"{program.version.number}  {digits(program.version.digest)}"),
        ("updated", f"{program.updated_at}  ({age(program.updated_at, now)})"),
    ]
    if last_active is not None:
        rows.append(("last active", f"{last_active}  ({age(last_active, now)})"))
    rows += [("tags", clean(" ".join(program.tags)))] if program.tags else []
    rows += [("uses", f"{clean(use.program.address)} as {clean(use.member)}") for use in used]
    rows += [("used by", f"{clean(use.program.address)} as {clean(use.member)}") for use in uses]
    if program.kind == "model":
        providers = [use.program for use in used if use.member == "provider"]
        provider_type = str(providers[0].config.get("provider_type")) if providers else None
        model_id = str(program.config.get("model_id"))
        rows.append(("window", str(find_window_size(program.config, model_id, provider_type))))
    secrets = list_secrets(program.config)
    rows += [("secrets", clean(", ".join(secrets)))] if secrets else []
    rows += [(clean(name), clean(_short(value))) for name, value in program.details.items()]
    return [*table(rows), *json_lines(program.config)]


def json_lines(document: Json) -> list[str]:
    """Return a JSON document formatted for people."""
    return clean_block(json.dumps(document, indent=2, ensure_ascii=False))


def version_document(row: VersionRow) -> dict[str, Any]:
    """Return a version in JSON."""
    return {"version": row.number, "digest": row.digest, "at": row.at, "by": row.by}


def use_document(use: ProgramReference, direction: str) -> dict[str, Any]:
    """Return a reference in JSON."""
    return {
        "direction": direction,
        "member": use.member,
        "program": use.program.name,
        "kind": use.program.kind,
        "state": use.program.state,
    }


def result_lines(result: Mapping[str, Json]) -> list[str]:
    """Return the result of an invocation, formatted for people."""
    rows = [
        (clean(name), clean(_short(value)))
        for name, value in result.items()
        if not isinstance(value, Mapping | list)
    ]
    lines = table(rows) if rows else []
    for name, value in result.items():
        if isinstance(value, Mapping | list):
            lines += [clean(name), *json_lines(value)]
    return lines


def answer_lines(result: Mapping[str, Json]) -> list[str]:
    """Return the result of an invocation: for a text reply, just its text."""
    match result:
        case {"reply": {"text": str(text)}} if len(result) == 1:
            return clean_block(text)
        case _:
            return result_lines(result)


def _short(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _remark(program: Program) -> str:
    words = [] if program.visibility == "public" else ["private"]
    words += [f"#{clean(tag)}" for tag in program.tags]
    title = program.config.get("title") or program.config.get("description")
    words += [clean(str(title))[:60]] if title else []
    return ", ".join(words)
