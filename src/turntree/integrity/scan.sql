-- What a scan compares: bodies, events and objects in ranges, and the rows derived from them.

-- name: fsck_turns
-- A page of turns with their bodies and their columns.
SELECT t.id::text, t.digest, p.digest, convert_to(b.header, 'UTF8'), convert_to(b.body, 'UTF8'),
    t.kind, t.outcome, t.agent_role, t.by, t.model, t.provider,
    t.started_at::text, t.sealed_at::text
  FROM (SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)b AND id > %(after)b AND id <= %(last)b
    ORDER BY id LIMIT %(limit)b) t
  LEFT JOIN LATERAL (SELECT digest FROM turntree.turns
    WHERE workspace_id = %(workspace)b AND id = t.parent_id OFFSET 0) p ON true
  LEFT JOIN LATERAL (SELECT header, body FROM turntree.turn_bodies
    WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) b ON true
  ORDER BY t.id;

-- name: fsck_tool_calls
SELECT turn_id::text, sequence, call_id, tool, status FROM turntree.tool_calls
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b
  ORDER BY turn_id, sequence;

-- name: fsck_model_calls
SELECT turn_id::text, sequence, model, provider, call_id, input_tokens, output_tokens, cached_input_tokens,
    cache_write_tokens, reasoning_tokens
  FROM turntree.model_calls
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b
  ORDER BY turn_id, sequence;

-- name: fsck_compactions
SELECT turn_id::text, summarized_through::text, first_kept::text, turns_summarized, kind, trigger,
    tokens_before, tokens_after, summary_tokens, duration_ms
  FROM turntree.compactions
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b
  ORDER BY turn_id;

-- name: fsck_files
SELECT turn_id::text, message, sequence, kind, path, line_start, line_end FROM turntree.message_files
  WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b
  ORDER BY turn_id, sequence;

-- name: fsck_holders
-- Those of turns: what an open run refers to is in payloads.
SELECT h.turn_id::text, h.digest FROM turntree.object_holders h
  WHERE h.workspace_id = %(workspace)b AND h.turn_id > %(after)b AND h.turn_id <= %(last)b
    AND EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = h.turn_id)
  ORDER BY h.turn_id, h.digest;

-- name: fsck_tags
SELECT node_id::text, tag FROM turntree.tags
  WHERE workspace_id = %(workspace)b AND node_id > %(after)b AND node_id <= %(last)b
  ORDER BY node_id, tag COLLATE "C";

-- name: fsck_calls_of
SELECT turn_id::text, call_id, status FROM turntree.tool_calls
  WHERE workspace_id = %(workspace)b AND turn_id = ANY (%(turns)b) ORDER BY turn_id, sequence;

-- name: fsck_events
-- With the digest of the turn if an event names what its run used.
SELECT e.stream_id::text, e.seq, e.id, e.kind, convert_to(e.body, 'UTF8'),
    CASE WHEN e.kind IN ('turn.recorded', 'model_call.finished') THEN (
      SELECT t.digest FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = e.stream_id) END
  FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND (e.stream_id, e.seq) > (%(after)b, %(seq)b) AND e.stream_id <= %(last)b
  ORDER BY e.stream_id, e.seq LIMIT %(limit)b;

-- name: fsck_objects
SELECT digest, bytes FROM turntree.objects
  WHERE workspace_id = %(workspace)b AND digest = ANY (%(digests)b::bytea[]);

-- name: fsck_missing_objects
SELECT d FROM unnest(%(digests)b::bytea[]) d
  WHERE NOT EXISTS (SELECT FROM turntree.objects o WHERE o.workspace_id = %(workspace)b AND o.digest = d);
