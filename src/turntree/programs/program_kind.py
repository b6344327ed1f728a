"""What a kind of program is made of, and what it may reach when it is invoked.

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
    """What an invocation may reach: the workplace, other programs and a model.

    Whatever it changes is told in the program's stream. The folder is for programs that the user
    of the process wrote, unless it is lent: every other is Denied.
    """

    async def is_own(self) -> bool:
        """Say whether the user of the process wrote the program, in all of its versions.

        What is seen in a folder is told to no other author.
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
        """Record a fact of a program, with the move and the details that become true by it.

        Raises:
            InvalidOperation: The move is not lawful, or the caller may not.
            Conflict: The program changed since it was read.
        """
        ...

    async def assign(self, task: Program, agent: Program) -> Program:
        """Give a task to an agent: a session begins for it. Returns the task as it is then."""
        ...

    async def ask_model(self, asked: Program, request: Mapping[str, Json]) -> Json:
        """Have a model answer, or the one that an agent asks; a provider says which it has.

        Raises:
            ProviderNotConfigured: None is wired.
        """
        ...

    async def send(self, session: Program, request: Mapping[str, Json]) -> Json:
        """Send a message to a session, wait for the turn and return what was answered.

        Raises:
            ProviderNotConfigured: Nobody answers there.
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
        """What it declares of itself."""
        ...

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored: every member known, typed and in its own spelling.

        Raises:
            InvalidOperation: Something in it is not.
        """
        ...

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        ...

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Do what a program of this kind is for, and return one document.

        Raises:
            ProviderNotConfigured: A model would have to answer.
            InvalidOperation: It cannot be done.
        """
        ...
