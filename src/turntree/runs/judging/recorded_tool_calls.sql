-- Tool calls that were made before, for a policy that is tried on them.

-- name: list_called_turns
-- Turns with tool calls, newest first, below a position; of an import, the tool and the folder of its session.
SELECT t.id::text, t.sealed_at::text, s.origin, s.folder
  FROM turntree.turns t LEFT JOIN LATERAL (
    SELECT r.origin, (SELECT h.value ->> 'cwd' FROM turntree.import_cursors i, jsonb_each(i.heads) h
        WHERE i.workspace_id = r.workspace_id AND i.origin = r.origin AND i.transcript = r.name AND h.value ? 'cwd' LIMIT 1) AS folder
      FROM turntree.turn_sources x JOIN turntree.transcripts r ON r.workspace_id = x.workspace_id AND r.id = x.transcript_id
      WHERE x.workspace_id = t.workspace_id AND x.turn_id = t.id ORDER BY x.transcript_id LIMIT 1) s ON true
  WHERE t.workspace_id = %(workspace)b AND (%(before)b::timestamptz IS NULL OR (t.sealed_at, t.id) < (%(before)b::timestamptz, %(turn)b::uuid))
    AND EXISTS (SELECT FROM turntree.tool_calls c WHERE c.workspace_id = t.workspace_id AND c.turn_id = t.id)
  ORDER BY t.sealed_at DESC, t.id DESC LIMIT %(limit)b::bigint;

-- name: list_judgments
-- How the calls of runs were judged, in the order of their events, and what began them.
SELECT e.stream_id::text, e.body FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND e.stream_id = ANY (%(turns)b::uuid[])
    AND e.kind IN ('run.started', 'tool_call.judged', 'tool_call.started')
  ORDER BY e.stream_id, e.seq;
