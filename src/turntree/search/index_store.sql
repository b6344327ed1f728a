-- Filling the indexes.

-- name: search_progress
-- With the horizon, as the next query has it: this is asked at each key of a search.
SELECT epoch, xid::text::bigint, n, pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM turntree.search_progress
  WHERE workspace_id = %(workspace)b AND index_name = %(index)b::text;

-- name: search_horizon
-- Everything that an earlier snapshot could still miss has this number or a later one.
SELECT s.epoch, pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM turntree.shard s;

-- name: search_missing_documents
-- Turns without a document of this recipe, newest first, because people search for those most. A pass goes on below
-- the turn at which its last batch ended: from the top, each batch would walk over all those before it.
SELECT t.id FROM turntree.turns t
  WHERE t.workspace_id = %(workspace)b AND t.id < %(before)b::uuid AND NOT EXISTS (SELECT FROM turntree.search_documents d
    WHERE d.workspace_id = t.workspace_id AND d.turn_id = t.id AND d.recipe = %(recipe)b::smallint)
  ORDER BY t.id DESC LIMIT %(limit)b::int;

-- name: search_missing_embeddings
SELECT t.id FROM turntree.turns t
  WHERE t.workspace_id = %(workspace)b AND t.id < %(before)b::uuid AND NOT EXISTS (SELECT FROM turntree.embeddings d
    WHERE d.workspace_id = t.workspace_id AND d.node_id = t.id AND d.embedder = %(embedder)b::text)
  ORDER BY t.id DESC LIMIT %(limit)b::int;

-- name: search_feed
-- The turns that events after a position are about: a turn's own, or the new head of a session, because an imported
-- turn may leave no other event. Unlike the feed's readers this query looks past the oldest transaction still
-- running, because what it sees may be indexed at once; settled says whether the position may also move past it.
SELECT e.epoch, e.xid::text::bigint, e.n, t.id,
    e.epoch < (SELECT epoch FROM turntree.shard) OR e.xid < pg_snapshot_xmin(pg_current_snapshot())
  FROM (SELECT epoch, xid, n, stream_id, kind, body FROM turntree.events
    WHERE workspace_id = %(workspace)b AND (epoch, xid, n) > (%(epoch)b::int, %(xid)b::text::xid8, %(n)b::bigint)
    ORDER BY epoch, xid, n LIMIT %(limit)b::int) e
  LEFT JOIN LATERAL (SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)b
      AND id = CASE WHEN e.kind IN ('session.created', 'session.head_moved')
        THEN (turntree.document(e.body) #>> '{data,after}')::uuid ELSE e.stream_id END OFFSET 0) t ON true
  ORDER BY e.epoch, e.xid, e.n;

-- name: search_pending_documents
-- Which of some turns have no document, and whether an ancestor of one has none either.
SELECT x.id, p.id IS NOT NULL AND NOT EXISTS (SELECT FROM turntree.search_documents d
      WHERE d.workspace_id = %(workspace)b AND d.turn_id = p.id AND d.recipe = %(recipe)b::smallint)
  FROM unnest(%(turns)b::uuid[]) AS x (id)
  LEFT JOIN LATERAL (SELECT parent_id AS id FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id
    AND parent_id <> ALL (%(turns)b::uuid[]) OFFSET 0) p ON true
  WHERE NOT EXISTS (SELECT FROM turntree.search_documents d
    WHERE d.workspace_id = %(workspace)b AND d.turn_id = x.id AND d.recipe = %(recipe)b::smallint);

-- name: search_pending_embeddings
SELECT x.id, p.id IS NOT NULL AND NOT EXISTS (SELECT FROM turntree.embeddings d
      WHERE d.workspace_id = %(workspace)b AND d.node_id = p.id AND d.embedder = %(embedder)b::text)
  FROM unnest(%(turns)b::uuid[]) AS x (id)
  LEFT JOIN LATERAL (SELECT parent_id AS id FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id
    AND parent_id <> ALL (%(turns)b::uuid[]) OFFSET 0) p ON true
  WHERE NOT EXISTS (SELECT FROM turntree.embeddings d
    WHERE d.workspace_id = %(workspace)b AND d.node_id = x.id AND d.embedder = %(embedder)b::text);

-- name: search_lock
-- One writer at a time, and none while a message is being erased.
SELECT pg_advisory_xact_lock(hashtextextended('turntree:index:' || %(workspace)b::text, 0));

-- name: search_stage
CREATE TEMP TABLE search_staging (turn_id uuid, words text[], vector real[]) ON COMMIT DROP;

-- name: search_copy
COPY search_staging (turn_id, words, vector) FROM STDIN (FORMAT binary);

-- name: search_unstage_documents
-- Skips turns with a message that was erased after they were read: the receipt in the feed adds them again.
INSERT INTO turntree.search_documents AS d (workspace_id, turn_id, recipe, lexemes, segment, depth)
  SELECT %(workspace)b, s.turn_id, %(recipe)b::smallint, array_to_tsvector(s.words), w.number, w.depth
    FROM search_staging s
    LEFT JOIN LATERAL (SELECT g.number, t.depth FROM turntree.turns t
        JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = t.segment_id
      WHERE t.workspace_id = %(workspace)b AND t.id = s.turn_id OFFSET 0) w ON true
    WHERE NOT EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.stream_id = s.turn_id
      AND e.kind = 'message.erased' AND e.xid >= %(seen_from)b::text::xid8)
    ORDER BY s.turn_id -- Keys in order fill their index pages.
  ON CONFLICT (workspace_id, turn_id) DO UPDATE SET recipe = excluded.recipe, lexemes = excluded.lexemes,
    segment = excluded.segment, depth = excluded.depth;

