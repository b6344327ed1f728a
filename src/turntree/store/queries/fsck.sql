-- What fsck asks of a whole workspace. Each check returns the subjects that break its rule, so a
-- sound ledger returns nothing; what a check means is said in fsck.py. They are joins over whole
-- tables and never call a function that walks the tree, for a broken tree may have no end. The one
-- exception is named below.

-- name: fsck_snapshot
-- One moment for all questions: writers go on, and none of their half-seen work is a finding.
-- Compiling these queries would take longer than running them.
SELECT set_config('jit', 'off', true);

-- name: fsck_i07
SELECT t.id::text FROM turntree.turns t
  WHERE t.workspace_id = %(workspace)b AND t.parent_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM turntree.turns p WHERE p.workspace_id = t.workspace_id AND p.id = t.parent_id)
  ORDER BY t.id LIMIT %(limit)b;

-- name: fsck_i08
-- Where every depth is one more than the parent's, no path can come back to itself.
SELECT t.id::text FROM turntree.turns t
  LEFT JOIN turntree.turns p ON p.workspace_id = t.workspace_id AND p.id = t.parent_id
  WHERE t.workspace_id = %(workspace)b AND t.depth <> coalesce(p.depth, 0) + 1
    AND (t.parent_id IS NULL OR p.id IS NOT NULL)
  ORDER BY t.id LIMIT %(limit)b;

-- name: fsck_i09
SELECT segment_id || ' at depth ' || depth FROM turntree.turns
  WHERE workspace_id = %(workspace)b GROUP BY segment_id, depth HAVING count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i10_place
SELECT t.id::text FROM turntree.turns t
  LEFT JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
  WHERE t.workspace_id = %(workspace)b
    AND (s.id IS NULL OR t.depth <= s.fork_depth OR (t.id = s.id) <> (t.depth = s.fork_depth + 1))
  ORDER BY t.id LIMIT %(limit)b;

-- name: fsck_i10_walk
-- The turn above by its place: the one before it in its segment or, for the first of a segment,
-- the one that the segment forks from.
SELECT t.id::text FROM turntree.turns t
  JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
  LEFT JOIN turntree.turns a ON a.workspace_id = t.workspace_id AND a.depth = t.depth - 1
    AND a.segment_id = CASE WHEN t.depth - 1 > s.fork_depth THEN s.id ELSE s.parent_id END
  WHERE t.workspace_id = %(workspace)b AND a.id IS DISTINCT FROM t.parent_id
  ORDER BY t.id LIMIT %(limit)b;

-- name: fsck_i10_segment
SELECT s.id::text FROM turntree.segments s
  LEFT JOIN turntree.segments p ON p.workspace_id = s.workspace_id AND p.id = s.parent_id
  WHERE s.workspace_id = %(workspace)b AND (
    s.ordinal <> coalesce(p.ordinal, -1) + 1
    OR s.parent_id IS NOT NULL AND (p.id IS NULL OR s.fork_depth <= p.fork_depth)
    OR s.parent_id IS NULL AND s.fork_depth <> 0
    OR NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = s.workspace_id AND t.id = s.id))
  ORDER BY s.id LIMIT %(limit)b;

-- name: fsck_i10_jump
-- Myers' rule: two jumps of one length merge into one from the child.
SELECT s.id::text FROM turntree.segments s
  LEFT JOIN turntree.segments p ON p.workspace_id = s.workspace_id AND p.id = s.parent_id
  LEFT JOIN turntree.segments j ON j.workspace_id = s.workspace_id AND j.id = p.jump_id
  LEFT JOIN turntree.segments jj ON jj.workspace_id = s.workspace_id AND jj.id = j.jump_id
  WHERE s.workspace_id = %(workspace)b AND s.jump_id IS DISTINCT FROM CASE
    WHEN s.parent_id IS NULL THEN s.id
    WHEN p.ordinal - j.ordinal = j.ordinal - jj.ordinal THEN jj.id
    ELSE p.id END
  ORDER BY s.id LIMIT %(limit)b;

