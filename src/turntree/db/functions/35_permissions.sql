-- Permission events: how they are found among the events of sessions, runs and turns.

-- Returns the session that a stream belongs to: itself, the one its run was started in, or the one its turn advanced.
-- Null if that is unknown.
CREATE OR REPLACE FUNCTION turntree.session_of(p_ws uuid, p_stream uuid) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (SELECT id FROM turntree.sessions WHERE workspace_id = p_ws AND id = p_stream),
    (SELECT session_id FROM turntree.runs WHERE workspace_id = p_ws AND id = p_stream),
    (SELECT h.session_id FROM turntree.turns t
      JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id AND r.segment_id = t.segment_id AND r.max_depth >= t.depth
      JOIN turntree.session_history h ON h.workspace_id = t.workspace_id AND h.session_id = r.session_id
        AND h.after_id = t.id AND h.kind = 'advance'
      WHERE t.workspace_id = p_ws AND t.id = p_stream ORDER BY h.changed_at LIMIT 1))
$$;
