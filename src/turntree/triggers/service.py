"""``tree.triggers``: messages of other systems that come in and act for a person.

A trigger has an address on a server and a secret. What is signed with it by Standard Webhooks
becomes a message to an agent or a session, as if the owner of the trigger had sent it, with fewer
rights. It never answers a question: an approval is given by a person.
"""

import hashlib
from collections.abc import Mapping

from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.member import (
    CREATE_TRIGGERS,
    MANAGE_TRIGGERS,
    as_person,
    roles_with,
)
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.auth.permissions import Permissions, right
from turntree.auth.webhook_signature import check_secret, make_secret, verify
from turntree.core.clock import Clock
from turntree.core.errors import Conflict, Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import instant, unix_ms
from turntree.core.value import Facet, value
from turntree.runs.service import Runs
from turntree.triggers.store import TriggerStore
from turntree.triggers.trigger import (
    BODY_BYTES_MAX,
    SCOPES_DEFAULT,
    Firing,
    IncomingMessage,
    Trigger,
    TriggerState,
    check_prompt,
    check_trigger_name,
)

PAGE = 100
ID_CHARS = 16
HOUR_MS = 60 * 60 * 1000
ROTATION_HOURS_DEFAULT = 24
ROTATION_HOURS_MAX = 30 * 24
INVOKE = right("action", "invoke")
CREATE = right("action", "create")


