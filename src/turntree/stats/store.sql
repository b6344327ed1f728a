-- Figures of a workspace.

-- name: count_imported
SELECT
  (SELECT count(*) FROM turntree.sessions WHERE workspace_id = %(workspace)b AND origin IS NOT NULL),
  (SELECT count(DISTINCT x.turn_id) FROM turntree.turn_sources x
    JOIN turntree.turns t ON t.workspace_id = x.workspace_id AND t.id = x.turn_id WHERE x.workspace_id = %(workspace)b),
  (SELECT n.name FROM turntree.sessions s
    JOIN turntree.turns t ON t.workspace_id = s.workspace_id AND t.id = s.head_id
    JOIN turntree.session_names n ON n.workspace_id = s.workspace_id AND n.session_id = s.id AND n.reason IS NULL
    WHERE s.workspace_id = %(workspace)b AND s.origin IS NOT NULL AND s.status = 'active'
      AND NOT EXISTS (SELECT FROM turntree.spawns w WHERE w.workspace_id = s.workspace_id AND w.session_id = s.id)
    ORDER BY t.sealed_at DESC, n.name LIMIT 1);

-- name: count_imported_tokens
-- A call that several turns record is counted once, by the record with the most tokens.
SELECT c.origin, sum(c.tokens)::bigint FROM (
    SELECT s.origin, max(m.input_tokens::bigint + m.cached_input_tokens + m.cache_write_tokens + m.output_tokens) AS tokens
      FROM (SELECT DISTINCT b.origin, x.turn_id FROM turntree.turn_sources x
        JOIN turntree.transcripts b ON b.workspace_id = x.workspace_id AND b.id = x.transcript_id
        WHERE x.workspace_id = %(workspace)b) s
      JOIN turntree.model_calls m ON m.workspace_id = %(workspace)b AND m.turn_id = s.turn_id
      GROUP BY s.origin, coalesce('call ' || m.call_id, m.turn_id || '/' || m.sequence)) c
  GROUP BY c.origin ORDER BY c.origin;

-- name: measure
-- Table sizes cover all workspaces.
SELECT coalesce(sum(x.size) FILTER (WHERE x.name = 'raw_blocks'), 0)::bigint,
    coalesce(sum(x.size) FILTER (WHERE x.name LIKE 'search%%'), 0)::bigint,
    coalesce(sum(x.size) FILTER (WHERE x.name <> 'raw_blocks' AND x.name NOT LIKE 'search%%'), 0)::bigint
  FROM (SELECT c.relname AS name, pg_total_relation_size(c.oid) AS size FROM pg_class c
    WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind = 'r') x;

-- name: list_spending
-- A call that several turns record is counted once, by the record with the most tokens. Calls are sorted as bytes: the
-- words of a language would take several times as long.
SELECT to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), c.by, c.model, c.provider, NULL::text, count(*),
    sum(c.input_tokens), sum(c.output_tokens), sum(c.cached_input_tokens), sum(c.cache_write_tokens),
    sum(c.reasoning_tokens)
  FROM (
    SELECT DISTINCT ON (coalesce('call ' || m.call_id, m.turn_id || '/' || m.sequence) COLLATE "C") m.*, t.started_at, t.by
      FROM turntree.model_calls m
      JOIN turntree.turns t ON t.workspace_id = m.workspace_id AND t.id = m.turn_id
      WHERE m.workspace_id = %(workspace)b
        AND (%(since)b::text IS NULL OR t.started_at >= %(since)b::text::timestamptz)
        AND (%(until)b::text IS NULL OR t.started_at < %(until)b::text::timestamptz)
      ORDER BY coalesce('call ' || m.call_id, m.turn_id || '/' || m.sequence) COLLATE "C", m.output_tokens DESC, t.started_at) c
  GROUP BY 1, 2, 3, 4,
    width_bucket(c.input_tokens::bigint + c.cached_input_tokens + c.cache_write_tokens - 1, %(bands)b::int[]::bigint[])
  ORDER BY 1, 2, 3, 4;

-- name: list_spending_by_session
-- A turn is counted for the oldest session whose thread contains it now, and so only once: of each segment a session
-- has what no older one reaches.
WITH RECURSIVE reach (session_id, created_at, segment_id, depth) AS (
  SELECT s.id, s.created_at, t.segment_id, t.depth FROM turntree.sessions s
    JOIN turntree.turns t ON t.workspace_id = s.workspace_id AND t.id = s.head_id
    WHERE s.workspace_id = %(workspace)b
  UNION ALL
  SELECT r.session_id, r.created_at, g.parent_id, g.fork_depth FROM reach r
    JOIN turntree.segments g ON g.workspace_id = %(workspace)b AND g.id = r.segment_id
    WHERE g.parent_id IS NOT NULL
), held AS (
  SELECT r.session_id, r.created_at, r.segment_id, n.name, r.depth AS high, coalesce(max(r.depth) OVER (PARTITION BY r.segment_id
      ORDER BY r.created_at, n.name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS low
    FROM reach r JOIN turntree.session_names n ON n.workspace_id = %(workspace)b AND n.session_id = r.session_id
      AND n.reason IS NULL
)
SELECT to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), c.by, c.model, c.provider, c.name, count(*),
    sum(c.input_tokens), sum(c.output_tokens), sum(c.cached_input_tokens), sum(c.cache_write_tokens),
    sum(c.reasoning_tokens)
  FROM (
    SELECT DISTINCT ON (coalesce('call ' || m.call_id, m.turn_id || '/' || m.sequence) COLLATE "C") m.*, t.started_at, t.by, h.name
      FROM turntree.model_calls m
      JOIN turntree.turns t ON t.workspace_id = m.workspace_id AND t.id = m.turn_id
      LEFT JOIN held h ON h.segment_id = t.segment_id AND t.depth > h.low AND t.depth <= h.high
      WHERE m.workspace_id = %(workspace)b
        AND (%(since)b::text IS NULL OR t.started_at >= %(since)b::text::timestamptz)
        AND (%(until)b::text IS NULL OR t.started_at < %(until)b::text::timestamptz)
      ORDER BY coalesce('call ' || m.call_id, m.turn_id || '/' || m.sequence) COLLATE "C", m.output_tokens DESC,
        h.created_at, h.name) c
  GROUP BY 1, 2, 3, 4, 5,
    width_bucket(c.input_tokens::bigint + c.cached_input_tokens + c.cache_write_tokens - 1, %(bands)b::int[]::bigint[])
  ORDER BY 1, 2, 3, 4, 5;
