"""Resolves targets to routes: a turn, a session, a persona, a sender, or the best match.

A message is never routed to a thread that its sender may not read, and the sender does not learn
that it exists: a hidden thread counts as absent, however it was addressed. Resolving changes
nothing; ``begin`` creates the session that a route lacks.
"""

import re
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final, assert_never

from turntree.core.errors import (
    Conflict,
    Hint,
    InvalidOperation,
    InvalidQuery,
    NotFound,
)
from turntree.core.ids import Label, TurnId
from turntree.core.principal import Principal
from turntree.core.revision import Head, Name, Revision, find_label
from turntree.core.session import Session, numbered_labels
from turntree.core.value import Facet, value
from turntree.ledger.sessions import Sessions
from turntree.programs.store import ProgramStore
from turntree.routing.matching import Matcher, ThreadMatches
from turntree.routing.route import Candidate, HoldingSession, Route, beginning
from turntree.routing.target import (
    Overrides,
    Target,
    ToContent,
    ToPersona,
    ToSender,
    ToSession,
    ToTurn,
    channel_key,
    entity_key,
    main_session,
    own_session,
    parse_target,
)

CANDIDATES_DEFAULT: Final = 5
CANDIDATES_MAX: Final = 50
TEXT_CHARS_MAX: Final = 4_000
OWN_MAX: Final = 9
"""How many labels are tried for a sender's own session with a persona."""
PERSONAS: Final = ("agent", "human")
"""The kinds of program that have a main session."""
_LIKE_A_DIGEST: Final = re.compile(r"[0-9a-f]{7,64}")


