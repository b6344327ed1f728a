-- Sessions: pointers and their reflogs. A turn is looked up by a LATERAL with OFFSET 0: its visibility is then
-- checked for that turn only, and not for each turn on the way.

-- name: record_hidden_name
-- A viewer named a session that is hidden from them.
SELECT turntree.record_permission(%(workspace)b, n.session_id, 'permission.denied', %(by)b::text, 'read', 'the session is private')
  FROM turntree.session_names n WHERE n.workspace_id = %(workspace)b AND n.name = %(name)b::text
    AND turntree.is_program_hidden(%(workspace)b, n.session_id, %(by)b::text);

-- name: insert_session
-- Returns the head's columns too, so that the caller needs no second round trip.
SELECT turntree.insert_session(%(workspace)b, %(session)b, %(label)b, %(head)b, %(by)b, %(at)b::text::timestamptz,
    %(id)b, %(body)b, %(origin)b, %(origin_session)b, %(source)b, %(visibility)b), t.digest, t.sealed_at, coalesce(t.depth, 0)
  FROM (VALUES (%(head)b::uuid)) x (id)
  LEFT JOIN turntree.turns t ON t.workspace_id = %(workspace)b AND t.id = x.id;

-- name: create_session
SELECT session_id::text, version, head::text, repeated FROM turntree.create_session(
  %(workspace)b, %(session)b, %(label)b, %(head)b, %(by)b, %(at)b::text::timestamptz, %(id)b, %(body)b,
  %(origin)b, %(origin_session)b, %(source)b, %(visibility)b, %(key)b, %(parent_session)b, %(parent_turn)b, %(call)b, %(mode)b, %(task)b);

-- name: move_session
SELECT session_id::text, version, before::text, head::text, repeated FROM turntree.move_session(
  %(workspace)b, %(session)b, %(kind)b, %(target)b, %(check)b, %(expected)b, %(by)b, %(at)b, %(key)b);

-- name: name_session
SELECT turntree.name_session(%(workspace)b, %(session)b, %(name)b, %(as_label)b, %(reason)b, %(by)b, %(at)b);

-- name: merge_sessions
SELECT turntree.merge_sessions(%(workspace)b, %(session)b, %(other)b, %(kept_label)b, %(by)b, %(at)b);

-- name: set_session_status
SELECT turntree.set_session_status(%(workspace)b, %(session)b, %(status)b, %(by)b, %(at)b);

-- name: find_session_by_name
-- Labels and aliases share one key, so this is one look-up.
SELECT session_id::text FROM turntree.session_names WHERE workspace_id = %(workspace)b AND name = %(name)b;

-- name: find_session_status
SELECT s.status FROM turntree.session_names n
  JOIN turntree.sessions s ON s.workspace_id = n.workspace_id AND s.id = n.session_id
  WHERE n.workspace_id = %(workspace)b AND n.name = %(name)b;

-- name: count_written_files
-- How many files the turns of some threads wrote.
SELECT x.id::text, (SELECT count(DISTINCT f.path) FROM turntree.ancestry(%(workspace)b, x.id) a
    JOIN turntree.message_files f ON f.workspace_id = %(workspace)b AND f.turn_id = a.turn_id AND f.kind = 'written')
  FROM unnest(%(heads)b::text[]::uuid[]) x (id);

-- name: list_names
-- Names of active sessions that begin or end with a text, or have a part after a slash that begins with it; without a
-- text, the names of the newest sessions.
SELECT n.name, l.name FROM turntree.session_names n
  JOIN turntree.sessions s ON s.workspace_id = n.workspace_id AND s.id = n.session_id AND s.status = 'active'
  JOIN turntree.session_names l ON l.workspace_id = s.workspace_id AND l.session_id = s.id AND l.reason IS NULL
  WHERE n.workspace_id = %(workspace)b AND (%(part)b::text = '' OR (%(begins)b AND strpos('/' || n.name, '/' || %(part)b::text) > 0)
    OR (%(ends)b AND right(n.name, length(%(part)b::text)) = %(part)b::text))
  ORDER BY s.updated_at DESC, n.name LIMIT %(limit)b;

-- name: find_session
SELECT s.id::text, l.name, s.head_id::text, t.digest, s.version, s.status, s.created_at, s.updated_at,
    t.sealed_at, coalesce(t.depth, 0), s.origin, s.origin_session_id,
    w.parent_session_id::text, w.parent_turn_id::text, w.call_id, w.mode, w.task,
    ARRAY(SELECT name FROM turntree.session_names a WHERE a.workspace_id = s.workspace_id
      AND a.session_id = s.id AND a.reason IS NOT NULL ORDER BY name)
  FROM turntree.sessions s
  JOIN turntree.session_names l ON l.workspace_id = s.workspace_id AND l.session_id = s.id AND l.reason IS NULL
  LEFT JOIN LATERAL (SELECT x.digest, x.sealed_at, x.depth FROM turntree.turns x
    WHERE x.workspace_id = s.workspace_id AND x.id = s.head_id OFFSET 0) t ON true
  LEFT JOIN LATERAL (SELECT x.* FROM turntree.spawns x
    WHERE x.workspace_id = s.workspace_id AND x.session_id = s.id OFFSET 0) w ON true
  WHERE s.workspace_id = %(workspace)b AND s.id = %(session)b;

