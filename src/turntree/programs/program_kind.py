"""The interface of a kind of program, and what an invocation can access.

A kind is a class without arguments, installed under the entry points ``turntree.programs``.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from turntree.core.canonical import Json
from turntree.core.principal import Principal
from turntree.core.program import Program
from turntree.core.value import value
from turntree.notifications.notice import Notice
from turntree.programs.changes import AddNotice
from turntree.programs.kind import Kind
from turntree.sandbox.code import CommandResult


class ProgramContext(Protocol):
    """What an invocation can access: the execution host, other programs and a model.

    Its changes are recorded in the program's stream. The folder is for programs that the user of
    the process wrote, unless it is lent: any other program gets PermissionDenied.
    """

    @property
    def is_lent(self) -> bool:
        """Whether its user allowed the folder for programs of other authors."""
        ...

    async def read_file(self, path: str) -> bytes | None:
        """Return a file of the folder, or None if it does not exist.

        Raises:
            InvalidOperation: The path leads out of the folder.
        """
        ...

    async def run_command(self, command: Sequence[str], *, timeout_s: float) -> CommandResult:
        """Run a command in the folder, inside a sandbox.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
        """
        ...

    async def run_code(
        self, language: str, source: str, document: Json, *, timeout_s: float
    ) -> Json:
        """Run a program that reads one document and writes one, inside a sandbox.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
            CodeError: The program failed, or exceeded a limit.
        """
        ...

    async def notify(self, channel: str, text: str) -> bool:
        """Notify a person; returns whether the channel reached them."""
        ...

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
        notice: AddNotice | None = None,
    ) -> Program:
        """Record an event of a program, with its state change and details, and tell a person.

        Raises:
            InvalidOperation: The lifecycle forbids the change, or the caller may not.
            Conflict: The program changed since it was read.
        """
        ...

    def nonce(self) -> str:
        """Return an unguessable string."""
        ...

    async def read_notices(self) -> Sequence[Notice]:
        """Mark the unread notices of the acting person as read, and return them."""
        ...

    async def assign(self, task: Program, agent: Program) -> Program:
        """Assign a task to an agent, which creates a session for it. Returns the updated task."""
        ...

    async def ask_model(self, asked: Program, request: Mapping[str, Json]) -> Json:
        """Have a model or an agent reply; for a provider, return its models.

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
