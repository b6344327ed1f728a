"""The HTTP reference, generated from the table of routes.

``python -m turntree.server.reference > docs/reference/http.md``; a test compares the two.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from turntree.server.openapi import describe_api
from turntree.server.routes import ACCOUNT_ROUTES, ROUTES

PREAMBLE: Final = """\
# The HTTP API

This page is generated: `python -m turntree.server.reference > docs/reference/http.md`.

The command `serve` puts this API on the network, below `/w/WORKSPACE/api/v1`: see [Deploy for a
team](../howto/deploy-for-a-team.md). The command `ui` serves it to its page, on 127.0.0.1 only,
below `/api/v1`. Routes that work with the files of the machine are served by `ui` alone. On both,
`/api/v1/openapi.json` describes what is served as OpenAPI 3.1. It may still change with each
release.

Over the network a request carries `Authorization: Bearer`, with an API key of the workspace
(`ttk_…`) or a token whose audience is `server:WORKSPACE`, or the cookie that `POST /login-sessions`
sets. With the cookie, and to log in, a request comes from the server's own pages: a foreign
`Origin` or `Sec-Fetch-Site` is refused, and a `POST` with the cookie names its `Origin`. Each route
names the right that it requires: the scopes of the key and the role of its holder must both permit
it. A caller who is not known gets 401, one who lacks the right 403, and what a caller may not see
is absent: 404. A request to `ui` needs the cookie that `POST /session-key` sets for the key behind
the `#` of the printed address, and a `POST` names its `Origin`.

A `POST` is `application/json` and has at most 1,000,000 bytes. One that changes something has an
`Idempotency-Key`: the same key of the same caller gets the same answer, and nothing is done twice.
`If-Match` names the turn at which the client saw a session; 412 says that it has moved, and `head`
where it is now. The `ETag` of an answer is the digest of its bytes: `If-None-Match` with it gets
304 while they are the same.

A list has at most `limit` entries and `next`, the cursor of the next page, or null at the end.
`GET /runs/{run}/events` sends server-sent events: `step` for what was recorded, `chunk` for text in
progress, and `end` with what became of the run. The `id` of each is a position: a client that sends
it as `Last-Event-ID` resumes after it. Leaving a stream cancels nothing. Over the network a person
follows at most 100 runs at a time, with all of their keys: one more gets 429.

`GET /stream` sends what changes in the workspace: `hello`, and `changed` with the turns, sessions,
runs and conversations in which something was recorded, of those that the caller may see. It resumes
in the same way, at any age of the position and on any server; `is_whole` says that more happened
than is listed. A caller who may no longer read is sent nothing more.

A revision in a path is one segment: a slash in a label is written `%2F`. An error is a
[problem](https://www.rfc-editor.org/rfc/rfc9457) in `application/problem+json`: `type`, `title`,
`status`, `detail`, often `next`, a list of what to do, and `hint`, the first of these as data.
`turntree.client` has a verb for each route of the network: [Deploy for a
team](../howto/deploy-for-a-team.md#from-python).
"""


def write_reference() -> str:
    """Return the page."""
    return "\n".join(_lines(describe_api((*ACCOUNT_ROUTES, *ROUTES))))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield PREAMBLE
    yield "## Routes\n"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"### {method.upper()} {path.removeprefix('/api/v1')}\n"
            yield f"{operation['summary']}\n"
            yield f"{_requirement(operation)}\n"
            rows = [
                (one["name"], one["in"], one.get("required", False), one["schema"])
                for one in operation["parameters"]
            ]
            body = operation.get("requestBody")
            if body is not None:
                schema = body["content"]["application/json"]["schema"]
                rows += [
                    (name, "body", name in schema["required"], member)
                    for name, member in schema.get("properties", {}).items()
                ]
            if rows:
                yield "| value | in | type |\n|---|---|---|"
                for name, place, is_required, schema in rows:
                    needed = "" if is_required else ", optional"
                    yield f"| `{name}` | {place} | {_type_of(schema)}{needed} |"
                yield ""
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    shapes = [
                        _type_of(one["schema"]) for one in response.get("content", {}).values()
                    ]
                    yield f"Answers {status}{f': {shapes[0]}' if shapes else ''}.\n"
            refusals = [status for status in operation["responses"] if status >= "4"]
            yield f"Refuses with {', '.join(refusals)}.\n"
    yield "## Values\n"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}\n"
        yield f"{schema.get('description', '').partition(chr(10))[0]}\n"
        if "properties" in schema:
            yield "| member | type |\n|---|---|"
            for member, kind in schema.get("properties", {}).items():
                yield f"| `{member}` | {_type_of(kind)} |"
            yield ""


def _requirement(operation: Mapping[str, Any]) -> str:
    """Return what a route requires of its caller, in words."""
    right = operation.get("x-turntree-right")
    words = ["Open to all." if right is None else f"Requires `{right}`."]
    if operation.get("x-turntree-local"):
        words.append("On the machine itself only.")
    return " ".join(words)


def _type_of(schema: Mapping[str, Any]) -> str:
    """Return a type in words, with a link where it is one of the values."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type_of(choice) for choice in choices)
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "prefixItems" in schema:
        return f"[{', '.join(_type_of(item) for item in schema['prefixItems'])}]"
    if schema.get("type") == "array" and schema.get("items"):
        return f"list of {_type_of(schema['items'])}"
    return str(schema.get("type", "JSON"))


if __name__ == "__main__":
    sys.stdout.write(write_reference())
