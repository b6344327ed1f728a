-- Searching for turns.

-- name: search_words
SELECT turn_id::text, rarities FROM turntree.search_words(
  %(ladder)b::text[]::tsquery[], %(terms)b::text[]::tsquery[], %(terms_min)b::int, %(filtered)b::boolean,
  %(sessions)b::text[], %(origins)b::text[], %(models)b::text[], %(files)b::text[],
  %(after)b::text::timestamptz, %(before)b::text::timestamptz, %(archived)b::boolean, %(candidates)b::int, %(limit)b::int);

-- name: search_places
SELECT segment, depth FROM turntree.search_places(%(ladder)b::text[]::tsquery[], %(filtered)b::boolean,
  %(sessions)b::text[], %(origins)b::text[], %(models)b::text[], %(files)b::text[],
  %(after)b::text::timestamptz, %(before)b::text::timestamptz, %(archived)b::boolean, %(limit)b::int);

-- name: turn_places
SELECT s.number, t.depth FROM unnest(%(turns)b::uuid[]) WITH ORDINALITY x (id, place)
  JOIN turntree.turns t ON t.workspace_id = %(workspace)b AND t.id = x.id
  JOIN turntree.segments s ON s.workspace_id = %(workspace)b AND s.id = t.segment_id
  ORDER BY x.place;

-- name: search_names
SELECT turn_id::text FROM turntree.search_names(%(facets)b::text::tsquery,
  %(sessions)b::text[], %(origins)b::text[], %(models)b::text[], %(files)b::text[],
  %(after)b::text::timestamptz, %(before)b::text::timestamptz, %(archived)b::boolean, %(limit)b::int);

-- name: search_embeddings
SELECT turn_id::text, likeness FROM turntree.search_embeddings(
  %(embedder)b::text, %(vector)b::text::real[], %(facets)b::text::tsquery, %(filtered)b::boolean,
  %(sessions)b::text[], %(origins)b::text[], %(models)b::text[], %(files)b::text[],
  %(after)b::text::timestamptz, %(before)b::text::timestamptz, %(archived)b::boolean, %(exact_max)b::int, %(proposed)b::int, %(limit)b::int);

-- name: search_bodies
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text, t.id::text
  FROM unnest(%(turns)b::uuid[]) WITH ORDINALITY AS x (id, place),
    LATERAL (SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id OFFSET 0) t,
    LATERAL (SELECT header, body FROM turntree.turn_bodies WHERE workspace_id = %(workspace)b AND turn_id = x.id OFFSET 0) b
  ORDER BY x.place;

-- name: search_object_parts
-- The beginnings of large parts; the rest is not even read from disk.
SELECT digest, substring(bytes FOR %(bytes)b::int) FROM turntree.objects
  WHERE workspace_id = %(workspace)b AND digest = ANY (%(digests)b::bytea[]);

-- name: search_holders
-- Sessions whose head is the turn come first, then the most recently used.
SELECT x.id::text, h.session_id::text, h.session_label, h.is_head
  FROM unnest(%(turns)b::uuid[]) AS x (id), LATERAL (
    SELECT s.session_id, s.session_label, c.head_id = x.id AS is_head, c.status, c.updated_at
      FROM ledger.sessions_holding(x.id) s
      JOIN turntree.sessions c ON c.workspace_id = %(workspace)b AND c.id = s.session_id
      WHERE c.status <> 'deleted'
      ORDER BY is_head DESC, c.status, c.updated_at DESC, s.session_label LIMIT %(limit)b::int) h
  ORDER BY x.id, h.is_head DESC, h.status, h.updated_at DESC, h.session_label;

-- name: list_file_uses
SELECT f.turn_id::text, f.message, f.kind, f.path, f.line_start, f.line_end FROM turntree.message_files f
  WHERE f.workspace_id = %(workspace)b AND (f.path LIKE %(path)b::text OR f.path LIKE '%%/' || %(path)b::text)
  ORDER BY f.turn_id DESC, f.message, f.sequence LIMIT %(limit)b::int;

-- name: viewer_sees_everything
SELECT turntree.can_see_all_sessions();
