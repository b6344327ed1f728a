-- Resources, attachments, snapshots, turn snapshots and leases.

-- name: ensure_resource
SELECT turntree.ensure_resource(%(workspace)b, %(id)b, %(kind)b, %(host)b, %(place)b, %(name)b, %(capabilities)b::text[],
  %(imperative)b, %(agent)b, %(run)b, %(session)b, %(part_of)b, %(metadata)b, %(at)b, %(data)b)::text;

-- name: find_resource
SELECT id::text, kind, host, location, name, capabilities, imperative, created_at, agent_id, run_id, session_id::text,
    part_of::text, metadata
  FROM turntree.current_resources(%(workspace)b, ARRAY[%(resource)b::uuid]);

-- name: find_resource_at
SELECT id::text, kind, host, location, name, capabilities, imperative, created_at, agent_id, run_id, session_id::text,
    part_of::text, metadata
  FROM turntree.current_resources(%(workspace)b, ARRAY(SELECT r.id FROM turntree.resources r
    WHERE r.workspace_id = %(workspace)b AND r.kind = %(kind)b AND r.host = %(host)b
      AND md5(r.location) = md5(%(place)b::text) AND r.location = %(place)b));

-- name: list_resources
SELECT id::text, kind, host, location, name, capabilities, imperative, created_at, agent_id, run_id, session_id::text,
    part_of::text, metadata
  FROM turntree.current_resources(%(workspace)b, ARRAY(SELECT r.id FROM turntree.resources r
    WHERE r.workspace_id = %(workspace)b AND r.id > %(after)b ORDER BY r.id LIMIT %(limit)b)) now
  ORDER BY now.id;

-- name: attach_resource
SELECT turntree.attach_resource(%(workspace)b, %(resource)b, %(session)b, %(mode)b, %(at)b, %(data)b);

-- name: detach_resource
SELECT turntree.detach_resource(%(workspace)b, %(resource)b, %(session)b, %(at)b, %(data)b);

-- name: add_handle
INSERT INTO turntree.handles (workspace_id, id, resource_id, provider, provider_id, capabilities)
  VALUES (%(workspace)b, %(id)b, %(resource)b, %(provider)b, %(provider_id)b, %(capabilities)b::text[])
  ON CONFLICT DO NOTHING;

-- name: list_attached
SELECT r.id::text, r.kind, r.host, r.location, r.name, r.capabilities, r.imperative, r.created_at, r.agent_id, r.run_id,
    r.session_id::text, r.part_of::text, r.metadata, a.mode
  FROM turntree.resource_attachments a
  JOIN turntree.current_resources(%(workspace)b, ARRAY(SELECT x.resource_id FROM turntree.resource_attachments x
    WHERE x.workspace_id = %(workspace)b AND x.session_id = %(session)b)) r ON r.id = a.resource_id
  WHERE a.workspace_id = %(workspace)b AND a.session_id = %(session)b ORDER BY r.id;

-- name: list_attached_by
-- The resources that one principal attached to a session, as the event of each attachment says.
SELECT a.resource_id::text
  FROM turntree.resource_attachments a
  CROSS JOIN LATERAL (SELECT e.body FROM turntree.event_links l
    JOIN turntree.events e ON e.workspace_id = l.workspace_id AND e.stream_id = l.stream_id AND e.seq = l.seq
    WHERE l.workspace_id = a.workspace_id AND l.from_id = a.resource_id::text AND l.kind = 'ATTACHED_TO'
      AND l.stream_id = a.session_id ORDER BY l.seq DESC LIMIT 1) e
  WHERE a.workspace_id = %(workspace)b AND a.session_id = %(session)b
    AND turntree.document(e.body) #>> '{data,by}' = %(by)b;

-- name: lock_resource
-- No session can attach it until this transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('turntree:resource:' || %(resource)b::uuid, 0));

-- name: list_holders
-- The sessions that a resource is attached to. Few sessions have resources.
SELECT session_id::text FROM turntree.resource_attachments
  WHERE workspace_id = %(workspace)b AND resource_id = %(resource)b ORDER BY 1;

