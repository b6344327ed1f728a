"""``tree.programs``: the registry, and what invoking a program does.

The kind implements the invocation; this module gives it its context, and commits its events
together with their consequences: an agent is idle once its task has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from turntree.auth.run_rights import links_of_sender
from turntree.core.canonical import Json
from turntree.core.errors import (
    Conflict,
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    ProviderNotConfigured,
)
from turntree.core.ids import Digest
from turntree.core.principal import ACTIVE, Actor, Principal
from turntree.core.program import (
    Program,
    ProgramVersion,
    Right,
    Visibility,
    a_kind,
)
from turntree.core.value import value
from turntree.ledger.sessions import first_free_label
from turntree.notifications.notice import Notice
from turntree.notifications.service import Inbox
from turntree.notifications.store import NoticeStore
from turntree.programs.changes import AddNotice, Change, ChangeProgram, CreateProgram, tell
from turntree.programs.execution_host import LocalFolder
from turntree.programs.lifecycles import DELETED
from turntree.programs.program_kind import Invocation
from turntree.programs.registry import Registry
from turntree.sandbox.code import CommandResult

Spoken = Callable[[str], None]
"""Receives the text of a reply as it arrives."""
ENSURE_ATTEMPTS = 8
"""How often ``ensure`` reads a program that other processes create or change meanwhile."""
_ENDED = ("completed", "failed")
_STOPPED = (*_ENDED, "blocked")
"""States of a task that is no longer worked on."""


def unheard(words: str) -> None:
    """Ignore partial text: the caller waits for the complete reply."""


class InferenceBackend(Protocol):
    """Asks models, where one is available."""

    async def ask(
        self,
        programs: "Programs",
        asked: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Have a model or an agent reply to one message; ``told`` is that of ``invoke``."""
        ...

    async def send(
        self,
        programs: "Programs",
        session: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Send a message to a session and return the reply; ``told`` is that of ``invoke``."""
        ...

    async def list_models(self, provider: Program) -> Json:
        """Return the names of the models that a provider has."""
        ...

    def with_runs(self, find_runs: Callable[[], Any]) -> "InferenceBackend":
        """Return the same for another principal; messages are sent with the given ``Runs``."""
        ...


@value
class Programs(Registry):
    """Everything that has an address."""

    workplace: LocalFolder | None = None
    voices: InferenceBackend | None = None
    """None if no model is available."""
    user: Principal | None = None
    """The owner of this process and its folder; ``by`` may be another principal that it serves."""
    context: Actor | None = None
    """With which rights ``by`` acts, where no other context was entered; None stands for all."""

    async def create(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Json],
        *,
        visibility: Visibility = "public",
        owner: Principal | None = None,
    ) -> Program:
        """Create a program with its first config. For a session the name is its label.

        A task whose config has an assignee is assigned at once.

        Raises:
            InvalidOperation: The config is not valid for this kind, or refers to a program that
                does not fit.
            NotFound: There is no such kind, or a program that is named does not exist.
            Conflict: The name is taken.
            PermissionDenied: The owner is another principal, and only the system may set one.
        """
        changes = await self.beginning(kind, name, config, visibility, owner or self.by)
        begun = next(change for change in changes if isinstance(change, CreateProgram))
        # The task and its assignment in one commit: a task that exists without its agent would wait
        # for ever.
        if kind == "task" and config.get("assignee") is not None:
            checked, _ = await self.check(self.kind(kind), config)
            at = self.world.now()
            version = ProgramVersion(1, checked, begun.version.digest, str(self.by))
            task = Program(
                begun.program, kind, name, begun.owner, begun.state, visibility, version, {}, at, at
            )
            changes += await self._assignment(task, await self.get(str(checked["assignee"])))
        await self.commit(*changes)
        return await self.get(begun.program)

    async def ensure(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Json],
        *,
        visibility: Visibility | None = None,
    ) -> Program:
        """Return a program that has exactly this config: created, changed, or as it is.

        A program is created once, and a changed config becomes its next version, so a script may
        call this each time it starts, in several processes at once. A member that Turntree filled
        in stays: the only provider that fits a model, the assignee of a task. The visibility of an
        existing program changes only if one is given.

        Raises:
            InvalidOperation: The config is not valid for this kind, or the name belongs to a
                program of another kind.
            NotFound: There is no such kind, or a program that is named does not exist.
            Conflict: The name is taken by a program that this principal may not see.
            PermissionDenied: The config differs, and this principal may not configure it.
        """
        attempts = 0
        while True:
            try:
                program = await self.find(name)
                if program is None:
                    return await self.create(kind, name, config, visibility=visibility or "public")
                if program.kind != kind:
                    raise InvalidOperation(
                        f"{program.address} is {a_kind(program.kind)}, not {a_kind(kind)}",
                        hint=Hint("program.show", {"kind": program.kind, "program": program.name}),
                    )
                filled = {fill.member for fill in self.kind(kind).kind.fills}
                if kind == "task":
                    filled.add("assignee")
                stored = program.version.config
                kept = {one: stored[one] for one in filled if one in stored}
                # Checked before the kept members are added: a kind derives members from the others.
                wanted = kept | self.kind(kind).check(config)
                program = await self.rewrite(program, wanted)
                if visibility is None:
                    return program
                return await self.set_visibility(program.id, visibility)
            except Conflict:
                # Another process was faster: its program is found now, unless it is hidden.
                attempts += 1
                if attempts == ENSURE_ATTEMPTS:
                    raise

    async def invoke(
        self,
        name: str,
        request: Mapping[str, Json] | None = None,
        *,
        hear: Spoken = unheard,
        version: Digest | None = None,
        told: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Invoke a program and return its result; its kind decides what that means.

        A turn that recorded a ``version`` invokes that one. The members of ``told`` are added to
        every event of the invocation.

        Raises:
            ProviderNotConfigured: A model is needed, and none is connected.
            PermissionDenied: This principal may not invoke it.
            InvalidOperation: It cannot be done.
        """
        program = await self.get(name)
        # Before the version is looked up, so that a refusal tells nothing about the program.
        await self.check_right(program, "invoke")
        # A turn must get what it was promised, even if the program was changed while it ran.
        if version is not None and version != program.version.digest:
            program = replace(program, version=await self.find_version(program, version))
        around = _InvocationContext(self, program, hear, told or {})
        call = Invocation(program, request or {}, self.by, around)
        return await self.kind(program.kind).invoke(call)

    async def assign(self, task: str, agent: str) -> Program:
        """Assign a task to an agent, for which a session is created, or to a human.

        Raises:
            InvalidOperation: The task is being worked on or has ended, or there is no such
                assignee.
        """
        found = await self.get(task)
        await self.commit(*await self._assignment(found, await self.get(agent)))
        return await self.get(found.id)

    async def take_up(self, task: Program) -> Program:
        """Have an agent start a task that was assigned to it; return the agent.

        Raises:
            InvalidOperation: The task has no agent, or the agent is busy with another task or in
                error.
        """
        named, session = task.details.get("assignee"), task.details.get("session")
        if named is None or session is None:
            raise InvalidOperation(
                f"{task.address} is not assigned to an agent", hint=_assign(task)
            )
        agent = await self.get(str(named))
        current = agent.details.get("current_task")
        if not await self.is_free(agent, task):
            # The name of a private task is private too.
            seen = await self.find(str(current)) is not None
            if not seen:
                raise InvalidOperation(
                    f"{agent.address} is busy with a task that is private", hint=_assign(task)
                )
            raise InvalidOperation(
                f"{agent.address} is busy with {current}",
                hint=Hint("program.show", {"kind": "task", "program": str(current)}),
            )
        if agent.state == "error":
            raise InvalidOperation(f"{agent.address} is in error", hint=_set_state(agent, "idle"))
        if current != task.name:
            await self.commit(self._accept(agent, task, str(session), begins=True))
        return await self.get(agent.id)

    async def is_free(self, agent: Program, task: Program) -> bool:
        """Whether an agent may start a task: it has no other unfinished one."""
        current = agent.details.get("current_task")
        if current in (None, task.name):
            return True
        other = await self.find(str(current))
        # Programs are never deleted: a task that cannot be found is another user's private one.
        if other is None:
            return False
        return other.state in _ENDED or other.details.get("assignee") != agent.name

    async def tell(
        self,
        name: str,
        event: str,
        *,
        right: Right = "configure",
        to: str | None = None,
        sets: Mapping[str, Json] | None = None,
        more: Mapping[str, Json] | None = None,
        notice: AddNotice | None = None,
    ) -> Program:
        """Record an event of a program, with its state change and details, and tell a person.

        Raises:
            InvalidOperation: The lifecycle forbids the change.
            PermissionDenied: This principal may not.
        """
        program = await self.get(name)
        if to is not None:
            self._check_move(program, to)
        if DELETED in (program.state, to) and program.owner != str(self.by):
            raise PermissionDenied(
                f"only its owner deletes {program.address} or takes that back: {program.owner}"
            )
        fact = tell(program, event, by=str(self.by), right=right, to=to, sets=sets, more=more)
        notices = () if notice is None else (notice,)
        await self.commit(fact, *notices, *await self._consequences(program, to))
        return await self.get(program.id)

    async def move(self, name: str, state: str) -> Program:
        """Change a program's state; a conditional state is reached by an invocation that checks it.

        Raises:
            InvalidOperation: The lifecycle forbids the change, and the message names the allowed
                ones; or the condition is not met, and the message says what is missing.
            PermissionDenied: This principal may not.
        """
        program = await self.get(name)
        kind, target = self.kind(program.kind).kind, self.state_word(state)
        # A state such as ``completed`` has to be earned: setting it by hand would skip the
        # criteria.
        if (request := kind.earned.get(target)) is not None:
            self._check_move(program, target)
            await self.check_right(program, "configure")
            await self.invoke(program.id, request)
            return await self.get(program.id)
        return await self.tell(program.id, kind.moved(program.state, target), to=target)

    async def check_right(self, program: Program, right: Right) -> None:
        """Refuse a principal without the given access.

        Raises:
            PermissionDenied: The principal does not have it.
        """
        if not await self.allows(program, str(self.by), right):
            raise PermissionDenied(
                f"{self.by} may not {right} {program.address}: it is {program.owner}'s"
            )

    async def is_own(self, program: Program) -> bool:
        """Whether the user of this process owns a program and wrote all of its versions.

        All of them, because a version inherits members of the one before it.
        """
        if self.user is None or program.owner != str(self.user):
            return False
        # One foreign version is enough: the members it set may still be in the newest one.
        return {row.by for row in await self.store.list_versions(program.id)} == {str(self.user)}

    async def check_folder(self, program: Program) -> None:
        """Refuse the folder of this process to a program that another person wrote.

        Raises:
            PermissionDenied: It is another person's, and the folder is not lent.
        """
        is_lent = self.workplace is not None and self.workplace.is_lent
        # A folder holds files that the author of a program could not read otherwise.
        if not is_lent and not await self.is_own(program):
            raise PermissionDenied(
                f"{program.address} was not written by {self.user or 'the user of this process'} "
                "alone, so it may not use this folder",
                hint=Hint("worker.lend_folder"),
            )

    def _check_move(self, program: Program, target: str) -> None:
        lifecycle = self.kind(program.kind).kind.lifecycle
        try:
            lifecycle.check(program.state, target)
        except InvalidOperation as error:
            step = lifecycle.find_step(program.state, target)
            hint = _set_state(program, step) if step else None
            raise InvalidOperation(f"{program.address}: {error}", hint=hint) from error

    async def find_version(self, program: Program, digest: Digest) -> ProgramVersion:
        """Return the version of a program that has a digest.

        Raises:
            NotFound: It never had one.
        """
        for row in await self.store.list_versions(program.id):
            if row.digest == digest:
                return await self.store.get_version(program.id, row.number, by=str(self.by))
        raise NotFound(f"{program.address} never had the version {digest}")

    async def _assignment(self, task: Program, agent: Program) -> list[Change]:
        if task.kind != "task" or agent.kind not in ("agent", "human"):
            raise InvalidOperation(
                "a task is assigned to an agent or a human, "
                f"not {a_kind(task.kind)} to {a_kind(agent.kind)}"
            )
        if task.state not in ("pending", "blocked"):
            # A task at work can be taken from its agent first; one that has ended stays ended.
            is_final = task.state in _ENDED
            another = Hint("task.replace", {"task": task.name})
            raise InvalidOperation(
                f"{task.address} is {task.state}; only a pending or blocked task can be assigned",
                hint=another if is_final else _set_state(task, "blocked"),
            )
        changes: list[Change] = []
        if task.details.get("assignee") != agent.name:
            changes = await self._release(task, "reassigned")
        sets: dict[str, Json] = {
            "assignee": agent.name,
            "session": None,
            "given_by": str(self.by),
        }
        # The rights travel with the task: its turns are run later, by any process.
        links = links_of_sender(self.by, ACTIVE.get() or self.context)
        if links is not None or "given_chain" in task.details:
            sets["given_chain"] = None if links is None else [*links]
        if agent.kind == "agent":
            label = await first_free_label(f"{agent.name}:{task.name}", self.sessions.find)
            config: dict[str, Json] = {"owner": agent.address}
            if "default_model" in agent.version.config:
                config["default_model"] = agent.version.config["default_model"]
            session = await self.beginning("session", label, config, task.visibility, self.by)
            sets["session"] = label
            is_free = await self.is_free(agent, task)
            changes += [*session, self._accept(agent, task, label, begins=is_free)]
        version = None
        if task.version.config.get("assignee") != agent.address:
            config = {**task.version.config, "assignee": agent.address}
            _, version = await self.check(self.kind("task"), config, task)
        assigned = tell(
            task, "task.assigned", by=str(self.by), sets=sets, version=version, more=sets
        )
        return [*changes, assigned]

    def _accept(self, agent: Program, task: Program, label: str, *, begins: bool) -> ChangeProgram:
        """Return the event of an assignment; an idle agent starts with the task."""
        more: dict[str, Json] = {"task": task.name, "session": label}
        sets: dict[str, Json] = {
            "current_task": task.name,
            "current_session": label,
            "turn_count": 0,
            "last_checkpoint": 0,
        }
        return tell(
            agent,
            "agent.task_assigned",
            by=str(self.by),
            right="invoke",
            sets=sets if begins else None,
            more=more,
        )

    async def _consequences(self, program: Program, to: str | None) -> list[Change]:
        """Return what follows from a state change: an agent whose task stopped is idle."""
        if program.kind != "task" or to not in _STOPPED:
            return []
        return await self._release(program, to)

    async def _release(self, task: Program, outcome: str) -> list[Change]:
        """Return the event that makes a task's agent idle, if it had one."""
        agent = await self.find(str(task.details.get("assignee", "")))
        if agent is None or agent.details.get("current_task") != task.name:
            return []
        sets: dict[str, Json] = {"current_task": None, "current_session": None}
        is_idle = agent.state in ("idle", "error")
        more: dict[str, Json] = {"task": task.name, "outcome": outcome}
        return [
            tell(
                agent,
                "agent.completed",
                by=str(self.by),
                right="invoke",
                to=None if is_idle else "idle",
                sets=sets,
                more=more,
            )
        ]


@value
class _InvocationContext:
    """What an invocation can access. See ``programs.program_kind``."""

    programs: Programs
    program: Program
    hear: Spoken
    told: Mapping[str, Json]

    @property
    def is_lent(self) -> bool:
        """Whether the folder is lent to programs of other authors."""
        return self.programs.workplace is not None and self.programs.workplace.is_lent

    async def is_own(self) -> bool:
        """Whether the user of the process wrote the program."""
        return await self.programs.is_own(self.program)

    async def get(self, name: str) -> Program:
        """Return another program."""
        return await self.programs.get(name)

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
        """Record an event of a program, and tell a person."""
        if notice is not None:
            # Which tool call it came from leads the person back to it, and the agent said it.
            acting = ACTIVE.get() if "run" in self.told else None
            by = None if acting is None else str(acting.principal)
            notice = replace(notice, by=by, refs={**self.told, **notice.refs})
        return await self.programs.tell(
            program.id,
            event,
            right="invoke",
            to=to,
            sets=sets,
            more={**self.told, **(more or {})},
            notice=notice,
        )

    def nonce(self) -> str:
        """Return an unguessable string."""
        return self.programs.world.nonce()

    async def read_notices(self) -> list[Notice]:
        """Mark the unread notices of the acting person as read, and return them."""
        programs = self.programs
        inbox = Inbox(NoticeStore(programs.store.database), programs.world, programs.by)
        return await inbox.read()

    async def assign(self, task: Program, agent: Program) -> Program:
        """Assign a task to an agent."""
        return await self.programs.assign(task.id, agent.id)

    async def read_file(self, path: str) -> bytes | None:
        """Return a file of the working folder."""
        await self.programs.check_folder(self.program)
        return await self._workplace().read_file(path)

    async def run_command(self, command: Sequence[str], *, timeout_s: float) -> CommandResult:
        """Run a command inside a sandbox."""
        await self.programs.check_folder(self.program)
        return await self._workplace().run_command(command, timeout_s=timeout_s)

    async def run_code(
        self, language: str, source: str, document: Json, *, timeout_s: float
    ) -> Json:
        """Run a program inside a sandbox."""
        return await self._workplace().run_code(language, source, document, timeout_s=timeout_s)

    async def notify(self, channel: str, text: str) -> bool:
        """Notify a person."""
        workplace = self.programs.workplace
        return workplace is not None and await workplace.notify(channel, text)

    async def ask_model(self, asked: Program, request: Mapping[str, Json]) -> Json:
        """Have a model or an agent reply; for a provider, return its models."""
        voices = self.programs.voices
        if voices is None:
            raise ProviderNotConfigured(f"no provider wired, so {asked.address} cannot answer")
        if asked.kind == "provider":
            return await voices.list_models(asked)
        return await voices.ask(self.programs, asked, request, self.hear, self.told)

    async def send(self, session: Program, request: Mapping[str, Json]) -> Json:
        """Send a message to a session and return the reply."""
        if self.programs.voices is None:
            raise ProviderNotConfigured("no provider wired, so the session cannot reply")
        return await self.programs.voices.send(
            self.programs, session, request, self.hear, self.told
        )

    def _workplace(self) -> LocalFolder:
        if self.programs.workplace is None:
            raise InvalidOperation("there is no folder to work in")
        return self.programs.workplace


def _assign(task: Program) -> Hint:
    return Hint("agent.assign", {"task": task.name})


def _set_state(program: Program, state: str) -> Hint:
    return Hint(
        "program.set_state", {"kind": program.kind, "program": program.name, "state": state}
    )
