-- Reading the tree. A recursive term is always a LATERAL with OFFSET 0: the planner would
-- otherwise put a hash join inside the recursion, sixty times slower.

-- name: find_turn
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b;

-- name: thread_page
-- Returns the turns of a thread between two depths, root first. The header and the other lines come as
-- two columns: joined here, they would be read and decompressed before they are sorted, and a long
-- thread would be sorted on disk.
WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
  SELECT s.id, s.fork_depth, least(t.depth, %(high)b::int), s.parent_id
    FROM turntree.turns t, LATERAL (SELECT * FROM turntree.segments WHERE workspace_id = %(workspace)b
      AND id = turntree.segment_at(t.workspace_id, t.segment_id, least(t.depth, %(high)b::int)) OFFSET 0) s
    WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b
  UNION ALL
  SELECT s.id, s.fork_depth, c.low, s.parent_id
    FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
    WHERE c.low >= %(low)b::int
)
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text
  FROM chain c,
    LATERAL (SELECT id, digest, depth, parent_id FROM turntree.turns WHERE workspace_id = %(workspace)b
      AND segment_id = c.segment_id AND depth > c.low AND depth >= %(low)b::int AND depth <= c.high OFFSET 0) t,
    LATERAL (SELECT header, body FROM turntree.turn_bodies WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) b
  ORDER BY t.depth;

-- name: nearest_compaction
-- The newest compaction of a thread and the depth of the first turn it keeps.
SELECT t.depth, k.depth
  FROM turntree.turns h
  JOIN turntree.turns t ON t.workspace_id = h.workspace_id
    AND t.id = turntree.compaction_at(h.workspace_id, h.segment_id, h.depth)
  JOIN turntree.compactions x ON x.workspace_id = t.workspace_id AND x.turn_id = t.id
  LEFT JOIN turntree.turns k ON k.workspace_id = x.workspace_id AND k.id = x.first_kept
  WHERE h.workspace_id = %(workspace)b AND h.id = %(head)b;

-- name: turn_at_depth
SELECT x.id::text FROM turntree.turns t, turntree.turns x
  WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b AND x.workspace_id = %(workspace)b
    AND x.segment_id = turntree.segment_at(%(workspace)b, t.segment_id, %(depth)b) AND x.depth = %(depth)b;

-- name: list_children
SELECT x.id::text FROM turntree.turns t, LATERAL (
    SELECT id FROM turntree.turns
      WHERE workspace_id = t.workspace_id AND segment_id = t.segment_id AND depth = t.depth + 1
    UNION ALL
    SELECT f.id FROM turntree.segments g JOIN turntree.turns f ON f.workspace_id = g.workspace_id AND f.id = g.id
      WHERE g.workspace_id = t.workspace_id AND g.parent_id = t.segment_id AND g.fork_depth = t.depth
  ) x
  WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b AND (%(after)b::uuid IS NULL OR x.id > %(after)b::uuid)
  ORDER BY x.id LIMIT %(limit)b::bigint;

-- name: list_turns_of
-- Some turns, in the order in which they were asked for; one that does not exist is left out.
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text
  FROM unnest(%(turns)b::uuid[]) WITH ORDINALITY AS x (id, place),
    LATERAL (SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id OFFSET 0) t,
    LATERAL (SELECT header, body FROM turntree.turn_bodies WHERE workspace_id = %(workspace)b AND turn_id = x.id OFFSET 0) b
  ORDER BY x.place;

-- name: list_turn_profiles
-- As documents: for each column of another type the client finds and makes another loader, and for arrays several.
SELECT to_json(p)::text
  FROM turntree.turn_profiles(%(workspace)b, %(turns)b::uuid[], %(known)b::uuid[], %(branches)b::int) p;

-- name: find_turn_with_profile
-- One statement, because each more costs the process that asks as much as reading the turn does.
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text, to_json(p)::text FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id,
  LATERAL turntree.turn_profiles(t.workspace_id, ARRAY[t.id], '{}', %(branches)b::int) p
  WHERE t.workspace_id = %(workspace)b AND t.id = %(turn)b;

