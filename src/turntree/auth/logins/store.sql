-- Login sessions: browsers in which people have logged in.

-- name: create_login_session
SELECT turntree.create_login_session(%(workspace)b, %(id)b::text, %(digest)b, %(holder)b::text, %(method)b::text,
  %(scopes)b::text, %(key)b::text, %(expires_at)b::text, %(at)b::text, %(verified_at)b::text);

-- name: list_login_sessions
SELECT s.id, s.holder, s.method, s.scopes, turntree.unix_ms(s.created_at), turntree.unix_ms(s.expires_at),
    turntree.unix_ms(s.last_used_at), s.key_id, turntree.unix_ms(s.ended_at), s.ended_by, s.identity_id
  FROM turntree.login_sessions s WHERE s.workspace_id = %(workspace)b AND s.ended_at IS NULL ORDER BY s.created_at, s.id;

-- name: find_login_session
-- With the role that its holder has today: a session of a person who was removed opens nothing.
SELECT s.code_digest, m.role::text, s.id, s.holder, s.method, s.scopes, turntree.unix_ms(s.created_at),
    turntree.unix_ms(s.expires_at), turntree.unix_ms(s.last_used_at), s.key_id, turntree.unix_ms(s.ended_at), s.ended_by, s.identity_id
  FROM turntree.login_sessions s
  LEFT JOIN turntree.members m ON m.workspace_id = s.workspace_id AND m.principal = s.holder
  WHERE s.workspace_id = %(workspace)b AND s.id = %(id)b::text;

-- name: touch_login_session
UPDATE turntree.login_sessions SET last_used_at = %(at)b::text::timestamptz
  WHERE workspace_id = %(workspace)b AND id = %(id)b::text;

-- name: revoke_login_session
SELECT turntree.revoke_login_session(%(workspace)b, %(id)b::text, %(by)b::text, %(at)b::text, %(roles)b::text[]);
