"""The client against the library's facets, and against the table of routes."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

import pytest

import turntree.client
from turntree.api import Tree
from turntree.auth.api_keys import ApiKeys
from turntree.auth.authorizer import Authorizer
from turntree.auth.identities.service import Identities
from turntree.auth.invitations import Invitations
from turntree.auth.logins.service import LoginSessions
from turntree.auth.members import Members
from turntree.client.client import Client
from turntree.client.runs import MessageOptions, RunsApi
from turntree.conversations.service import Conversations
from turntree.ledger.graph.causes import Causes
from turntree.ledger.session_store import SessionStore
from turntree.ledger.sessions import Sessions
from turntree.ledger.shape import Shape
from turntree.ledger.store import Tags
from turntree.ledger.turns import ThreadReader, Turns
from turntree.notifications.service import Inbox
from turntree.resources.blame import LineBlame
from turntree.resources.files import Files
from turntree.runs.approving.approvals import Approvals
from turntree.runs.model_context import ModelContexts
from turntree.runs.service import PostOptions, Runs
from turntree.search.service import Search
from turntree.server.routes import NETWORK_ROUTES
from turntree.triggers.service import Triggers
from turntree.webhooks.service import Webhooks

FACETS: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "sessions": (Sessions, SessionStore),
    "turns": (Turns, Tags),
    "threads": (ThreadReader,),
    "runs": (Runs,),
    "search": (Search,),
    "shape": (Shape,),
    "files": (Files, LineBlame),
    "contexts": (ModelContexts,),
    "causes": (Causes,),
    "authority": (Authorizer,),
    "stats": (),
    "inbox": (Inbox,),
    "approvals": (Approvals,),
    "conversations": (Conversations,),
    "webhooks": (Webhooks,),
    "triggers": (Triggers,),
    "members": (Members,),
    "invitations": (Invitations,),
    "keys": (ApiKeys,),
    "login_sessions": (LoginSessions,),
    "identities": (Identities,),
}
"""The library's classes behind each facet of the client."""
NOT_IN_THE_LIBRARY: Final[Mapping[str, str]] = {
    "turns.get_text": "The library's turn has the whole text of every part.",
    "turns.get_raw": "The library reads the bytes in `threads.find_stored`, the records elsewhere.",
    "turns.get_sealed": "The library reads turns and what is beside them in calls of their own.",
    "turns.list_sealed": "The library reads turns and what is beside them in calls of their own.",
    "threads.read_sealed": "The library's `threads.read` returns values of turns.",
    "turns.share": "The library shares a thread with `boot.sharing`, which no facet has.",
    "threads.diff": "The library compares the files of two turns as those of two snapshots.",
    "files.blame": "The library's `tree.blame` is a facet of its own, and finds lines by resource.",
    "runs.preview": "The library's `runs.route` and a worker's `check_model` say it in parts.",
    "runs.list_unfinished": "The library lists runs, messages and failures in calls of their own.",
    "stats.list_costs": "The library's figures have no facet.",
}
"""The verbs that only the client has, and why."""
OTHER_PARAMETERS: Final[Mapping[str, tuple[set[str], str]]] = {
    "sessions.list_page": ({"project", "agent", "words", "figures"}, "The server filters lists."),
    "sessions.create": (set(), ""),
    "search.__call__": ({"after"}, "A page of results is continued."),
    "files.list_entries": ({"revision"}, "The server finds the resource and its state."),
    "files.diff": ({"revision", "path"}, "The server finds the resource and its states."),
    "files.read": ({"revision"}, "The server finds the resource and its state."),
    "causes.explain": (set(), ""),
    "inbox.list_page": ({"cursor"}, "A page is continued."),
    "invitations.create": ({"expires_in_days"}, "The server counts days by its own clock."),
    "triggers.create": ({"allow"}, "Patterns travel as text."),
    "keys.create": (
        {"allow", "expires_in_days"},
        "Patterns travel as text, and the server counts days by its own clock.",
    ),
}
"""The parameters that only a verb of the client has, and why."""
LOGIN: Final = "Browsers log in and out with it; a client has a key."
WITHOUT_A_VERB: Final[Mapping[str, str]] = {
    "POST /first-key": "It makes the key that a client begins with; the page of the link calls it.",
    "POST /accepted-invitations": "It makes the key that a client begins with.",
    "GET /stream": "It says what to read again on a page; a program follows runs.",
    "POST /hooks/{trigger}": "Another system calls it, with a signature instead of a key.",
    "POST /login-sessions": LOGIN,
    "POST /login-previews": LOGIN,
    "POST /logout": LOGIN,
    "GET /identity-provider": LOGIN,
    "POST /identity-logins": LOGIN,
    "POST /identity-logins/finish": LOGIN,
}
"""The routes that no verb reaches, and why."""