-- name: list_leaves
-- The last turn of each segment, unless another segment forks exactly there.
SELECT t.id::text FROM turntree.segments s, LATERAL (
    SELECT id, depth FROM turntree.turns WHERE workspace_id = s.workspace_id AND segment_id = s.id
      ORDER BY depth DESC LIMIT 1
  ) t
  WHERE s.workspace_id = %(workspace)b AND t.id > %(after)b AND NOT EXISTS (
    SELECT FROM turntree.segments c
      WHERE c.workspace_id = s.workspace_id AND c.parent_id = s.id AND c.fork_depth = t.depth)
  ORDER BY t.id LIMIT %(limit)b;

-- name: is_ancestor
SELECT turntree.is_ancestor(%(workspace)b, %(ancestor)b, %(turn)b);

-- name: common_ancestor
SELECT turntree.common_ancestor(%(workspace)b, %(left)b, %(right)b)::text;

-- name: list_sessions_holding
-- Every session whose thread ever contained a turn: those that reached its depth in its segment, and those that
-- reached any segment forked off below it.
WITH RECURSIVE below (segment_id, low) AS (
  SELECT segment_id, depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = %(turn)b
  UNION ALL
  SELECT s.id, s.fork_depth + 1 FROM below b, LATERAL (SELECT id, fork_depth FROM turntree.segments
    WHERE workspace_id = %(workspace)b AND parent_id = b.segment_id AND fork_depth >= b.low OFFSET 0) s
)
SELECT DISTINCT r.session_id::text FROM below b, LATERAL (SELECT session_id FROM turntree.session_reach
    WHERE workspace_id = %(workspace)b AND segment_id = b.segment_id AND max_depth >= b.low OFFSET 0) r
  JOIN turntree.sessions s ON s.workspace_id = %(workspace)b AND s.id = r.session_id
  ORDER BY 1;

-- name: list_turns
-- Newest first. A page ends before the first turn of the next one. Archived turns are left out by a subquery with an
-- aggregate, which the planner cannot turn into a join of all turns.
WITH archived AS MATERIALIZED (SELECT * FROM turntree.archived_segments(%(workspace)b) WHERE NOT %(archived)b::boolean)
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  WHERE t.workspace_id = %(workspace)b AND t.id < %(before)b
    AND (SELECT coalesce(bool_and(t.depth < a.low), true) FROM archived a WHERE a.segment_id = t.segment_id)
  ORDER BY t.id DESC LIMIT %(limit)b;

-- name: list_turns_by_words
-- Candidates, newest first: the words are somewhere in the body, perhaps not in a message's text.
WITH archived AS MATERIALIZED (SELECT * FROM turntree.archived_segments(%(workspace)b))
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text FROM turntree.turn_bodies b
  JOIN turntree.turns t ON t.workspace_id = b.workspace_id AND t.id = b.turn_id
  WHERE b.workspace_id = %(workspace)b AND b.turn_id < %(before)b AND position(%(words)b::text IN lower(b.body)) > 0
    AND (SELECT coalesce(bool_and(t.depth < a.low), true) FROM archived a WHERE a.segment_id = t.segment_id)
  ORDER BY b.turn_id DESC LIMIT %(limit)b;

-- name: list_archived_turns
SELECT t.id::text FROM turntree.archived_segments(%(workspace)b) a
  JOIN turntree.turns t ON t.workspace_id = %(workspace)b AND t.id = ANY (%(turns)b::uuid[])
    AND t.segment_id = a.segment_id AND t.depth >= a.low
  ORDER BY 1;

-- name: list_turns_by_digest
SELECT id::text FROM turntree.turns_by_digest(%(workspace)b, %(low)b, %(high)b, %(limit)b) AS id;

-- name: list_turns_by_id
SELECT id::text FROM turntree.turns_by_id(%(workspace)b, %(low)b, %(high)b, %(limit)b) AS id;

