-- What is sent to sessions, and who answers it.

-- name: take_role_here
-- Until the transaction ends, on a connection that is lent.
SELECT set_config('role', %(role)s, true), set_config('turntree.workspace', %(workspace)s, true),
  set_config('enable_seqscan', 'off', true);

-- name: give_role_back
SELECT set_config('role', 'none', true);

-- name: post_message
SELECT run_id::text, seq, repeated, wake FROM turntree.post_message(
  %(workspace)b, %(session)b, %(payload)b, %(by)b, %(at)b, %(key)b, %(options)b);

-- name: next_work
SELECT what, run_id::text, epoch, canceled, head::text, head_digest, seq, payload, sender,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.next_work(%(workspace)b, %(session)b, %(worker)b);

-- name: begin_run
SELECT turntree.begin_run(%(workspace)b, %(run)b, %(session)b, %(seqs)b::int[], %(worker)b, %(at)b,
  %(ids)b::bytea[], %(kinds)b::text[], %(bodies)b::text[], %(payloads)b::text[]);

-- name: append_facts
SELECT turntree.append_facts(%(workspace)b, %(run)b, %(epoch)b, %(first)b,
  %(ids)b::bytea[], %(kinds)b::text[], %(bodies)b::text[], %(payloads)b::text[]);

-- name: unpark_run
SELECT unparked, session::text, wake FROM turntree.unpark_run(%(workspace)b, %(run)b, %(at)b, %(data)b);

-- name: cancel_run
SELECT run_id::text, wake FROM turntree.cancel_run(%(workspace)b, %(session)b, %(by)b, %(at)b, %(discard)b);

-- name: note_failure
UPDATE turntree.runs SET failures = failures + 1
  WHERE workspace_id = %(workspace)b AND id = %(run)b AND epoch = %(epoch)b AND status <> 'finished' RETURNING failures;

-- name: list_waiting
SELECT seq, run_id::text, payload, by,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.inbox
  WHERE workspace_id = %(workspace)b AND session_id = %(session)b AND payload IS NOT NULL ORDER BY seq;

-- name: lease_worker
SELECT pg_try_advisory_lock(turntree.worker_key(%(workspace)b, %(worker)b));

-- name: release_worker
SELECT pg_advisory_unlock(turntree.worker_key(%(workspace)b, %(worker)b));

-- name: announce_worker
INSERT INTO turntree.workers (workspace_id, name) VALUES (%(workspace)b, %(worker)b)
  ON CONFLICT (workspace_id, name) DO UPDATE SET began_at = clock_timestamp(), beat_at = clock_timestamp();

-- name: beat_worker
-- A worker that was taken for dead and is not comes back with its next beat.
WITH beat AS (
  INSERT INTO turntree.workers (workspace_id, name) VALUES (%(workspace)b, %(worker)b)
    ON CONFLICT (workspace_id, name) DO UPDATE SET beat_at = clock_timestamp()
)
SELECT id::text FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND worker = %(worker)b AND cancel_requested AND status <> 'finished';

-- name: forget_workers
DELETE FROM turntree.workers WHERE workspace_id = %(workspace)b AND name = ANY (%(workers)b::text[]);

-- name: list_dead_workers
SELECT * FROM turntree.dead_workers(%(workspace)b, make_interval(secs => %(silent_s)b));

-- name: list_workers
SELECT name FROM turntree.workers WHERE workspace_id = %(workspace)b AND turntree.is_leased(workspace_id, name) ORDER BY name;

-- name: list_unattended
-- Awake sessions whose worker is dead, and those that have been awake for so long that somebody should
-- ask whether their wake-up is still under way: those that nobody looks after, and those of whoever
-- asks. What another does who lives is his business, and his wake-ups may be in his memory.
WITH dead AS MATERIALIZED (SELECT * FROM turntree.dead_workers(%(workspace)b, make_interval(secs => %(silent_s)b)) AS name),
living AS MATERIALIZED (
  SELECT name FROM turntree.workers WHERE workspace_id = %(workspace)b EXCEPT SELECT name FROM dead
)
SELECT session_id::text, wakes, CASE WHEN is_orphan THEN worker END FROM (
    SELECT a.*, a.worker IS NOT NULL AND a.worker NOT IN (SELECT name FROM living) AS is_orphan
      FROM turntree.actors a WHERE a.workspace_id = %(workspace)b AND a.awake
  ) x
  WHERE is_orphan OR awake_since < clock_timestamp() - make_interval(secs => %(silent_s)b)
    AND (worker IS NULL OR worker = ANY (%(mine)b::text[]))
  ORDER BY awake_since LIMIT %(limit)b;

-- name: wake_again
SELECT turntree.wake_again(%(workspace)b, %(session)b, %(wakes)b);

-- name: list_open_runs
SELECT id::text, session_id::text, status,
    to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), worker, cancel_requested, parked_reason,
    discard, canceled_by, failures
  FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND status <> 'finished' AND session_id IS NOT NULL
    AND (%(session)b::uuid IS NULL OR session_id = %(session)b::uuid)
  ORDER BY started_at, id;
