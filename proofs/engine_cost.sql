-- What proofs.engine_cost asks the server directly.

-- name: transactions
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database();

-- name: create_bare
CREATE TABLE IF NOT EXISTS public.bare (id uuid PRIMARY KEY, body text NOT NULL);

-- name: insert_bare
INSERT INTO public.bare (id, body) VALUES (gen_random_uuid(), repeat('x', 500));

-- name: turns
SELECT count(*) FROM turntree.turns;

-- name: pinned
SELECT count(*) FROM turntree.turn_snapshots
 WHERE before_snapshot_id IS NOT NULL AND after_snapshot_id IS NOT NULL
   AND before_snapshot_id <> after_snapshot_id;

-- name: first_facts
-- When the first fact of each run was committed, in seconds since 1970.
SELECT stream_id::text, extract(epoch FROM pg_xact_commit_timestamp(xid::xid))::float8
  FROM turntree.events WHERE kind = 'run.started' AND seq = 0 AND stream_id = ANY (%s::uuid[]);

-- name: backends
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();

-- name: parked
SELECT count(*) FROM turntree.runs WHERE status = 'parked';

-- name: asleep
SELECT count(*) FROM turntree.session_queues WHERE NOT awake;

-- name: awake
SELECT count(*) FROM turntree.session_queues WHERE awake;

-- name: analyze
VACUUM ANALYZE;