-- name: list_turns_by_response
SELECT id::text FROM turntree.turns_by_response(%(workspace)b, %(response)b, %(limit)b) AS id;

-- name: adjacent_turns
-- The digests directly below and above each given one: what a prefix must distinguish.
SELECT d, (SELECT digest FROM turntree.turns WHERE workspace_id = %(workspace)b AND digest < d ORDER BY digest DESC LIMIT 1),
    (SELECT digest FROM turntree.turns WHERE workspace_id = %(workspace)b AND digest > d ORDER BY digest LIMIT 1)
  FROM unnest(%(digests)b::bytea[]) d;

-- name: usage_of_threads
-- The distinct model calls in the threads of a set of heads, each counted once.
WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
  SELECT s.id, s.fork_depth, t.depth, s.parent_id
    FROM turntree.turns t JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
    WHERE t.workspace_id = %(workspace)b AND t.id = ANY (%(heads)b::uuid[])
  UNION
  SELECT s.id, s.fork_depth, c.low, s.parent_id
    FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
), reach AS (
  SELECT segment_id, max(high) AS high FROM chain GROUP BY segment_id
), calls AS (
  SELECT DISTINCT ON (coalesce(m.call_id, m.turn_id::text || '/' || m.sequence)) m.*
    FROM reach r,
      LATERAL (SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)b
        AND segment_id = r.segment_id AND depth <= r.high OFFSET 0) t,
      LATERAL (SELECT * FROM turntree.model_calls WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) m
)
SELECT coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
    coalesce(sum(cached_input_tokens), 0)::bigint, coalesce(sum(cache_write_tokens), 0)::bigint,
    coalesce(sum(reasoning_tokens), 0)::bigint, count(*)
  FROM calls;

-- name: list_model_calls
SELECT turn_id::text, sequence, model, provider, call_id, input_tokens, output_tokens, cached_input_tokens,
    cache_write_tokens, reasoning_tokens
  FROM turntree.model_calls WHERE workspace_id = %(workspace)b AND turn_id = ANY (%(turns)b::uuid[])
  ORDER BY turn_id, sequence;

-- name: list_replies
-- What the journals say about each reply, in order.
SELECT e.stream_id::text, d.j ->> 'request_id', (d.j ->> 'latency_ms')::int,
    (SELECT x.body::json #>> '{data,situation}' FROM turntree.events x
      WHERE x.workspace_id = e.workspace_id AND x.stream_id = e.stream_id AND x.kind = 'model_call.started'
      ORDER BY x.seq LIMIT 1)
  FROM turntree.events e, LATERAL (SELECT e.body::json -> 'data' AS j) d
  WHERE e.workspace_id = %(workspace)b AND e.stream_id = ANY (%(turns)b::uuid[]) AND e.kind = 'model_call.finished'
  ORDER BY e.stream_id, e.seq;

-- name: count_turns
SELECT count(*) FROM turntree.turns WHERE workspace_id = %(workspace)b;

-- name: find_thread_settings
-- A session switches its persona at its beginning or not at all, so only its first events are read, however long its
-- stream is.
SELECT
    (SELECT turntree.object_document(e.workspace_id, turntree.document(e.body) #>> '{data,digest}') FROM turntree.events e
      WHERE e.workspace_id = %(workspace)b AND e.stream_id = %(session)b::uuid AND e.seq < 16 AND e.kind = 'session.persona_changed'
      ORDER BY e.seq DESC LIMIT 1),
    turntree.object_document(%(workspace)b,
      turntree.manifest_entry(%(workspace)b, %(head)b::uuid, 'persona') ->> 'object'),
    (SELECT e.j ->> 'object' FROM jsonb_array_elements(turntree.object_document(%(workspace)b,
        turntree.turn_header(%(workspace)b, %(head)b::uuid) ->> 'manifest') -> 'entries') AS e (j)
      WHERE e.j ->> 'kind' = 'prompt' AND e.j ->> 'name' = 'session');
