"""Policies on PostgreSQL: their versions, and the one in force."""

from collections.abc import Sequence

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.ids import Digest, Timestamp
from turntree.core.value import value
from turntree.db.arrays import text_array
from turntree.db.database import Database
from turntree.db.sql import load_statements
from turntree.ledger.session_store import as_instant
from turntree.policy.policy import Policy, PolicyLane, read_policy
from turntree.sandbox.code import Language

SQL = load_statements(__file__)


@value
class PolicyVersion:
    """One version of a policy, and who proposed and activated it."""

    number: int
    """0 for the shipped policy, which is in force until another is activated."""
    digest: Digest
    source: str
    language: Language
    lane: PolicyLane
    docstring: str
    tests: int
    """How many tests it has."""
    is_active: bool = False
    agent: str | None = None
    """The agent whose calls it judges; None for those of all."""
    notes: str | None = None
    proposed_by: str | None = None
    proposed_at: Timestamp | None = None
    activated_by: str | None = None
    """Who activated it last."""
    activated_at: Timestamp | None = None

    @property
    def policy(self) -> Policy:
        """The policy itself."""
        return read_policy(self.source, self.language, self.lane)


@value
class PolicyStore:
    """The policies of a workspace."""

    database: Database

    async def propose(
        self,
        policy: Policy,
        *,
        agent: str | None,
        notes: str | None,
        by: str,
        at: Timestamp,
        right: str,
        roles: Sequence[str],
    ) -> int:
        """Record a version, and return its number; the same source again is the same version.

        Raises:
            PermissionDenied: The viewer has none of ``roles``.
        """
        row = await self.database.fetch_one(
            SQL["propose_policy"], agent=agent or "", digest=digest_raw(policy.digest),
            language=policy.language, lane=policy.lane, source=policy.source,
            docstring=policy.docstring, tests=len(policy.tests), notes=notes, by=by, at=at,
            right=right, roles=text_array(roles),
        )  # fmt: skip
        assert row is not None, "the function returns one row or raises"
        return int(row[0])

    async def activate(
        self, version: PolicyVersion, *, by: str, at: Timestamp, right: str, roles: Sequence[str]
    ) -> None:
        """Put a version in force.

        Raises:
            PermissionDenied: The viewer has none of ``roles``, or does not act directly.
            NotFound: There is no such version.
        """
        await self.database.run(
            SQL["activate_policy"], agent=version.agent or "", number=version.number,
            digest=digest_raw(version.digest), by=by, at=at, right=right, roles=text_array(roles),
        )  # fmt: skip

    async def find_active(self, agent: str | None) -> Policy | None:
        """Return the policy in force for an agent: its own, or that of the workspace."""
        row = await self.database.fetch_one(SQL["find_active_policy"], agent=agent or "")
        return None if row is None else read_policy(*row)

    async def list_versions(self, agent: str | None) -> list[PolicyVersion]:
        """Return the versions of the workspace's policy or of an agent's, newest first."""
        rows = await self.database.fetch(SQL["list_policies"], agent=agent or "")
        return [
            PolicyVersion(
                number, digest_from_raw(bytes(digest)), source, language, lane, docstring, tests,
                is_active, of or None, notes, proposed_by, as_instant(proposed),
                activated_by, None if activated is None else as_instant(activated),
            )
            for of, number, digest, language, lane, source, docstring, tests, notes, proposed_by,
            proposed, activated_by, activated, is_active in rows
        ]  # fmt: skip
