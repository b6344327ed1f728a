"""The OpenAPI 3.1 document of the table of routes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from turntree.server.dispatch import JSON, PREFIX
from turntree.server.idempotency import HEADER
from turntree.server.problems import MEDIA
from turntree.server.route import IF_MATCH, ApiRoute, NoValues, adapter_of
from turntree.wire.problem import Problem

_REFERENCE: Final = "#/components/schemas/{model}"
_REFUSALS: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.BAD_REQUEST: "The write has no Idempotency-Key.",
    HTTPStatus.UNAUTHORIZED: "The server does not know the caller.",
    HTTPStatus.FORBIDDEN: "The caller may not do this.",
    HTTPStatus.NOT_FOUND: "It does not exist, or is hidden from the caller.",
    HTTPStatus.REQUEST_TIMEOUT: "The body arrived too slowly.",
    HTTPStatus.CONFLICT: "It is ambiguous, it is taken, or it has changed meanwhile.",
    HTTPStatus.GONE: "Its data is missing.",
    HTTPStatus.PRECONDITION_FAILED: "The session has moved since the client saw it.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON.",
    HTTPStatus.MISDIRECTED_REQUEST: "The server has another name.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A value is invalid, or what is asked for is not possible.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests, tries to log in, or followed runs.",
    HTTPStatus.BAD_GATEWAY: "The identity provider does not answer as it should.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database does not answer.",
}
"""Why a request is refused, by the status that says so."""
_HEADERS: Final[Mapping[HTTPStatus, dict[str, Any]]] = {
    HTTPStatus.TOO_MANY_REQUESTS: {
        "headers": {
            "Retry-After": {
                "description": "Seconds until it can be sent again, if that will help.",
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    }
}
Mode = Literal["validation", "serialization"]
_WORKSPACE: Final = {
    "name": "workspace", "in": "path", "required": True, "schema": {"type": "string"},
}  # fmt: skip
_SCHEMES: Final = {
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "turntree-PORT",
        "description": "Set by POST /session-key; the name ends in the port.",
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, ttk_…, or a token with the audience server:WORKSPACE.",
    },
    "login": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-turntree-login-WORKSPACE",
        "description": "Set by POST /login-sessions; the name ends in a digest of the workspace's.",
    },
}


def describe_api(routes: Sequence[ApiRoute], *, is_network: bool = False) -> dict[str, Any]:
    """Return the description of the routes, with one schema per type that travels.

    Over the network a path begins with the workspace, and a caller has a key or a login session.
    """
    inputs: list[tuple[Any, Mode, TypeAdapter[Any]]] = [
        (Problem, "serialization", adapter_of(Problem))
    ]
    for route in routes:
        inputs.append((route.asks, "validation", adapter_of(route.asks)))
        if route.answers is not None:
            inputs.append((route.answers, "serialization", adapter_of(route.answers)))
    schemas, shared = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    components: dict[str, Any] = shared.get("$defs", {})
    asked = {_name_of(schema) for (_, mode), schema in schemas.items() if mode == "validation"}
    beginning = f"/w/{{workspace}}{PREFIX}" if is_network else PREFIX
    accepted = ("bearer", "login") if is_network else ("cookie",)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        asks = schemas[(route.asks, "validation")]
        operation = _describe(route, components[_name_of(asks)])
        if route.answers is not None and route.media == JSON:
            answers = schemas[(route.answers, "serialization")]
            operation["responses"]["200"]["content"] = {JSON: {"schema": answers}}
        for status in sorted(_list_refusals(route, is_network=is_network)):
            operation["responses"][str(int(status))] = {"$ref": _response_reference(status)}
        if is_network:
            operation["parameters"].insert(0, _WORKSPACE)
        paths.setdefault(beginning + route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Turntree",
            "version": version("turntree"),
            "summary": "Sessions, turns and files of one workspace.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {n: s for n, s in sorted(components.items()) if n not in asked},
            "responses": {
                _response_reference(status).rpartition("/")[2]: {
                    "description": why,
                    **_HEADERS.get(status, {}),
                    "content": {MEDIA: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}},
                }
                for status, why in _REFUSALS.items()
            },
            "securitySchemes": {scheme: _SCHEMES[scheme] for scheme in accepted},
        },
        "security": [{scheme: []} for scheme in accepted],
    }


@cache
def write_openapi(routes: tuple[ApiRoute, ...], *, is_network: bool = False) -> bytes:
    """Return the description as JSON."""
    document = describe_api(routes, is_network=is_network)
    return json.dumps(document, indent=1, ensure_ascii=False).encode()


def _describe(route: ApiRoute, asks: dict[str, Any]) -> dict[str, Any]:
    """Return the operation of a route; its values are parameters, or the body of a POST."""
    members: dict[str, Any] = asks.get("properties", {})
    required = set(asks.get("required", ()))
    in_request = route.names_in_request
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": members[name]}
        for name in route.path_names
    ]
    parameters += [
        {
            "name": name.replace("_", "-"),
            "in": "header",
            "required": name in required,
            "schema": members[name],
        }
        for name in route.headers
    ]
    if route.kind == "write" and HEADER.replace("-", "_") not in route.headers:
        schema = {"type": "string", "maxLength": 200}
        parameters.append({"name": HEADER, "in": "header", "required": True, "schema": schema})
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "204" if route.answers is None and route.media == JSON else "200": {
                "description": "Done."
                if route.answers is None and route.media == JSON
                else "The answer.",
            },
        },
    }
    if route.media != JSON:
        operation["responses"]["200"]["content"] = {route.media: {"schema": {"type": "string"}}}
    if route.has_etag:
        operation["responses"]["304"] = {"description": "The client has the same bytes."}
    if route.right is None:
        operation["security"] = []
    else:
        operation["x-turntree-right"] = route.right
    if route.is_local:
        operation["x-turntree-local"] = True
    if route.method == "GET":
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": members[name]}
            for name in in_request
        ]
    elif route.is_raw:
        # Of any shape: its sender decides.
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": {}}}}
    elif route.asks is not NoValues:
        body = {
            "type": "object",
            "properties": {name: members[name] for name in in_request},
            "required": [name for name in in_request if name in required],
            "additionalProperties": False,
        }
        content = {JSON: {"schema": body}}
        operation["requestBody"] = {"required": bool(body["required"]), "content": content}
    return operation


def _list_refusals(route: ApiRoute, *, is_network: bool) -> Iterator[HTTPStatus]:
    """Yield the statuses with which a route is refused; the server's checks refuse any of them."""
    yield from (HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.FORBIDDEN)
    yield from (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE)
    if is_network or not route.is_open:
        yield HTTPStatus.UNAUTHORIZED
    if route.method == "POST":
        yield from (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        yield HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    if route.kind == "write":
        yield HTTPStatus.BAD_REQUEST
    if route.path_names or (route.method == "POST" and not route.is_open):
        yield from (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    if IF_MATCH in route.headers:
        yield HTTPStatus.PRECONDITION_FAILED
    if is_network:
        yield HTTPStatus.TOO_MANY_REQUESTS
    yield from map(HTTPStatus, route.refusals)


def _response_reference(status: HTTPStatus) -> str:
    return f"#/components/responses/{status.name.title().replace('_', '')}"


def _name_of(schema: Any) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
