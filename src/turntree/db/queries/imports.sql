-- Imported transcripts: records, sources and cursors.

-- name: list_imports
SELECT origin, transcript, fingerprint, importer_version, redaction_version, record_count, raw_bytes, prefix_digest,
    block_digests, heads, report
  FROM turntree.import_cursors
  WHERE workspace_id = %(workspace)b AND by = %(by)b AND (%(origin)b::text IS NULL OR origin = %(origin)b::text)
  ORDER BY origin, transcript;

-- name: lock_records
-- No message is erased between reading its body and storing a block that needs it.
SELECT pg_advisory_xact_lock(hashtextextended('turntree:import:' || %(workspace)b::text, 0));

-- name: list_changed_turns
-- Turns that no block can be packed against: they are not stored with this digest, or one of their messages was
-- erased.
SELECT x.id::text, e.erased FROM unnest(%(turns)b::uuid[], %(digests)b::bytea[]) AS x (id, digest)
  CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM turntree.events e
    WHERE e.workspace_id = %(workspace)b AND e.stream_id = x.id AND e.kind = 'message.erased') AS erased) e
  WHERE e.erased OR NOT EXISTS (SELECT FROM turntree.turns t
    WHERE t.workspace_id = %(workspace)b AND t.id = x.id AND t.digest = x.digest);

-- name: list_erased_threads
-- Threads in which a message was erased: of the records that we wrote from such a thread it is no longer known which
-- held that message.
SELECT x.id::text FROM unnest(%(turns)b::uuid[]) AS x (id) WHERE EXISTS (SELECT FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND e.kind = 'message.erased' AND turntree.is_ancestor(%(workspace)b, e.stream_id, x.id));

-- name: insert_raw_block
INSERT INTO turntree.raw_blocks (workspace_id, digest, current_digest, needs_bodies, data, turn_ids, record_spans, object_digests, own_spans, handoff_turn_id)
  VALUES (%(workspace)b, %(digest)b, %(now)b, %(leaning)b, %(packed)b, %(turns)b::uuid[], %(spans)b::int[],
    %(objects)b::bytea[], %(written)b::int[], %(planted)b)
  ON CONFLICT DO NOTHING;

-- name: find_block
SELECT coalesce(current_digest, digest), needs_bodies, data, turn_ids, record_spans, object_digests, own_spans
  FROM turntree.raw_blocks
  WHERE workspace_id = %(workspace)b AND digest = %(digest)b;

-- name: list_hidden_blocks
SELECT d FROM unnest(%(digests)b::bytea[]) d WHERE NOT EXISTS (SELECT FROM turntree.raw_blocks b
  WHERE b.workspace_id = %(workspace)b AND b.digest = d);

-- name: list_bodies
SELECT b.body FROM unnest(%(turns)b::uuid[]) WITH ORDINALITY AS x (id, place)
  JOIN turntree.turn_bodies b ON b.workspace_id = %(workspace)b AND b.turn_id = x.id ORDER BY x.place;

-- name: list_objects
SELECT o.bytes FROM unnest(%(digests)b::bytea[]) WITH ORDINALITY AS x (digest, place)
  JOIN turntree.objects o ON o.workspace_id = %(workspace)b AND o.digest = x.digest ORDER BY x.place;

-- name: list_blocks_of_turn
-- The blocks that a turn was made from, wherever a copy is; a later importer version may have made it from them, and
-- then its source says where to look. There is no index on the turns of a block: erasing reads the whole table
-- without the data, 3 MB for 100,000 turns, and an index would cost each import more.
SELECT b.digest FROM turntree.raw_blocks b WHERE b.workspace_id = %(workspace)b AND b.turn_ids @> ARRAY[%(turn)b::uuid]
UNION
SELECT unnest(i.block_digests) FROM turntree.turn_sources s
  JOIN turntree.transcripts b ON b.workspace_id = s.workspace_id AND b.id = s.transcript_id
  JOIN turntree.import_cursors i ON i.workspace_id = b.workspace_id AND i.origin = b.origin AND i.transcript = b.name
  WHERE s.workspace_id = %(workspace)b AND s.turn_id = %(turn)b