-- name: fsck_i11
WITH by_parent AS (
  SELECT parent_id AS above, id FROM turntree.turns
    WHERE workspace_id = %(workspace)b AND parent_id IS NOT NULL
), by_segment AS (
  SELECT a.id AS above, t.id FROM turntree.turns a
    JOIN turntree.turns t ON t.workspace_id = a.workspace_id AND t.segment_id = a.segment_id
      AND t.depth = a.depth + 1
    WHERE a.workspace_id = %(workspace)b
  UNION ALL
  SELECT a.id, s.id FROM turntree.segments s
    JOIN turntree.turns a ON a.workspace_id = s.workspace_id AND a.segment_id = s.parent_id
      AND a.depth = s.fork_depth
    WHERE s.workspace_id = %(workspace)b
)
SELECT DISTINCT id::text FROM (
    (SELECT * FROM by_parent EXCEPT ALL SELECT * FROM by_segment)
    UNION ALL
    (SELECT * FROM by_segment EXCEPT ALL SELECT * FROM by_parent)
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i12_bodies
SELECT coalesce(t.id, b.turn_id)::text
  FROM (SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)b) t
  FULL JOIN (SELECT turn_id FROM turntree.turn_bodies WHERE workspace_id = %(workspace)b) b ON b.turn_id = t.id
  WHERE t.id IS NULL OR b.turn_id IS NULL
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i12_triggers
-- A trigger with a condition would refuse some changes only.
SELECT f || ' without ' || n
  FROM unnest(ARRAY['segments', 'turns', 'turn_bodies', 'tool_calls', 'model_calls', 'compactions', 'objects',
    'session_history', 'spawns', 'events', 'inbox', 'message_files']) f
  CROSS JOIN unnest(ARRAY['refuse_update', 'refuse_delete', 'refuse_truncate']) n
  WHERE NOT EXISTS (
    SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
      WHERE g.tgrelid = to_regclass('turntree.' || f) AND g.tgname = n AND g.tgenabled IN ('O', 'A')
        AND g.tgfoid = to_regproc('turntree.'
          || CASE WHEN f = 'turn_bodies' AND n = 'refuse_update' THEN 'check_erasure'
            WHEN f = 'objects' AND n = 'refuse_delete' THEN 'check_removal' ELSE 'refuse_change' END)
        AND p.prosrc LIKE '%%RAISE EXCEPTION%%' AND g.tgqual IS NULL)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i13
SELECT what FROM (
    SELECT 'turn ' || id AS what FROM turntree.turns
      WHERE workspace_id = %(workspace)b GROUP BY id HAVING count(*) > 1
    UNION ALL
    SELECT 'digest ' || encode(digest, 'hex') FROM turntree.turns
      WHERE workspace_id = %(workspace)b GROUP BY digest HAVING count(*) > 1
    UNION ALL
    SELECT 'segment ' || id FROM turntree.segments
      WHERE workspace_id = %(workspace)b GROUP BY id HAVING count(*) > 1
    UNION ALL
    SELECT 'session ' || id FROM turntree.sessions
      WHERE workspace_id = %(workspace)b GROUP BY id HAVING count(*) > 1
    UNION ALL
    SELECT 'event ' || encode(id, 'hex') FROM turntree.events
      WHERE workspace_id = %(workspace)b GROUP BY id HAVING count(*) > 1
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i14_times
SELECT id::text FROM turntree.turns
  WHERE workspace_id = %(workspace)b AND sealed_at < started_at ORDER BY id LIMIT %(limit)b;

-- name: fsck_i14_strays
SELECT x.what || x.turn_id FROM (
    SELECT 'tool call of ' AS what, turn_id FROM turntree.tool_calls WHERE workspace_id = %(workspace)b
    UNION
    SELECT 'model call of ', turn_id FROM turntree.model_calls WHERE workspace_id = %(workspace)b
    UNION
    SELECT 'compaction of ', turn_id FROM turntree.compactions WHERE workspace_id = %(workspace)b
  ) x
  WHERE NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = x.turn_id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i26
SELECT s.id::text FROM turntree.sessions s
  WHERE s.workspace_id = %(workspace)b AND s.head_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM turntree.turns t WHERE t.workspace_id = s.workspace_id AND t.id = s.head_id)
  ORDER BY s.id LIMIT %(limit)b;

-- name: fsck_i27_versions
SELECT session_id::text FROM turntree.session_history WHERE workspace_id = %(workspace)b
  GROUP BY session_id HAVING min(version) <> 1 OR max(version) <> count(*)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i27_head
