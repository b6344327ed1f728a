-- Permissions as facts: what is written beside a session's moves, and how it is found again.

-- Writes an event at the next place of a session's stream. p_data is canonical.
CREATE OR REPLACE FUNCTION turntree.note_on_session(p_ws uuid, p_session uuid, p_kind text, p_at text, p_data text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
BEGIN
  UPDATE turntree.sessions SET event_seq = event_seq + 1
    WHERE workspace_id = p_ws AND id = p_session RETURNING event_seq - 1 INTO v_seq;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002';
  END IF;
  PERFORM turntree.insert_event(p_ws, p_session, v_seq, p_kind, p_at, p_data);
END $$;

-- The session that a stream belongs to: its own, the one its run was started in, or the one that its
-- turn advanced. Null if nobody can tell.
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