def verbs() -> Iterator[tuple[str, Any]]:
    """Yield the name and the function of each verb of a facet."""
    client = Client("https://a.example/w/team", "ttk_any")
    for facet in FACETS:
        kind = type(getattr(client, facet))
        for name, member in vars(kind).items():
            if inspect.isfunction(member) and (not name.startswith("_") or name == "__call__"):
                if name == "__call__" and facet != "search":
                    continue
                yield f"{facet}.{name}", member


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a method besides ``self`` and its options."""
    found = inspect.signature(function).parameters
    return {
        name: one
        for name, one in found.items()
        if name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD
    }


def find_in_library(name: str) -> Any:
    """Return the verb of the same name, or None."""
    facet, _, verb = name.partition(".")
    return next((vars(one)[verb] for one in FACETS[facet] if verb in vars(one)), None)


@pytest.mark.parametrize(("name", "function"), [*verbs()], ids=[name for name, _ in verbs()])
def test_verb_is_called_as_in_the_library(name: str, function: Any) -> None:
    own = find_in_library(name)
    assert (own is None) == (name in NOT_IN_THE_LIBRARY), name
    if own is None:
        return
    theirs, only_here = parameters(own), OTHER_PARAMETERS.get(name, (set[str](), ""))[0]
    ours = parameters(function)
    assert ours.keys() - theirs.keys() == only_here
    for shared in ours.keys() & theirs.keys():
        assert ours[shared].kind == theirs[shared].kind, shared
    # What has to be said in the library may not be silently left out here, in the same order.
    required = [
        one for one, told in theirs.items() if told.default is inspect.Parameter.empty
    ]  # fmt: skip
    if not only_here:
        assert [one for one in ours if one in required] == required


def test_every_facet_of_the_client_is_one_of_a_tree() -> None:
    client = Client("https://a.example/w/team", "ttk_any")
    facets = {name for name in vars(client) if not name.startswith("_")} - {"address"}
    assert facets == FACETS.keys()
    assert facets - set(dir(Tree)) == {"stats"}


def test_options_of_a_message_are_options_of_the_library() -> None:
    assert get_type_hints(MessageOptions).keys() <= get_type_hints(PostOptions).keys()
    for verb in ("post", "ask"):
        has_options = [
            one.kind is inspect.Parameter.VAR_KEYWORD
            for one in inspect.signature(getattr(RunsApi, verb)).parameters.values()
        ]
        assert any(has_options), verb


def requested() -> set[str]:
    """Return the routes that the source of the client asks for."""
    found: set[str] = set()
    for path in Path(turntree.client.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="get" | "post" | "stream" as verb),
                    args=[ast.Constant(value=str(route)), *_],
                ) if route.startswith("/"):
                    found.add(f"{'POST' if verb == 'post' else 'GET'} {route}")
                case _:
                    pass
    return found


def test_every_network_route_has_a_verb_or_a_reason() -> None:
    routes = {f"{route.method} {route.path}" for route in NETWORK_ROUTES}
    assert requested() - routes == set()
    assert routes - requested() == set(WITHOUT_A_VERB)


def test_client_loads_neither_the_ledger_nor_a_server() -> None:
    """It starts fast, and runs where there is no database."""
    code = (
        "import sys, turntree.client; print(*sorted(name for name in sys.modules"
        " if name.startswith(('turntree.', 'psycopg', 'pydantic', 'starlette'))))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {".".join(name.split(".")[:2]) for name in ended.stdout.split()}
    assert loaded == {"turntree.client", "turntree.core", "turntree.system", "turntree.wire"}
