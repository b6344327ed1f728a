-- The shape of the tree: segments with both ends, heads of sessions, marks. Turns are looked up by a LATERAL with
-- OFFSET 0, in statements and never in functions: what is hidden is then decided once for a statement, as long as
-- nothing is hidden from its viewer. An array of null stands for everything.

-- name: shape_position
-- The newest event that no running transaction can still precede, and whether nothing is hidden from the viewer.
SELECT e.epoch, e.xid, e.n, turntree.can_see_all_sessions()
  FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT e.epoch, e.xid::text::bigint AS xid, e.n FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b
      AND (e.epoch < (SELECT epoch FROM turntree.shard) OR e.xid < pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY e.epoch DESC, e.xid DESC, e.n DESC LIMIT 1) e ON true;

-- name: shape_state
-- The newest settled event, how many that are not settled can be seen already, and whether nothing is hidden from the
-- viewer. While the first stays the same, the second only grows: with the same two, no transaction has ended since.
-- The same of imports, as the system sees them: what a tool says of its sessions is no event.
SELECT e.epoch, e.xid, e.n, (SELECT count(*) FROM turntree.events l, turntree.shard s
      WHERE l.workspace_id = %(workspace)b AND l.epoch = s.epoch AND l.xid >= pg_snapshot_xmin(pg_current_snapshot())),
    CASE WHEN v.sees_all THEN (SELECT i.written_by::text::bigint FROM turntree.import_cursors i
      WHERE i.workspace_id = %(workspace)b AND i.written_by < pg_snapshot_xmin(pg_current_snapshot())
      ORDER BY i.written_by DESC LIMIT 1) END,
    CASE WHEN v.sees_all THEN (SELECT count(*) FROM turntree.import_cursors i
      WHERE i.workspace_id = %(workspace)b AND i.written_by >= pg_snapshot_xmin(pg_current_snapshot())) END,
    v.sees_all
  FROM (SELECT turntree.can_see_all_sessions() AS sees_all OFFSET 0) v LEFT JOIN LATERAL (SELECT e.epoch, e.xid::text::bigint AS xid, e.n FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b
      AND (e.epoch < (SELECT epoch FROM turntree.shard) OR e.xid < pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY e.epoch DESC, e.xid DESC, e.n DESC LIMIT 1) e ON true;

-- name: shape_changes
-- The streams that changed after a position, and whether what happened there can take something away.
SELECT c.stream_id, bool_or(c.kind = ANY (%(kinds)b::text[])), count(*)
  FROM (SELECT e.stream_id, e.kind FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b
      AND (e.epoch, e.xid, e.n) > (%(epoch)b::int, %(xid)b::text::xid8, %(n)b::bigint)
      AND (e.epoch < (SELECT epoch FROM turntree.shard) OR e.xid < pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY e.epoch, e.xid, e.n LIMIT %(limit)b::int) c
  GROUP BY c.stream_id;

-- name: shape_changed
-- The segments of changed turns and heads, those that they leave, and the root of each.
WITH RECURSIVE touched AS (
  SELECT t.segment_id AS id FROM unnest(%(streams)b::uuid[]) x (id),
    LATERAL (SELECT segment_id FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id OFFSET 0) t
  UNION SELECT t.segment_id FROM turntree.sessions s,
      LATERAL (SELECT segment_id FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = s.head_id OFFSET 0) t
    WHERE s.workspace_id = %(workspace)b AND s.id = ANY (%(streams)b::uuid[])
  UNION SELECT t.segment_id FROM turntree.spawns w,
      LATERAL (SELECT segment_id FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = w.parent_turn_id OFFSET 0) t
    WHERE w.workspace_id = %(workspace)b AND w.session_id = ANY (%(streams)b::uuid[])
), listed AS (
  SELECT id FROM touched
  UNION SELECT g.parent_id FROM touched t JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = t.id
    WHERE g.parent_id IS NOT NULL
), chain (id, at) AS (
  SELECT id, id FROM listed
  UNION ALL
  SELECT c.id, s.parent_id FROM chain c, LATERAL (SELECT parent_id FROM turntree.segments
    WHERE workspace_id = %(workspace)b AND id = c.at AND parent_id IS NOT NULL OFFSET 0) s
)
SELECT c.id, g.number, r.number FROM chain c
  JOIN turntree.segments r ON r.workspace_id = %(workspace)b AND r.id = c.at AND r.parent_id IS NULL
  JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = c.id;

-- name: shape_segments
-- Both ends of each segment. A viewer may see the beginning of one and not its end. An agent answered, or else the
-- tool of a session that was there.
SELECT g.number, coalesce(p.number, -1), g.fork_depth, g.fork_depth + 1, l.depth,
    floor(date_part('epoch', f.started_at) * 1000)::bigint, floor(date_part('epoch', l.sealed_at) * 1000)::bigint,
    CASE WHEN l.by LIKE 'agent:%%' THEN l.by WHEN f.by LIKE 'agent:%%' THEN f.by ELSE (SELECT s.origin
      FROM turntree.session_reach r JOIN turntree.sessions s ON s.workspace_id = r.workspace_id AND s.id = r.session_id
      WHERE r.workspace_id = %(workspace)b AND r.segment_id = g.id AND s.origin IS NOT NULL LIMIT 1) END,
    g.id::text, l.id::text
  FROM turntree.segments g
  LEFT JOIN turntree.segments p ON p.workspace_id = %(workspace)b AND p.id = g.parent_id,
    LATERAL (SELECT started_at, by FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = g.id OFFSET 0) f,
    LATERAL (SELECT id, depth, sealed_at, by FROM turntree.turns WHERE workspace_id = %(workspace)b AND segment_id = g.id
      ORDER BY depth DESC LIMIT 1) l
  WHERE g.workspace_id = %(workspace)b AND (%(segments)b::uuid[] IS NULL OR g.id = ANY (%(segments)b::uuid[]))
  ORDER BY g.number;

-- name: shape_sessions
-- A session is named after the first turn of its segment, unless its tool gave it a title. Its folder is where its
-- tool says that it worked, or the directory that it is attached to. Not sorted here: the texts would be sorted on
-- disk.
WITH described AS MATERIALIZED (
  SELECT i.origin, i.by, h.key AS id, h.value ->> 'cwd' AS folder, h.value ->> 'title' AS title
    FROM turntree.import_cursors i, jsonb_each(i.heads) h
    WHERE i.workspace_id = %(workspace)b AND jsonb_typeof(h.value) = 'object'
), attached AS MATERIALIZED (
  SELECT DISTINCT ON (x.session_id) x.session_id, r.location FROM turntree.resource_attachments x
    JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.id = x.resource_id AND r.kind = 'directory'
    WHERE x.workspace_id = %(workspace)b ORDER BY x.session_id, r.created_at
), spawned AS MATERIALIZED (
  SELECT v.session_id, g.number, x.depth FROM turntree.spawns v,
      LATERAL (SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = v.parent_turn_id OFFSET 0) x
    JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = x.segment_id
    WHERE v.workspace_id = %(workspace)b AND (%(sessions)b::uuid[] IS NULL OR v.session_id = ANY (%(sessions)b::uuid[]))
)
SELECT s.id::text, n.name, d.title, b.start, coalesce(g.number, -1), coalesce(t.depth, 0), coalesce(d.folder, a.location),
    coalesce(w.number, -1), coalesce(w.depth, 0), s.status, s.origin, floor(date_part('epoch', s.created_at) * 1000)::bigint
  FROM turntree.sessions s
  JOIN turntree.session_names n ON n.workspace_id = %(workspace)b AND n.session_id = s.id AND n.reason IS NULL
  LEFT JOIN LATERAL (SELECT x.depth, x.segment_id FROM turntree.turns x
    WHERE x.workspace_id = %(workspace)b AND x.id = s.head_id OFFSET 0) t ON true
  LEFT JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = t.segment_id
  LEFT JOIN described d ON d.origin = s.origin AND d.id = s.origin_session_id AND s.imported_by IN (d.by, 'system:import')
  LEFT JOIN LATERAL (SELECT left(x.body, %(start)b::int) AS start FROM turntree.turn_bodies x
    WHERE x.workspace_id = %(workspace)b AND x.turn_id = t.segment_id AND d.title IS NULL OFFSET 0) b ON true
  LEFT JOIN attached a ON a.session_id = s.id
  LEFT JOIN spawned w ON w.session_id = s.id
  WHERE s.workspace_id = %(workspace)b AND (%(sessions)b::uuid[] IS NULL OR s.id = ANY (%(sessions)b::uuid[]));

-- name: shape_marks
SELECT g.number, m.depth, m.kind, m.name FROM (
    SELECT segment_id, depth, CASE outcome WHEN 'failed' THEN 'failed' ELSE 'stopped' END AS kind, NULL AS name
      FROM turntree.turns WHERE workspace_id = %(workspace)b AND outcome <> 'completed'
        AND (%(segments)b::uuid[] IS NULL OR segment_id = ANY (%(segments)b::uuid[]))
    UNION ALL
    SELECT segment_id, depth, 'compaction', NULL FROM turntree.turns WHERE workspace_id = %(workspace)b AND kind = 'compaction'
        AND (%(segments)b::uuid[] IS NULL OR segment_id = ANY (%(segments)b::uuid[]))
    UNION ALL
    SELECT t.segment_id, t.depth, 'tag', x.tag FROM turntree.tags x,
        LATERAL (SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.node_id OFFSET 0) t
      WHERE x.workspace_id = %(workspace)b AND (%(segments)b::uuid[] IS NULL OR t.segment_id = ANY (%(segments)b::uuid[]))
    UNION ALL
    SELECT DISTINCT t.segment_id, t.depth, 'files', NULL FROM turntree.turn_snapshots x,
        LATERAL (SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.turn_id OFFSET 0) t
      WHERE x.workspace_id = %(workspace)b AND x.before_snapshot_id IS DISTINCT FROM x.after_snapshot_id
        AND (%(segments)b::uuid[] IS NULL OR t.segment_id = ANY (%(segments)b::uuid[]))
  ) m JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = m.segment_id
  ORDER BY g.number, m.depth, m.kind, m.name;

-- name: shape_turnings
-- The turn that goes on in a segment where another one, or a subagent, leaves it.
SELECT g.number, t.depth, t.id::text FROM (
    SELECT parent_id AS segment_id, fork_depth + 1 AS depth FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND parent_id IS NOT NULL
        AND (%(segments)b::uuid[] IS NULL OR parent_id = ANY (%(segments)b::uuid[]))
    UNION
    SELECT x.segment_id, x.depth + 1 FROM turntree.spawns w,
        LATERAL (SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = w.parent_turn_id OFFSET 0) x
      WHERE w.workspace_id = %(workspace)b AND (%(segments)b::uuid[] IS NULL OR x.segment_id = ANY (%(segments)b::uuid[]))
  ) f JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = f.segment_id,
    LATERAL (SELECT id, depth FROM turntree.turns
      WHERE workspace_id = %(workspace)b AND segment_id = f.segment_id AND depth = f.depth OFFSET 0) t
  ORDER BY g.number, t.depth;

-- name: shape_activity
-- Turns by day in a time zone, and by who took them; the tool stands for people.
SELECT to_char(t.day, 'YYYY-MM-DD'), CASE WHEN t.by LIKE 'agent:%%' THEN t.by ELSE t.origin END, sum(t.turns)::bigint
  FROM (SELECT date_trunc('day', x.started_at AT TIME ZONE %(zone)b::text) AS day, x.by, o.origin, count(*) AS turns
    FROM turntree.turns x LEFT JOIN (SELECT r.segment_id, min(s.origin) AS origin FROM turntree.session_reach r
        JOIN turntree.sessions s ON s.workspace_id = %(workspace)b AND s.id = r.session_id
      WHERE r.workspace_id = %(workspace)b GROUP BY r.segment_id) o ON o.segment_id = x.segment_id AND x.by NOT LIKE 'agent:%%'
    WHERE x.workspace_id = %(workspace)b GROUP BY 1, 2, 3) t
  GROUP BY 1, 2 ORDER BY 1, 2;

-- name: shape_pauses
SELECT g.number, p.depth, floor(date_part('epoch', p.sealed_at) * 1000)::bigint, floor(date_part('epoch', p.next_at) * 1000)::bigint
  FROM (SELECT segment_id, depth, sealed_at, lead(started_at) OVER (PARTITION BY segment_id ORDER BY depth) AS next_at
    FROM turntree.turns WHERE workspace_id = %(workspace)b) p
  JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = p.segment_id
  WHERE p.next_at - p.sealed_at > make_interval(secs => %(seconds)b::int)
  ORDER BY g.number, p.depth;

-- name: shape_places
-- The positions of some turns, in their order.
SELECT g.number, t.depth FROM unnest(%(turns)b::uuid[]) WITH ORDINALITY x (id, place),
    LATERAL (SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id OFFSET 0) t
  JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = t.segment_id
  ORDER BY x.place;

-- name: shape_rows
-- Turns in ranges of segments, in the order of the ranges. A turn is not read beyond the start of its text.
SELECT g.number, t.depth, t.id::text, t.digest, left(b.body, %(start)b::int), t.by, o.origin, t.model,
    floor(date_part('epoch', t.started_at) * 1000)::bigint, t.outcome, t.kind, c.tokens, k.turns_summarized,
    EXISTS (SELECT FROM turntree.message_files f WHERE f.workspace_id = %(workspace)b AND f.turn_id = t.id AND f.kind = 'written')
      OR EXISTS (SELECT FROM turntree.turn_snapshots f WHERE f.workspace_id = %(workspace)b AND f.turn_id = t.id
        AND f.before_snapshot_id IS DISTINCT FROM f.after_snapshot_id)
  FROM unnest(%(segments)b::bigint[], %(lows)b::int[], %(highs)b::int[]) WITH ORDINALITY x (number, low, high, place)
  JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.number = x.number
  LEFT JOIN LATERAL (SELECT s.origin FROM turntree.session_reach r
      JOIN turntree.sessions s ON s.workspace_id = %(workspace)b AND s.id = r.session_id AND s.origin IS NOT NULL
    WHERE r.workspace_id = %(workspace)b AND r.segment_id = g.id LIMIT 1) o ON true
  CROSS JOIN LATERAL (SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)b AND segment_id = g.id
    AND depth BETWEEN x.low AND x.high OFFSET 0) t
  CROSS JOIN LATERAL (SELECT body FROM turntree.turn_bodies WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) b
  LEFT JOIN LATERAL (SELECT sum(m.input_tokens::bigint + m.cached_input_tokens + m.cache_write_tokens + m.output_tokens)::bigint AS tokens
    FROM turntree.model_calls m WHERE m.workspace_id = %(workspace)b AND m.turn_id = t.id) c ON true
  LEFT JOIN turntree.compactions k ON k.workspace_id = %(workspace)b AND k.turn_id = t.id
  ORDER BY x.place, t.depth LIMIT %(limit)b::int;

-- name: shape_texts
-- More of the texts that begin with what a tool added.
SELECT b.turn_id::text, left(b.body, %(start)b::int) FROM turntree.turn_bodies b
  WHERE b.workspace_id = %(workspace)b AND b.turn_id = ANY (%(turns)b::uuid[]);

-- name: shape_spine
-- The segments of a thread, the head's first, and how deep the thread is in each.
WITH RECURSIVE chain (id, number, parent_id, low, high) AS (
  SELECT s.id, s.number, s.parent_id, s.fork_depth + 1, t.depth FROM turntree.turns t
      JOIN turntree.segments s ON s.workspace_id = %(workspace)b AND s.id = t.segment_id
    WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b
  UNION ALL
  SELECT s.id, s.number, s.parent_id, s.fork_depth + 1, c.low - 1 FROM chain c, LATERAL (SELECT * FROM turntree.segments
    WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
)
SELECT id, number, low, high FROM chain;

-- name: shape_compactions
SELECT t.depth FROM unnest(%(segments)b::uuid[], %(highs)b::int[]) x (id, high), LATERAL (SELECT depth FROM turntree.turns
    WHERE workspace_id = %(workspace)b AND segment_id = x.id AND kind = 'compaction' AND depth <= x.high OFFSET 0) t;

-- name: shape_branches
-- What leaves a thread: segments that fork off, and what follows in a segment that the thread left. The session that
-- was in a branch last names it.
SELECT f.depth - 1, f.number, f.depth, l.depth, f.id::text, l.by, n.origin, n.name,
    floor(date_part('epoch', l.sealed_at) * 1000)::bigint
  FROM (SELECT g.id AS segment_id, g.number, g.fork_depth + 1 AS depth, g.id
      FROM unnest(%(segments)b::uuid[], %(highs)b::int[]) x (id, high)
      JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.parent_id = x.id AND g.fork_depth <= x.high
      WHERE g.id <> ALL (%(segments)b::uuid[])
    UNION ALL
    SELECT x.id, g.number, t.depth, t.id FROM unnest(%(segments)b::uuid[], %(highs)b::int[]) x (id, high)
      JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = x.id,
        LATERAL (SELECT id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND segment_id = x.id
          AND depth = x.high + 1 OFFSET 0) t) f,
    LATERAL (SELECT depth, by, sealed_at FROM turntree.turns WHERE workspace_id = %(workspace)b AND segment_id = f.segment_id
      ORDER BY depth DESC LIMIT 1) l
  LEFT JOIN LATERAL (SELECT s.origin, v.name FROM turntree.session_reach r
      JOIN turntree.sessions s ON s.workspace_id = %(workspace)b AND s.id = r.session_id AND s.status <> 'deleted'
      JOIN turntree.session_names v ON v.workspace_id = %(workspace)b AND v.session_id = s.id AND v.reason IS NULL
    WHERE r.workspace_id = %(workspace)b AND r.segment_id = f.segment_id AND r.max_depth >= f.depth
    ORDER BY s.updated_at DESC, s.id LIMIT 1) n ON true
  ORDER BY 1, f.id;
