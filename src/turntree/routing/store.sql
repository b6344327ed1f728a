-- Evidence for a router, and the texts of programs.

-- name: route_words
SELECT turn_id::text, place, rarity FROM turntree.route_words(
  %(terms)b::text[]::tsquery[], %(common)b::int, %(limit)b::int);

-- name: route_similarity
SELECT turn_id::text, likeness FROM turntree.similarity_of(
  %(embedder)b::text, %(vector)b::text::real[], %(turns)b::uuid[]);

-- name: route_holders
-- All sessions that ever held some turns, in one query: a message has hundreds of candidates. Visible and active
-- sessions come first, then those whose head is the turn, then the most recently used. A session is visible to the
-- whole workspace unless its program says otherwise. Where the head is an archived turn, a session is not continued.
WITH RECURSIVE archived AS MATERIALIZED (
  SELECT * FROM turntree.archived_segments(%(workspace)b)
), below (turn_id, segment_id, low) AS (
  SELECT x.id, t.segment_id, t.depth FROM unnest(%(turns)b::uuid[]) AS x (id), LATERAL (SELECT segment_id, depth
    FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = x.id OFFSET 0) t
  UNION ALL
  SELECT b.turn_id, s.id, s.fork_depth + 1 FROM below b, LATERAL (SELECT f.id, f.fork_depth FROM turntree.segments f
    WHERE f.workspace_id = %(workspace)b AND f.parent_id = b.segment_id AND f.fork_depth >= b.low OFFSET 0) s
), held AS MATERIALIZED (
  SELECT DISTINCT b.turn_id, r.session_id FROM below b, LATERAL (SELECT x.session_id FROM turntree.session_reach x
    WHERE x.workspace_id = %(workspace)b AND x.segment_id = b.segment_id AND x.max_depth >= b.low OFFSET 0) r
), known AS MATERIALIZED (
  SELECT s.session_id, c.head_id, c.updated_at, c.status = 'active' AND NOT EXISTS (SELECT FROM archived a
        JOIN turntree.turns t ON t.workspace_id = %(workspace)b AND t.segment_id = a.segment_id AND t.depth >= a.low
        WHERE t.id = c.head_id) AS is_active,
      turntree.is_program_hidden(%(workspace)b, s.session_id, %(by)b::text) AS is_closed
    FROM (SELECT DISTINCT session_id FROM held) s
    JOIN LATERAL (SELECT x.head_id, x.status, x.updated_at FROM turntree.sessions x
      WHERE x.workspace_id = %(workspace)b AND x.id = s.session_id AND x.status <> 'deleted' OFFSET 0) c ON true
), placed AS (
  SELECT h.turn_id, k.*, row_number() OVER (PARTITION BY h.turn_id
      ORDER BY k.is_closed, k.is_active DESC, k.head_id IS NOT DISTINCT FROM h.turn_id DESC, k.updated_at DESC, k.session_id) AS place
    FROM held h JOIN known k USING (session_id)
)
SELECT p.turn_id::text, p.session_id::text, n.name, p.head_id::text, p.is_active, p.is_closed
  FROM placed p, LATERAL (SELECT x.name FROM turntree.session_names x
    WHERE x.workspace_id = %(workspace)b AND x.session_id = p.session_id AND x.reason IS NULL OFFSET 0) n
  WHERE p.place <= %(limit)b::int ORDER BY p.turn_id, p.place;

-- name: list_hidden_sessions
SELECT x.id::text FROM unnest(%(sessions)b::uuid[]) AS x (id)
  WHERE turntree.is_program_hidden(%(workspace)b, x.id, %(by)b::text);

-- name: find_persona_session
-- The first of some sessions in which a principal may talk to a persona: its main session, or a private one of the
-- principal's own. A session that only has the name of a private persona's main session does not count. And whether the
-- principal may begin the main session.
SELECT (SELECT n.session_id::text FROM unnest(%(names)b::text[]) WITH ORDINALITY AS x (name, place)
    JOIN turntree.session_names n ON n.workspace_id = %(workspace)b AND n.name = x.name
    LEFT JOIN turntree.programs p ON p.workspace_id = %(workspace)b AND p.id = n.session_id
    WHERE CASE WHEN x.name <> %(main)b::text THEN p.visibility = 'private' AND p.owner = %(by)b::text
      WHEN a.visibility = 'private' AND (p.visibility IS DISTINCT FROM 'private' OR p.owner <> a.owner) THEN false
      ELSE p.id IS NULL OR turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b::text, 'invoke') END
    ORDER BY x.place LIMIT 1),
    (a.visibility = 'public' OR a.owner = %(by)b::text) AND NOT EXISTS (SELECT FROM turntree.session_names n
      WHERE n.workspace_id = %(workspace)b AND n.name = %(main)b::text)
  FROM turntree.programs a WHERE a.workspace_id = %(workspace)b AND a.id = %(persona)b::uuid;

-- name: list_described_programs
SELECT p.id::text, p.kind, p.name, o.bytes FROM turntree.programs p
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE p.workspace_id = %(workspace)b AND (%(ids)b::uuid[] IS NULL OR p.id = ANY (%(ids)b::uuid[]))
    AND (%(name)b::text IS NULL OR p.name = %(name)b::text) AND (%(after)b::uuid IS NULL OR p.id > %(after)b::uuid)
    AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b::text, 'read')
  ORDER BY p.id LIMIT %(limit)b::int;
