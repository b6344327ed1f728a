"""The interface of a kind of program, and what an invocation can access.

A kind is a class without arguments, installed under the entry points ``turntree.programs``.
"""

from collections.abc import Mapping
from typing import Protocol

from turntree.core.canonical import Json
from turntree.core.principal import Principal
from turntree.core.program import Program
from turntree.core.value import value
from turntree.programs.host_port import ExecutionHost
from turntree.programs.kind import Kind


class ProgramContext(ExecutionHost, Protocol):
    """What an invocation can access: the execution host, other programs and a model.

    Its changes are recorded in the program's stream. The folder is for programs that the user of
    the process wrote, unless it is lent: any other program gets PermissionDenied.
    """

    async def is_own(self) -> bool:
        """Whether the user of the process wrote the program, in all of its versions.

        Evidence from a folder is never shown to another author.
        """
        ...

    async def get(self, name: str) -> Program:
        """Return another program.

        Raises:
            NotFound: There is none, or none that the caller may see.
        """
        ...

    async def tell(
        self,
        program: Program,
        event: str,
        *,
        to: str | None = None,
        sets: Mapping[str, Json] | None = None,
        more: Mapping[str, Json] | None = None,
    ) -> Program:
        """Record an event of a program, with its state change and details.

        Raises:
            InvalidOperation: The lifecycle forbids the change, or the caller may not.
            Conflict: The program changed since it was read.
        """
        ...

    async def assign(self, task: Program, agent: Program) -> Program:
        """Assign a task to an agent, which creates a session for it. Returns the updated task."""
        ...

    async def ask_model(self, asked: Program, request: Mapping[str, Json]) -> Json:
        """Have a model reply, or an agent's model; for a provider, return its models.

        Raises:
            ProviderNotConfigured: No provider is connected.
        """
        ...

    async def send(self, session: Program, request: Mapping[str, Json]) -> Json:
        """Send a message to a session, wait for the turn and return the reply.

        Raises:
            ProviderNotConfigured: Nothing can reply there.
        """
        ...


@value
class Invocation:
    """One invocation of a program."""

    program: Program
    request: Mapping[str, Json]
    by: Principal
    around: ProgramContext


class ProgramKind(Protocol):
    """A kind of program."""

    @property
    def kind(self) -> Kind:
        """Its declaration."""
        ...

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored: every member known, typed and in its own spelling.

        Raises:
            InvalidOperation: A member is not.
        """
        ...

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        ...

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Invoke a program of this kind, and return one document.

        Raises:
            ProviderNotConfigured: A model is needed, and none is connected.
            InvalidOperation: It cannot be done.
        """
        ...