SELECT coalesce(s.id, h.session_id)::text
  FROM (SELECT id, head_id, version FROM turntree.sessions WHERE workspace_id = %(workspace)b) s
  FULL JOIN (SELECT DISTINCT ON (session_id) session_id, version, after_id FROM turntree.session_history
    WHERE workspace_id = %(workspace)b ORDER BY session_id, version DESC) h ON h.session_id = s.id
  WHERE s.version IS DISTINCT FROM h.version OR s.head_id IS DISTINCT FROM h.after_id
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i27_chain
SELECT session_id || ' version ' || version FROM (
    SELECT session_id, version, before_id,
        lag(after_id) OVER (PARTITION BY session_id ORDER BY version) AS stood_at
      FROM turntree.session_history WHERE workspace_id = %(workspace)b
  ) x
  WHERE before_id IS DISTINCT FROM stood_at
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i27_events
-- The nth event that says a session moved stands for its nth move. An unescaped quote cannot occur
-- inside a string, so a name of a member is found only where it is one.
SELECT coalesce(h.session_id, e.stream_id) || ' version ' || coalesce(h.version, e.nth)
  FROM (SELECT * FROM turntree.session_history WHERE workspace_id = %(workspace)b) h
  FULL JOIN (
    SELECT stream_id, kind, body, row_number() OVER (PARTITION BY stream_id ORDER BY seq) AS nth
      FROM turntree.events
      WHERE workspace_id = %(workspace)b AND kind IN ('session_created', 'session_moved')
  ) e ON e.stream_id = h.session_id AND e.nth = h.version
  WHERE h.session_id IS NULL OR e.stream_id IS NULL
    OR (e.kind = 'session_created') <> (h.kind IN ('create', 'fork'))
    OR position('"data":{"after":' || turntree.canonical_text(h.after_id::text)
      || ',"before":' || turntree.canonical_text(h.before_id::text)
      || ',"by":' || turntree.canonical_text(h.by) IN e.body) = 0
    OR position('"move":"' || h.kind || '"' IN e.body) = 0
    OR e.body !~ ('"version":' || h.version || '[,}]')
    OR NOT starts_with(e.body, '{"at":"' || to_char(h.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i27_reach
SELECT coalesce(h.session_id, r.session_id) || ' in segment ' || coalesce(h.segment_id, r.segment_id)
  FROM (
    SELECT m.session_id, t.segment_id, max(t.depth) AS depth FROM turntree.session_history m
      JOIN turntree.turns t ON t.workspace_id = m.workspace_id AND t.id = m.after_id
      WHERE m.workspace_id = %(workspace)b GROUP BY m.session_id, t.segment_id
  ) h
  FULL JOIN (SELECT * FROM turntree.session_reach WHERE workspace_id = %(workspace)b) r
    ON r.session_id = h.session_id AND r.segment_id = h.segment_id
  WHERE r.max_depth IS DISTINCT FROM h.depth
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i27_keys
SELECT i.key FROM turntree.inbox i
  WHERE i.workspace_id = %(workspace)b AND NOT EXISTS (
    SELECT FROM turntree.session_history h WHERE h.workspace_id = i.workspace_id
      AND h.session_id = i.session_id AND h.version = i.version)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i28_shape
SELECT h.session_id || ' version ' || h.version FROM turntree.session_history h
  LEFT JOIN turntree.turns t ON t.workspace_id = h.workspace_id AND t.id = h.after_id
  WHERE h.workspace_id = %(workspace)b AND (
    (h.version = 1) <> (h.kind IN ('create', 'fork'))
    OR h.kind = 'create' AND h.after_id IS NOT NULL
    OR t.id IS NULL AND NOT (h.after_id IS NULL AND h.kind IN ('create', 'undo')))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i28_undo
-- Moves and undos pair up like brackets: at one height they alternate, so the row before an undo at
-- its height is the move that it takes back.
SELECT session_id || ' version ' || version FROM (
    SELECT session_id, version, kind, after_id, lag(kind) OVER w AS taken_back, lag(before_id) OVER w AS stood_at
      FROM (
        SELECT *, sum(CASE WHEN kind IN ('create', 'fork') THEN 0 WHEN kind = 'undo' THEN -1 ELSE 1 END)
            OVER (PARTITION BY session_id ORDER BY version)
            + CASE WHEN kind = 'undo' THEN 1 ELSE 0 END AS height
          FROM turntree.session_history WHERE workspace_id = %(workspace)b
      ) x
      WINDOW w AS (PARTITION BY session_id, height ORDER BY version)
  ) y
  WHERE kind = 'undo' AND (coalesce(taken_back, 'create') IN ('create', 'fork', 'undo')
    OR after_id IS DISTINCT FROM stood_at)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i28_rewind
-- Asks is_ancestor, which walks segments: only for a tree in which no other check found a fault.
SELECT session_id || ' version ' || version FROM turntree.session_history
  WHERE workspace_id = %(workspace)b AND kind = 'rewind' AND NOT coalesce(
    turntree.is_ancestor(workspace_id, after_id, before_id) AND after_id <> before_id, false)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i29_parent
SELECT h.session_id || ' version ' || h.version FROM turntree.session_history h
  JOIN turntree.turns t ON t.workspace_id = h.workspace_id AND t.id = h.after_id
  WHERE h.workspace_id = %(workspace)b AND h.kind = 'advance' AND t.parent_id IS DISTINCT FROM h.before_id
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i29_twice
SELECT session_id || ' version ' || version FROM turntree.session_history
  WHERE workspace_id = %(workspace)b GROUP BY session_id, version HAVING count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i30_label
SELECT s.id::text FROM turntree.sessions s
  LEFT JOIN turntree.session_names n ON n.workspace_id = s.workspace_id AND n.session_id = s.id AND n.reason IS NULL
  WHERE s.workspace_id = %(workspace)b GROUP BY s.id HAVING count(n.name) <> 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i30_name
SELECT name FROM (
    SELECT n.name FROM turntree.session_names n
      WHERE n.workspace_id = %(workspace)b AND NOT EXISTS (
        SELECT FROM turntree.sessions s WHERE s.workspace_id = n.workspace_id AND s.id = n.session_id)
    UNION
    SELECT name FROM turntree.session_names
      WHERE workspace_id = %(workspace)b GROUP BY name HAVING count(*) > 1
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i34_places
SELECT stream_id::text FROM turntree.events WHERE workspace_id = %(workspace)b
  GROUP BY stream_id HAVING min(seq) <> 0 OR max(seq) <> count(*) - 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i34_next
SELECT s.id::text FROM turntree.sessions s
  LEFT JOIN (SELECT stream_id, count(*) AS events FROM turntree.events WHERE workspace_id = %(workspace)b
    GROUP BY stream_id) e ON e.stream_id = s.id
  WHERE s.workspace_id = %(workspace)b AND s.event_seq <> coalesce(e.events, 0)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i01_objects
SELECT 'object ' || encode(digest, 'hex') FROM turntree.objects
  WHERE workspace_id = %(workspace)b AND sha256(bytes) <> digest ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_counts
SELECT (SELECT count(*) FROM turntree.turns WHERE workspace_id = %(workspace)b),
    (SELECT count(*) FROM turntree.events WHERE workspace_id = %(workspace)b);

-- name: fsck_turns
-- A page of turns with what stands in their columns and in their bodies.
SELECT t.id::text, t.digest, p.digest, b.body, t.kind, t.outcome, t.agent_role, t.model, t.provider,
    t.started_at, t.sealed_at
  FROM (SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)b AND id > %(after)b
    ORDER BY id LIMIT %(limit)b) t
  LEFT JOIN LATERAL (SELECT digest FROM turntree.turns
    WHERE workspace_id = %(workspace)b AND id = t.parent_id OFFSET 0) p ON true
  LEFT JOIN LATERAL (SELECT header || E'\n' || body AS body FROM turntree.turn_bodies
    WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) b ON true
  ORDER BY t.id;

-- name: fsck_tool_calls
SELECT turn_id::text, sequence, call_id, tool, status FROM turntree.tool_calls
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b
  ORDER BY turn_id, sequence;

-- name: fsck_model_calls
SELECT turn_id::text, sequence, model, provider, call_id, input_tokens, output_tokens, cached_input_tokens,
    cache_write_tokens, reasoning_tokens
  FROM turntree.model_calls
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b
  ORDER BY turn_id, sequence;

-- name: fsck_compactions
SELECT turn_id::text, summarized_through::text, first_kept::text, turns_summarized, kind, trigger,
    tokens_before, tokens_after, summary_tokens, duration_ms
  FROM turntree.compactions
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b;

-- name: fsck_journal
-- What the journal says of a page of turns: what their runs used, and what was erased.
SELECT stream_id::text, body FROM turntree.events
  WHERE workspace_id = %(workspace)b AND stream_id > %(after)b AND stream_id <= %(last)b
    AND kind IN ('turn_recorded', 'model_response', 'erased')
  ORDER BY stream_id, seq;

-- name: fsck_events
SELECT stream_id::text, seq, id, kind, body FROM turntree.events
  WHERE workspace_id = %(workspace)b AND (stream_id, seq) > (%(after)b, %(seq)b)
  ORDER BY stream_id, seq LIMIT %(limit)b;

-- name: fsck_missing_objects
SELECT d FROM unnest(%(digests)b::bytea[]) d
  WHERE NOT EXISTS (SELECT FROM turntree.objects o WHERE o.workspace_id = %(workspace)b AND o.digest = d);

-- name: verify_page
-- The stored bytes of a thread between two depths, root first.
WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
  SELECT s.id, s.fork_depth, least(t.depth, %(high)b::int), s.parent_id
    FROM turntree.turns t
    JOIN turntree.segments s ON s.workspace_id = t.workspace_id
      AND s.id = turntree.segment_at(t.workspace_id, t.segment_id, least(t.depth, %(high)b::int))
    WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b
  UNION ALL
  SELECT s.id, s.fork_depth, c.low, s.parent_id
    FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
    WHERE c.low >= %(low)b::int
)
SELECT t.id::text, t.digest, b.body
  FROM chain c
  JOIN LATERAL (SELECT id, digest, depth FROM turntree.turns WHERE workspace_id = %(workspace)b
    AND segment_id = c.segment_id AND depth > c.low AND depth >= %(low)b::int AND depth <= c.high OFFSET 0) t ON true
  LEFT JOIN LATERAL (SELECT header || E'\n' || body AS body FROM turntree.turn_bodies
    WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) b ON true
  ORDER BY t.depth;
