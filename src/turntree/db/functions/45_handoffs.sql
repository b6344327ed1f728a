-- Handoffs: threads that were written as sessions of other tools.

-- Records that a thread was written as a session of another tool, with its event.
CREATE OR REPLACE FUNCTION turntree.record_handoff(
  p_ws uuid, p_turn uuid, p_origin text, p_session text, p_file text, p_bytes bigint, p_mark text, p_last text,
  p_by text, p_at text, p_data text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.handoffs (workspace_id, tool, tool_session_id, turn_id, path, own_bytes, id_suffix, last_own_id, by, created_at)
    VALUES (p_ws, p_origin, p_session, p_turn, p_file, p_bytes, p_mark, p_last, p_by, p_at::timestamptz);
  PERFORM turntree.record_event(p_ws, p_turn, 'transcript.materialized', p_at, p_data);
END $$;
