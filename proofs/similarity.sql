-- Filling a workspace with vectors, and with the programs that they are of.

-- name: drop_index
DROP INDEX turntree.embeddings_384;

-- name: index_text
SELECT indexdef FROM pg_indexes WHERE schemaname = 'turntree' AND indexname = 'embeddings_384';

-- name: build_quickly
SELECT set_config('maintenance_work_mem', '2GB', false), set_config('max_parallel_maintenance_workers', '2', false);

-- name: copy_vectors
COPY turntree.embeddings (workspace_id, node_id, embedder, kind, vector) FROM STDIN (FORMAT binary);

-- name: keep_config
INSERT INTO turntree.objects (workspace_id, digest, bytes)
  VALUES (%(workspace)s::uuid, sha256('{}'::bytea), '{}'::bytea) ON CONFLICT DO NOTHING;

-- name: make_programs
INSERT INTO turntree.programs (workspace_id, id, kind, name, owner, state, visibility, created_at, updated_at)
  SELECT workspace_id, node_id, kind, node_id::text, 'human:ana', 'idle', 'public', now(), now()
    FROM turntree.embeddings WHERE workspace_id = %(workspace)s::uuid;

-- name: make_versions
INSERT INTO turntree.program_versions (workspace_id, program_id, version, digest, created_at, by)
  SELECT workspace_id, id, 1, sha256('{}'::bytea), now(), 'human:ana'
    FROM turntree.programs WHERE workspace_id = %(workspace)s::uuid;

-- name: analyze
VACUUM ANALYZE turntree.embeddings, turntree.programs, turntree.program_versions;

-- name: bytes
SELECT pg_relation_size('turntree.embeddings_384'), pg_total_relation_size('turntree.embeddings');

-- name: search_alike
-- What nearest_nodes sets for its own query: the same index, as many proposals.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false), set_config('hnsw.ef_search', %(proposed)s::text, false),
  set_config('enable_seqscan', 'off', false), set_config('enable_sort', 'off', false),
  set_config('enable_bitmapscan', 'off', false), set_config('plan_cache_mode', 'force_custom_plan', false);

-- name: bare_near
SELECT e.node_id, e.kind, 1 - (e.vector <=> %(vector)s::real[]::halfvec(384)) FROM turntree.embeddings e
  WHERE e.workspace_id = %(workspace)s::uuid AND e.embedder = %(embedder)s
    AND vector_dims(e.vector) = 384 AND (%(kinds)s::text[] IS NULL OR e.kind = ANY (%(kinds)s::text[]))
  ORDER BY e.vector::halfvec(384) <=> %(vector)s::real[]::halfvec(384) LIMIT %(limit)s;
