-- Policies of a workspace: versions, and the one in force. Functions: db/functions/48_policies.sql.

-- name: propose_policy
SELECT turntree.propose_policy(%(workspace)b, %(agent)b, %(digest)b, %(language)b, %(lane)b, %(source)b, %(docstring)b, %(tests)b,
  %(notes)b, %(by)b, %(at)b, %(right)b, %(roles)b::text[]);

-- name: activate_policy
SELECT turntree.activate_policy(%(workspace)b, %(agent)b, %(number)b, %(digest)b, %(by)b, %(at)b, %(right)b, %(roles)b::text[]);

-- name: find_active_policy
-- The one of the agent goes before that of the workspace.
SELECT p.source, p.language, p.lane FROM turntree.policies p
  WHERE p.workspace_id = %(workspace)b AND p.agent IN ('', %(agent)b) AND p.is_active ORDER BY p.agent DESC LIMIT 1;

-- name: list_policies
-- Newest first.
SELECT p.agent, p.number, p.digest, p.language, p.lane, p.source, p.docstring, p.tests, p.notes, p.proposed_by, p.proposed_at,
    p.activated_by, p.activated_at, p.is_active
  FROM turntree.policies p WHERE p.workspace_id = %(workspace)b AND p.agent = %(agent)b ORDER BY p.number DESC;