@value
class Router(Facet):
    """The facet ``tree.router``: resolves every target to one route."""

    matcher: Matcher
    sessions: Sessions
    programs: ProgramStore
    by: Principal

    async def resolve(
        self,
        target: Target | str = "",
        text: str = "",
        *,
        sender: Principal | None = None,
        overrides: Overrides | None = None,
        limit: int = CANDIDATES_DEFAULT,
    ) -> Route:
        """Return the route of a message to a target, or to the thread that matches its text.

        Only what ``sender`` may read is considered; None means the principal that opened the tree.

        Raises:
            NotFound: The target names nothing that the sender may read, or no thread matches.
            InvalidQuery: The target is empty, and so is the text.
            InvalidRevision: The target is malformed.
        """
        who = str(sender or self.by)
        chosen = parse_target(target) if isinstance(target, str) else target
        if isinstance(chosen, Revision):
            chosen = await self._look_up(chosen)
        match chosen:
            case ToTurn(turn):
                route = await self._to_turn(chosen, turn, who)
            case ToSession(label):
                route = await self._to_session(chosen, label, who)
            case ToPersona(name):
                route = await self._to_persona(chosen, name, who)
            case ToSender(key):
                route = await self._to_sender(chosen, key, who)
            case ToContent():
                route = await self._to_content(chosen, text, who, limit)
            case _:
                assert_never(chosen)
        return replace(route, overrides=overrides or Overrides())

    async def locate(self, target: str, text: str, *, sender: Principal | None = None) -> Route:
        """Return the route of a message; a label that names nothing yet begins a session.

        Raises:
            NotFound: The target names nothing and cannot be the label of a new session.
            InvalidQuery, InvalidRevision: As ``resolve``.
        """
        try:
            return await self.resolve(target, text, sender=sender)
        except NotFound:
            label = find_label(target)
            if label is None:
                raise
            if _LIKE_A_DIGEST.fullmatch(label):
                raise NotFound(
                    f"there is no session {target!r}, and it looks like a turn",
                    hint=Hint("session.list"),
                ) from None
            return beginning(label)

    async def suggest_forks(
        self, text: str, *, sender: Principal | None = None, limit: int = CANDIDATES_DEFAULT
    ) -> tuple[Candidate, ...]:
        """Return where to fork for what a text is about, best first.

        Each candidate names the turn of a thread that the text matches best: a fork there has what
        led to it, and nothing of what was said about other things since.

        Raises:
            NotFound: No thread matches.
            InvalidQuery: The text is empty.
        """
        route = await self.resolve(ToContent(), text, sender=sender, limit=limit)
        return route.candidates

    async def begin(self, route: Route, *, key: str | None = None) -> Route:
        """Create the session that a route lacks, and return the route with it.

        A route to a turn gets a fork, named after a session that holds the turn; the same ``key``
        returns the same fork. Two concurrent calls for a label get the same session.
        """
        if route.session is not None:
            return route
        if route.label is None:
            session = await self._fork(route, key)
        elif route.is_private:
            session = await self._begin_own(route.label)
        else:
            session = await self.sessions.get_or_create(route.label)
        steps = (*route.steps, f"began the session {session.label}")
        return replace(
            route, session=session.id, label=session.label, head=session.head, steps=steps
        )

    async def name_session(self, route: Route) -> Label:
        """Return the label that ``begin`` gives to the session of a route, as things are now."""
        if route.label is not None:
            return route.label
        assert route.head is not None, "a route without a label leads to a turn"
        name = _name_fork(await self._find_holder(route.head))
        return Label(await self.sessions.find_free_label(name))

    async def identify(self, channel: str, id: str, entity: str) -> Session:
        """Identify a sender: the channel's session becomes the entity's, under both labels.

        If the entity already has a session, the two are merged into that one, and the channel's
        label becomes its alias. Repeating the call changes nothing.
        """
        stranger, known = channel_key(channel, id), entity_key(entity)
        theirs, ours = await self._find(stranger), await self._find(known)
        if theirs is not None and ours is None:
            return await self.sessions.promote(stranger, known)
        if ours is None:
            ours = await self.sessions.get_or_create(known)
        if theirs is None:
            # No message came through this channel yet; its first one goes to the entity's session.
            return await self.sessions.alias(known, stranger, reason="identity_promotion")
        return ours if ours.id == theirs.id else await self.sessions.merge(known, stranger)

    async def _look_up(self, revision: Revision) -> Target:
        """Return the session that a revision names, or else its turn."""
        is_plain = not revision.steps and revision.part is None
        if is_plain and isinstance(revision.base, Head):
            return ToSession((await self.sessions.get("HEAD")).label)
        named = revision.base.text if isinstance(revision.base, Name) else None
        if is_plain and named is not None and await self._find(named) is not None:
            return ToSession(Label(named))
        found = await self.sessions.revisions.resolve_parsed(revision)
        # ``HEAD``, or a turn that is a session's head, means the session: the message continues it
        # instead of forking.
        if is_plain and found.session is not None and found.session.head == found.turn:
            return ToSession(found.session.label)
        return ToTurn(found.turn)

    async def _to_turn(self, target: Target, turn: TurnId, who: str) -> Route:
        placed = await self.sessions.revisions.threads.get_turn(turn)
        holders = (await self.matcher.reader.list_holders([turn], to=who))[turn]
        # A turn that only hidden sessions hold does not exist for this sender.
        if holders and all(holder.is_closed for holder in holders):
            raise NotFound(f"there is no turn {turn}")
        short = placed.turn.digest.removeprefix("sha256:")[:8]
        return Route(target, turn, None, None, (f"the turn {short} itself is addressed",))

    async def _to_session(self, target: Target, label: Label, who: str) -> Route:
        session = await self._find(label)
        # The same answer for a hidden session and for none: an error must not reveal a name.
        if session is None or await self._is_closed(session, who):
            raise NotFound(f"there is no session {label!r}", hint=Hint("session.list"))
        return _at(target, session, label)

    async def _to_persona(self, target: Target, name: str, who: str) -> Route:
        label = main_session(name)
        program = await self.programs.find(name, by=who)
        # Without an agent that the sender may see, a bare model would answer in its session.
        if program is None or program.kind not in PERSONAS:
            raise NotFound(f"there is no persona {name!r}", hint=Hint("program.list"))
        # Several labels: another principal may have taken the first one.
        own = own_session(name, who)
        found, may_begin = await self.matcher.reader.find_persona_session(
            program.id, label, [*islice(numbered_labels(own), OWN_MAX)], by=who
        )
        if found is None and may_begin:
            told = _told_main(name, label)
            return Route(target, None, None, label, (told, "it begins with this message"))
        apart = f"the main session of {name} is not open to {who}, who has one of their own"
        if found is None:
            steps = (apart, "it begins with this message, private")
            return Route(target, None, None, own, steps, is_private=True)
        session = await self.sessions.ledger.get(found)
        is_main = label in (session.label, *session.aliases)
        return _at(target, session, session.label, _told_main(name, label) if is_main else apart)

    async def _to_sender(self, target: Target, key: Label, who: str) -> Route:
        # Aliases are found as well, so a sender who was identified keeps their session.
        session = await self._find(key)
        if session is None:
            steps = (f"no label and no alias is {key}", "a session begins under this name")
            return Route(target, None, None, key, steps)
        if await self._is_closed(session, who):
            raise NotFound(f"there is no session {key!r}")
        return _at(target, session, key)

    async def _to_content(self, target: Target, text: str, who: str, limit: int) -> Route:
        said = " ".join(text.split())[:TEXT_CHARS_MAX]
        if not said:
            raise InvalidQuery("there is nothing to route by: the message is empty")
        count = min(max(limit, 1), CANDIDATES_MAX)
        matched = await self.matcher.match(said, sender=who, limit=count)
        if not matched.candidates:
            raise NotFound("no thread fits what was said: name a session, or begin one")
        best = matched.candidates[0]
        name = f"the session {best.label}" if best.label else f"the turn {best.title!r}"
        steps = (*_told(matched), f"{name} fits best, with {best.score:.3f}")
        return Route(target, best.head, best.session, best.label, steps, matched.candidates)

    async def _fork(self, route: Route, key: str | None) -> Session:
        assert route.head is not None, "a route without a label leads to a turn"
        shown = await self._find_holder(route.head)
        name = _name_fork(shown)
        for label in numbered_labels(name):
            try:
                return await self.sessions.fork(
                    route.head,
                    label,
                    key=None if key is None else f"send:{key}",
                    source=None if shown is None else TurnId(shown.session),
                )
            except Conflict:
                # The name is taken: try the next number.
                continue
        raise InvalidOperation(f"too many sessions are named {name!r}")

    async def _find_holder(self, turn: TurnId) -> HoldingSession | None:
        """Return a session that holds a turn and may be shown."""
        holders = (await self.matcher.reader.list_holders([turn], to=str(self.by)))[turn]
        return next((one for one in holders if not one.is_closed), None)

    async def _begin_own(self, label: Label) -> Session:
        """Create the private session of the principal under the first label that is free."""
        for candidate in numbered_labels(label):
            # The name is taken: try the next number.
            with suppress(Conflict):
                return await self.sessions.create(candidate, visibility="private")
        raise InvalidOperation(f"too many sessions are named {label!r}")

    async def _find(self, name: str) -> Session | None:
        return await self.sessions.ledger.find(name)

    async def _is_closed(self, session: Session, who: str) -> bool:
        return session.id in await self.matcher.reader.list_closed([session.id], to=who)


def _at(target: Target, session: Session, name: Label, *steps: str) -> Route:
    alias = () if name == session.label else (f"{name} is an alias of {session.label}",)
    turns = "1 turn" if session.depth == 1 else f"{session.depth} turns"
    stands = "has no turn yet" if session.head is None else f"has {turns}"
    return Route(
        target,
        session.head,
        session.id,
        session.label,
        (*steps, *alias, f"the session {session.label} {stands}"),
    )


def _name_fork(holder: HoldingSession | None) -> str:
    return f"{'turn' if holder is None else holder.label}-fork"


def _told_main(name: str, label: Label) -> str:
    return f"the persona {name} is addressed by its main session, {label}"


def _told(matched: ThreadMatches) -> tuple[str, ...]:
    sides = [
        *(["words"] if matched.by_words else []),
        *(["meanings"] if matched.by_meaning else []),
    ]
    without = () if matched.by_meaning else ("no embeddings are indexed",)
    return (
        "no target was named: the text decides",
        *without,
        f"{' and '.join(sides) or 'nothing'} spoke for {matched.threads} threads",
    )
