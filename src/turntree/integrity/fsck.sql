-- The queries of fsck over a whole workspace. Each check returns the subjects that break its rule, so a sound ledger
-- returns nothing; fsck.py says what a check means. They are joins over whole tables and never call a function that
-- walks the tree, because a broken tree may have no end. The one exception is named below.

-- name: fsck_snapshot
-- One snapshot for all checks: writers continue, and none of their partial work is a finding. Other connections may
-- join it by its name. These are joins of whole tables: JIT compilation would take longer than running them, and with
-- old statistics the planner would pick nested loops.
SELECT pg_export_snapshot(), set_config('jit', 'off', true), set_config('enable_nestloop', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('work_mem', '64MB', true);

-- name: fsck_settings
-- The same settings, for checks inside a transaction that writes.
SELECT set_config('jit', 'off', true), set_config('enable_nestloop', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('work_mem', '64MB', true);

-- name: fsck_i03
-- An id covers the stream and the position, so two events with one id are the same event.
SELECT 'event ' || encode(id, 'hex') FROM turntree.events
  WHERE workspace_id = %(workspace)b GROUP BY id HAVING count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i06
-- References that no other check follows. The target exists, but as something else.
WITH found (what, id, asked) AS (
  SELECT 'tag of ' || node_id, node_id, 'turn' FROM turntree.tags g WHERE workspace_id = %(workspace)b
    AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = %(workspace)b AND p.id = g.node_id)
  UNION ALL
  SELECT 'compaction ' || turn_id, r, 'turn' FROM turntree.compactions,
    unnest(ARRAY[summarized_through, first_kept]) r WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'spawn of ' || session_id, parent_turn_id, 'turn' FROM turntree.spawns s WHERE workspace_id = %(workspace)b
    AND NOT EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = %(workspace)b AND r.id = s.parent_turn_id AND r.status <> 'finished')
  UNION ALL
  SELECT 'spawn of ' || session_id, r, 'session' FROM turntree.spawns,
    unnest(ARRAY[session_id, parent_session_id]) r WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'run ' || id, session_id, 'session' FROM turntree.runs WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'message to ' || session_id, session_id, 'session' FROM turntree.queued_messages WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'payload of ' || run_id, run_id, 'run' FROM turntree.run_payloads WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'pin of ' || turn_id, turn_id, 'turn' FROM turntree.turn_snapshots WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'attachment to ' || session_id, session_id, 'session' FROM turntree.resource_attachments
    WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'plan of ' || session_id, session_id, 'session' FROM turntree.session_plans WHERE workspace_id = %(workspace)b
)
SELECT DISTINCT what FROM found f CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = f.id) AS turn,
      EXISTS (SELECT FROM turntree.sessions WHERE workspace_id = %(workspace)b AND id = f.id) AS session,
      EXISTS (SELECT FROM turntree.runs WHERE workspace_id = %(workspace)b AND id = f.id) AS run
  ) x
  WHERE f.id IS NOT NULL AND (turn OR session OR run)
    AND NOT CASE asked WHEN 'turn' THEN turn WHEN 'session' THEN session ELSE run END
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i65_references
-- The same references. A row sees nothing outside its workspace, so a reference into another one leads nowhere.
WITH found (what, id) AS (
  SELECT 'tag of ' || node_id, node_id FROM turntree.tags WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'compaction ' || turn_id, r FROM turntree.compactions,
    unnest(ARRAY[summarized_through, first_kept]) r WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'spawn of ' || session_id, r FROM turntree.spawns,
    unnest(ARRAY[session_id, parent_session_id, parent_turn_id]) r WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'run ' || id, session_id FROM turntree.runs WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'message to ' || session_id, session_id FROM turntree.queued_messages WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'payload of ' || run_id, run_id FROM turntree.run_payloads WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'pin of ' || turn_id, turn_id FROM turntree.turn_snapshots WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'attachment to ' || session_id, session_id FROM turntree.resource_attachments WHERE workspace_id = %(workspace)b
  UNION ALL
  SELECT 'plan of ' || session_id, session_id FROM turntree.session_plans WHERE workspace_id = %(workspace)b
)
SELECT DISTINCT what FROM found f
  WHERE f.id IS NOT NULL
    AND NOT EXISTS (SELECT FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = f.id)
    AND NOT EXISTS (SELECT FROM turntree.sessions WHERE workspace_id = %(workspace)b AND id = f.id)
    AND NOT EXISTS (SELECT FROM turntree.runs WHERE workspace_id = %(workspace)b AND id = f.id)
    AND NOT EXISTS (SELECT FROM turntree.programs WHERE workspace_id = %(workspace)b AND id = f.id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i65_row_security
-- A table with rows of workspaces shows each row only to its own workspace, and none without a viewer. A second
-- permissive policy could only widen access, because they add up; the searcher's is on the tables of search and on no
-- others.
SELECT c.relname::text FROM pg_class c
  WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND EXISTS (SELECT FROM pg_attribute a
      WHERE a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped)
    AND NOT (c.relrowsecurity AND c.relforcerowsecurity
      AND (SELECT count(*) = 1 AND bool_and(pg_get_expr(polqual, polrelid)
            LIKE '%%workspace_id =%%current_setting(''turntree.viewer''%%current_setting(''turntree.workspace''%%')
          FROM pg_policy WHERE polrelid = c.oid AND polpermissive AND NOT (c.relname IN ('search_documents', 'embeddings')
            AND polroles = ARRAY(SELECT oid FROM pg_roles WHERE rolname = 'turntree_searcher'))))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i65_functions
-- A SECURITY DEFINER function belongs to the searcher, whom only the policies of search let through.
SELECT p.oid::regprocedure::text FROM pg_proc p
  WHERE p.pronamespace = 'turntree'::regnamespace AND p.prosecdef
    AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.proowner AND r.rolname = 'turntree_searcher')
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i65_keys
-- A foreign key without the workspace could lead into another one.
SELECT k.conname::text FROM pg_constraint k
  WHERE k.connamespace = 'turntree'::regnamespace AND k.contype = 'f' AND NOT EXISTS (
    SELECT FROM unnest(k.conkey, k.confkey) x (here, there)
      JOIN pg_attribute h ON h.attrelid = k.conrelid AND h.attnum = x.here AND h.attname = 'workspace_id'
      JOIN pg_attribute t ON t.attrelid = k.confrelid AND t.attnum = x.there
        AND t.attname = CASE WHEN k.confrelid = to_regclass('turntree.workspaces') THEN 'id' ELSE 'workspace_id' END)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i07
SELECT t.id::text FROM turntree.turns t
  WHERE t.workspace_id = %(workspace)b AND t.parent_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM turntree.turns p WHERE p.workspace_id = t.workspace_id AND p.id = t.parent_id)
  ORDER BY t.id LIMIT %(limit)b;

