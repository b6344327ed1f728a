"""Store of triggers. Every change and every firing is an event of the workspace's own stream."""

from collections.abc import Sequence

from turntree.auth.permissions import Permissions
from turntree.core.canonical import canonical
from turntree.core.ids import RunId, Timestamp
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import text_array
from turntree.db.database import Database
from turntree.db.sql import load_statements
from turntree.ledger.session_store import as_instant
from turntree.triggers.trigger import Firing, IncomingMessage, Trigger, TriggerState

SQL = load_statements(__file__)


@value
class TriggerStore:
    """The triggers of a workspace."""

    database: Database

    async def create(self, made: Trigger, secret: str, *, roles: Sequence[str]) -> None:
        """Record a trigger with its first secret.

        Raises:
            PermissionDenied: The viewer has none of ``roles``, or is not the owner.
        """
        await self.database.run(
            SQL["create_trigger"],
            id=made.id,
            name=made.name,
            owner=made.owner,
            target=made.target,
            prompt=made.prompt,
            scopes=canonical(made.scopes.to_json()).decode(),
            secret=secret,
            at=made.created_at,
            roles=text_array(roles),
        )

    async def rotate(
        self,
        id: str,
        secret: str,
        *,
        until: Timestamp,
        by: str,
        at: Timestamp,
        roles: Sequence[str],
    ) -> None:
        """Add a secret; those before it are accepted until a time.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
            PermissionDenied: It is another person's, and the viewer is an admin.
        """
        await self.database.run(
            SQL["rotate_trigger"], id=id, secret=secret, until=until, by=by, at=at,
            roles=text_array(roles),
        )  # fmt: skip

    async def set_state(
        self, id: str, state: TriggerState, *, by: str, at: Timestamp, roles: Sequence[str]
    ) -> None:
        """Pause a trigger, resume it or delete it.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
            PermissionDenied: It is another person's, and is to be resumed.
        """
        await self.database.run(
            SQL["set_trigger_state"], id=id, state=state, by=by, at=at, roles=text_array(roles)
        )

    async def list_all(self, *, at: Timestamp, id: str | None = None) -> list[Trigger]:
        """Return the triggers that the viewer sees, in the order in which they were made."""
        rows = await self.database.fetch(SQL["list_triggers"], id=id)
        holders = text_array([row[0] for row in rows])
        # As the system: no other viewer reads the table of secrets.
        everything = self.database.seen_by(EVERYTHING)
        counts: dict[str, int] = dict(
            await everything.fetch(SQL["count_trigger_secrets"], holders=holders, at=at)
        )
        return [
            Trigger(
                id, name, owner, target, prompt, Permissions.from_json(scopes), state,
                as_instant(created), counts.get(id, 0), firings,
                None if fired is None else as_instant(fired),
            )
            for id, name, owner, target, prompt, scopes, state, created, firings, fired in rows
        ]  # fmt: skip

    async def find_guarded(self, id: str, *, at: Timestamp) -> tuple[Trigger, list[str]] | None:
        """Return an active trigger and the secrets that it accepts, before it is known who asks."""
        everything = TriggerStore(self.database.seen_by(EVERYTHING))
        found = await everything.list_all(at=at, id=id)
        if not found or found[0].state != "active":
            return None
        rows = await everything.database.fetch(SQL["list_secrets"], id=id, at=at)
        return found[0], [secret for (secret,) in rows]

    async def list_firings(self, trigger: str, *, limit: int) -> list[Firing]:
        """Return what came in by a trigger, newest first."""
        rows = await self.database.fetch(
            SQL["list_firings"], trigger=trigger, message=None, limit=limit
        )
        return [Firing(message, RunId(run), as_instant(at)) for message, run, at, _ in rows]

    async def find_firing(self, incoming: IncomingMessage) -> tuple[Firing, bytes] | None:
        """Return the firing of a message that came before, and the digest that it had then."""
        rows = await self.database.fetch(
            SQL["list_firings"], trigger=incoming.trigger.id, message=incoming.id, limit=1
        )
        for message, run, at, digest in rows:
            return Firing(message, RunId(run), as_instant(at), repeated=True), bytes(digest)
        return None

    async def record(self, incoming: IncomingMessage, run: RunId, *, at: Timestamp) -> None:
        """Record that a message came in and which run answers it, once."""
        await self.database.run(
            SQL["record_firing"],
            trigger=incoming.trigger.id,
            message=incoming.id,
            owner=incoming.trigger.owner,
            digest=incoming.digest,
            run=run,
            at=at,
        )