-- name: find_last_holder
-- The session that last worked on a resource at one of several locations; the first location with any session counts.
-- Subagents come last: a person who works there talks to the session that spawned them.
SELECT s.id::text, asked.location FROM unnest(%(places)b::text[]) WITH ORDINALITY AS asked (location, n)
  JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.kind = %(kind)b AND r.host = %(host)b
    AND md5(r.location) = md5(asked.location) AND r.location = asked.location
  JOIN turntree.resource_attachments a ON a.workspace_id = %(workspace)b AND a.resource_id = r.id
  JOIN turntree.sessions s ON s.workspace_id = %(workspace)b AND s.id = a.session_id
    AND s.status = 'active' AND s.head_id IS NOT NULL
  ORDER BY asked.n, EXISTS (SELECT FROM turntree.spawns w WHERE w.workspace_id = %(workspace)b AND w.session_id = s.id),
    s.updated_at DESC, s.id DESC LIMIT 1;

-- name: list_session_places
-- The folders that sessions work in on a host.
SELECT a.session_id::text, r.location FROM turntree.resource_attachments a
  JOIN turntree.resources r ON r.workspace_id = a.workspace_id AND r.id = a.resource_id
    AND r.kind = %(kind)b AND r.host = %(host)b
  WHERE a.workspace_id = %(workspace)b ORDER BY a.session_id, r.location;

-- name: list_new_attachments
-- Attachments that were made since a point in time.
SELECT a.session_id::text FROM turntree.resource_attachments a
  WHERE a.workspace_id = %(workspace)b AND a.resource_id = %(resource)b AND EXISTS (
    SELECT FROM turntree.event_links l WHERE l.workspace_id = a.workspace_id AND l.stream_id = a.session_id
      AND l.from_id = a.resource_id::text AND l.kind = 'ATTACHED_TO' AND l.valid_from >= %(since)b::text::timestamptz)
  ORDER BY 1;

-- name: insert_snapshot
SELECT turntree.insert_snapshot(%(workspace)b, %(id)b, %(resource)b, %(method)b, %(external_kind)b, %(external_id)b,
  %(size)b, %(restorable)b, %(consistency)b, %(at)b, %(data)b)::text;

-- name: find_snapshot
SELECT id::text, resource_id::text, method, external_kind, external_id, size_bytes, taken_at, restorable, consistency
  FROM turntree.snapshots WHERE workspace_id = %(workspace)b AND id = %(snapshot)b;

-- name: list_snapshotted_kinds
SELECT DISTINCT r.kind FROM turntree.resources r
  WHERE r.workspace_id = %(workspace)b AND EXISTS (
    SELECT FROM turntree.turn_snapshots p WHERE p.workspace_id = r.workspace_id AND p.resource_id = r.id)
  ORDER BY 1;

-- name: list_snapshots_in_use
-- Where the bytes are of all snapshots of a kind that a turn refers to, so that their store knows what it must keep;
-- and whether a resource of this host is among them.
SELECT s.external_id, bool_or(r.host = %(host)b)
  FROM turntree.snapshots s
  JOIN turntree.resources r ON r.workspace_id = s.workspace_id AND r.id = s.resource_id
  WHERE s.workspace_id = %(workspace)b AND s.external_kind = %(kind)b AND EXISTS (
    SELECT FROM turntree.turn_snapshots p WHERE p.workspace_id = s.workspace_id AND p.resource_id = s.resource_id
      AND s.id IN (p.before_snapshot_id, p.after_snapshot_id))
  GROUP BY s.external_id ORDER BY 1;

-- name: insert_turn_snapshot
SELECT turntree.insert_turn_snapshot(%(workspace)b, %(turn)b, %(resource)b, %(before)b, %(after)b, %(mode)b, %(began_at)b, %(ended_at)b,
  %(at)b, %(data)b);