-- name: fsck_i08
-- If each depth is one more than the parent's, no path can return to itself.
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
-- The parent by position: the turn before it in its segment or, for the first of a segment, the one that the segment
-- forks from.
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
-- Pairs of a turn and its child, once by segments and once by parents.
SELECT DISTINCT coalesce(t.id, s.id)::text
  FROM (SELECT id, parent_id FROM turntree.turns
    WHERE workspace_id = %(workspace)b AND parent_id IS NOT NULL) t
  FULL JOIN (
    SELECT a.id AS above, t.id FROM turntree.turns a
      JOIN turntree.turns t ON t.workspace_id = a.workspace_id AND t.segment_id = a.segment_id
        AND t.depth = a.depth + 1
      WHERE a.workspace_id = %(workspace)b
    UNION ALL
    SELECT a.id, s.id FROM turntree.segments s
      JOIN turntree.turns a ON a.workspace_id = s.workspace_id AND a.segment_id = s.parent_id
        AND a.depth = s.fork_depth
      WHERE s.workspace_id = %(workspace)b
  ) s ON s.id = t.id AND s.above = t.parent_id
  WHERE t.id IS NULL OR s.id IS NULL
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
    'session_history', 'spawns', 'events', 'event_links', 'idempotency_keys', 'message_files', 'raw_blocks', 'transcripts', 'trigger_firings',
    'turn_sources', 'handoffs', 'resources', 'snapshots', 'handles', 'turn_snapshots', 'session_plans',
    'program_versions', 'program_refs', 'object_writers', 'posts', 'post_decisions', 'post_deliveries', 'bound_sessions']) f
  CROSS JOIN unnest(ARRAY['refuse_update', 'refuse_delete', 'refuse_truncate']) n
  WHERE NOT EXISTS (
    SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
      WHERE g.tgrelid = to_regclass('turntree.' || f) AND g.tgname = n AND g.tgenabled IN ('O', 'A')
        AND g.tgfoid = to_regproc('turntree.'
          || CASE WHEN f = 'turn_bodies' AND n = 'refuse_update' THEN 'check_erasure'
            WHEN f = 'raw_blocks' AND n = 'refuse_update' THEN 'check_record_erasure'
            WHEN f = 'message_files' AND n = 'refuse_update' THEN 'check_file_erasure'
            WHEN f = 'posts' AND n = 'refuse_update' THEN 'check_post_erasure'
            WHEN f IN ('objects', 'object_writers') AND n = 'refuse_delete' THEN 'check_object_deletion' ELSE 'forbid_change' END)
        AND p.prosrc LIKE '%%RAISE EXCEPTION%%' AND g.tgqual IS NULL)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i12_records
-- Records are erased with a message, and its receipt is in the stream of a turn that was made from them, or of one in
-- the thread that they were written from.
SELECT 'block ' || encode(b.digest, 'hex') FROM turntree.raw_blocks b
  WHERE b.workspace_id = %(workspace)b AND b.current_digest IS NOT NULL AND NOT EXISTS (
    SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.kind = 'message.erased'
      AND (e.stream_id = ANY (b.turn_ids) OR turntree.is_ancestor(b.workspace_id, e.stream_id, b.handoff_turn_id) OR EXISTS (SELECT FROM turntree.turn_sources s
        JOIN turntree.transcripts n ON n.workspace_id = s.workspace_id AND n.id = s.transcript_id
        JOIN turntree.import_cursors i ON i.workspace_id = n.workspace_id AND i.origin = n.origin AND i.transcript = n.name
        WHERE s.workspace_id = %(workspace)b AND s.turn_id = e.stream_id AND b.digest = ANY (i.block_digests))))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i37_records
SELECT DISTINCT 'block ' || encode(x.digest, 'hex') FROM turntree.import_cursors i, unnest(i.block_digests) AS x (digest)
  WHERE i.workspace_id = %(workspace)b AND NOT EXISTS (SELECT FROM turntree.raw_blocks b
    WHERE b.workspace_id = %(workspace)b AND b.digest = x.digest)
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
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i14_times
SELECT id::text FROM turntree.turns
  WHERE workspace_id = %(workspace)b AND sealed_at < started_at ORDER BY id LIMIT %(limit)b;

-- name: fsck_i14_strays
SELECT DISTINCT x.what || x.turn_id FROM (
    SELECT 'tool call of ' AS what, turn_id FROM turntree.tool_calls WHERE workspace_id = %(workspace)b
    UNION ALL
    SELECT 'model call of ', turn_id FROM turntree.model_calls WHERE workspace_id = %(workspace)b
    UNION ALL
    SELECT 'compaction of ', turn_id FROM turntree.compactions WHERE workspace_id = %(workspace)b
    UNION ALL
    SELECT 'file of ', turn_id FROM turntree.message_files WHERE workspace_id = %(workspace)b
  ) x
  WHERE NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = x.turn_id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i20
SELECT DISTINCT turn_id || ' message ' || message FROM turntree.message_files
  WHERE workspace_id = %(workspace)b
  GROUP BY turn_id, message, kind, path, line_start HAVING count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i23
SELECT coalesce(t.id, c.turn_id)::text
  FROM (SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)b AND kind = 'compaction') t
  FULL JOIN (SELECT turn_id FROM turntree.compactions WHERE workspace_id = %(workspace)b) c ON c.turn_id = t.id
  GROUP BY t.id, c.turn_id HAVING t.id IS NULL OR c.turn_id IS NULL OR count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i24_path
-- Walks, as rewinds do: what is summarized is above, and what is kept starts right after it.
SELECT c.turn_id::text FROM turntree.compactions c
  LEFT JOIN turntree.turns k ON k.workspace_id = c.workspace_id AND k.id = coalesce(c.first_kept, c.turn_id)
  WHERE c.workspace_id = %(workspace)b AND NOT coalesce(
    turntree.is_ancestor(c.workspace_id, c.summarized_through, c.turn_id) AND c.summarized_through <> c.turn_id
    AND k.parent_id = c.summarized_through AND turntree.is_ancestor(c.workspace_id, k.id, c.turn_id), false)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i24_count
