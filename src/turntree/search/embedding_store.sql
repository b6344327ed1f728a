-- Embeddings of nodes.

-- name: put_embeddings
-- Skips turns that do not exist, and turns with a message that was erased after the text was read.
INSERT INTO turntree.embeddings AS d (workspace_id, node_id, embedder, vector, kind, digest)
  SELECT %(workspace)b, x.id, %(embedder)b::text, x.vector::real[], x.kind, x.digest
    FROM unnest(%(ids)b::uuid[], %(vectors)b::text[], %(kinds)b::text[], %(digests)b::bytea[]) AS x (id, vector, kind, digest)
    WHERE x.kind <> 'turn' OR EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = x.id)
      AND NOT EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)b AND e.stream_id = x.id
        AND e.kind = 'message.erased' AND e.xid >= %(seen_from)b::text::xid8)
  ON CONFLICT (workspace_id, node_id, embedder)
    DO UPDATE SET vector = excluded.vector, kind = excluded.kind, digest = excluded.digest;

-- name: find_embedding
SELECT kind, vector::real[], digest FROM turntree.embeddings
  WHERE workspace_id = %(workspace)b AND node_id = %(id)b::uuid AND embedder = %(embedder)b::text;

-- name: list_embedding_digests
SELECT node_id::text, digest FROM turntree.embeddings
  WHERE workspace_id = %(workspace)b AND node_id = ANY (%(ids)b::uuid[]) AND embedder = %(embedder)b::text;

-- name: list_nearest
SELECT node_id::text, kind, likeness FROM turntree.nearest_nodes(
  %(embedder)b::text, %(vector)b::text::real[], %(kinds)b::text[], %(tags)b::text[], %(without)b::uuid,
  %(exact_max)b::int, %(proposed)b::int, %(limit)b::int);

-- name: embedding_stats
-- The length is read from one vector of each embedder: fsck reports when they differ.
WITH held AS (
  SELECT embedder, kind, count(*) AS vectors, count(digest) FILTER (WHERE kind = 'turn') AS described
    FROM turntree.embeddings WHERE workspace_id = %(workspace)b GROUP BY embedder, kind
)
SELECT h.embedder, h.kind, h.vectors, h.described,
    (SELECT cardinality(e.vector::real[]) FROM turntree.embeddings e
      WHERE e.workspace_id = %(workspace)b AND e.embedder = h.embedder AND e.kind = h.kind LIMIT 1),
    (SELECT count(*) FROM turntree.turns t WHERE t.workspace_id = %(workspace)b)
  FROM held h ORDER BY h.embedder, h.kind;