-- name: list_turn_snapshots
-- Few resources have many turn snapshots, so each resource is described once.
WITH r AS MATERIALIZED (
  SELECT * FROM turntree.current_resources(%(workspace)b, ARRAY(SELECT DISTINCT p.resource_id FROM turntree.turn_snapshots p
    WHERE p.workspace_id = %(workspace)b AND p.turn_id = ANY (%(turns)b::uuid[])))
)
SELECT p.turn_id::text, p.mode, p.started_at, p.ended_at,
    r.id::text, r.kind, r.host, r.location, r.name, r.capabilities, r.imperative, r.created_at, r.agent_id, r.run_id,
    r.session_id::text, r.part_of::text, r.metadata,
    a.id::text, a.resource_id::text, a.method, a.external_kind, a.external_id, a.size_bytes, a.taken_at, a.restorable,
    a.consistency,
    b.id::text, b.resource_id::text, b.method, b.external_kind, b.external_id, b.size_bytes, b.taken_at, b.restorable,
    b.consistency
  FROM unnest(%(turns)b::uuid[]) WITH ORDINALITY AS asked (turn_id, n)
  JOIN turntree.turn_snapshots p ON p.workspace_id = %(workspace)b AND p.turn_id = asked.turn_id
  JOIN r ON r.id = p.resource_id
  JOIN turntree.snapshots a ON a.workspace_id = p.workspace_id AND a.id = p.after_snapshot_id
  LEFT JOIN turntree.snapshots b ON b.workspace_id = p.workspace_id AND b.id = p.before_snapshot_id
  ORDER BY asked.n, r.id;

-- name: list_newest_turns
SELECT turn_id::text FROM turntree.turn_snapshots
  WHERE workspace_id = %(workspace)b AND resource_id = %(resource)b ORDER BY ended_at DESC, turn_id DESC LIMIT %(limit)b;

-- name: list_calls
SELECT stream_id::text, body FROM turntree.events
  WHERE workspace_id = %(workspace)b AND stream_id = ANY (%(turns)b::uuid[]) AND kind = 'turn.snapshotted';

-- name: list_turn_snapshots_between
WITH r AS MATERIALIZED (SELECT * FROM turntree.current_resources(%(workspace)b, ARRAY[%(resource)b::uuid]))
SELECT p.turn_id::text, p.mode, p.started_at, p.ended_at,
    r.id::text, r.kind, r.host, r.location, r.name, r.capabilities, r.imperative, r.created_at, r.agent_id, r.run_id,
    r.session_id::text, r.part_of::text, r.metadata,
    a.id::text, a.resource_id::text, a.method, a.external_kind, a.external_id, a.size_bytes, a.taken_at, a.restorable,
    a.consistency,
    b.id::text, b.resource_id::text, b.method, b.external_kind, b.external_id, b.size_bytes, b.taken_at, b.restorable,
    b.consistency
  FROM turntree.turn_snapshots p
  JOIN r ON r.id = p.resource_id
  JOIN turntree.snapshots a ON a.workspace_id = p.workspace_id AND a.id = p.after_snapshot_id
  LEFT JOIN turntree.snapshots b ON b.workspace_id = p.workspace_id AND b.id = p.before_snapshot_id
  WHERE p.workspace_id = %(workspace)b AND p.resource_id = %(resource)b AND p.ended_at >= %(since)b::text::timestamptz
    AND p.started_at <= %(until)b::text::timestamptz
  ORDER BY p.ended_at, p.turn_id;

-- name: list_thread_snapshots
-- The turns of a thread that have snapshots, newest first, with their depths.
WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
  SELECT s.id, s.fork_depth, t.depth, s.parent_id
    FROM turntree.turns t, LATERAL (SELECT * FROM turntree.segments WHERE workspace_id = %(workspace)b
      AND id = t.segment_id OFFSET 0) s
    WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b
  UNION ALL
  SELECT s.id, s.fork_depth, c.low, s.parent_id
    FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
)
SELECT t.id::text, t.depth
  FROM chain c,
    LATERAL (SELECT x.id, x.depth FROM turntree.turns x WHERE x.workspace_id = %(workspace)b
      AND x.segment_id = c.segment_id AND x.depth > c.low AND x.depth <= c.high AND EXISTS (
        SELECT FROM turntree.turn_snapshots p WHERE p.workspace_id = %(workspace)b AND p.turn_id = x.id) OFFSET 0) t
  ORDER BY t.depth DESC LIMIT %(limit)b;

