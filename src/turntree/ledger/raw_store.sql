-- Raw records of imported transcripts, in blocks.

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

-- name: list_spans_of_turn
-- With the start of the next turn's records.
SELECT b.origin, b.name, s.record_first, coalesce((SELECT min(n.record_first) FROM turntree.turn_sources n
    WHERE n.workspace_id = s.workspace_id AND n.transcript_id = s.transcript_id AND n.record_first > s.record_last), 2147483647)
  FROM turntree.turn_sources s JOIN turntree.transcripts b ON b.workspace_id = s.workspace_id AND b.id = s.transcript_id
  WHERE s.workspace_id = %(workspace)b AND s.turn_id = %(turn)b;

-- name: erase_records
UPDATE turntree.raw_blocks SET current_digest = %(now)b, needs_bodies = false, data = %(packed)b, object_digests = '{}'
  WHERE workspace_id = %(workspace)b AND digest = %(digest)b;
