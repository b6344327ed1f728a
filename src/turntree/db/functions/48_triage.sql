-- Triage: a system agent that decides which agents answer a post of a person without a mention. All of it happens while
-- the conversation is locked, in the transaction of the post or in the one that seals the turn of the decision.

-- Whether a conversation wants decisions, as its newest config says.
CREATE OR REPLACE FUNCTION turntree.wants_triage(p_ws uuid, p_conversation uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce(bool_or((convert_from(o.bytes, 'UTF8')::jsonb ->> 'triage')::boolean), false) FROM turntree.programs p
    JOIN turntree.program_versions v ON v.workspace_id = p_ws AND v.program_id = p.id AND v.version = p.version
    JOIN turntree.objects o ON o.workspace_id = p_ws AND o.digest = v.digest
    WHERE p.workspace_id = p_ws AND p.id = p_conversation
$$;

-- Returns the name of the agent that decides; null as long as no conversation has wanted one. No person can own it.
CREATE OR REPLACE FUNCTION turntree.find_triage_agent(p_ws uuid) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT p.name FROM turntree.programs p
    WHERE p.workspace_id = p_ws AND p.kind = 'agent' AND p.owner = 'system:triage' AND p.state <> 'deleted'
    ORDER BY p.created_at, p.id LIMIT 1
$$;

-- Whether a session is the one in which triage decides for a conversation.
CREATE OR REPLACE FUNCTION turntree.is_triage_session(p_ws uuid, p_session uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.bound_sessions b
    JOIN turntree.programs a ON a.workspace_id = p_ws AND a.kind = 'agent' AND a.name = b.agent AND a.owner = 'system:triage'
    WHERE b.workspace_id = p_ws AND b.session_id = p_session)
$$;

-- Brings the agent that decides into a conversation, with its session there.
CREATE OR REPLACE FUNCTION turntree.open_triage_session(
  p_ws uuid, p_conversation uuid, p_agent text, p_at text, OUT session_id uuid, OUT told_seq int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_name text;
BEGIN
  IF NOT turntree.is_participant(p_ws, p_conversation, 'agent:' || p_agent) THEN
    PERFORM turntree.insert_participant(p_ws, p_conversation, 'agent:' || p_agent, 'system:triage', p_at);
  END IF;
  SELECT x.session_id, x.told_seq INTO session_id, told_seq FROM turntree.participants x
    WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation AND x.principal = 'agent:' || p_agent AND x.removed_at IS NULL;
  IF session_id IS NULL THEN
    SELECT p.name INTO v_name FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_conversation;
    session_id := turntree.create_bound_session(p_ws, p_conversation, v_name, p_agent, NULL, p_at);
    UPDATE turntree.participants x SET session_id = open_triage_session.session_id
      WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation AND x.principal = 'agent:' || p_agent AND x.removed_at IS NULL;
  END IF;
END $$;

-- Stores the decision about a post, unless there is one. Its reason is in the row and not in the event: a model may have
-- quoted the post.
CREATE OR REPLACE FUNCTION turntree.decide_post(
  p_ws uuid, p_conversation uuid, p_seq int, p_agents text[], p_reason text, p_method text, p_turn uuid, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.post_decisions (workspace_id, conversation_id, seq, agents, reason, method, turn_id, decided_at)
    VALUES (p_ws, p_conversation, p_seq, p_agents, p_reason, p_method, p_turn, p_at::timestamptz) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM turntree.record_conversation_event(p_ws, p_conversation, 'post.decided', p_at,
    '{"agents":[' || array_to_string(ARRAY(SELECT turntree.canonical_text(a) FROM unnest(p_agents) WITH ORDINALITY x (a, n) ORDER BY n), ',')
      || '],"by":"system:triage","method":"' || p_method || '","post":' || p_seq || coalesce(',"turn":"' || p_turn || '"', '') || '}');
  RETURN true;
END $$;
