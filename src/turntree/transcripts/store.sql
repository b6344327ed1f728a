-- Imported transcripts: cursors, sources and sessions.

-- name: list_imports
SELECT origin, transcript, fingerprint, importer_version, redaction_version, record_count, raw_bytes, prefix_digest,
    block_digests, heads, report
  FROM turntree.import_cursors
  WHERE workspace_id = %(workspace)b AND by = %(by)b AND (%(origin)b::text IS NULL OR origin = %(origin)b::text)
  ORDER BY origin, transcript;

-- name: count_imports
SELECT origin, count(*) FROM turntree.import_cursors
  WHERE workspace_id = %(workspace)b AND by = %(by)b
  GROUP BY origin;

-- name: require_author
SELECT turntree.require_member(%(workspace)b, NULL, 'create');

-- name: analyze
-- The tables that an import fills and that figures and lists join. Until autovacuum comes by, the planner knows only
-- what was there before: in the second workspace of a ledger it expected one row, and figures took 72 s. An owner of
-- one table only is warned and skips the rest. Of wide tables, only the columns that are searched, joined or grouped:
-- sorting a sample of digests and bodies took half of the time.
ANALYZE turntree.turns (workspace_id, id, parent_id, segment_id, depth, started_at, kind, outcome, by, model, provider),
  turntree.segments, turntree.model_calls (workspace_id, turn_id, sequence, model, provider, call_id),
  turntree.tool_calls (workspace_id, turn_id, sequence, status, tool), turntree.message_files,
  turntree.events (workspace_id, stream_id, epoch, xid, n, seq, kind),
  turntree.turn_sources (workspace_id, turn_id, transcript_id), turntree.transcripts, turntree.sessions,
  turntree.session_names, turntree.session_reach, turntree.spawns;

-- name: list_hidden_blocks
SELECT d FROM unnest(%(digests)b::bytea[]) d WHERE NOT EXISTS (SELECT FROM turntree.raw_blocks b
  WHERE b.workspace_id = %(workspace)b AND b.digest = d);

-- name: list_visible_blocks_of
-- The blocks that a turn was made from, as far as the viewer may see them: a scan without the data, as for an erasure.
SELECT b.digest FROM turntree.raw_blocks b WHERE b.workspace_id = %(workspace)b AND b.turn_ids @> ARRAY[%(turn)b::uuid];

-- name: find_session_by_origin
-- The principal's own session comes first, then one that the system imported and no other principal owns; last comes
-- another principal's.
SELECT s.id::text, x.is_own FROM turntree.sessions s
  LEFT JOIN turntree.programs p ON p.workspace_id = s.workspace_id AND p.id = s.id
  CROSS JOIN LATERAL (SELECT s.imported_by IN (%(by)b, 'system:import') 
      AND (%(by)b = 'system:import' OR p.owner IS NULL OR p.owner = %(by)b OR p.owner LIKE 'system:%%')) x (is_own)
  WHERE s.workspace_id = %(workspace)b AND s.origin = %(origin)b AND s.origin_session_id = %(id)b
  ORDER BY x.is_own DESC, s.imported_by = %(by)b DESC LIMIT 1;

-- name: find_last_session_in
-- The sessions that an import reports for a folder. For a folder that is never snapshotted, such as a home directory,
-- this is the only source.
SELECT s.id::text FROM turntree.import_cursors i, jsonb_each(i.heads) h
  JOIN turntree.sessions s ON s.workspace_id = %(workspace)b AND s.origin_session_id = h.key
  WHERE i.workspace_id = %(workspace)b AND s.origin = i.origin AND s.imported_by IN (i.by, 'system:import') AND h.value ->> 'cwd' = %(folder)b
    AND s.status = 'active' AND s.head_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM turntree.spawns w WHERE w.workspace_id = %(workspace)b AND w.session_id = s.id)
  ORDER BY s.updated_at DESC, s.id DESC LIMIT 1;

-- name: list_importers
-- The header of an imported turn names the tool; the person who used it is the one whose session it became. If several
-- sessions hold the turn, the oldest of them counts.
SELECT DISTINCT ON (t.id) t.id::text, s.imported_by FROM turntree.turns t
  JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id AND r.segment_id = t.segment_id
    AND r.max_depth >= t.depth
  JOIN turntree.sessions s ON s.workspace_id = r.workspace_id AND s.id = r.session_id
  WHERE t.workspace_id = %(workspace)b AND t.id = ANY (%(turns)b::uuid[]) AND s.imported_by LIKE 'human:%%'
  ORDER BY t.id, s.id;

-- name: list_described_sessions
-- What the tools say about their sessions.
SELECT i.origin, h.key, h.value ->> 'cwd', h.value ->> 'title' FROM turntree.import_cursors i, jsonb_each(i.heads) h
  WHERE i.workspace_id = %(workspace)b AND jsonb_typeof(h.value) = 'object';

-- name: find_reach
SELECT r.session_id::text FROM turntree.turns t JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id
    AND r.segment_id = t.segment_id AND r.max_depth >= t.depth
  WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b AND r.session_id = %(session)b;

-- name: list_turn_sources
-- In the order of importer versions, so that of several turns the newest comes last.
SELECT s.source_key, s.turn_id::text FROM turntree.turn_sources s
  JOIN turntree.transcripts b ON b.workspace_id = s.workspace_id AND b.id = s.transcript_id
  WHERE b.workspace_id = %(workspace)b AND b.origin = %(origin)b AND b.name = %(bundle)b ORDER BY s.importer_version;

-- name: save_import_cursor
-- If a message from the same transcript was erased, its words must not return as a title.
INSERT INTO turntree.import_cursors (workspace_id, origin, transcript, fingerprint, importer_version, redaction_version, record_count, raw_bytes, prefix_digest,
    block_digests, heads, report, imported_at, by)
  VALUES (%(workspace)b, %(origin)b, %(bundle)b, %(stamp)b, %(projector)b, %(redactor)b, %(records)b,
    %(raw_bytes)b, %(prefix)b, %(blocks)b::bytea[],
    CASE WHEN EXISTS (SELECT FROM turntree.events e
        JOIN turntree.turn_sources s ON s.workspace_id = e.workspace_id AND s.turn_id = e.stream_id
        JOIN turntree.transcripts n ON n.workspace_id = s.workspace_id AND n.id = s.transcript_id
        WHERE e.workspace_id = %(workspace)b AND e.kind = 'message.erased' AND n.origin = %(origin)b AND n.name = %(bundle)b)
      THEN turntree.untitled(%(heads)b) ELSE %(heads)b END, %(report)b, %(at)b::text::timestamptz, %(by)b)
  ON CONFLICT (workspace_id, origin, transcript, by) DO UPDATE SET fingerprint = excluded.fingerprint,
    importer_version = excluded.importer_version, redaction_version = excluded.redaction_version,
    record_count = excluded.record_count, raw_bytes = excluded.raw_bytes,
    prefix_digest = excluded.prefix_digest, block_digests = excluded.block_digests, heads = excluded.heads, report = excluded.report,
    imported_at = excluded.imported_at;
