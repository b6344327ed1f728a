-- Policies: who proposes and activates them, and that a decision is that of the one in force.

-- Records an event of a policy, in the workspace's own stream.
CREATE OR REPLACE FUNCTION turntree.record_policy_event(p_ws uuid, p_kind text, p_by text, p_at text, p turntree.policies)
RETURNS void LANGUAGE sql AS $$
  SELECT turntree.record_event(p_ws, turntree.workspace_stream(), p_kind, p_at,
    '{' || CASE WHEN p.agent <> '' THEN '"agent_id":' || turntree.canonical_text(p.agent) || ',' ELSE '' END
      || '"by":' || turntree.canonical_text(p_by) || ',"docstring":' || turntree.canonical_text(p.docstring)
      || coalesce(',"notes":' || turntree.canonical_text(p.notes), '')
      || ',"number":' || p.number || ',"policy_ref":{"uri":"resource://approval-policy/policy.py"},"source_digest":"sha256:'
      || encode(p.digest, 'hex') || '","tests_summary":{"passed":' || p.tests || ',"total":' || p.tests || '}}')
$$;

-- Proposes a version, and returns its number. The same source again is the same version.
CREATE OR REPLACE FUNCTION turntree.propose_policy(
  p_ws uuid, p_agent text, p_digest bytea, p_language text, p_lane text, p_source text, p_docstring text, p_tests int,
  p_notes text, p_by text, p_at text, p_right text, p_roles text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_row turntree.policies;
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_by, p_right, p_roles);
  IF sha256(convert_to(p_source, 'UTF8')) <> p_digest THEN
    RAISE EXCEPTION 'the policy does not have this digest' USING ERRCODE = 'TT003';
  END IF;
  SELECT * INTO v_row FROM turntree.policies p
    WHERE p.workspace_id = p_ws AND p.agent = p_agent AND p.digest = p_digest AND p.lane = p_lane;
  IF NOT FOUND THEN
    INSERT INTO turntree.policies (workspace_id, agent, number, digest, language, lane, source, docstring, tests, notes, proposed_by, proposed_at)
      SELECT p_ws, p_agent, coalesce(max(p.number), 0) + 1, p_digest, p_language, p_lane, p_source, p_docstring, p_tests, p_notes, p_by, p_at::timestamptz
        FROM turntree.policies p WHERE p.workspace_id = p_ws AND p.agent = p_agent
      RETURNING * INTO v_row;
    PERFORM turntree.record_policy_event(p_ws, 'policy.proposed', p_by, p_at, v_row);
  END IF;
  RETURN v_row.number;
END $$;

-- Activates a version whose tests have passed: it is in force for every call that is judged after this transaction. Only a
-- person who acts directly may, so that no agent decides what it may do.
CREATE OR REPLACE FUNCTION turntree.activate_policy(
  p_ws uuid, p_agent text, p_number int, p_digest bytea, p_by text, p_at text, p_right text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row turntree.policies;
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_by, p_right, p_roles);
  IF p_by NOT LIKE 'human:_%' OR p_by <> turntree.viewer() THEN
    RAISE EXCEPTION '% cannot activate a policy: only a person who acts directly can', p_by USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', turntree.viewer(), 'right', p_right,
        'reason', 'it is not a person who acts directly')::text;
  END IF;
  SELECT * INTO v_row FROM turntree.policies p
    WHERE p.workspace_id = p_ws AND p.agent = p_agent AND p.number = p_number AND p.digest = p_digest FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no policy %', p_number USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'policy.history'))::text;
  ELSIF v_row.is_active THEN
    RETURN;
  END IF;
  UPDATE turntree.policies SET is_active = false WHERE workspace_id = p_ws AND agent = p_agent AND is_active;
  UPDATE turntree.policies SET is_active = true, activated_by = p_by, activated_at = p_at::timestamptz
    WHERE workspace_id = p_ws AND agent = p_agent AND number = p_number;
  PERFORM turntree.record_policy_event(p_ws, 'policy.activated', p_by, p_at, v_row);
END $$;

-- Raises TT005 unless a decision is that of the policy in force for its agent. A decision without a policy is one that none
-- was asked for; while none was activated, any is taken: each release has a default of its own. Activations are not waited
-- for: a decision that is recorded while one commits came before it.
CREATE OR REPLACE FUNCTION turntree.check_judged(p_ws uuid, p_body text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_data constant jsonb := turntree.document(p_body) -> 'data';
  v_active text;
BEGIN
  IF NOT v_data ? 'policy' OR v_data ->> 'decision' = 'allow' AND v_data ? 'approval' THEN
    RETURN;
  END IF;
  SELECT 'sha256:' || encode(p.digest, 'hex') INTO v_active FROM turntree.policies p
    WHERE p.workspace_id = p_ws AND p.agent IN ('', coalesce(v_data ->> 'agent', '')) AND p.is_active ORDER BY p.agent DESC LIMIT 1;
  IF v_active <> v_data ->> 'policy' THEN
    RAISE EXCEPTION 'another policy is in force than the one that decided' USING ERRCODE = 'TT005';
  END IF;
END $$;

-- Records a decision in the stream of the session that the agent's transcript became. The judge's file may be read
-- twice: the same decision at the same time is one.
CREATE OR REPLACE FUNCTION turntree.record_judged_call(p_ws uuid, p_session uuid, p_at text, p_data text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'create');
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke');
  PERFORM FROM turntree.sessions WHERE workspace_id = p_ws AND id = p_session FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = p_ws AND e.stream_id = p_session AND e.kind = 'tool_call.judged'
      AND e.body::jsonb ->> 'at' = p_at AND e.body::jsonb -> 'data' = p_data::jsonb) THEN
    RETURN false;
  END IF;
  PERFORM turntree.record_session_event(p_ws, p_session, 'tool_call.judged', p_at, p_data);
  RETURN true;
END $$;