-- name: list_sessions
SELECT s.id::text, l.name, s.head_id::text, t.digest, s.version, s.status, s.created_at, s.updated_at,
    t.sealed_at, coalesce(t.depth, 0), s.origin, s.origin_session_id,
    w.parent_session_id::text, w.parent_turn_id::text, w.call_id, w.mode, w.task,
    ARRAY(SELECT name FROM turntree.session_names a WHERE a.workspace_id = s.workspace_id
      AND a.session_id = s.id AND a.reason IS NOT NULL ORDER BY name)
  FROM turntree.sessions s
  JOIN turntree.session_names l ON l.workspace_id = s.workspace_id AND l.session_id = s.id AND l.reason IS NULL
  LEFT JOIN LATERAL (SELECT x.digest, x.sealed_at, x.depth FROM turntree.turns x
    WHERE x.workspace_id = s.workspace_id AND x.id = s.head_id OFFSET 0) t ON true
  LEFT JOIN LATERAL (SELECT x.* FROM turntree.spawns x
    WHERE x.workspace_id = s.workspace_id AND x.session_id = s.id OFFSET 0) w ON true
  WHERE s.workspace_id = %(workspace)b AND l.name > %(after)b
    AND (%(status)b::text IS NULL OR s.status = %(status)b::text)
    AND (%(head)b::uuid IS NULL OR s.head_id = %(head)b::uuid)
  ORDER BY l.name LIMIT %(limit)b;

-- name: list_moves
-- Newest first, before a version.
SELECT h.session_id::text, h.version, h.kind, h.before_id::text, h.after_id::text, h.changed_at, h.by, b.digest, a.digest
  FROM turntree.session_history h
  LEFT JOIN LATERAL (SELECT x.digest FROM turntree.turns x
    WHERE x.workspace_id = h.workspace_id AND x.id = h.before_id OFFSET 0) b ON true
  LEFT JOIN LATERAL (SELECT x.digest FROM turntree.turns x
    WHERE x.workspace_id = h.workspace_id AND x.id = h.after_id OFFSET 0) a ON true
  WHERE h.workspace_id = %(workspace)b AND h.session_id = %(session)b AND h.version < %(before)b
  ORDER BY h.version DESC LIMIT %(limit)b;

-- name: find_move_at
-- The move that set the head as of a point in time.
SELECT h.session_id::text, h.version, h.kind, h.before_id::text, h.after_id::text, h.changed_at, h.by, b.digest, a.digest
  FROM turntree.session_history h
  LEFT JOIN LATERAL (SELECT x.digest FROM turntree.turns x
    WHERE x.workspace_id = h.workspace_id AND x.id = h.before_id OFFSET 0) b ON true
  LEFT JOIN LATERAL (SELECT x.digest FROM turntree.turns x
    WHERE x.workspace_id = h.workspace_id AND x.id = h.after_id OFFSET 0) a ON true
  WHERE h.workspace_id = %(workspace)b AND h.session_id = %(session)b AND h.changed_at <= %(at)b::text::timestamptz
  ORDER BY h.version DESC LIMIT 1;

-- name: list_session_heads
-- The heads of some sessions, and who spawned them.
SELECT s.id::text, s.head_id::text, t.model, coalesce(t.sealed_at, s.updated_at), p.name
  FROM turntree.sessions s
  LEFT JOIN LATERAL (SELECT x.model, x.sealed_at FROM turntree.turns x
    WHERE x.workspace_id = s.workspace_id AND x.id = s.head_id OFFSET 0) t ON true
  LEFT JOIN LATERAL (SELECT n.name FROM turntree.spawns w
      JOIN turntree.session_names n ON n.workspace_id = w.workspace_id AND n.session_id = w.parent_session_id AND n.reason IS NULL
    WHERE w.workspace_id = s.workspace_id AND w.session_id = s.id OFFSET 0) p ON true
  WHERE s.workspace_id = %(workspace)b AND s.id = ANY (%(sessions)b::uuid[]);

-- name: count_session_days
-- How many turns the segment of each session's head has on each day since a time.
SELECT s.id::text, floor(date_part('epoch', x.started_at - %(since)b::text::timestamptz) / 86400)::int, count(*)
  FROM turntree.sessions s,
    LATERAL (SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = s.workspace_id AND id = s.head_id OFFSET 0) h,
    LATERAL (SELECT started_at FROM turntree.turns
      WHERE workspace_id = s.workspace_id AND segment_id = h.segment_id AND depth <= h.depth OFFSET 0) x
  WHERE s.workspace_id = %(workspace)b AND s.id = ANY (%(sessions)b::uuid[])
    AND x.started_at >= %(since)b::text::timestamptz
  GROUP BY 1, 2;

-- name: list_labels_at
-- The labels of sessions whose head is one of some turns.
SELECT s.head_id::text, n.name FROM turntree.sessions s
  JOIN turntree.session_names n ON n.workspace_id = s.workspace_id AND n.session_id = s.id AND n.reason IS NULL
  WHERE s.workspace_id = %(workspace)b AND s.head_id = ANY (%(turns)b::uuid[]) AND s.status <> 'deleted'
  ORDER BY s.status, s.updated_at DESC, n.name;

-- name: list_spawned_sessions
SELECT w.session_id::text FROM turntree.spawns w
  WHERE w.workspace_id = %(workspace)b AND w.parent_turn_id = %(turn)b ORDER BY 1;