-- name: list_written
-- The files that turns report to have written.
SELECT DISTINCT turn_id::text, path FROM turntree.message_files
  WHERE workspace_id = %(workspace)b AND turn_id = ANY (%(turns)b::uuid[]) AND kind = 'written' ORDER BY 1, 2;

-- name: list_turns_below
WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
  SELECT s.id, s.fork_depth, t.depth, s.parent_id
    FROM turntree.turns t, LATERAL (SELECT * FROM turntree.segments WHERE workspace_id = %(workspace)b
      AND id = t.segment_id OFFSET 0) s
    WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b
  UNION ALL
  SELECT s.id, s.fork_depth, c.low, s.parent_id
    FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
    WHERE c.low > %(low)b::int
)
SELECT t.id::text, t.depth
  FROM chain c,
    LATERAL (SELECT x.id, x.depth FROM turntree.turns x WHERE x.workspace_id = %(workspace)b
      AND x.segment_id = c.segment_id AND x.depth > c.low AND x.depth > %(low)b::int AND x.depth <= c.high OFFSET 0) t
  ORDER BY t.depth;

-- name: list_spawned_turns
-- Turns of sessions that were spawned by other turns, and of sessions that those spawned.
WITH RECURSIVE begun (session_id) AS (
  SELECT session_id FROM turntree.spawns WHERE workspace_id = %(workspace)b AND parent_turn_id = ANY (%(by)b::uuid[])
  UNION
  SELECT w.session_id FROM begun b, LATERAL (SELECT session_id FROM turntree.spawns
    WHERE workspace_id = %(workspace)b AND parent_session_id = b.session_id OFFSET 0) w
)
SELECT t.id::text FROM unnest(%(turns)b::uuid[]) asked (id)
  JOIN turntree.turns t ON t.workspace_id = %(workspace)b AND t.id = asked.id
  WHERE EXISTS (SELECT FROM begun b JOIN turntree.session_reach r ON r.workspace_id = %(workspace)b
    AND r.session_id = b.session_id AND r.segment_id = t.segment_id AND r.max_depth >= t.depth);

-- name: record_liveness
SELECT turntree.record_liveness(%(workspace)b, %(resource)b, %(status)b, %(at)b, %(data)b);

-- name: acquire_lease
-- The holder's own lease is renewed; another's is taken over only after it has expired.
INSERT INTO turntree.resource_leases AS l (workspace_id, resource_id, holder, expires_at)
  VALUES (%(workspace)b, %(resource)b, %(holder)b, %(until)b::text::timestamptz)
  ON CONFLICT (workspace_id, resource_id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
  WHERE l.holder = excluded.holder OR l.expires_at <= %(now)b::text::timestamptz
  RETURNING expires_at;

-- name: find_lease
SELECT holder, expires_at FROM turntree.resource_leases WHERE workspace_id = %(workspace)b AND resource_id = %(resource)b;

-- name: release_lease
DELETE FROM turntree.resource_leases WHERE workspace_id = %(workspace)b AND resource_id = %(resource)b AND holder = %(holder)b;

-- name: find_resource_after_turn
-- The state of a resource when it was last removed. What was at the location before it does not count.
SELECT body FROM turntree.events
  WHERE workspace_id = %(workspace)b AND stream_id = %(resource)b AND kind = 'resource.removed'
    AND seq > coalesce((SELECT max(l.seq) FROM turntree.event_links l WHERE l.workspace_id = %(workspace)b
      AND l.from_id = %(resource)b::uuid::text AND l.stream_id = %(resource)b AND l.kind = 'DERIVED_FROM'), -1)
  ORDER BY seq DESC LIMIT 1;

-- name: newest_event
-- The newest event of a session: the events up to it say what was attached then.
SELECT seq, id FROM turntree.events WHERE workspace_id = %(workspace)b AND stream_id = %(stream)b ORDER BY seq DESC LIMIT 1;
