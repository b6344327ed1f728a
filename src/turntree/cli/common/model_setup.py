"""Find out whether a model can answer before a message is stored, and set one up from a key."""

from collections.abc import Mapping
from typing import Final

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.cli.output.text import clean
from turntree.cli.settings import merged_environment
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, ProviderNotConfigured
from turntree.routing.route import Route

_WITHOUT_MODEL: Final = ("model.create", "model.choose")
"""Hints of the error that the user has no model of their own."""


async def ensure_model(
    opened: CliContext, terminal: Terminal, route: Route, options: Mapping[str, Json]
) -> None:
    """Check that a model can answer along a route; without one, set it up from the environment.

    Nothing is stored if it cannot: a message without a model would only become a failed turn. A
    deprecated model still answers, with a warning.

    Raises:
        TurntreeError: No model can answer; the hint says what to do.
    """
    try:
        choice = await opened.running.check_model(route, options)
        if choice.model.state == "deprecated":
            terminal.note(
                f"{clean(choice.model.address)} is deprecated; choose another model with --model"
            )
    except ProviderNotConfigured as error:
        raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint) from error
    except InvalidOperation as error:
        if error.hint is None or error.hint.action not in _WITHOUT_MODEL:
            raise
        from turntree.boot.open import begin_context
        from turntree.boot.vendor_models import create_model, list_keys

        environment, keys = merged_environment(), list_keys()
        key = next((one for one in keys if one.name in environment), None)
        if key is None:
            names = ", ".join(one.name for one in keys[:-1])
            raise ProviderNotConfigured(
                f"no provider wired: {error}, and none of {names} is set", hint=error.hint
            ) from error
        settings = opened.settings
        context = begin_context(settings, environment)
        made = await create_model(
            opened.tree.programs, context, settings.secret_hosts, environment, key
        )
        assert made is not None, "a vendor that offers no models raises"
        terminal.note(
            f"{clean(key.name)} is set: {clean(made.model.address)} ({clean(made.backend)}) "
            f"answers via {clean(made.provider.address)}"
        )
        terminal.note(f"undo with: turntree model set-state {clean(made.model.name)} deprecated")
        await opened.running.check_model(route, options)
