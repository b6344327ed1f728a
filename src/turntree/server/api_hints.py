"""Turns the hint of an error into the next request of an API client.

The command line shows a command for the same hint (``cli/hints.py``). A client over the network has
no command line on the server, so what only an operator can do is said in words.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from turntree.core.errors import Hint

STEPS: Final[Mapping[str, str]] = {
    "config.allow_webhook": "ask the operator of this server to permit {host} for webhooks",
    "config.list": "tell the operator of this server",
    "conversation.list": "GET {prefix}/conversations",
    "conversation.post": 'POST {prefix}/conversations/{/conversation}/posts {{"text": "TEXT"}}',
    "conversation.set_triage": 'POST {prefix}/conversations/{/conversation}/triage {{"on": false}}',
    "conversation.show": "GET {prefix}/conversations/{/conversation}",
    "key.list": "ask an admin of the workspace",
    "member.list": "ask an admin of the workspace",
    "member.promote": "ask an admin of the workspace",
    "member.role": "ask an admin of the workspace",
    "model.choose": "name a model in the message: GET {prefix}/runs/preview lists them",
    "model.create": "ask an admin of the workspace to create a model and its provider",
    "model.set_provider": "ask the owner of {model} to choose a provider for it",
    "program.grant": "ask the owner of {program} to grant {access} to {grantee}",
    "run.tail": "GET {prefix}/runs/{/run}/events",
    "session.create": 'POST {prefix}/sessions {{"label": "LABEL"}}',
    "session.fork": 'POST {prefix}/sessions {{"label": "LABEL", "at": {"revision}}}',
    "session.list": "GET {prefix}/sessions",
    "session.rename": 'POST {prefix}/acts/rename {{"session": {"session}, "label": "LABEL"}}',
    "session.unarchive": 'POST {prefix}/acts/restore {{"session": {"session}}}',
    "turn.rerun": "POST {prefix}/runs again, with a new Idempotency-Key",
    "trigger.list": "GET {prefix}/triggers",
    "webhook.list": "GET {prefix}/webhooks",
    "worker.start": "tell the operator of this server to start a worker",
}
"""A sentence or a request for each action: ``{/run}`` is part of a path, ``{"session}`` JSON."""


def step_finder(workspace: str) -> Callable[[Hint], str | None]:
    """Return what finds the next step of a client in a workspace."""
    prefix = f"/w/{quote(workspace, safe='')}/api/v1"

    def find(hint: Hint) -> str | None:
        template = STEPS.get(hint.action)
        if template is None:
            return None
        words = {"prefix": prefix}
        for name, given in hint.arguments.items():
            text = given if isinstance(given, str) else ", ".join(given)
            words |= {name: text, f"/{name}": quote(text, safe=""), f'"{name}': json.dumps(text)}
        try:
            return template.format_map(words)
        except KeyError:
            # An event may hold the hint of a newer version, with other arguments.
            return None

    return find