-- A first summary covers everything up to its end. A later one may count only what the one before it left, and other
-- kinds select turns.
SELECT c.turn_id::text FROM turntree.compactions c
  JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.summarized_through
  JOIN turntree.turns x ON x.workspace_id = c.workspace_id AND x.id = c.turn_id
  WHERE c.workspace_id = %(workspace)b AND (c.turns_summarized NOT BETWEEN 1 AND t.depth
    OR c.kind = 'summary' AND c.turns_summarized <> t.depth
      AND turntree.compaction_at(c.workspace_id, x.segment_id, x.depth - 1) IS NULL)
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
-- The nth head_moved event of a session describes its nth move. An unescaped quote cannot occur inside a string, so
-- the name of a member only matches where it is one.
SELECT coalesce(h.session_id, e.stream_id) || ' version ' || coalesce(h.version, e.nth)
  FROM (SELECT * FROM turntree.session_history WHERE workspace_id = %(workspace)b) h
  FULL JOIN (
    SELECT stream_id, kind, body, row_number() OVER (PARTITION BY stream_id ORDER BY seq) AS nth
      FROM turntree.events
      WHERE workspace_id = %(workspace)b AND kind IN ('session.created', 'session.head_moved')
  ) e ON e.stream_id = h.session_id AND e.nth = h.version
  WHERE h.session_id IS NULL OR e.stream_id IS NULL
    OR (e.kind = 'session.created') <> (h.kind IN ('create', 'fork'))
    OR position('"data":{"after":' || turntree.canonical_text(h.after_id::text)
      || ',"before":' || turntree.canonical_text(h.before_id::text)
      || ',"by":' || turntree.canonical_text(h.by) IN e.body) = 0
    OR position('{"at":"' || to_char(h.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') IN e.body) <> 1
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
SELECT i.idempotency_key FROM turntree.idempotency_keys i
  WHERE i.workspace_id = %(workspace)b AND NOT EXISTS (
    SELECT FROM turntree.session_history h WHERE h.workspace_id = i.workspace_id
      AND h.session_id = i.session_id AND h.version = i.version AND h.by = i.by)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i28_shape
SELECT h.session_id || ' version ' || h.version FROM turntree.session_history h
  LEFT JOIN turntree.turns t ON t.workspace_id = h.workspace_id AND t.id = h.after_id
  WHERE h.workspace_id = %(workspace)b AND (
    (h.version = 1) <> (h.kind IN ('create', 'fork'))
    OR h.kind = 'create' AND h.after_id IS NOT NULL
    OR t.id IS NULL AND NOT (h.after_id IS NULL AND h.kind IN ('create', 'undo', 'rewind')))
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
-- Calls is_ancestor, which walks segments: only for a tree in which no other check found a fault.
SELECT session_id || ' version ' || version FROM turntree.session_history
  WHERE workspace_id = %(workspace)b AND kind = 'rewind' AND NOT coalesce(CASE
    -- A rewind to before the first turn has no target.
    WHEN after_id IS NULL THEN before_id IS NOT NULL
    ELSE turntree.is_ancestor(workspace_id, after_id, before_id) AND after_id <> before_id END, false)
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

-- name: fsck_i31
-- The call is in the turn, and the session's first event names it.
SELECT coalesce(s.session_id, e.stream_id)::text
  FROM (SELECT * FROM turntree.spawns WHERE workspace_id = %(workspace)b) s
  FULL JOIN (SELECT stream_id, body FROM turntree.events WHERE workspace_id = %(workspace)b
      AND kind = 'session.created' AND position(',"call_id":"' IN body) > 0) e ON e.stream_id = s.session_id
  WHERE s.session_id IS NULL OR e.stream_id IS NULL OR s.session_id = s.parent_session_id
    OR position('"call_id":' || turntree.canonical_text(s.call_id) || ',' IN e.body) = 0
    OR position('"mode":"' || s.mode || '"' IN e.body) = 0
    OR NOT EXISTS (SELECT FROM turntree.tool_calls c WHERE c.workspace_id = s.workspace_id
        AND c.turn_id = s.parent_turn_id AND c.call_id = s.call_id)
      AND NOT EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = s.workspace_id
        AND r.id = s.parent_turn_id AND r.session_id = s.parent_session_id AND r.status <> 'finished')
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i31_path
-- Walks: the head of the parent's session has been at the turn or below it, unless the turn is one of the session's
-- runs: a canceled run, for example, leaves the head where it was.
SELECT s.session_id::text FROM turntree.spawns s
  WHERE s.workspace_id = %(workspace)b AND NOT EXISTS (SELECT FROM turntree.runs r
      WHERE r.workspace_id = s.workspace_id AND r.id = s.parent_turn_id AND r.session_id = s.parent_session_id)
    AND NOT EXISTS (
    SELECT FROM turntree.session_reach r
      JOIN turntree.turns t ON t.workspace_id = r.workspace_id AND t.segment_id = r.segment_id AND t.depth = r.max_depth
      WHERE r.workspace_id = s.workspace_id AND r.session_id = s.parent_session_id
        AND turntree.is_ancestor(s.workspace_id, s.parent_turn_id, t.id))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i32
SELECT origin || ' ' || origin_session_id FROM turntree.sessions
  WHERE workspace_id = %(workspace)b AND origin IS NOT NULL
  GROUP BY origin, origin_session_id, imported_by HAVING count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i35
SELECT DISTINCT what FROM (
    SELECT stream_id::text AS what FROM turntree.events
      WHERE workspace_id = %(workspace)b AND kind = 'run.started' AND seq > 0
    UNION ALL
    SELECT r.id::text FROM turntree.runs r
      LEFT JOIN turntree.events e ON e.workspace_id = r.workspace_id AND e.stream_id = r.id AND e.seq = 0
      WHERE r.workspace_id = %(workspace)b AND e.kind IS DISTINCT FROM 'run.started'
    UNION ALL
    SELECT r.id::text FROM turntree.runs r
      WHERE r.workspace_id = %(workspace)b AND r.status = 'finished' AND NOT EXISTS (
        SELECT FROM turntree.turns t WHERE t.workspace_id = r.workspace_id AND t.id = r.id)
    UNION ALL
    SELECT e.stream_id::text
      FROM (SELECT stream_id, min(seq) AS seq FROM turntree.events
        WHERE workspace_id = %(workspace)b AND kind = 'run.finished' GROUP BY stream_id) f
      JOIN turntree.events e ON e.workspace_id = %(workspace)b AND e.stream_id = f.stream_id AND e.seq > f.seq
      WHERE e.kind IN ('run.finished', 'model_call.finished', 'tool_call.finished')
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i37_payloads
-- The messages of an open run are in payloads until it is sealed.
SELECT coalesce(e.stream_id || ' at ' || e.seq, p.run_id || ' at ' || p.seq)
  FROM (
    SELECT x.stream_id, x.seq, x.body FROM turntree.events x
      JOIN turntree.runs r ON r.workspace_id = x.workspace_id AND r.id = x.stream_id AND r.status <> 'finished'
      WHERE x.workspace_id = %(workspace)b AND position('"message":"sha256:' IN x.body) > 0
        AND x.kind IN ('run.started', 'message.appended', 'model_call.finished', 'tool_call.finished', 'route.chosen', 'run.interrupted')
  ) e
  FULL JOIN (SELECT * FROM turntree.run_payloads WHERE workspace_id = %(workspace)b) p
    ON p.run_id = e.stream_id AND p.seq = e.seq
  WHERE e.stream_id IS NULL OR p.run_id IS NULL OR position('"message":"sha256:'
    || encode(sha256(convert_to(p.payload, 'UTF8')), 'hex') || '"' IN e.body) = 0
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i38
-- An interruption that names calls applies to those only: the run continues.
WITH stopped AS MATERIALIZED (
  SELECT stream_id, min(seq) AS seq FROM turntree.events
    WHERE workspace_id = %(workspace)b AND kind = 'run.interrupted'
      AND coalesce(body::jsonb #> '{data,affects}', '[]') = '[]'
    GROUP BY stream_id
)
SELECT DISTINCT what FROM (
    SELECT i.stream_id::text AS what FROM stopped i
      JOIN turntree.turns t ON t.workspace_id = %(workspace)b AND t.id = i.stream_id
      WHERE t.outcome NOT IN ('interrupted', 'canceled')
    UNION ALL
    SELECT e.stream_id::text FROM stopped i
      JOIN turntree.events e ON e.workspace_id = %(workspace)b AND e.stream_id = i.stream_id AND e.seq > i.seq
      WHERE e.kind IN ('model_call.started', 'model_call.finished', 'tool_call.started', 'tool_call.finished')
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i41_versions
-- The source is what decides, and decisions name its digest.
WITH told AS (
  SELECT coalesce(d.j ->> 'agent_id', '') AS agent, (d.j ->> 'number')::int AS number, count(*) AS count,
      min(d.j ->> 'source_digest') AS digest, min(d.j ->> 'by') AS by
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream() AND e.kind = 'policy.proposed'
    GROUP BY 1, 2
), kept AS (
  SELECT p.agent, p.number, 1::bigint AS count, 'sha256:' || encode(sha256(convert_to(p.source, 'UTF8')), 'hex') AS digest,
      p.proposed_by AS by, p.digest = sha256(convert_to(p.source, 'UTF8')) AS is_own
    FROM turntree.policies p WHERE p.workspace_id = %(workspace)b
)
SELECT 'policy ' || coalesce(nullif(coalesce(k.agent, t.agent), '') || ' ', '') || coalesce(k.number, t.number)
  FROM told t FULL JOIN kept k ON k.agent = t.agent AND k.number = t.number
  WHERE (k.count, k.digest, k.by) IS DISTINCT FROM (t.count, t.digest, t.by) OR NOT k.is_own
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i41_active
-- The newest activation for each agent, and for all of them.
WITH told AS (
  SELECT DISTINCT ON (1) coalesce(d.j ->> 'agent_id', '') AS agent, (d.j ->> 'number')::int AS number, d.j ->> 'by' AS by
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream() AND e.kind = 'policy.activated'
    ORDER BY 1, e.seq DESC
), kept AS (
  SELECT p.agent, p.number, p.activated_by AS by FROM turntree.policies p WHERE p.workspace_id = %(workspace)b AND p.is_active
)
SELECT 'policy ' || coalesce(nullif(coalesce(k.agent, t.agent), '') || ' ', '') || coalesce(k.number, t.number)
  FROM told t FULL JOIN kept k ON k.agent = t.agent
  WHERE (k.number, k.by) IS DISTINCT FROM (t.number, t.by)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i42
-- A run without any decision is from before calls were judged.
WITH calls AS (
  SELECT e.stream_id, e.seq, e.kind, d.j ->> 'call_id' AS call, d.j ->> 'args_digest' AS digest, d.j ->> 'decision' AS decision,
      d.j ? 'approval' AS has_approval
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind IN ('tool_call.judged', 'tool_call.started')
)
SELECT c.stream_id || '/' || c.seq FROM calls c
  WHERE c.kind = 'tool_call.started' AND EXISTS (SELECT FROM calls j WHERE j.stream_id = c.stream_id AND j.kind = 'tool_call.judged')
    AND NOT EXISTS (SELECT FROM calls j WHERE j.stream_id = c.stream_id AND j.kind = 'tool_call.judged' AND j.seq < c.seq
      AND j.call = c.call AND j.digest = c.digest AND (j.decision IN ('allow', 'rewrite') OR j.decision = 'ask' AND c.has_approval))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i43
-- Attaching and detaching alternate, and the last attached resource is attached now.
WITH told AS (
  SELECT stream_id, seq, kind, data ->> 'resource_ref' AS resource, data ->> 'mode' AS mode,
      lag(kind, 1, 'resource.detached') OVER w AS before, lead(kind) OVER w AS after
    FROM turntree.resource_events(%(workspace)b, ARRAY['resource.attached', 'resource.detached'])
    WHERE data ->> 'session_id' = stream_id::text
    WINDOW w AS (PARTITION BY stream_id, data ->> 'resource_ref' ORDER BY seq)
)
SELECT DISTINCT what FROM (
    SELECT stream_id || ' works on ' || resource AS what FROM told
      WHERE kind = before OR kind = 'resource.attached' AND coalesce(mode, '') NOT IN ('ro', 'rw')
    UNION ALL
    SELECT coalesce(t.stream_id, a.session_id) || ' works on ' || coalesce(t.resource, a.resource_id::text)
      FROM (SELECT * FROM told WHERE kind = 'resource.attached' AND after IS NULL) t
      FULL JOIN (SELECT * FROM turntree.resource_attachments WHERE workspace_id = %(workspace)b) a
        ON a.session_id = t.stream_id AND a.resource_id::text = t.resource
      WHERE a.mode IS DISTINCT FROM t.mode
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i44
-- A snapshot is of a resource that supports snapshots, as its event says, under a digest; and a turn snapshot belongs
-- to its resource.
WITH told AS (
  SELECT data ->> 'snapshot_ref' AS snapshot, data FROM turntree.resource_events(%(workspace)b, ARRAY['snapshot.created']) f
    WHERE EXISTS (SELECT FROM turntree.resources r WHERE r.workspace_id = %(workspace)b AND r.id = f.stream_id)
)
SELECT DISTINCT what FROM (
    SELECT 'snapshot ' || coalesce(s.id::text, t.snapshot) AS what
      FROM (SELECT * FROM turntree.snapshots WHERE workspace_id = %(workspace)b) s
      FULL JOIN told t ON t.snapshot = s.id::text
      LEFT JOIN turntree.resources r ON r.workspace_id = s.workspace_id AND r.id = s.resource_id
      WHERE t.snapshot IS NULL OR s.id IS NULL OR r.id IS NULL OR NOT 'snapshot' = ANY (r.capabilities)
        OR s.external_id !~ '(^|[^0-9a-f])[0-9a-f]{64}$' OR s.size_bytes < 0
        OR t.data ->> 'resource_ref' <> s.resource_id::text OR t.data ->> 'size_bytes' <> s.size_bytes::text
        OR t.data #>> '{external_ref,kind}' <> s.external_kind OR t.data #>> '{external_ref,id}' <> s.external_id
    UNION ALL
    SELECT 'snapshot ' || x.id FROM turntree.turn_snapshots p, unnest(ARRAY[p.before_snapshot_id, p.after_snapshot_id]) x (id)
      WHERE p.workspace_id = %(workspace)b AND x.id IS NOT NULL AND NOT EXISTS (SELECT FROM turntree.snapshots s
        WHERE s.workspace_id = %(workspace)b AND s.id = x.id AND s.resource_id = p.resource_id)
  ) y
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i45
-- What is not restorable is never restored, and a failed attempt leaves no resource.
SELECT f.stream_id || ' at ' || f.seq
  FROM turntree.resource_events(%(workspace)b, ARRAY['snapshot.restore_attempted']) f
  LEFT JOIN turntree.snapshots s ON s.workspace_id = %(workspace)b AND s.id::text = f.data ->> 'snapshot_ref'
  LEFT JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.id = s.resource_id
  WHERE coalesce(f.data ->> 'outcome', '') NOT IN ('ok', 'unsupported', 'error')
    OR f.data ->> 'outcome' <> 'ok' AND f.data ? 'new_resource_ref'
    OR f.data ->> 'outcome' = 'ok' AND r.id IS NOT NULL
      AND NOT r.capabilities && CASE WHEN f.data ? 'new_resource_ref' THEN ARRAY['fork'] ELSE ARRAY['restore'] END
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i46
-- A fork decides once for each attached resource what happens to it: one branch keeps what is kept, what is forked
-- has a snapshot, and imperative resources are not forked.
WITH forks AS (
  SELECT stream_id, seq, data, data #>> '{at_event,stream}' AS source, (data #>> '{at_event,seq}')::int AS at
    FROM turntree.resource_events(%(workspace)b, ARRAY['session.forked']) WHERE data ? 'volume_plan'
), told AS (
  SELECT f.stream_id, f.seq, p.said, p.said ->> 'resource' AS resource, p.said ->> 'mode' AS mode
    FROM forks f, jsonb_array_elements(turntree.array_or_empty(f.data -> 'volume_plan')) AS p (said)
), held AS (
  SELECT DISTINCT ON (f.stream_id, f.seq, a.data ->> 'resource_ref')
      f.stream_id, f.seq, a.data ->> 'resource_ref' AS resource, a.kind
    FROM forks f
    JOIN turntree.resource_events(%(workspace)b, ARRAY['resource.attached', 'resource.detached']) a
      ON a.stream_id::text = f.source AND a.seq <= f.at
    ORDER BY f.stream_id, f.seq, a.data ->> 'resource_ref', a.seq DESC
)
SELECT DISTINCT what FROM (
    SELECT stream_id || ' at ' || seq AS what FROM told GROUP BY stream_id, seq, resource HAVING count(*) > 1
    UNION ALL
    SELECT h.stream_id || ' at ' || h.seq FROM held h LEFT JOIN told t USING (stream_id, seq, resource)
      WHERE h.kind = 'resource.attached' AND t.resource IS NULL
    UNION ALL
    SELECT t.stream_id || ' at ' || t.seq FROM told t
      JOIN forks f USING (stream_id, seq)
      LEFT JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.id::text = t.resource
      WHERE r.id IS NULL OR coalesce(t.mode, '') NOT IN ('keep', 'snapshot', 'discard')
        OR (t.mode = 'keep') <> (t.said ? 'kept_by') OR (t.mode = 'snapshot') <> (t.said ? 'snapshot_ref')
        OR t.mode = 'keep' AND t.said ->> 'kept_by' NOT IN (f.data ->> 'from_branch', f.data ->> 'to_branch')
        OR t.mode = 'snapshot' AND (r.imperative OR NOT r.capabilities @> ARRAY['snapshot', 'fork'])
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i47
SELECT DISTINCT what FROM (
    SELECT 'handle ' || id AS what FROM turntree.handles WHERE workspace_id = %(workspace)b AND restorable
    UNION ALL
    SELECT 'handle ' || (data #>> '{handle,id}') FROM turntree.resource_events(%(workspace)b, ARRAY['resource.attached'])
      WHERE data #>> '{handle,restorable}' = 'true'
  ) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i48
-- Liveness and leases are advisory: nothing that is hashed records them, except the probe itself.
SELECT stream_id || ' at ' || seq FROM turntree.resource_events(%(workspace)b, ARRAY['resource.created', 'resource.attached',
    'resource.detached', 'snapshot.created', 'turn.snapshotted', 'snapshot.restore_attempted', 'session.forked', 'plan.started',
    'plan.step_started', 'plan.step_finished', 'plan.step_compensated', 'plan.finished'])
  WHERE data ?| ARRAY['liveness', 'lease', 'leases', 'expires_at'] OR data -> 'metadata' ?| ARRAY['liveness', 'lease']
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i49
-- The graph contains no bytes of a resource: its events say where the bytes are, and are short.
SELECT stream_id || ' at ' || seq FROM turntree.resource_events(%(workspace)b, ARRAY['resource.created', 'resource.attached',
    'snapshot.created', 'turn.snapshotted', 'snapshot.restore_attempted', 'session.forked', 'plan.started', 'plan.step_started',
    'plan.step_finished', 'plan.step_compensated', 'plan.finished'])
  WHERE size > 262144 OR data ?| ARRAY['bytes', 'content', 'payload'] OR data -> 'external_ref' ?| ARRAY['bytes', 'content']
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i59
-- The newest event about a session's status; the target of a merge keeps its own.
SELECT s.id::text FROM turntree.sessions s
  LEFT JOIN (
    SELECT DISTINCT ON (stream_id) stream_id, kind, body FROM turntree.events
      WHERE workspace_id = %(workspace)b AND (kind IN ('session.archived', 'session.unarchived')
        OR kind = 'session.merged' AND position(',"into":"' IN body) > 0)
      ORDER BY stream_id, seq DESC
  ) e ON e.stream_id = s.id
  WHERE s.workspace_id = %(workspace)b AND s.status IS DISTINCT FROM CASE coalesce(e.kind, 'session.unarchived')
    WHEN 'session.unarchived' THEN 'active' WHEN 'session.merged' THEN 'archived'
    ELSE substring(e.body FROM ',"status":"([a-z]+)"\}') END
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i62_documents
SELECT 'words of ' || d.turn_id FROM turntree.search_documents d
  WHERE d.workspace_id = %(workspace)b AND NOT EXISTS (
    SELECT FROM turntree.turns t WHERE t.workspace_id = d.workspace_id AND t.id = d.turn_id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i62_embeddings
SELECT 'meaning of ' || node_id || ' by ' || embedder FROM turntree.stale_embeddings(%(workspace)b)
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

-- name: fsck_i14_holders
-- An object is referred to by a turn, a run or a queued message.
SELECT DISTINCT h.turn_id::text FROM turntree.object_holders h
  WHERE h.workspace_id = %(workspace)b
    AND NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = h.turn_id)
    AND NOT EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = %(workspace)b AND r.id = h.turn_id)
    AND NOT EXISTS (SELECT FROM turntree.queued_messages i WHERE i.workspace_id = %(workspace)b AND i.run_id = h.turn_id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i14_links
-- The links of an event match its body, and there are no others. Links at position -1 come from a header: their
-- targets may have been stored later, so they are not compared.
WITH said AS (
  SELECT e.stream_id, e.seq, l.kind, l.from_kind, l.from_id, l.to_kind, l.to_id, l.holder, l.valid_from, l.valid_to
    FROM turntree.events e,
      LATERAL turntree.readable_links(e.workspace_id, e.stream_id, e.seq, e.kind, e.body) l
    WHERE e.workspace_id = %(workspace)b AND turntree.has_links(e.kind, e.body)
), noted AS (
  SELECT stream_id, seq, kind, from_kind, from_id, to_kind, to_id, holder, valid_from, valid_to FROM turntree.event_links
    WHERE workspace_id = %(workspace)b AND seq >= 0
)
SELECT DISTINCT x.stream_id || ' at ' || x.seq
  FROM ((SELECT * FROM said EXCEPT SELECT * FROM noted) UNION ALL (SELECT * FROM noted EXCEPT SELECT * FROM said)) x
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i61_objects
-- The formats are those of core/redaction.py. Searching for their prefixes first is faster.
SELECT 'object ' || encode(digest, 'hex') FROM turntree.objects
  WHERE workspace_id = %(workspace)b AND EXISTS (
      SELECT FROM unnest(ARRAY['sk-', 'ghp_', 'AKIA', 'xox', 'PRIVATE KEY-----']::bytea[]) m
        WHERE position(m IN bytes) > 0)
    AND encode(bytes, 'escape') ~ ('(^|[^A-Za-z0-9_-]|\\[nrt])(sk-(proj-|ant-|svcacct-|or-v1-)?[A-Za-z0-9_-]{32,}'
      '|ghp_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16}|xox[bp]-[0-9]{8,}-[A-Za-z0-9-]{16,})([^A-Za-z0-9]|$)'
      '|-----BEGIN ([A-Z]+ )*PRIVATE KEY-----')
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_ranges
-- Where to split the ledger into ranges of about the given number of turns.
SELECT id::text FROM (
    SELECT id, row_number() OVER (ORDER BY id) AS n FROM turntree.turns WHERE workspace_id = %(workspace)b
  ) x
  WHERE n %% %(size)b = 0 ORDER BY id;

-- name: fsck_count
SELECT count(*) FROM turntree.turns WHERE workspace_id = %(workspace)b;

-- name: fsck_missing_events
SELECT d FROM unnest(%(digests)b::bytea[]) d
  WHERE NOT EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.id = d);

-- name: fsck_missing_sources
-- A source is a turn, an object or an event.
SELECT d FROM unnest(%(digests)b::bytea[]) d
  WHERE NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.digest = d)
    AND NOT EXISTS (SELECT FROM turntree.objects o WHERE o.workspace_id = %(workspace)b AND o.digest = d)
    AND NOT EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.id = d);

-- name: fsck_i57_names
SELECT name FROM turntree.programs WHERE workspace_id = %(workspace)b
  GROUP BY name HAVING count(*) > 1 ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i59_programs
SELECT e.stream_id::text FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND position('"config":"sha256:' IN e.body) > 0 AND position('"owner":"' IN e.body) > 0
    AND (e.kind LIKE '%%.created' OR e.kind = 'session.configured')
    AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = e.workspace_id AND p.id = e.stream_id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i50
-- Each addition and each removal is an event, in the order of the rows.
WITH told AS (
  SELECT e.stream_id AS conversation, d.j ->> 'participant' AS principal,
      array_agg(CASE e.kind WHEN 'participant.added' THEN 'added' ELSE 'removed' END || ' by ' || (d.j ->> 'by') ORDER BY e.seq) AS changes
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind IN ('participant.added', 'participant.removed') GROUP BY 1, 2
), kept AS (
  SELECT x.conversation_id AS conversation, x.principal, array_agg(c.change ORDER BY x.number, c.n) AS changes
    FROM turntree.participants x, LATERAL (VALUES (1, 'added by ' || x.added_by), (2, 'removed by ' || x.removed_by)) c (n, change)
    WHERE x.workspace_id = %(workspace)b AND c.change IS NOT NULL GROUP BY 1, 2
)
SELECT coalesce(k.principal, t.principal) || ' in ' || coalesce(k.conversation, t.conversation)
  FROM told t FULL JOIN kept k ON k.conversation = t.conversation AND k.principal = t.principal
  WHERE t.changes IS DISTINCT FROM k.changes ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i51_events
WITH told AS (
  SELECT e.stream_id AS conversation, (d.j ->> 'post')::int AS seq, d.j AS told
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind = 'post.created'
), kept AS (
  SELECT p.conversation_id AS conversation, p.seq, jsonb_strip_nulls(jsonb_build_object('by', coalesce(p.author, 'system:conversation'),
      'cause', p.cause_seq, 'digest', 'sha256:' || encode(p.digest, 'hex'), 'hops', p.hops, 'id', p.id, 'post', p.seq, 'turn', p.turn_id)) AS kept
    FROM turntree.posts p WHERE p.workspace_id = %(workspace)b
)
SELECT 'post ' || coalesce(k.seq, t.seq) || ' of ' || coalesce(k.conversation, t.conversation)
  FROM told t FULL JOIN kept k ON k.conversation = t.conversation AND k.seq = t.seq
  WHERE k.kept IS DISTINCT FROM t.told ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i51_authors
-- By the order of events, because clocks differ. An agent's answer may come after its removal.
WITH changes AS (
  SELECT e.stream_id, e.seq, e.kind, d.j ->> 'participant' AS principal
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind IN ('participant.added', 'participant.removed')
), said AS (
  SELECT e.stream_id, e.seq, d.j ->> 'by' AS author, (d.j ->> 'post')::int AS post, d.j ? 'turn' AS is_answer
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind = 'post.created'
), judged AS (
  SELECT s.stream_id, s.post, s.is_answer, array_agg(c.kind ORDER BY c.seq DESC) FILTER (WHERE c.kind IS NOT NULL) AS kinds
    FROM said s LEFT JOIN changes c ON c.stream_id = s.stream_id AND c.principal = s.author AND c.seq < s.seq
    WHERE s.author NOT LIKE 'system:%%' GROUP BY s.stream_id, s.post, s.is_answer
)
SELECT 'post ' || post || ' of ' || stream_id FROM judged
  WHERE kinds IS NULL OR kinds[1] <> 'participant.added' AND NOT is_answer ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i51_digests
SELECT 'post ' || seq || ' of ' || conversation_id FROM turntree.posts
  WHERE workspace_id = %(workspace)b AND body <> '{"erased":"sha256:' || encode(digest, 'hex') || '"}'
    AND sha256(convert_to(body, 'UTF8')) <> digest ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i52_sessions
-- Who reads such a session is decided by its conversation alone.
SELECT b.session_id::text FROM turntree.bound_sessions b
  LEFT JOIN turntree.programs p ON p.workspace_id = b.workspace_id AND p.id = b.session_id
  WHERE b.workspace_id = %(workspace)b AND b.agent IS NOT NULL AND (p.owner IS DISTINCT FROM 'system:conversation' OR p.visibility <> 'private'
    OR EXISTS (SELECT FROM turntree.program_grants g WHERE g.workspace_id = b.workspace_id AND g.program_id = b.session_id)
    OR NOT EXISTS (SELECT FROM turntree.participants x WHERE x.workspace_id = b.workspace_id AND x.conversation_id = b.conversation_id
      AND x.session_id = b.session_id AND x.principal = 'agent:' || b.agent))
UNION ALL
SELECT x.session_id::text FROM turntree.participants x WHERE x.workspace_id = %(workspace)b AND x.session_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM turntree.bound_sessions b WHERE b.workspace_id = x.workspace_id AND b.session_id = x.session_id
    AND b.conversation_id = x.conversation_id)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i52_messages
-- Each message to a session of a conversation says which post led to it, and that post exists.
SELECT 'message ' || q.seq || ' to ' || q.session_id FROM turntree.bound_sessions b
  JOIN turntree.queued_messages q ON q.workspace_id = b.workspace_id AND q.session_id = b.session_id
  JOIN turntree.conversations c ON c.workspace_id = b.workspace_id AND c.id = b.conversation_id
  WHERE b.workspace_id = %(workspace)b AND b.agent IS NOT NULL
    AND (q.options #>> '{conversation,id}' IS DISTINCT FROM b.conversation_id::text
      OR (q.options #>> '{conversation,post}')::int NOT BETWEEN 1 AND c.post_seq)
UNION ALL
SELECT 'message ' || d.message_seq || ' to ' || d.session_id FROM turntree.post_deliveries d
  WHERE d.workspace_id = %(workspace)b AND NOT EXISTS (SELECT FROM turntree.queued_messages q
    WHERE q.workspace_id = d.workspace_id AND q.session_id = d.session_id AND q.seq = d.message_seq)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i52_answers
-- A turn that ends in such a session has one post, its answer or the reason why there is none; or it is a decision.
WITH turns AS (
  SELECT DISTINCT b.conversation_id, q.run_id AS turn_id FROM turntree.bound_sessions b
    JOIN turntree.queued_messages q ON q.workspace_id = b.workspace_id AND q.session_id = b.session_id
    JOIN turntree.turns t ON t.workspace_id = b.workspace_id AND t.id = q.run_id
    WHERE b.workspace_id = %(workspace)b AND b.agent IS NOT NULL
), posted AS (
  SELECT p.conversation_id, p.turn_id, count(p.author) AS answers FROM turntree.posts p
    WHERE p.workspace_id = %(workspace)b AND p.turn_id IS NOT NULL GROUP BY 1, 2
  UNION ALL SELECT d.conversation_id, d.turn_id, count(*) FROM turntree.post_decisions d
    WHERE d.workspace_id = %(workspace)b AND d.turn_id IS NOT NULL GROUP BY 1, 2
)
SELECT coalesce(t.turn_id, p.turn_id)::text FROM turns t FULL JOIN posted p ON p.conversation_id = t.conversation_id AND p.turn_id = t.turn_id
  WHERE t.turn_id IS NULL OR p.turn_id IS NULL OR p.answers > 1 ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i53
WITH erased AS (
  SELECT e.stream_id AS conversation, (d.j ->> 'post')::int AS seq, d.j ->> 'by' AS by
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind = 'post.erased'
)
SELECT 'post ' || p.seq || ' of ' || p.conversation_id FROM turntree.posts p
  JOIN turntree.programs c ON c.workspace_id = p.workspace_id AND c.id = p.conversation_id
  LEFT JOIN erased e ON e.conversation = p.conversation_id AND e.seq = p.seq
  WHERE p.workspace_id = %(workspace)b AND ((p.body LIKE '{"erased":"sha256:%%"}') <> (e.seq IS NOT NULL)
    OR e.by NOT IN (c.owner, coalesce(p.author, '')) AND e.by NOT LIKE 'system:%%') ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i54
SELECT x.principal || ' in ' || x.conversation_id FROM turntree.participants x
  JOIN turntree.programs a ON a.workspace_id = x.workspace_id AND a.kind = 'agent' AND 'agent:' || a.name = x.principal
  JOIN turntree.program_versions v ON v.workspace_id = a.workspace_id AND v.program_id = a.id AND v.version = a.version
  JOIN turntree.objects o ON o.workspace_id = a.workspace_id AND o.digest = v.digest
  WHERE x.workspace_id = %(workspace)b AND x.removed_at IS NOT NULL AND a.owner LIKE 'system:%%'
    AND position('"system_agent_kind":"'::bytea IN o.bytes) > 0 ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i55_missing
-- By the order of events, because clocks differ: the config of then says whether a decision was wanted. The text of a post
-- that may have a mention is not read here, and a config is searched, not parsed: its bytes may be broken.
WITH configs AS MATERIALIZED (
  SELECT e.stream_id, e.seq, position('"triage":true'::bytea IN o.bytes) > 0 AS wants
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) #>> '{data,config}' AS config) d
    JOIN turntree.objects o ON o.workspace_id = %(workspace)b AND o.digest = decode(substr(d.config, 8), 'hex')
    WHERE e.workspace_id = %(workspace)b AND e.kind IN ('conversation.created', 'conversation.configured') AND d.config LIKE 'sha256:%%'
), said AS (
  SELECT e.stream_id, e.seq, (turntree.document(e.body) #>> '{data,post}')::int AS post FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b AND e.kind = 'post.created' AND e.stream_id IN (SELECT c.stream_id FROM configs c WHERE c.wants)
)
SELECT 'post ' || p.seq || ' of ' || p.conversation_id FROM said s
  JOIN turntree.posts p ON p.workspace_id = %(workspace)b AND p.conversation_id = s.stream_id AND p.seq = s.post
  WHERE p.author LIKE 'human:%%' AND p.turn_id IS NULL AND p.body NOT LIKE '{"erased":"sha256:%%"}'
    AND p.body NOT LIKE '%%](agent:%%' AND p.body NOT LIKE '%%](user:%%'
    AND (SELECT c.wants FROM configs c WHERE c.stream_id = s.stream_id AND c.seq < s.seq ORDER BY c.seq DESC LIMIT 1)
    AND NOT EXISTS (SELECT FROM turntree.post_decisions d
      WHERE d.workspace_id = p.workspace_id AND d.conversation_id = p.conversation_id AND d.seq = p.seq)
    AND NOT EXISTS (SELECT FROM turntree.post_deliveries y
      JOIN turntree.queued_messages q ON q.workspace_id = y.workspace_id AND q.session_id = y.session_id AND q.seq = y.message_seq
      WHERE y.workspace_id = p.workspace_id AND y.conversation_id = p.conversation_id AND y.seq = p.seq AND q.options ? 'triage'
        AND (q.options #>> '{conversation,post}')::int = p.seq AND q.canceled_at IS NULL
        AND NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = q.workspace_id AND t.id = q.run_id))
    -- An archive is without the messages that waited.
    AND NOT EXISTS (SELECT FROM turntree.participants x WHERE x.workspace_id = p.workspace_id AND x.conversation_id = p.conversation_id
      AND x.principal = 'agent:' || turntree.find_triage_agent(p.workspace_id) AND x.told_seq < p.seq)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i55_events
WITH told AS (
  SELECT e.stream_id AS conversation, (d.j ->> 'post')::int AS seq, array_agg(d.j) AS told
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind = 'post.decided' GROUP BY 1, 2
), kept AS (
  SELECT d.conversation_id AS conversation, d.seq, jsonb_strip_nulls(jsonb_build_object('agents', d.agents, 'by', 'system:triage',
      'method', d.method, 'post', d.seq, 'turn', d.turn_id)) AS kept
    FROM turntree.post_decisions d WHERE d.workspace_id = %(workspace)b
)
SELECT 'post ' || coalesce(k.seq, t.seq) || ' of ' || coalesce(k.conversation, t.conversation)
  FROM told t FULL JOIN kept k ON k.conversation = t.conversation AND k.seq = t.seq
  WHERE t.told IS DISTINCT FROM ARRAY[k.kept] ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i55_turns
-- A decision that took a turn is that of a turn that was asked for it; all are about posts of people.
SELECT 'post ' || d.seq || ' of ' || d.conversation_id FROM turntree.post_decisions d
  JOIN turntree.posts p ON p.workspace_id = d.workspace_id AND p.conversation_id = d.conversation_id AND p.seq = d.seq
  WHERE d.workspace_id = %(workspace)b AND (p.author IS NULL OR p.author NOT LIKE 'human:%%' OR d.turn_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM turntree.runs r
      JOIN turntree.queued_messages q ON q.workspace_id = r.workspace_id AND q.session_id = r.session_id AND q.run_id = r.id
      WHERE r.workspace_id = d.workspace_id AND r.id = d.turn_id AND q.options ? 'triage'
        AND q.options #>> '{conversation,id}' = d.conversation_id::text AND (q.options #>> '{conversation,post}')::int = d.seq))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i56
SELECT c.id::text FROM turntree.conversations c LEFT JOIN (
    SELECT p.conversation_id, min(p.seq) AS low, max(p.seq) AS high, count(*) AS count, max(p.posted_at) AS posted_at
      FROM turntree.posts p WHERE p.workspace_id = %(workspace)b GROUP BY 1) p ON p.conversation_id = c.id
  WHERE c.workspace_id = %(workspace)b AND (c.post_seq <> coalesce(p.high, c.forked_seq, 0)
    OR coalesce(p.count, 0) <> c.post_seq - coalesce(c.forked_seq, 0) OR p.low <= coalesce(c.forked_seq, 0)
    OR c.posted_at IS DISTINCT FROM (SELECT l.posted_at FROM turntree.posts l WHERE l.workspace_id = c.workspace_id
      AND l.conversation_id = c.id AND l.seq = p.high)) ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_members
-- The newest event about each member; a removal names no role.
WITH told AS (
  SELECT DISTINCT ON (1) d.j ->> 'member' AS principal, d.j ->> 'role' AS role
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream()
      AND e.kind IN ('member.added', 'member.role_changed', 'member.removed')
    ORDER BY 1, e.seq DESC
), kept AS (
  SELECT m.principal, m.role FROM turntree.members m WHERE m.workspace_id = %(workspace)b
)
SELECT coalesce(k.principal, t.principal) FROM told t FULL JOIN kept k ON k.principal = t.principal
  WHERE k.principal IS NULL OR t.principal IS NULL OR k.role IS DISTINCT FROM t.role
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_invitations
-- An invitation ends once: it is accepted or revoked. Its newest event says which.
WITH told AS (
  SELECT DISTINCT ON (1) d.j ->> 'invitation' AS id, e.kind
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream()
      AND e.kind IN ('invitation.created', 'invitation.accepted', 'invitation.revoked')
    ORDER BY 1, e.seq DESC
), kept AS (
  SELECT i.id, CASE WHEN i.accepted_by IS NOT NULL THEN 'invitation.accepted'
      WHEN i.revoked_by IS NOT NULL THEN 'invitation.revoked' ELSE 'invitation.created' END AS kind
    FROM turntree.invitations i WHERE i.workspace_id = %(workspace)b
)
SELECT coalesce(k.id, t.id) FROM told t FULL JOIN kept k ON k.id = t.id WHERE k.kind IS DISTINCT FROM t.kind
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_keys
-- Who holds a key, what it permits, until when, and whether it was revoked.
WITH events AS (
  SELECT e.kind, turntree.document(e.body) -> 'data' AS j FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream()
      AND e.kind IN ('api_key.created', 'api_key.revoked')
), told AS (
  SELECT c.j ->> 'key' AS id, c.j ->> 'by' AS holder, c.j ->> 'agent' AS agent, c.j -> 'scopes' AS scopes,
      (c.j ->> 'expires_at')::timestamptz AS expires_at,
      (SELECT r.j ->> 'by' FROM events r WHERE r.kind = 'api_key.revoked' AND r.j ->> 'key' = c.j ->> 'key' LIMIT 1) AS revoked_by
    FROM events c WHERE c.kind = 'api_key.created'
), kept AS (
  SELECT k.id, k.holder, k.agent, k.scopes, k.expires_at, k.revoked_by FROM turntree.api_keys k WHERE k.workspace_id = %(workspace)b
)
SELECT coalesce(k.id, t.id) FROM told t FULL JOIN kept k ON k.id = t.id
  WHERE (k.id, k.holder, k.agent, k.scopes, k.expires_at, k.revoked_by)
    IS DISTINCT FROM (t.id, t.holder, t.agent, t.scopes, t.expires_at, t.revoked_by)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_login_sessions
-- Who is logged in, with what and until when, and whether the session was ended.
WITH events AS (
  SELECT e.kind, turntree.document(e.body) -> 'data' AS j FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream()
      AND e.kind IN ('login_session.created', 'login_session.ended')
), told AS (
  SELECT c.j ->> 'login_session' AS id, c.j ->> 'by' AS holder, c.j ->> 'method' AS method, c.j ->> 'key' AS key_id,
      c.j ->> 'identity' AS identity_id,
      c.j -> 'scopes' AS scopes, (c.j ->> 'expires_at')::timestamptz AS expires_at, n.j ->> 'by' AS ended_by
    FROM events c LEFT JOIN events n ON n.kind = 'login_session.ended' AND n.j ->> 'login_session' = c.j ->> 'login_session'
    WHERE c.kind = 'login_session.created'
), kept AS (
  SELECT s.id, s.holder, s.method, s.key_id, s.identity_id, s.scopes, s.expires_at, s.ended_by FROM turntree.login_sessions s
    WHERE s.workspace_id = %(workspace)b
)
SELECT coalesce(k.id, t.id) FROM told t FULL JOIN kept k ON k.id = t.id
  WHERE (k.id, k.holder, k.method, k.key_id, k.identity_id, k.scopes, k.expires_at, k.ended_by)
    IS DISTINCT FROM (t.id, t.holder, t.method, t.key_id, t.identity_id, t.scopes, t.expires_at, t.ended_by)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_identities
-- Which accounts at identity providers are linked to whom; the provider's own id of an account is in no event.
WITH events AS (
  SELECT e.kind, turntree.document(e.body) -> 'data' AS j FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream()
      AND e.kind IN ('identity.linked', 'identity.unlinked')
), told AS (
  SELECT l.j ->> 'identity' AS id, l.j ->> 'issuer' AS issuer, l.j ->> 'member' AS principal FROM events l
    WHERE l.kind = 'identity.linked'
      AND NOT EXISTS (SELECT FROM events u WHERE u.kind = 'identity.unlinked' AND u.j ->> 'identity' = l.j ->> 'identity')
), kept AS (
  SELECT x.id, x.issuer, x.principal FROM turntree.identities x WHERE x.workspace_id = %(workspace)b
)
SELECT coalesce(k.id, t.id) FROM told t FULL JOIN kept k ON k.id = t.id
  WHERE (k.id, k.issuer, k.principal) IS DISTINCT FROM (t.id, t.issuer, t.principal) ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_passwords
-- Whether a person has a password; which, no event says.
WITH told AS (
  SELECT DISTINCT ON (1) d.j ->> 'member' AS principal, e.kind
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = turntree.workspace_stream()
      AND e.kind IN ('member.password_set', 'member.password_removed')
    ORDER BY 1, e.seq DESC
), kept AS (
  SELECT p.principal FROM turntree.passwords p WHERE p.workspace_id = %(workspace)b
)
SELECT coalesce(k.principal, t.principal) FROM (SELECT * FROM told WHERE kind = 'member.password_set') t
  FULL JOIN kept k ON k.principal = t.principal WHERE k.principal IS NULL OR t.principal IS NULL
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i69_admin
SELECT w.name FROM turntree.workspaces w WHERE w.id = %(workspace)b
    AND EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = w.id)
    AND NOT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = w.id AND m.role = 'admin')
  LIMIT %(limit)b;

-- name: fsck_i67_inbox
SELECT i.session_id || ' message ' || i.seq FROM turntree.queued_messages i
  LEFT JOIN turntree.runs r ON r.workspace_id = i.workspace_id AND r.id = i.run_id
  WHERE i.workspace_id = %(workspace)b
    AND ((i.payload IS NULL) <> (r.id IS NOT NULL) OR sha256(convert_to(i.payload, 'UTF8')) <> i.digest)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i67_queues
-- A session that is awake without a reason is not a finding: the worker that handles the wake-up will notice.
SELECT coalesce(a.session_id, i.session_id)::text
  FROM (SELECT * FROM turntree.session_queues WHERE workspace_id = %(workspace)b) a
  FULL JOIN (
    SELECT session_id, max(seq) AS last, count(*) AS messages, count(payload) AS waiting
      FROM turntree.queued_messages WHERE workspace_id = %(workspace)b GROUP BY session_id
  ) i ON i.session_id = a.session_id
  LEFT JOIN turntree.runs r ON r.workspace_id = %(workspace)b AND r.session_id = a.session_id AND r.status <> 'finished'
  WHERE a.session_id IS NULL OR a.posted_seq <> coalesce(i.last, 0) OR a.posted_seq <> coalesce(i.messages, 0)
    OR a.claimed_seq > a.posted_seq
    OR NOT a.awake AND CASE WHEN r.id IS NULL THEN i.waiting > 0 ELSE r.status = 'open' OR r.cancel_requested END
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i67_runs
SELECT session_id::text FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND status <> 'finished' AND session_id IS NOT NULL
  GROUP BY session_id HAVING count(*) > 1
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i67_parked
SELECT r.id::text FROM turntree.runs r
  WHERE r.workspace_id = %(workspace)b AND r.status = 'parked' AND 'run.parked' IS DISTINCT FROM (
    SELECT e.kind FROM turntree.events e
      WHERE e.workspace_id = r.workspace_id AND e.stream_id = r.id AND e.kind IN ('run.parked', 'run.unparked')
      ORDER BY e.seq DESC LIMIT 1)
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i70_events
-- What was decided is in the approval's own stream, once.
SELECT 'approval ' || a.id FROM turntree.approvals a
  LEFT JOIN LATERAL (SELECT count(*) AS count, min(turntree.document(e.body) #>> '{data,decision}') AS decision,
      min(turntree.document(e.body) #>> '{data,by}') AS by, min(turntree.document(e.body) #>> '{data,args_digest}') AS digest
    FROM turntree.events e WHERE e.workspace_id = a.workspace_id AND e.stream_id = a.id AND e.kind = 'approval.decided') d ON true
  WHERE a.workspace_id = %(workspace)b AND (d.count <> (a.state <> 'pending')::int OR a.state <> 'pending' AND (
    d.by <> a.decided_by OR d.digest <> 'sha256:' || encode(coalesce(a.allowed_digest, a.args_digest), 'hex')
    OR CASE a.state WHEN 'used' THEN d.decision NOT IN ('approved', 'edited') ELSE d.decision <> a.state END))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i70_people
-- The runtime ends what was not answered; an answer is one of a person who was asked.
SELECT 'approval ' || a.id FROM turntree.approvals a
  WHERE a.workspace_id = %(workspace)b AND a.state <> 'pending' AND CASE WHEN a.state IN ('expired', 'canceled')
    THEN a.decided_by <> 'system:runtime' ELSE a.decided_by NOT LIKE 'human:_%%' OR a.decided_by <> ALL (a.answerers || a.escalated_to) END
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i70_calls
-- Each call that was allowed and used has started once, with the arguments that were allowed.
WITH started AS (
  SELECT d.j ->> 'approval' AS id, count(*) AS count, min(d.j ->> 'args_digest') AS digest, min(d.j ->> 'call_id') AS call
    FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d
    WHERE e.workspace_id = %(workspace)b AND e.kind = 'tool_call.started' AND d.j ? 'approval' GROUP BY 1
)
SELECT 'approval ' || a.id FROM turntree.approvals a LEFT JOIN started s ON s.id = a.id::text
  WHERE a.workspace_id = %(workspace)b AND a.kind = 'call' AND (coalesce(s.count, 0) <> (a.state = 'used')::int
    OR a.state = 'used' AND (s.digest <> 'sha256:' || encode(a.allowed_digest, 'hex') OR s.call <> a.call_id OR a.used_at >= a.expires_at))
  ORDER BY 1 LIMIT %(limit)b;

-- name: fsck_i70_runs
-- A run that is over asks nothing any more, and its turn has the arguments.
SELECT 'approval ' || a.id FROM turntree.approvals a
  JOIN turntree.runs r ON r.workspace_id = a.workspace_id AND r.id = a.run_id AND r.status = 'finished'
  WHERE a.workspace_id = %(workspace)b AND (a.state = 'pending' OR a.args IS NOT NULL OR a.answer IS NOT NULL)
  ORDER BY 1 LIMIT %(limit)b;

-- name: list_block_digests
SELECT digest FROM turntree.raw_blocks WHERE workspace_id = %(workspace)b ORDER BY digest;
