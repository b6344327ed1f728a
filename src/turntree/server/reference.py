"""The HTTP reference, generated from the table of routes.

``python -m turntree.server.reference > docs/reference/http.md``; a test compares the two.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from turntree.server.openapi import describe_api
from turntree.server.routes import ROUTES

PREAMBLE: Final = """\
# The HTTP API

This page is generated: `python -m turntree.server.reference > docs/reference/http.md`.

The command `ui` serves this API to its page, on 127.0.0.1 only. `/api/v1/openapi.json` describes
it as OpenAPI 3.1. It may still change with each release.

A request needs the cookie that `POST /session-key` sets for the key behind the `#` of the printed
address. A `POST` is `application/json`, has at most 1,000,000 bytes and names its `Origin`. One
that changes something has an `Idempotency-Key` too: the same key again gets the same answer, and
nothing is done twice.

A revision in a path is one segment: a slash in a label is written `%2F`. An error is a
[problem](https://www.rfc-editor.org/rfc/rfc9457) in `application/problem+json`: `type`, `title`,
`status`, `detail`, and often `next`, a list of what to do.
"""


def write_reference() -> str:
    """Return the page."""
    return "\n".join(_lines(describe_api(ROUTES)))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield PREAMBLE
    yield "## Routes\n"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"### {method.upper()} {path.removeprefix('/api/v1')}\n"
            yield f"{operation['summary']}\n"
            rows = [
                (one["name"], one["in"], one.get("required", False), one["schema"])
                for one in operation["parameters"]
            ]
            body = operation.get("requestBody")
            if body is not None:
                schema = body["content"]["application/json"]["schema"]
                rows += [
                    (name, "body", name in schema["required"], member)
                    for name, member in schema["properties"].items()
                ]
            if rows:
                yield "| value | in | type |\n|---|---|---|"
                for name, place, is_required, schema in rows:
                    needed = "" if is_required else ", optional"
                    yield f"| `{name}` | {place} | {_type_of(schema)}{needed} |"
                yield ""
            for status, response in operation["responses"].items():
                if status != "default":
                    shapes = [
                        _type_of(one["schema"]) for one in response.get("content", {}).values()
                    ]
                    yield f"Answers {status}{f': {shapes[0]}' if shapes else ''}.\n"
    yield "## Values\n"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}\n"
        yield f"{schema.get('description', '').partition(chr(10))[0]}\n"
        if "properties" in schema:
            yield "| member | type |\n|---|---|"
            for member, kind in schema["properties"].items():
                yield f"| `{member}` | {_type_of(kind)} |"
            yield ""


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