@value
class Triggers(Facet):
    """``tree.triggers``: the triggers of the workspace."""

    store: TriggerStore
    members: MemberStore
    runs: Runs
    world: Clock
    own: ExecutionContext

    async def create(
        self,
        name: str,
        target: str,
        *,
        prompt: str = "",
        scopes: Permissions = SCOPES_DEFAULT,
        secret: str | None = None,
    ) -> tuple[Trigger, str]:
        """Return a new trigger, and its secret, which is not shown again.

        ``target`` is an agent, a session or a turn. The trigger permits what ``scopes``, this
        context and the role of its owner all permit. ``secret`` is one that the other system made.

        Raises:
            PermissionDenied: The acting principal is a guest, or not a person.
            NotFound: The target names nothing that the owner may read.
            InvalidOperation: The name, the prompt or the secret is invalid.
        """
        await require_action(self.members, CREATE_TRIGGERS, self.own)
        acting, at = find_current() or self.own, self.world.now()
        if acting.principal.kind != "human":
            raise PermissionDenied(f"only a person can create a trigger, not {acting.principal}")
        kept = None if secret is None else check_secret(secret)
        await self.runs.route(target, check_prompt(prompt), source="webhook")
        await self.members.ensure(at=at)
        made = Trigger(
            f"tr-{hashlib.sha256(self.world.nonce().encode()).hexdigest()[:ID_CHARS]}",
            check_trigger_name(name), as_person(str(acting.principal)), target, prompt,
            acting.rights.intersect(scopes), "active", at, 1, 0, None,
        )  # fmt: skip
        kept = kept or make_secret(self.world.nonce() + self.world.nonce())
        await self.store.create(made, kept, roles=roles_with(CREATE_TRIGGERS))
        return made, kept

    async def list_all(self) -> list[Trigger]:
        """Return the triggers of the acting person, or of all if that is an admin."""
        acting = find_current() or self.own
        found = await self.store.list_all(at=self.world.now())
        if acting.decide(MANAGE_TRIGGERS).allowed:
            return found
        return [one for one in found if one.owner == str(acting.principal)]

    async def get(self, id: str) -> Trigger:
        """Return a trigger.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        for one in await self.list_all():
            if one.id == id:
                return one
        raise NotFound(f"there is no trigger {id[:80]!r}", hint=Hint("trigger.list"))

    async def rotate(
        self, id: str, *, hours: int = ROTATION_HOURS_DEFAULT, secret: str | None = None
    ) -> tuple[Trigger, str]:
        """Return a trigger with its new secret; for some hours the one before is accepted too.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
            PermissionDenied: It is another person's, and this one is an admin.
        """
        if not 0 <= hours <= ROTATION_HOURS_MAX:
            raise InvalidOperation(
                f"a secret stays valid for 0 to {ROTATION_HOURS_MAX} hours, not {hours}"
            )
        by, at = await require_action(self.members, CREATE_TRIGGERS, self.own), self.world.now()
        kept = None if secret is None else check_secret(secret)
        kept = kept or make_secret(self.world.nonce() + self.world.nonce())
        until = instant(unix_ms(at) + hours * HOUR_MS)
        roles = roles_with(MANAGE_TRIGGERS)
        await self.store.rotate(id, kept, until=until, by=by, at=at, roles=roles)
        return await self.get(id), kept

    async def pause(self, id: str) -> Trigger:
        """Take no messages until the trigger is resumed; senders are refused.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        await self._set_state(id, "paused")
        return await self.get(id)

    async def resume(self, id: str) -> Trigger:
        """Take messages again by a trigger that was paused.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
            PermissionDenied: It is another person's, and this one is an admin.
        """
        await self._set_state(id, "active")
        return await self.get(id)

    async def delete(self, id: str) -> Trigger:
        """Delete a trigger and its secrets, and return it as it was; what came in stays.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        found = await self.get(id)
        await self._set_state(id, "deleted")
        return found

    async def list_firings(self, id: str, *, limit: int = PAGE) -> list[Firing]:
        """Return the messages that came in by a trigger, newest first.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        return await self.store.list_firings((await self.get(id)).id, limit=limit)

    async def accept(self, id: str, headers: Mapping[str, str], body: bytes) -> IncomingMessage:
        """Return a message that came in, with the context in which it acts, once it is verified.

        Raises:
            PermissionDenied: There is no such trigger, it is paused, its owner is not a member, or
                the message is not signed by it or not of this time. The sender is told no more.
            InvalidOperation: The body is too long, or not text.
        """
        at = self.world.now()
        if len(body) > BODY_BYTES_MAX:
            raise InvalidOperation(f"a message has at most {BODY_BYTES_MAX} bytes")
        found = await self.store.find_guarded(id, at=at)
        if found is None:
            raise PermissionDenied("there is no such trigger")
        trigger, secrets = found
        message = verify(secrets, headers, body, now_s=unix_ms(at) / 1000)
        role = await self.members.find_role(trigger.owner)
        if role is None:
            raise PermissionDenied(f"{trigger.owner} is not a member")
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise InvalidOperation("the body is not UTF-8") from error
        return IncomingMessage(trigger, trigger.act_for(role), message, text)

    async def fire(self, incoming: IncomingMessage) -> Firing:
        """Post a message that was accepted, once, on the tree of the context in which it acts.

        Raises:
            Conflict: Another message had this id.
            NotFound: The target names nothing that the owner may read any more.
            PermissionDenied: The trigger or its owner may not invoke the target.
        """
        known = await self.store.find_firing(incoming)
        if known is not None:
            before, digest = known
            if digest != incoming.digest:
                raise Conflict(f"another message had the id {incoming.id}")
            return before
        message, key = incoming.write(), incoming.key
        await require_action(self.members, INVOKE, self.own)
        route = await self.runs.route(
            incoming.trigger.target, message.text, key=key, source="webhook"
        )
        if route.session is None:
            await require_action(self.members, CREATE, self.own)
        queued = await self.runs.post(route, message, key=key, tells_failure=True)
        at = self.world.now()
        await self.store.record(incoming, queued.run, at=at)
        return Firing(incoming.id, queued.run, at)

    async def _set_state(self, id: str, state: TriggerState) -> None:
        found = await self.get(id)
        is_own = found.owner == str((find_current() or self.own).principal)
        wanted = CREATE_TRIGGERS if is_own else MANAGE_TRIGGERS
        by = await require_action(self.members, wanted, self.own)
        await self.store.set_state(
            id, state, by=by, at=self.world.now(), roles=roles_with(MANAGE_TRIGGERS)
        )
