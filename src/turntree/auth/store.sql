-- Permission events of sessions and turns.

-- name: list_permission_events
-- The kinds are those of the index, word for word, or it could not be used. Its order is that of the pages.
SELECT e.stream_id::text, e.seq, e.body, n.name FROM turntree.events e
  CROSS JOIN LATERAL (SELECT turntree.session_of(e.workspace_id, e.stream_id) AS session_id OFFSET 0) s
  LEFT JOIN turntree.session_names n ON n.workspace_id = e.workspace_id AND n.session_id = s.session_id AND n.reason IS NULL
  WHERE e.workspace_id = %(workspace)b AND e.kind IN ('permission.granted', 'permission.used', 'permission.denied')
    AND (%(session)b::uuid IS NULL OR s.session_id = %(session)b::uuid)
    AND (e.stream_id, e.seq) > (%(stream)b::uuid, %(seq)b::int)
  ORDER BY e.stream_id, e.seq LIMIT %(limit)b::bigint;

-- name: list_session_grants
-- Grants on sessions that were not revoked. The kinds are exactly those of the index, or it could not be used.
SELECT e.stream_id::text, e.seq, e.body, n.name FROM turntree.events e
  JOIN turntree.session_names n ON n.workspace_id = e.workspace_id AND n.session_id = e.stream_id AND n.reason IS NULL
  WHERE e.workspace_id = %(workspace)b AND e.kind IN ('program.granted', 'program.revoked')
    AND e.kind = 'program.granted' AND (%(session)b::uuid IS NULL OR e.stream_id = %(session)b::uuid)
    AND NOT EXISTS (SELECT FROM turntree.events r WHERE r.workspace_id = e.workspace_id AND r.stream_id = e.stream_id
      AND r.kind IN ('program.granted', 'program.revoked') AND r.kind = 'program.revoked' AND r.seq > e.seq
      AND turntree.document(r.body) #>> '{data,to}' = turntree.document(e.body) #>> '{data,to}'
      AND turntree.document(r.body) #>> '{data,access}' = turntree.document(e.body) #>> '{data,access}')
    AND (e.stream_id, e.seq) > (%(stream)b::uuid, %(seq)b::int)
  ORDER BY e.stream_id, e.seq LIMIT %(limit)b::bigint;

-- name: record_permission
SELECT turntree.require_session_access(%(workspace)b, %(session)b, 'invoke'),
  turntree.record_session_event(%(workspace)b, %(session)b, %(kind)b, %(at)b, %(data)b);

-- name: list_token_events
-- All events of one token, or of a page of tokens in the order of their first event. The kinds are those of the index,
-- word for word, or it could not be used.
WITH page AS (
    SELECT f.stream_id, f.epoch, f.xid, f.n FROM turntree.events f
      WHERE f.workspace_id = %(workspace)b AND f.kind IN ('token.issued', 'token.revoked') AND f.seq = 0
        AND (%(stream)b::uuid IS NULL OR f.stream_id = %(stream)b::uuid)
        AND (%(after)b::uuid IS NULL OR (f.epoch, f.xid, f.n) > (SELECT a.epoch, a.xid, a.n FROM turntree.events a
          WHERE a.workspace_id = %(workspace)b AND a.stream_id = %(after)b::uuid AND a.seq = 0))
      ORDER BY f.epoch, f.xid, f.n LIMIT %(limit)b::bigint)
SELECT e.body FROM page p JOIN turntree.events e ON e.workspace_id = %(workspace)b AND e.stream_id = p.stream_id
    AND e.kind IN ('token.issued', 'token.revoked')
  ORDER BY p.epoch, p.xid, p.n, e.seq;

-- name: was_removed
-- A person without a row was never added, and counts as a member. All times have one form, and compare as text.
SELECT EXISTS (SELECT FROM turntree.members m
    WHERE m.workspace_id = %(workspace)b AND m.principal = %(principal)b::text AND m.role IS NULL)
  OR EXISTS (SELECT FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream() AND e.kind = 'member.removed'
      AND d.j #>> '{data,member}' = %(principal)b::text AND (%(since)b::text IS NULL OR d.j ->> 'at' >= %(since)b::text));

-- name: list_permitted_turns
-- A turn with a persona records what was granted and, by its tool calls, what was used. A tool that an event of its
-- run records already is left out. Most turns have none, which their header shows without being parsed.
SELECT t.id::text, turntree.unix_ms(t.started_at), turntree.turn_header(t.workspace_id, t.id) -> 'by', p.granted,
    (SELECT coalesce(jsonb_agg(c.tool ORDER BY c.sequence), '[]') FROM turntree.tool_calls c
      WHERE c.workspace_id = t.workspace_id AND c.turn_id = t.id
        AND NOT EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = t.workspace_id AND e.stream_id = t.id
          AND e.kind IN ('permission.granted', 'permission.used', 'permission.denied')
          AND turntree.document(e.body) #>> '{data,permission}' = 'tool:' || c.tool)), n.name
  FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  CROSS JOIN LATERAL (SELECT turntree.object_document(t.workspace_id,
    turntree.manifest_entry(t.workspace_id, t.id, 'permissions') ->> 'object') AS granted OFFSET 0) p
  CROSS JOIN LATERAL (SELECT turntree.session_of(t.workspace_id, t.id) AS session_id OFFSET 0) s
  LEFT JOIN turntree.session_names n ON n.workspace_id = t.workspace_id AND n.session_id = s.session_id AND n.reason IS NULL
  WHERE t.workspace_id = %(workspace)b AND b.header LIKE '%%"manifest":"sha256:%%' AND p.granted IS NOT NULL
    AND (%(session)b::uuid IS NULL OR s.session_id = %(session)b::uuid) AND t.id > %(stream)b::uuid
  ORDER BY t.id LIMIT %(limit)b::bigint;

-- name: find_turn_permissions
SELECT turntree.unix_ms(t.started_at), turntree.turn_header(t.workspace_id, t.id) -> 'by',
    turntree.object_document(t.workspace_id, turntree.manifest_entry(t.workspace_id, t.id, 'permissions') ->> 'object'),
    turntree.permissions_used(t.workspace_id, t.id)
  FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b;

-- name: list_turn_permission_events
SELECT e.body FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.stream_id = %(turn)b
    AND e.kind IN ('permission.granted', 'permission.used', 'permission.denied')
  ORDER BY e.seq;

-- name: list_thread_personas
SELECT turntree.object_document(%(workspace)b, p.object) FROM (
    SELECT e.j ->> 'object' AS object, max(a.depth) AS depth
      FROM turntree.ancestry(%(workspace)b, %(turn)b) a
      JOIN turntree.turn_bodies b ON b.workspace_id = %(workspace)b AND b.turn_id = a.turn_id,
        jsonb_array_elements(turntree.object_document(%(workspace)b, turntree.document(b.header) ->> 'manifest') -> 'entries')
          AS e (j)
      WHERE b.header LIKE '%%"manifest":"sha256:%%' AND e.j ->> 'kind' = 'persona'
      GROUP BY 1) p
  ORDER BY p.depth DESC;
