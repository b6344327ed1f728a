-- Imported transcripts: records, sources and cursors.

-- name: list_imports
SELECT origin, bundle, stamp, projector, redactor, records, raw_bytes, prefix, blocks, heads, report
  FROM turntree.imports
  WHERE workspace_id = %(workspace)b AND (%(origin)b::text IS NULL OR origin = %(origin)b::text)
  ORDER BY origin, bundle;

-- name: keep_blocks
INSERT INTO turntree.raw_blocks (workspace_id, digest, packed) VALUES (%(workspace)b, %(digest)b, %(packed)b)
  ON CONFLICT DO NOTHING;

-- name: find_block
SELECT packed FROM turntree.raw_blocks WHERE workspace_id = %(workspace)b AND digest = %(digest)b;

-- name: find_session_by_origin
SELECT id::text FROM turntree.sessions
  WHERE workspace_id = %(workspace)b AND origin = %(origin)b AND origin_session_id = %(id)b;

-- name: find_reach
SELECT r.session_id::text FROM turntree.turns t JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id
    AND r.segment_id = t.segment_id AND r.max_depth >= t.depth
  WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b AND r.session_id = %(session)b;

-- name: list_turn_sources
-- In the order of projectors, so that of several turns the newest one stands last.
SELECT key, turn_id::text FROM turntree.turn_sources
  WHERE workspace_id = %(workspace)b AND origin = %(origin)b AND bundle = %(bundle)b ORDER BY projector;

-- name: mark_import
INSERT INTO turntree.imports (workspace_id, origin, bundle, stamp, projector, redactor, records, raw_bytes, prefix,
    blocks, heads, report, imported_at)
  VALUES (%(workspace)b, %(origin)b, %(bundle)b, %(stamp)b, %(projector)b, %(redactor)b, %(records)b,
    %(raw_bytes)b, %(prefix)b, %(blocks)b::bytea[], %(heads)b, %(report)b, %(at)b::text::timestamptz)
  ON CONFLICT (workspace_id, origin, bundle) DO UPDATE SET stamp = excluded.stamp, projector = excluded.projector,
    redactor = excluded.redactor, records = excluded.records, raw_bytes = excluded.raw_bytes,
    prefix = excluded.prefix, blocks = excluded.blocks, heads = excluded.heads, report = excluded.report,
    imported_at = excluded.imported_at;