-- name: search_unstage_embeddings
INSERT INTO turntree.embeddings AS d (workspace_id, node_id, embedder, vector)
  SELECT %(workspace)b, s.turn_id, %(embedder)b::text, s.vector FROM search_staging s
    WHERE NOT EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.stream_id = s.turn_id
      AND e.kind = 'message.erased' AND e.xid >= %(seen_from)b::text::xid8)
  ON CONFLICT (workspace_id, node_id, embedder) DO UPDATE SET vector = excluded.vector WHERE d.digest IS NULL;

-- name: search_save_progress
INSERT INTO turntree.search_progress AS p (workspace_id, index_name, epoch, xid, n)
  VALUES (%(workspace)b, %(index)b::text, %(epoch)b::int, %(xid)b::text::xid8, %(n)b::bigint)
  ON CONFLICT (workspace_id, index_name) DO UPDATE SET epoch = excluded.epoch, xid = excluded.xid, n = excluded.n
    WHERE (p.epoch, p.xid, p.n) < (excluded.epoch, excluded.xid, excluded.n);

-- name: search_create_embeddings
SELECT turntree.create_embeddings_table();

-- name: search_embeddings_exist
SELECT to_regclass('turntree.embeddings') IS NOT NULL;

-- name: search_has_embeddings
SELECT EXISTS (SELECT FROM turntree.embeddings
  WHERE workspace_id = %(workspace)b AND embedder = %(embedder)b::text AND kind = 'turn');

-- name: search_clear_progress
DELETE FROM turntree.search_progress WHERE workspace_id = %(workspace)b AND index_name = %(index)b::text;

-- name: search_clear_documents
DELETE FROM turntree.search_documents WHERE workspace_id = %(workspace)b;

-- name: search_clear_embeddings
-- Keeps embeddings of caller-written descriptions, and those of other nodes: they were not made from turns.
DELETE FROM turntree.embeddings
  WHERE workspace_id = %(workspace)b AND embedder = %(embedder)b::text AND kind = 'turn' AND digest IS NULL;