UNION
SELECT b.digest FROM turntree.raw_blocks b WHERE b.workspace_id = %(workspace)b AND b.handoff_turn_id IS NOT NULL
    AND turntree.is_ancestor(%(workspace)b, %(turn)b, b.handoff_turn_id);

-- name: list_copies_of_turn
-- Blocks with records that we wrote from a thread that contains the turn.
SELECT b.digest FROM turntree.raw_blocks b WHERE b.workspace_id = %(workspace)b AND b.handoff_turn_id IS NOT NULL
    AND turntree.is_ancestor(%(workspace)b, %(turn)b, b.handoff_turn_id);

-- name: find_own_records
-- With the id, digest and depth of the last turn of that thread, which a following turn needs.
SELECT b.own_spans, t.id::text, t.digest, t.depth FROM turntree.raw_blocks b
  JOIN turntree.turns t ON t.workspace_id = b.workspace_id AND t.id = b.handoff_turn_id
  WHERE b.workspace_id = %(workspace)b AND b.digest = ANY (%(blocks)b::bytea[]) ORDER BY b.own_spans;

-- name: list_spans_of_turn
-- With the start of the next turn's records.
SELECT b.origin, b.name, s.record_first, coalesce((SELECT min(n.record_first) FROM turntree.turn_sources n
    WHERE n.workspace_id = s.workspace_id AND n.transcript_id = s.transcript_id AND n.record_first > s.record_last), 2147483647)
  FROM turntree.turn_sources s JOIN turntree.transcripts b ON b.workspace_id = s.workspace_id AND b.id = s.transcript_id
  WHERE s.workspace_id = %(workspace)b AND s.turn_id = %(turn)b;

-- name: erase_records
UPDATE turntree.raw_blocks SET current_digest = %(now)b, needs_bodies = false, data = %(packed)b, object_digests = '{}'
  WHERE workspace_id = %(workspace)b AND digest = %(digest)b;

-- name: list_block_digests
SELECT digest FROM turntree.raw_blocks WHERE workspace_id = %(workspace)b ORDER BY digest;

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

-- name: find_reach
SELECT r.session_id::text FROM turntree.turns t JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id
    AND r.segment_id = t.segment_id AND r.max_depth >= t.depth
  WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b AND r.session_id = %(session)b;

-- name: list_turn_sources
-- In the order of importer versions, so that of several turns the newest comes last.
SELECT s.source_key, s.turn_id::text FROM turntree.turn_sources s
  JOIN turntree.transcripts b ON b.workspace_id = s.workspace_id AND b.id = s.transcript_id
  WHERE b.workspace_id = %(workspace)b AND b.origin = %(origin)b AND b.name = %(bundle)b ORDER BY s.importer_version;

-- name: record_handoff
SELECT turntree.record_handoff(%(workspace)b, %(turn)b, %(origin)b, %(session)b, %(file)b, %(bytes)b, %(mark)b, %(last)b,
  %(by)b, %(at)b, %(data)b);

-- name: list_handoffs
-- With the id, digest and depth of the turn that was handed off, and the session that continues with the tool: only
-- the event of the handoff names it.
SELECT c.tool, c.tool_session_id, c.path, c.own_bytes, c.id_suffix, c.last_own_id, f.data ->> 'continues', t.id::text, t.digest, t.depth
  FROM turntree.handoffs c JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id
  LEFT JOIN LATERAL (SELECT d.data FROM turntree.events e, LATERAL (SELECT turntree.readable_document(e.body) -> 'data') d (data)
    WHERE e.workspace_id = c.workspace_id AND e.stream_id = c.turn_id AND e.kind = 'transcript.materialized'
      AND d.data ->> 'tool' = c.tool AND d.data ->> 'tool_session_id' = c.tool_session_id LIMIT 1) f ON true
  WHERE c.workspace_id = %(workspace)b ORDER BY c.created_at, c.tool, c.tool_session_id;

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
