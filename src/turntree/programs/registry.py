"""Configure, find and share programs of any kind.

The lifecycle and the kind decide what is allowed; changes that belong together are one commit. It
must never know a kind by name, except sessions, whose config is stored under their own id.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import Hint, InvalidOperation, NotFound
from turntree.core.ids import ProgramId, SessionId, Timestamp
from turntree.core.principal import Principal
from turntree.core.program import (
    RIGHTS,
    Program,
    ProgramVersion,
    Right,
    VersionPin,
    Visibility,
    check_name,
    list_references,
    may,
    name_in,
    rename_references,
)
from turntree.core.revision import check_label
from turntree.core.value import Facet, value
from turntree.ledger.session_store import SessionStore
from turntree.programs.catalog import ProgramFilter, ProgramReference, VersionRow
from turntree.programs.changes import (
    Change,
    CreateEmptySession,
    NextVersion,
    begin,
    grant,
    next_version,
    show,
    tell,
)
from turntree.programs.kind import DefaultReference, Kind, has_member, put_member
from turntree.programs.lifecycles import DELETED
from turntree.programs.program_kind import ProgramKind
from turntree.programs.store import ProgramStore

PAGE: Final = 500
STATE_WORDS: Final = {"in_progress": "active"}
"""Synonyms of states that people know from other tools."""


@value
class Registry(Facet):
    """Programs and their kinds."""

    store: ProgramStore
    kinds: Mapping[str, ProgramKind]
    sessions: SessionStore
    world: Clock
    by: Principal

    async def configure(self, name: str, members: Mapping[str, Json]) -> Program:
        """Set members of a program's config, each by its path; null removes one.

        Nothing changes if the config stays the same. A session without a config gets one.

        Raises:
            InvalidOperation: The result is not a valid config of its kind.
            PermissionDenied: Only the owner, and principals with configure access, may.
            Conflict: Another process configured it meanwhile.
        """
        program = await self._get_or_begin(name)
        config: dict[str, Json] = dict(program.version.config)
        for way, member in members.items():
            config = put_member(config, way, member)
        return await self.rewrite(program, config)

    async def rewrite(self, program: Program, config: Mapping[str, Json]) -> Program:
        """Replace a program's whole config; nothing changes if it is the same.

        Raises:
            InvalidOperation: It is not a valid config of its kind.
            PermissionDenied: Only the owner, and principals with configure access, may.
            Conflict: Another process configured it meanwhile.
        """
        config, version = await self.check(self.kind(program.kind), config, program)
        if version.digest == program.version.digest:
            return program
        kind = self.kind(program.kind).kind
        back = kind.configured_state
        to = None if back in (None, program.state) else back
        if to is not None:
            kind.lifecycle.check(program.state, to)
        event = kind.configured(program.version.config, config)
        await self.commit(tell(program, event, by=str(self.by), to=to, version=version))
        return await self.get(program.id)

    async def get(self, name: str) -> Program:
        """Return a program by name, address, id, or by the label of its session.

        Raises:
            NotFound: There is none, or none that this principal may see.
        """
        found = await self.find(name)
        if found is None:
            import difflib  # noqa: PLC0415 - only for a mistyped name

            page = await self.store.list_page(ProgramFilter(), by=str(self.by), limit=PAGE)
            near = difflib.get_close_matches(name_in(name), [one.name for one in page], 3, 0.7)
            meant = f"\ndid you mean {' or '.join(near)}?" if near else ""
            raise NotFound(
                f"there is no program {name_in(name)!r}{meant}", hint=Hint("program.list")
            )
        return found

    async def find(self, name: str) -> Program | None:
        """Return a program, or None."""
        word, by = name_in(name), str(self.by)
        found = await self.store.find(word, by=by)
        if found is not None:
            return found
        session = await self.sessions.find(word)
        return None if session is None else await self.store.find(session.id, by=by)

    async def list_all(
        self,
        *,
        kind: str | None = None,
        state: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Json] | None = None,
    ) -> AsyncIterator[Program]:
        """Yield programs in order of their names; deleted ones only if ``state`` asks for them.

        ``where`` gives members of the config by path, each with the value that it has or lists:
        ``{"info_type": "fact", "content/city": "Bern"}``.
        """
        members = (where or {}).items()
        wanted = ProgramFilter(kind, STATE_WORDS.get(state or "", state), tuple(tags))
        after = ""
        while page := await self.store.list_page(wanted, by=str(self.by), after=after, limit=PAGE):
            for program in page:
                if program.state == DELETED != wanted.state:
                    continue
                if all(has_member(program.config, way, value) for way, value in members):
                    yield program
            if len(page) < PAGE:
                return
            after = page[-1].name

    async def list_private(self, kind: str) -> list[ProgramId]:
        """Return the private programs of a kind, in no order."""
        return await self.store.list_private(kind, by=str(self.by))

    async def refs_to(self, name: str) -> list[ProgramReference]:
        """Return the programs that refer to a program: "what uses this model?"."""
        return await self.store.list_uses((await self.get(name)).id, by=str(self.by))

    async def refs_from(self, name: str) -> list[ProgramReference]:
        """Return the programs that a program refers to."""
        return await self.store.list_used((await self.get(name)).id, by=str(self.by))

    async def find_last_active(self, acting: Principal) -> Timestamp | None:
        """Return when the last turn by an agent was sealed that you may read; None without one."""
        return await self.store.find_last_active(str(acting))

    async def list_versions(self, name: str) -> list[VersionRow]:
        """Return every version of a program's config, newest first."""
        return await self.store.list_versions((await self.get(name)).id)

    async def get_version(self, name: str, number: int) -> ProgramVersion:
        """Return a version of a program's config.

        ``shown`` has what this principal may see of it.

        Raises:
            NotFound: There is no such version.
        """
        return await self.store.get_version((await self.get(name)).id, number, by=str(self.by))

    async def pin(self, name: str) -> VersionPin:
        """Return the version that a reference means now, for a turn to record."""
        program = await self.get(name)
        return VersionPin(
            program.id, program.version.number, program.version.digest, program.address
        )

    async def grant(self, name: str, grantee: str, right: Right, *, on: bool = True) -> Program:
        """Grant or revoke a principal's access to a program.

        Raises:
            PermissionDenied: Only the owner may.
        """
        if right not in RIGHTS:
            raise InvalidOperation(
                f"{right!r} is not an access level: there are {', '.join(RIGHTS)}"
            )
        program = await self.get(name)
        await self.commit(grant(program, as_principal(grantee), right, on=on, by=str(self.by)))
        return await self.get(program.id)

    async def invite(self, name: str, grantee: str) -> Program:
        """Grant a principal access to see and invoke a private program."""
        return await self.grant(name, grantee, "invoke")

    async def list_grants(self, name: str) -> list[tuple[str, Right]]:
        """Return the access of principals other than the owner."""
        return await self.store.list_grants((await self.get(name)).id)

    async def set_visibility(self, name: str, visibility: Visibility) -> Program:
        """Make a program public to the workspace, or private to its owner and grantees.

        A session without a config gets one, if it becomes private.

        Raises:
            PermissionDenied: Only the owner may.
        """
        program = await (self._get_or_begin(name) if visibility == "private" else self.get(name))
        if program.visibility != visibility:
            await self.commit(show(program, visibility, by=str(self.by)))
        return await self.get(program.id)

    async def allows(self, program: Program, principal: str, right: Right) -> bool:
        """Whether a principal has access to a program, by ownership, visibility or grant."""
        if may(program, principal, right):
            return True
        grants = await self.store.list_grants(program.id)
        held: list[Right] = [one for grantee, one in grants if grantee == principal]
        return may(program, principal, right, held)

    def state_word(self, state: str) -> str:
        """Return our name of a state, given a synonym."""
        return STATE_WORDS.get(state, state)

    def kind(self, name: str) -> ProgramKind:
        """Return a kind of program.

        Raises:
            NotFound: There is none of this name.
        """
        if name not in self.kinds:
            known = ", ".join(sorted(self.kinds))
            raise NotFound(
                f"there is no kind {name!r} of program, there are {known}",
                hint=Hint("program.kinds"),
            )
        return self.kinds[name]

    async def commit(self, *changes: Change) -> None:
        """Commit changes together."""
        await self.store.commit(changes, by=str(self.by), at=self.world.now())

    async def beginning(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Json],
        visibility: Visibility,
        owner: Principal,
    ) -> list[Change]:
        """Return the changes that create a program; for a session, also those that create it."""
        if kind == "session":
            session = await self.sessions.find(name)
            before: list[Change] = []
            if session is None:
                id = ProgramId(self.world.new_id())
                before = [CreateEmptySession(SessionId(id), check_label(name))]
            else:
                id = ProgramId(session.id)
            # A label can move to another session; the address must not.
            name = id
        else:
            id, before = ProgramId(self.world.new_id()), []
            check_name(name)
        made = self.kind(kind)
        _, version = await self.check(made, config, owner=owner)
        begun = begin(
            made.kind, id, name, version, owner=str(owner), by=str(self.by), visibility=visibility
        )
        return [*before, begun]

    async def _get_or_begin(self, name: str) -> Program:
        found = await self.find(name)
        if found is not None:
            return found
        if await self.sessions.find(name_in(name)) is None:
            return await self.get(name)
        changes = await self.beginning("session", name_in(name), {}, "public", self.by)
        await self.commit(*changes)
        return await self.get(name)

    async def check(
        self,
        made: ProgramKind,
        config: Mapping[str, Json],
        before: Program | None = None,
        *,
        owner: Principal | None = None,
    ) -> tuple[dict[str, Json], NextVersion]:
        """Return a config as it is stored, and as the next version.

        Raises:
            InvalidOperation: It is not a config of this kind, or refers to a program that does not
                fit.
            NotFound: A program that it names does not exist.
        """
        known = made.check(config)
        # Only at creation: a member that its owner removes later stays removed.
        for fill in made.kind.fills if before is None else ():
            known |= await self._fill(made.kind, fill, known, str(owner or self.by))
        held = {} if before is None else _list_held(before.version)
        names: dict[str, str] = {}
        refs: list[tuple[str, ProgramId]] = []
        for member, name in ((one.member, one.name) for one in list_references(known)):
            # A principal who changes one member keeps another that it may not see.
            is_hidden = held.get(name, False)
            target = await (self.store.find_hidden(name) if is_hidden else self.find(name))
            if target is None:
                raise NotFound(
                    f"{member} names @({name}), and there is no such program",
                    hint=Hint("program.list"),
                )
            made.kind.check_target(member, target, is_new=target.name not in held)
            names[name] = target.name
            refs.append((member, target.id))
        written = rename_references(known, names)
        assert isinstance(written, dict), "a config is a document"
        number = 1 if before is None else before.version.number + 1
        return written, next_version(number, written, refs)

    async def _fill(
        self, kind: Kind, fill: DefaultReference, config: Mapping[str, Json], owner: str
    ) -> dict[str, Json]:
        """Return the default of a missing reference, if exactly one program matches."""
        wanted = config.get(fill.ours)
        if wanted is None or fill.member in config:
            return {}
        fitting = [
            one
            async for one in self.list_all(kind=fill.kind)
            if one.config.get(fill.theirs) == wanted
            and one.state != "deprecated"
            and (one.owner == owner or one.is_system)
        ]
        match [one for one in fitting if one.owner == owner] or fitting:
            case []:
                return {}
            case [only]:
                return {fill.member: only.address}
            case several:
                names = ", ".join(one.name for one in several)
                raise InvalidOperation(
                    f"several could be its {fill.member}: {names}; say which with "
                    f"{kind.flag_of(fill.member)}"
                )


def _list_held(version: ProgramVersion) -> dict[str, bool]:
    """Return the names that a config holds, and of each whether it is hidden from its reader."""
    return {one.name: one.member in version.hidden for one in list_references(version.config)}


def as_principal(text: str) -> str:
    """Return a principal in its stored form; a bare name means a human."""
    return text if ":" in text else f"human:{text}"
