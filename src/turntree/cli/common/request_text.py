"""Requests as people decide about them: a command, a change of a file, or JSON.

Pure, like ``cli.output.text``. What a model wrote is shown whole: a part that is left out could be
the one that matters. So a character that a terminal would obey, or that has no width, is shown by
its number: elsewhere such characters are dropped, with the text inside of an escape sequence.
"""

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from turntree.cli.output.text import TAB_COLUMNS, age, clean, clean_block, duration
from turntree.core.canonical import Json
from turntree.core.ids import Timestamp
from turntree.policy.approval import ID_TAIL_CHARS, Approval

_COMMANDS: Final = ("command", "cmd")
_PATHS: Final = ("path", "file_path", "file")
_BEFORE: Final = ("old", "old_string", "old_text")
_AFTER: Final = ("new", "new_string", "new_text")
_CONTENTS: Final = ("content", "contents")


def short_request(one: Approval) -> str:
    """Return the end of a request's id, by which people name it."""
    return one.id[-ID_TAIL_CHARS:]


def draw_request(one: Approval, now: Timestamp) -> list[str]:
    """Return the lines that show a request."""
    where = f" in {clean(one.label)}" if one.label else f" in {clean(one.folder or one.origin)}"
    since = age(one.created_at, now)
    when = since if since == "now" else f"{since} ago"
    # Another coding agent acts as its user, who is not the one that asks.
    asker = clean(one.requested_by if one.kind != "foreign_call" else one.origin)
    asks = f"{asker} asks to call {clean(one.tool)}"
    if one.kind == "question":
        asks = f"{clean(one.tool)}, which {asker} called, asks a question"
    lines = [f"{short_request(one)}  {asks}{where}, {when}"]
    if one.reason:
        line = "" if one.line is None else f" (line {one.line} of the policy)"
        lines.append(f"    why: {clean(one.reason)}{line}")
    lines += [f"    {line}" for line in draw_subject(one)]
    if one.state == "pending" and now < one.expires_at:
        people = " or ".join(map(clean, one.answerers))
        lines.append(
            f"    {people} may answer until {one.expires_at}, {duration(now, one.expires_at)} left"
        )
    else:
        by = f" by {clean(one.decided_by)}" if one.decided_by else ""
        note = f": {clean(one.note)}" if one.note else ""
        verdict = one.verdict_at(now)
        done = "allowed" if verdict == "used" else verdict
        lines.append(f"    {done}{by}{', and made' if verdict == 'used' else ''}{note}")
    return lines


def decide_command(one: Approval) -> str:
    """Return the command that decides a request."""
    verb, rest = ("answer", " ANSWER") if one.kind == "question" else ("approve", "")
    return f"turntree {verb} {short_request(one)}{rest}"


def draw_subject(one: Approval) -> list[str]:
    """Return the lines of what is to be decided: a question, a command, a change or JSON."""
    if one.kind == "question":
        question = dict(one.question or {})
        lines = clean_block(str(question.get("message") or "(the question is part of a turn)"))
        return [*lines, *(_json(question["schema"]) if "schema" in question else [])]
    if one.args is None:
        return [f"the arguments {one.args_digest[:19]} are part of a turn, or were erased"]
    if one.state == "edited" and one.answer is not None:
        return [*draw_args(one.args), "edited:", *_json(one.answer)]
    return draw_args(one.args)


def draw_args(args: Mapping[str, Json]) -> list[str]:
    """Return arguments as a command, as a change of a file, or as JSON."""
    rest = dict(args)
    for name in _COMMANDS:
        command = rest.get(name)
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = json.dumps(command, ensure_ascii=False)
        if isinstance(command, str):
            del rest[name]
            first, *more = _exact_lines(command)
            return [f"$ {first}", *(f"  {line}" for line in more), *_rest(rest)]
    path = next((name for name in _PATHS if isinstance(rest.get(name), str)), None)
    before = next((name for name in _BEFORE if isinstance(rest.get(name), str)), None)
    after = next((name for name in _AFTER if isinstance(rest.get(name), str)), None)
    content = next((name for name in _CONTENTS if isinstance(rest.get(name), str)), None)
    if path is not None and (after is not None or content is not None):
        old = "" if before is None else str(rest.pop(before))
        new = str(rest.pop(str(after or content)))
        name = str(rest.pop(path))
        changed = difflib.unified_diff(
            _lines(old), _lines(new), f"a/{name}" if old else "/dev/null", f"b/{name}", lineterm=""
        )
        return [*(_exact(line) for line in changed), *_rest(rest)]
    return _json(rest)


def request_document(one: Approval, now: Timestamp) -> dict[str, Any]:
    """Return a request as it is printed in JSON."""
    return {
        "request": one.id, "kind": one.kind, "state": one.verdict_at(now), "tool": one.tool,
        "origin": one.origin, "args": None if one.args is None else dict(one.args),
        "args_digest": one.args_digest, "reason": one.reason, "by": one.requested_by,
        "answerers": [*one.answerers], "session": one.label, "run": one.run, "folder": one.folder,
        "policy": one.policy, "line": one.line,
        "question": None if one.question is None else dict(one.question), "at": one.created_at,
        "expires_at": one.expires_at, "decided_by": one.decided_by, "decided_at": one.decided_at,
        "note": one.note, "answer": one.answer, "allowed_digest": one.allowed_digest,
    }  # fmt: skip


def _rest(rest: Mapping[str, Json]) -> list[str]:
    return _json(dict(rest)) if rest else []


def _json(value: Json) -> list[str]:
    return _exact_lines(json.dumps(value, ensure_ascii=False, indent=2))


def _lines(text: str) -> list[str]:
    """Return the lines of a text, which end with a line feed and nothing else."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _exact_lines(text: str) -> list[str]:
    return [_exact(line) for line in text.split("\n")]


def _exact(line: str) -> str:
    """Return a line in which each character can be seen, as JSON writes those that cannot."""
    shown = line.expandtabs(TAB_COLUMNS)
    if shown.isprintable():
        return shown
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in shown)
