-- name: create_bare
CREATE TABLE IF NOT EXISTS proof_bare (line bytea NOT NULL);

-- name: copy_bare
COPY proof_bare (line) FROM STDIN (FORMAT binary);

-- name: drop_bare
DROP TABLE proof_bare;

-- name: settle
-- What autovacuum does soon after: room that COPY took ahead and did not need is given back.
VACUUM (ANALYZE);

-- name: sizes
SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c
  WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind = 'r' ORDER BY 2 DESC;
