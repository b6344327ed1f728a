-- Identities: accounts at an identity provider with which members log in.

-- name: find_open_invitation
-- Of several, the newest. An address is compared without case, but only of ASCII: other letters have case rules in which two
-- different addresses become one.
SELECT i.id, i.invitee FROM turntree.invitations i
  WHERE i.workspace_id = %(workspace)b AND i.ended_at IS NULL AND i.expires_at > %(at)b::text::timestamptz
    AND CASE WHEN i.invitee LIKE 'human:%%' THEN i.invitee = %(invitee)b::text
      ELSE lower(i.invitee COLLATE "C") = lower(%(invitee)b::text COLLATE "C") END
  ORDER BY i.created_at DESC, i.id DESC LIMIT 1;

-- name: use_login_state
SELECT turntree.use_login_state(%(workspace)b, %(digest)b, %(expires_at)b::text, %(at)b::text);

-- name: log_in_with_identity
SELECT holder, identity FROM turntree.log_in_with_identity(%(workspace)b, %(issuer)b::text, %(subject)b::text,
  %(invitation)b::text, %(member)b::text, %(identity)b::text, %(id)b::text, %(digest)b, %(scopes)b::text,
  %(expires_at)b::text, %(at)b::text);

-- name: link_identity
SELECT turntree.link_identity(%(workspace)b, %(id)b::text, %(issuer)b::text, %(subject)b::text, %(login)b::text,
  %(member)b::text, %(at)b::text);

-- name: list_identities
SELECT x.id, x.issuer, x.principal, turntree.unix_ms(x.linked_at) FROM turntree.identities x
  WHERE x.workspace_id = %(workspace)b ORDER BY x.linked_at, x.id;

-- name: unlink_identity
SELECT turntree.unlink_identity(%(workspace)b, %(id)b::text, %(by)b::text, %(at)b::text, %(roles)b::text[]);
