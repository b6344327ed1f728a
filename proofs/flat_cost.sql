-- The bare side of each comparison: what PostgreSQL does without the product.

-- name: create_bare
CREATE TABLE public.bare (id uuid PRIMARY KEY, word text NOT NULL);
GRANT INSERT ON public.bare TO turntree_app;
CREATE TABLE public.bare_turns AS TABLE turntree.turns WITH NO DATA;
CREATE TABLE public.bare_bodies AS TABLE turntree.turn_bodies WITH NO DATA;
GRANT INSERT, TRUNCATE ON public.bare_turns, public.bare_bodies TO turntree_importer;
CREATE TABLE public.payload (
  header text, body text, started_at text, sealed_at text, calls text[], models text[], tokens int[], journal text);
ALTER TABLE public.payload ALTER body SET STORAGE PLAIN;
GRANT SELECT ON public.payload TO turntree_app;

-- name: insert_bare
INSERT INTO public.bare VALUES (%b, %b);

-- name: load_bare
SELECT t.digest, b.header, b.body, t.depth, t.parent_id::text
  FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  WHERE t.workspace_id = %b AND t.segment_id = %b AND t.depth <= %b ORDER BY t.depth;

-- name: truncate_bare
TRUNCATE public.bare_turns, public.bare_bodies;

-- name: copy_bare_turns
COPY public.bare_turns (workspace_id, id, parent_id, segment_id, depth, digest, started_at, sealed_at,
  kind, outcome, agent_role, by, model, provider) FROM STDIN (FORMAT binary);

-- name: copy_bare_bodies
COPY public.bare_bodies (workspace_id, turn_id, header, body) FROM STDIN (FORMAT binary);

-- name: analyze
ANALYZE turntree.turns, turntree.turn_bodies, turntree.segments;

-- name: sizes
SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
  WHERE relnamespace = 'turntree'::regnamespace AND relkind = 'r';

-- name: put_payload
INSERT INTO public.payload VALUES (%b, %b, %b, %b, %b::text[], %b::text[], %b::int[], %b);

-- name: pgbench
-- Run by pgbench, which reads a colon before a word as the name of one of its variables.
SELECT turntree.append_turn(s.workspace_id, g.id, s.head_id, t.digest, sha256(uuid_send(g.id)),
    p.started_at, p.sealed_at, 'normal', 'completed', 'unified', 'human proof', 'claude-x', 'anthropic', p.header, p.body,
    p.calls, p.models, p.tokens, '{}', NULL,
    ARRAY[sha256(uuid_send(g.id) || '1')], ARRAY['turn.recorded'], ARRAY[p.journal],
    NULL, s.id, 'human proof', p.sealed_at, g.id::text)
  FROM (SELECT uuidv7() AS id OFFSET 0) g, public.payload p, turntree.session_names n
  JOIN turntree.sessions s ON s.workspace_id = n.workspace_id AND s.id = n.session_id
  JOIN turntree.turns t ON t.workspace_id = s.workspace_id AND t.id = s.head_id
  WHERE n.workspace_id = current_setting('turntree.workspace')::uuid AND n.name = 'writer-' || (:client_id)::text;
