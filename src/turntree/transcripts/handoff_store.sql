-- Threads that were written as sessions of other tools.

-- name: find_own_records
-- With the id, digest and depth of the last turn of that thread, which a following turn needs.
SELECT b.own_spans, t.id::text, t.digest, t.depth FROM turntree.raw_blocks b
  JOIN turntree.turns t ON t.workspace_id = b.workspace_id AND t.id = b.handoff_turn_id
  WHERE b.workspace_id = %(workspace)b AND b.digest = ANY (%(blocks)b::bytea[]) ORDER BY b.own_spans;

-- name: record_handoff
SELECT turntree.record_handoff(%(workspace)b, %(turn)b, %(origin)b, %(session)b, %(file)b, %(bytes)b, %(mark)b, %(last)b,
  %(by)b, %(at)b, %(data)b);

-- name: list_handoffs
-- With the id, digest and depth of the turn that was handed off, and the session that continues with the tool: only
-- the event of the handoff names it.
SELECT c.tool, c.tool_session_id, c.path, c.own_bytes, c.id_suffix, c.last_own_id, f.data ->> 'continues', t.id::text, t.digest, t.depth
  FROM turntree.handoffs c JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id
  LEFT JOIN LATERAL (SELECT d.data FROM turntree.events e, LATERAL (SELECT turntree.readable_document(e.body) -> 'data') d (data)
    WHERE e.workspace_id = c.workspace_id AND e.stream_id = c.turn_id AND e.kind = 'transcript.materialized'
      AND d.data ->> 'tool' = c.tool AND d.data ->> 'tool_session_id' = c.tool_session_id LIMIT 1) f ON true
  WHERE c.workspace_id = %(workspace)b ORDER BY c.created_at, c.tool, c.tool_session_id;

-- name: list_copies
SELECT tool, path, own_bytes FROM turntree.handoffs WHERE workspace_id = %(workspace)b;
