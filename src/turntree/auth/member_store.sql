-- Members of a workspace, invitations to it, API keys and passwords.

-- name: ensure_members
SELECT turntree.ensure_members(%(workspace)b, %(by)b::text, %(at)b::text);

-- name: list_members
-- In a workspace whose members were never asked for, those that it would begin with.
SELECT m.principal, m.role::text, turntree.unix_ms(m.changed_at) FROM turntree.members m
  WHERE m.workspace_id = %(workspace)b AND m.role IS NOT NULL
UNION ALL
SELECT f.principal, f.role, turntree.unix_ms(f.since)
  FROM turntree.founding_members(%(workspace)b, %(by)b::text, %(at)b::text::timestamptz) f
  WHERE NOT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = %(workspace)b)
ORDER BY 3, 1;

-- name: find_role
SELECT m.role::text FROM turntree.members m WHERE m.workspace_id = %(workspace)b AND m.principal = %(principal)b::text;

-- name: set_member
SELECT turntree.set_member(%(workspace)b, %(member)b::text, %(role)b::text, %(is_new)b, %(by)b::text, %(at)b::text,
  %(roles)b::text[]);

-- name: record_denied_action
SELECT turntree.record_permission(%(workspace)b, turntree.workspace_stream(), 'permission.denied', %(by)b::text, %(right)b::text,
  %(reason)b::text);

-- name: create_invitation
SELECT turntree.create_invitation(%(workspace)b, %(id)b::text, %(digest)b, %(invitee)b::text, %(role)b::text,
  %(expires_at)b::text, %(by)b::text, %(at)b::text, %(roles)b::text[]);

-- name: list_invitations
SELECT i.id, i.invitee, i.role::text, i.created_by, turntree.unix_ms(i.created_at), turntree.unix_ms(i.expires_at),
    i.accepted_by, i.revoked_by, turntree.unix_ms(i.ended_at)
  FROM turntree.invitations i WHERE i.workspace_id = %(workspace)b ORDER BY i.created_at, i.id;

-- name: find_invitee
SELECT i.invitee FROM turntree.invitations i
  WHERE i.workspace_id = %(workspace)b AND i.id = %(id)b::text AND i.code_digest = %(digest)b;

-- name: accept_invitation
SELECT turntree.accept_invitation(%(workspace)b, %(id)b::text, %(digest)b, %(member)b::text, %(at)b::text);

-- name: revoke_invitation
SELECT turntree.revoke_invitation(%(workspace)b, %(id)b::text, %(by)b::text, %(at)b::text, %(roles)b::text[]);

-- name: create_api_key
SELECT turntree.create_api_key(%(workspace)b, %(id)b::text, %(digest)b, %(name)b::text, %(holder)b::text, %(agent)b::text,
  %(scopes)b::text, %(expires_at)b::text, %(at)b::text, %(roles)b::text[]);

-- name: list_api_keys
SELECT k.id, k.name, k.holder, k.agent, k.scopes, turntree.unix_ms(k.created_at), turntree.unix_ms(k.expires_at),
    turntree.unix_ms(k.last_used_at), k.revoked_by, turntree.unix_ms(k.revoked_at), k.reason
  FROM turntree.api_keys k WHERE k.workspace_id = %(workspace)b ORDER BY k.created_at, k.id;

-- name: find_api_key
-- With the role that its holder has today: a key of a person who was removed opens nothing.
SELECT k.key_digest, m.role::text, k.id, k.name, k.holder, k.agent, k.scopes, turntree.unix_ms(k.created_at),
    turntree.unix_ms(k.expires_at), turntree.unix_ms(k.last_used_at), k.revoked_by, turntree.unix_ms(k.revoked_at), k.reason
  FROM turntree.api_keys k
  LEFT JOIN turntree.members m ON m.workspace_id = k.workspace_id AND m.principal = k.holder
  WHERE k.workspace_id = %(workspace)b AND k.id = %(id)b::text;

-- name: find_latest_change
-- Every change of members, keys and login sessions is an event of this stream, whose writers wait for each other.
SELECT coalesce(max(e.seq), 0) FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream();

-- name: touch_api_key
UPDATE turntree.api_keys SET last_used_at = %(at)b::text::timestamptz WHERE workspace_id = %(workspace)b AND id = %(id)b::text;

-- name: revoke_api_key
SELECT turntree.revoke_api_key(%(workspace)b, %(id)b::text, %(reason)b::text, %(by)b::text, %(at)b::text, %(roles)b::text[]);

-- name: set_password
SELECT turntree.set_password(%(workspace)b, %(member)b::text, %(hash)b::text, %(by)b::text, %(at)b::text);

-- name: find_password
-- A password is older than the role if its holder was removed or was no admin for a while: it does not come back with them.
SELECT p.hash, m.role::text FROM turntree.passwords p
  LEFT JOIN turntree.members m ON m.workspace_id = p.workspace_id AND m.principal = p.principal AND p.changed_at >= m.changed_at
  WHERE p.workspace_id = %(workspace)b AND p.principal = %(member)b::text;

-- name: require_role
SELECT turntree.require_role(%(workspace)b, %(by)b::text, %(right)b::text, %(roles)b::text[]);
