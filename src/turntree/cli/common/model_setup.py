"""Find out whether a model can answer before a message is stored, and set one up from a key."""

from collections.abc import Mapping

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.cli.output.text import clean
from turntree.cli.settings import merged_environment
from turntree.core.canonical import Json
from turntree.routing.route import Route


async def ensure_model(
    opened: CliContext, terminal: Terminal, route: Route, options: Mapping[str, Json]
) -> None:
    """Check that a model can answer along a route; without one, set it up from the environment.

    Nothing is stored if it cannot: a message without a model would only become a failed turn. A
    deprecated model still answers, with a warning.

    Raises:
        TurntreeError: No model can answer; the hint says what to do.
    """
    from turntree.boot.model_setup import ModelSetup

    setup = ModelSetup(opened.running, opened.settings, merged_environment())
    ready = await setup.ensure(route, options)
    if ready.choice.model.state == "deprecated":
        terminal.note(
            f"{clean(ready.choice.model.address)} is deprecated; choose another model with --model"
        )
    if (made := ready.made) is not None:
        terminal.note(
            f"{clean(ready.key or '')} is set: {clean(made.model.address)} ({clean(made.backend)}) "
            f"answers via {clean(made.provider.address)}"
        )
        terminal.note(f"undo with: turntree model set-state {clean(made.model.name)} deprecated")
