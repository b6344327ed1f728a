-- Queued messages, and the runs that answer them.

-- name: post_message
SELECT run_id::text, seq, repeated, wake FROM turntree.post_message(
  %(workspace)b, %(session)b, %(payload)b, %(by)b, %(at)b, %(key)b, %(options)b);

-- name: next_work
SELECT what, run_id::text, epoch, canceled, head::text, head_digest, workspace_path, seq, payload, sender,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.next_work(%(workspace)b, %(session)b, %(worker)b);

-- name: start_queued_run
SELECT turntree.start_queued_run(%(workspace)b, %(run)b, %(session)b, %(seqs)b::int[], %(worker)b, %(at)b,
  %(ids)b::bytea[], %(kinds)b::text[], %(bodies)b::text[], %(payloads)b::text[]);

-- name: append_run_events
SELECT turntree.append_run_events(%(workspace)b, %(run)b, %(epoch)b, %(first)b,
  %(ids)b::bytea[], %(kinds)b::text[], %(bodies)b::text[], %(payloads)b::text[]);

-- name: unpark_run
SELECT unparked, session::text, wake FROM turntree.unpark_run(%(workspace)b, %(run)b, %(at)b, %(data)b);

-- name: cancel_session_run
SELECT run_id::text, wake FROM turntree.cancel_session_run(%(workspace)b, %(session)b, %(by)b, %(at)b, %(discard)b);

-- name: cancel_run
SELECT canceled, session::text, wake FROM turntree.cancel_run(%(workspace)b, %(run)b, %(by)b, %(at)b, %(discard)b);

-- name: count_crash
UPDATE turntree.runs SET crash_count = crash_count + 1
  WHERE workspace_id = %(workspace)b AND id = %(run)b AND epoch = %(epoch)b AND status <> 'finished' RETURNING crash_count;

-- name: note_retaken
UPDATE turntree.runs r SET retaken = coalesce(r.retaken, '{}') || (
    SELECT jsonb_object_agg(c, coalesce((r.retaken ->> c)::int, 0) + 1) FROM unnest(%(calls)b::text[]) c)
  WHERE workspace_id = %(workspace)b AND id = %(run)b AND epoch = %(epoch)b AND status <> 'finished' RETURNING retaken::text;

-- name: list_waiting
SELECT seq, run_id::text, payload, by,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.queued_messages
  WHERE workspace_id = %(workspace)b AND session_id = %(session)b AND payload IS NOT NULL
    AND canceled_at IS NULL
    AND NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer()) ORDER BY seq;

-- name: list_backlogs
SELECT i.session_id::text, n.name, count(*)::int,
    to_char(min(i.received_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  FROM turntree.queued_messages i
  JOIN turntree.sessions s ON s.workspace_id = i.workspace_id AND s.id = i.session_id AND s.status = 'active'
  JOIN turntree.session_names n ON n.workspace_id = i.workspace_id AND n.session_id = i.session_id AND n.reason IS NULL
  WHERE i.workspace_id = %(workspace)b AND i.payload IS NOT NULL AND i.canceled_at IS NULL
  GROUP BY i.session_id, n.name ORDER BY min(i.received_at), n.name;

-- name: find_agent
SELECT (turntree.require_agent(%(workspace)b, %(session)b::uuid, %(label)b::text, %(head)b::uuid, %(named)b::text, %(by)b::text)).name;

-- name: find_keyed_session
SELECT session_id::text FROM turntree.queued_messages
  WHERE workspace_id = %(workspace)b AND by = %(by)b AND idempotency_key = %(key)b;

-- name: find_by_key
SELECT run_id FROM turntree.queued_messages
  WHERE workspace_id = %(workspace)b AND by = %(by)b AND idempotency_key = %(key)b;

-- name: find_waiting
SELECT seq, run_id::text, payload, by,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.queued_messages
  WHERE workspace_id = %(workspace)b AND run_id = %(run)b AND payload IS NOT NULL
    AND NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer()) ORDER BY seq LIMIT 1;
