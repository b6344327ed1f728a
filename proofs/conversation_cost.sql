-- What proofs.conversation_cost asks the server directly.

-- name: backends
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();

-- name: add_posts
-- Posts as if people had said them, up to a number; the agent was told of all.
WITH c AS (
  SELECT c.workspace_id, c.id, c.post_seq FROM turntree.conversations c
    JOIN turntree.programs p ON p.workspace_id = c.workspace_id AND p.id = c.id WHERE p.name = %(name)s
), added AS (
  INSERT INTO turntree.posts (workspace_id, conversation_id, seq, id, kind, author, digest, body, posted_at, cause_seq, hops, charged_to)
    SELECT c.workspace_id, c.id, n, gen_random_uuid(), 'participant', 'human:ana', sha256(convert_to(b, 'UTF8')), b, now(), n, 0, 'human:ana'
      FROM c, generate_series(c.post_seq + 1, %(posts)s) n, LATERAL (SELECT
        '{"at":"2026-01-01T00:00:00.000Z","author":"human:ana","content":"this was said as number ' || n || '","nonce":"0"}') d (b)
), moved AS (
  UPDATE turntree.conversations x SET post_seq = %(posts)s, posted_at = now() FROM c
    WHERE x.workspace_id = c.workspace_id AND x.id = c.id
)
UPDATE turntree.participants x SET told_seq = %(posts)s FROM c
  WHERE x.workspace_id = c.workspace_id AND x.conversation_id = c.id AND x.session_id IS NOT NULL;

-- name: analyze
VACUUM ANALYZE;
