"""Finds out whether a model can answer a message, and sets one up from a vendor's key if none can.

The command line and the page on this machine send messages for the same person: both work without
any set-up if a vendor's key is in the environment.
"""

from collections.abc import Mapping
from typing import Final

from turntree.boot.open import Settings, begin_context
from turntree.boot.vendor_models import VendorKey, VendorModel, create_model, list_keys
from turntree.boot.worker import WorkerRuntime
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, ProviderNotConfigured
from turntree.core.value import value
from turntree.programs.model_choice import Choice
from turntree.routing.route import Route

_WITHOUT_MODEL: Final = ("model.create", "model.choose")
"""Hints of the error that the user has no model of their own."""


@value
class ReadyModel:
    """The model that answers, and how it was set up."""

    choice: Choice
    key: str | None = None
    """The variable with the key from which it was set up just now."""
    made: VendorModel | None = None


@value
class ModelSetup:
    """The models of a user, and the keys from which one can be set up."""

    runtime: WorkerRuntime
    settings: Settings
    environment: Mapping[str, str]

    def find_key(self, error: InvalidOperation) -> VendorKey | None:
        """Return the key that helps against an error of ``check``; None if none would help.

        Raises:
            ProviderNotConfigured: There is no model, and no key either.
        """
        if error.hint is None or error.hint.action not in _WITHOUT_MODEL:
            return None
        keys = list_keys()
        key = next((one for one in keys if one.name in self.environment), None)
        if key is None:
            names = ", ".join(one.name for one in keys[:-1])
            raise ProviderNotConfigured(
                f"no provider wired: {error}, and none of {names} is set", hint=error.hint
            ) from error
        return key

    async def check(self, route: Route, options: Mapping[str, Json]) -> Choice:
        """Return the model that would answer a message along a route now.

        Raises:
            TurntreeError: No model can answer; the hint says what to do.
        """
        try:
            return await self.runtime.check_model(route, options)
        except ProviderNotConfigured as error:
            raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint) from error

    async def ensure(self, route: Route, options: Mapping[str, Json]) -> ReadyModel:
        """Return the model that answers along a route; without one it is set up from a key.

        Raises:
            TurntreeError: No model can answer; the hint says what to do.
        """
        try:
            return ReadyModel(await self.check(route, options))
        except InvalidOperation as error:
            if (key := self.find_key(error)) is None:
                raise
        made = await create_model(
            self.runtime.tree.programs,
            begin_context(self.settings, self.environment),
            self.settings.secret_hosts,
            self.environment,
            key,
        )
        assert made is not None, "a vendor that offers no models raises"
        return ReadyModel(await self.runtime.check_model(route, options), key.name, made)
