-- Approvals: who may decide about a tool call, once, and the one use of what they allowed. The events are the record; a
-- row has what they add up to, with the arguments for as long as the call waits.
--
-- Locks are taken in the order of 46_runs.sql, and the row of an approval after its run.

-- Returns the people who decide about the calls of a session when its policy gives no names: its owner, else the person for
-- whom the run acts, else the admins.
CREATE OR REPLACE FUNCTION turntree.default_answerers(p_ws uuid, p_session uuid, p_by text) RETURNS text[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (SELECT ARRAY[p.owner] FROM turntree.programs p
      WHERE p.workspace_id = p_ws AND p.id = p_session AND p.owner LIKE 'human:_%' AND NOT turntree.was_removed(p_ws, p.owner)),
    (SELECT ARRAY[h.by] FROM turntree.session_history h
      WHERE h.workspace_id = p_ws AND h.session_id = p_session AND h.version = 1 AND h.by LIKE 'human:_%'
        AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_session)
        AND NOT turntree.was_removed(p_ws, h.by)),
    (SELECT ARRAY[b.person] FROM (SELECT turntree.person_behind(p_by) AS person) b
      WHERE b.person LIKE 'human:_%' AND NOT turntree.was_removed(p_ws, b.person)),
    (SELECT array_agg(m.principal ORDER BY m.principal) FROM turntree.members m WHERE m.workspace_id = p_ws AND m.role = 'admin'),
    '{}')
$$;

-- Returns a call's arguments as the canonical bytes that the journal of an open run has, or null. The type json keeps them
-- as they are, where jsonb would not.
CREATE OR REPLACE FUNCTION turntree.open_call_args(p_ws uuid, p_run uuid, p_call text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  p record;
BEGIN
  FOR p IN SELECT a.j AS part, b.j AS parsed FROM turntree.run_payloads x,
      json_array_elements(x.payload::json -> 'parts') WITH ORDINALITY a (j, o),
      jsonb_array_elements(turntree.document(x.payload) -> 'parts') WITH ORDINALITY b (j, o)
      WHERE x.workspace_id = p_ws AND x.run_id = p_run AND a.o = b.o AND b.j ->> 'call_id' = p_call
        AND 'tool_use' IN (b.j ->> 'kind', b.j ->> 'part') ORDER BY x.seq LOOP
    IF p.parsed ->> 'kind' = 'tool_use' THEN
      RETURN (p.part -> 'args')::text;
    END IF;
    RETURN (SELECT (convert_from(o.bytes, 'UTF8')::json -> 'args')::text FROM turntree.objects o
      WHERE o.workspace_id = p_ws AND o.digest = decode(substr(p.parsed ->> 'object', 8), 'hex'));
  END LOOP;
  RETURN NULL;
END $$;

-- Returns when something is to be done about an approval that waits: half of its time is over, then seven eighths of it,
-- then all.
CREATE OR REPLACE FUNCTION turntree.approval_due_at(p_created timestamptz, p_expires timestamptz, p_reminders int)
RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reminders WHEN 0 THEN p_created + (p_expires - p_created) / 2
    WHEN 1 THEN p_expires - (p_expires - p_created) / 8 ELSE p_expires END
$$;

-- Tells people that an approval waits for them. What a notice says leaves by mail: the arguments are not in it.
CREATE OR REPLACE FUNCTION turntree.notice_approval(
  p_ws uuid, a turntree.approvals, p_people text[], p_key text, p_text text, p_at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_person text;
BEGIN
  FOREACH v_person IN ARRAY p_people LOOP
    PERFORM turntree.add_notice(p_ws, v_person, 'approval', a.requested_by, p_text,
      jsonb_strip_nulls(jsonb_build_object('approval', a.id, 'run', a.run_id, 'session', a.session_id, 'tool', a.tool,
        'expires_at', to_char(a.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))),
      p_key || ' ' || a.id, p_at);
  END LOOP;
END $$;

-- Marks what people were told of an approval as read: it does not wait any more.
CREATE OR REPLACE FUNCTION turntree.settle_approval_notices(p_ws uuid, a turntree.approvals, p_at timestamptz) RETURNS void LANGUAGE sql AS $$
  SELECT turntree.settle_notice(p_ws, x.person, k || ' ' || a.id, p_at)
    FROM unnest(a.answerers || a.escalated_to) x (person), unnest(ARRAY['approval', 'approval reminder', 'approval ends']) k
$$;

-- Inserts what an event asks of a person, with the arguments of the call and the notices.
CREATE OR REPLACE FUNCTION turntree.insert_approval(p_ws uuid, p_row jsonb, p_args text) RETURNS turntree.approvals LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals;
  v_named constant text[] := ARRAY(SELECT jsonb_array_elements_text(turntree.array_or_empty(p_row -> 'answerers')));
  v_created constant timestamptz := (p_row ->> 'created_at')::timestamptz;
  v_expires constant timestamptz := (p_row ->> 'expires_at')::timestamptz;
  v_digest constant bytea := decode(substr(p_row ->> 'args_digest', 8), 'hex');
BEGIN
  IF p_args IS NOT NULL AND sha256(convert_to(p_args, 'UTF8')) <> v_digest THEN
    RAISE EXCEPTION 'the approval % does not have the digest of its arguments', p_row ->> 'id' USING ERRCODE = 'TT003';
  ELSIF EXISTS (SELECT FROM unnest(v_named) n WHERE n NOT LIKE 'human:_%') THEN
    RAISE EXCEPTION 'only a person can answer, not %', (SELECT n FROM unnest(v_named) n WHERE n NOT LIKE 'human:_%' LIMIT 1)
      USING ERRCODE = 'TT003';
  END IF;
  INSERT INTO turntree.approvals (workspace_id, id, kind, run_id, session_id, call_id, tool, origin, args, args_digest, folder,
      policy, line, reason, question, requested_by, answerers, is_named, request_key, created_at, expires_at, due_at)
    VALUES (p_ws, (p_row ->> 'id')::uuid, p_row ->> 'kind', (p_row ->> 'run')::uuid, (p_row ->> 'session')::uuid, p_row ->> 'call_id',
      coalesce(p_row ->> 'tool', ''), coalesce(p_row ->> 'origin', 'turntree'), p_args, v_digest, p_row ->> 'folder',
      decode(substr(p_row ->> 'policy', 8), 'hex'), (p_row ->> 'line')::int, coalesce(p_row ->> 'reason', ''),
      nullif(p_row -> 'question', 'null'), p_row ->> 'requested_by',
      CASE WHEN v_named = '{}' THEN turntree.default_answerers(p_ws, (p_row ->> 'session')::uuid, p_row ->> 'person') ELSE v_named END,
      coalesce((p_row ->> 'is_named')::boolean, v_named <> '{}'), p_row ->> 'key', v_created, v_expires, turntree.approval_due_at(v_created, v_expires, 0))
    RETURNING * INTO a;
  PERFORM turntree.notice_approval(p_ws, a, a.answerers, 'approval', CASE a.kind
    WHEN 'question' THEN format('%s asks: %s', a.tool, coalesce(a.question ->> 'message', a.reason))
    ELSE format('%s asks to call %s%s', a.requested_by, a.tool, coalesce(': ' || nullif(a.reason, ''), '')) END, a.created_at);
  RETURN a;
END $$;

-- Inserts the approval that an event of an open run asks for.
CREATE OR REPLACE FUNCTION turntree.request_approval(p_ws uuid, p_run uuid, p_body text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_body constant jsonb := turntree.document(p_body);
  v_data constant jsonb := v_body -> 'data';
  v_started constant jsonb := (SELECT turntree.document(e.body) -> 'data' FROM turntree.events e
    WHERE e.workspace_id = p_ws AND e.stream_id = p_run AND e.seq = 0);
BEGIN
  PERFORM turntree.insert_approval(p_ws, v_data || jsonb_build_object(
    'id', v_data ->> 'approval', 'run', p_run, 'created_at', v_body ->> 'at',
    'session', (SELECT r.session_id FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = p_run),
    'requested_by', coalesce('agent:' || regexp_replace(coalesce(v_started ->> 'agent', v_started #>> '{options,agent}'), '^@\((.*)\)$', '\1'), v_started ->> 'by', 'system:runtime'),
    'person', CASE WHEN v_started #>> '{options,conversation,charged_to}' IS NOT NULL THEN v_started #>> '{options,conversation,charged_to}'
      WHEN v_started #>> '{options,caller,reader}' IS NOT NULL THEN v_started #>> '{options,caller,reader}' ELSE v_started ->> 'by' END),
    turntree.open_call_args(p_ws, p_run, v_data ->> 'call_id'));
END $$;

-- Uses what a person has allowed, for one call, in the transaction that starts it. Raises for anything but that call with
-- those arguments. A call that was asked about cannot start without this either.
CREATE OR REPLACE FUNCTION turntree.use_approval(p_ws uuid, p_run uuid, p_body text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_body constant jsonb := turntree.document(p_body);
  v_data constant jsonb := v_body -> 'data';
  a turntree.approvals;
  v_wrong text;
BEGIN
  SELECT * INTO a FROM turntree.approvals x WHERE x.workspace_id = p_ws AND x.run_id = p_run AND x.kind = 'call'
    AND CASE WHEN v_data ? 'approval' THEN x.id = (v_data ->> 'approval')::uuid
      ELSE x.call_id = v_data ->> 'call_id' AND x.state <> 'used' END
    ORDER BY x.created_at DESC LIMIT 1 FOR NO KEY UPDATE;
  IF NOT FOUND AND NOT v_data ? 'approval' THEN
    RETURN;
  END IF;
  v_wrong := CASE WHEN a.id IS NULL THEN 'is of another run' WHEN NOT v_data ? 'approval' THEN 'was not named'
    WHEN a.state = 'used' THEN 'was used already' WHEN a.state NOT IN ('approved', 'edited') THEN 'is ' || a.state
    WHEN a.expires_at <= (v_body ->> 'at')::timestamptz THEN 'has expired'
    WHEN a.call_id <> v_data ->> 'call_id' OR a.tool <> v_data ->> 'tool' THEN 'is of another call'
    WHEN a.allowed_digest <> decode(substr(v_data ->> 'args_digest', 8), 'hex') THEN 'is of other arguments' END;
  IF v_wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the approval % %', coalesce(a.id::text, v_data ->> 'approval'), v_wrong USING ERRCODE = 'TT003';
  END IF;
  UPDATE turntree.approvals SET state = 'used', used_at = (v_body ->> 'at')::timestamptz WHERE workspace_id = p_ws AND id = a.id;
END $$;

-- Ends an approval that waits, with its event, and takes its notices back. The caller has locked its row.
CREATE OR REPLACE FUNCTION turntree.end_approval(
  p_ws uuid, p_id uuid, p_decision text, p_by text, p_answer jsonb, p_allowed bytea, p_note text, p_at text)
RETURNS turntree.approvals LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals;
BEGIN
  UPDATE turntree.approvals SET state = p_decision, decided_by = p_by, decided_at = p_at::timestamptz, answer = p_answer,
      allowed_digest = p_allowed, note = p_note
    WHERE workspace_id = p_ws AND id = p_id AND state = 'pending' RETURNING * INTO a;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the approval % does not wait any more', p_id USING ERRCODE = 'TT001';
  END IF;
  PERFORM turntree.record_event(p_ws, p_id, 'approval.decided', p_at, '{"approval":"' || p_id || '","args_digest":"sha256:'
    || encode(coalesce(p_allowed, a.args_digest), 'hex') || '","by":' || turntree.canonical_text(p_by) || ',"decision":"' || p_decision || '"'
    || coalesce(',"note":' || turntree.canonical_text(p_note), '') || coalesce(',"run":"' || a.run_id || '"', '') || '}');
  PERFORM turntree.settle_approval_notices(p_ws, a, p_at::timestamptz);
  RETURN a;
END $$;

-- Continues a parked run of which nothing waits any more. The queue and the run are locked. Returns the number of the
-- wake-up that the caller must deliver, or null.
CREATE OR REPLACE FUNCTION turntree.continue_decided_run(p_ws uuid, p_run uuid, p_session uuid, p_at text, p_data text)
RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM turntree.approvals a WHERE a.workspace_id = p_ws AND a.run_id = p_run AND a.state = 'pending') THEN
    RETURN NULL;
  END IF;
  UPDATE turntree.runs SET status = 'open', parked_reason = NULL WHERE workspace_id = p_ws AND id = p_run AND status = 'parked';
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM turntree.insert_event(p_ws, p_run, (SELECT max(seq) + 1 FROM turntree.events
    WHERE workspace_id = p_ws AND stream_id = p_run), 'run.unparked', p_at, p_data);
  RETURN turntree.wake_queue(p_ws, p_session);
END $$;

-- Locks an approval with its queue and its run, in this order.
CREATE OR REPLACE FUNCTION turntree.lock_approval(p_ws uuid, p_id uuid) RETURNS turntree.approvals LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals;
BEGIN
  SELECT * INTO a FROM turntree.approvals x WHERE x.workspace_id = p_ws AND x.id = p_id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no approval %', p_id USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'approval.list'))::text;
  END IF;
  IF a.run_id IS NOT NULL THEN
    PERFORM turntree.lock_queue(p_ws, a.session_id);
    PERFORM FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = a.run_id FOR NO KEY UPDATE;
  END IF;
  SELECT * INTO a FROM turntree.approvals x WHERE x.workspace_id = p_ws AND x.id = p_id FOR NO KEY UPDATE;
  RETURN a;
END $$;

-- Raises unless the viewer may answer: a person who acts directly and is asked. An agent, a token that was delegated, a
-- schedule and a webhook act under another name, and the system is no person.
CREATE OR REPLACE FUNCTION turntree.require_answerer(p_ws uuid, a turntree.approvals, p_by text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'invoke');
  IF p_by <> turntree.viewer() OR p_by NOT LIKE 'human:_%' OR position(' for ' IN p_by) > 0 OR p_by <> ALL (a.answerers || a.escalated_to) THEN
    RAISE EXCEPTION '% may not answer: % may', turntree.viewer(), array_to_string(a.answerers || a.escalated_to, ', ')
      USING ERRCODE = '42501', DETAIL = jsonb_build_object('session', coalesce(a.session_id, turntree.workspace_stream()),
        'by', turntree.viewer(), 'right', 'approve', 'reason', 'the approval is asked of others')::text;
  END IF;
END $$;

-- Decides about a call or a question, once. The digest is that of the edited arguments. Returns the wake-up that the
-- caller must deliver.
CREATE OR REPLACE FUNCTION turntree.decide_approval(
  p_ws uuid, p_id uuid, p_by text, p_decision text, p_answer jsonb, p_digest bytea, p_note text, p_at text,
  OUT session uuid, OUT wake int)
LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals := turntree.lock_approval(p_ws, p_id);
BEGIN
  PERFORM turntree.require_answerer(p_ws, a, p_by);
  IF a.state <> 'pending' THEN
    RAISE EXCEPTION '% was answered already: % by % at %', left(p_id::text, 13), a.state, a.decided_by,
      to_char(a.decided_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') USING ERRCODE = 'TT003';
  ELSIF a.expires_at <= p_at::timestamptz THEN
    RAISE EXCEPTION '% has expired', left(p_id::text, 13) USING ERRCODE = 'TT003';
  ELSIF p_decision NOT IN ('approved', 'edited', 'rejected', 'answered') OR a.kind = 'question' AND p_decision NOT IN ('answered', 'rejected')
      OR a.kind <> 'question' AND p_decision = 'answered' THEN
    RAISE EXCEPTION 'a % cannot be %', replace(a.kind, '_', ' '), p_decision USING ERRCODE = 'TT003';
  ELSIF (p_decision = 'edited') <> (p_digest IS NOT NULL) THEN
    RAISE EXCEPTION 'edited arguments have a digest' USING ERRCODE = 'TT003';
  ELSIF a.run_id IS NOT NULL AND EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = a.run_id
      AND (r.cancel_requested OR r.status = 'finished')) THEN
    RAISE EXCEPTION 'the run % was canceled', a.run_id USING ERRCODE = 'TT003';
  END IF;
  PERFORM turntree.end_approval(p_ws, p_id, p_decision, p_by, p_answer,
    CASE p_decision WHEN 'edited' THEN p_digest WHEN 'approved' THEN a.args_digest END, p_note, p_at);
  session := a.session_id;
  IF a.run_id IS NOT NULL THEN
    wake := turntree.continue_decided_run(p_ws, a.run_id, a.session_id, p_at,
      '{"approval":"' || p_id || '","by":' || turntree.canonical_text(p_by) || '}');
  END IF;
END $$;

-- Rejects what a session's run waits for, and ends the run: another message is to be answered instead. Returns how many
-- were rejected, and the wake-up that the caller must deliver.
CREATE OR REPLACE FUNCTION turntree.reject_waiting(
  p_ws uuid, p_session uuid, p_by text, p_note text, p_at text, OUT rejected int, OUT session uuid, OUT wake int)
LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals;
  v_run uuid;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke');
  PERFORM turntree.lock_queue(p_ws, p_session);
  session := p_session;
  rejected := 0;
  SELECT r.id INTO v_run FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.session_id = p_session AND r.status = 'parked' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOR a IN SELECT * FROM turntree.approvals x WHERE x.workspace_id = p_ws AND x.run_id = v_run AND x.state = 'pending'
      ORDER BY x.created_at, x.id FOR NO KEY UPDATE LOOP
    PERFORM turntree.require_answerer(p_ws, a, p_by);
    PERFORM turntree.end_approval(p_ws, a.id, 'rejected', p_by, NULL, NULL, p_note, p_at);
    rejected := rejected + 1;
  END LOOP;
  UPDATE turntree.runs SET cancel_requested = true, canceled_by = coalesce(canceled_by, p_by),
      canceled_at = coalesce(canceled_at, p_at::timestamptz)
    WHERE workspace_id = p_ws AND id = v_run;
  wake := turntree.wake_queue(p_ws, p_session);
END $$;

-- Asks a person about a call that another coding agent wants to make. The same key twice is one request, for as long as it
-- waits or is allowed and unused.
CREATE OR REPLACE FUNCTION turntree.request_foreign_approval(p_ws uuid, p_row jsonb, p_args text, p_at text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals;
  v_by constant text := p_row ->> 'requested_by';
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'create');
  IF v_by <> turntree.viewer() THEN
    RAISE EXCEPTION '% cannot ask as %', turntree.viewer(), v_by USING ERRCODE = '42501';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('turntree:approval:' || p_ws || ' ' || v_by || ' ' || (p_row ->> 'key'), 0));
  IF EXISTS (SELECT FROM turntree.approvals x WHERE x.workspace_id = p_ws AND x.id = (p_row ->> 'id')::uuid AND x.requested_by = v_by) THEN
    RETURN (p_row ->> 'id')::uuid;
  END IF;
  SELECT * INTO a FROM turntree.approvals x WHERE x.workspace_id = p_ws AND x.requested_by = v_by AND x.request_key = p_row ->> 'key'
    AND x.state IN ('pending', 'approved', 'edited');
  IF FOUND THEN
    IF a.expires_at > p_at::timestamptz THEN
      RETURN a.id;
    END IF;
    -- It is over: the same call may be asked about again.
    UPDATE turntree.approvals SET request_key = NULL WHERE workspace_id = p_ws AND id = a.id;
  END IF;
  -- The caller may have made the id: it must not name a run or another stream, whose events these would join.
  IF EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = p_ws AND e.stream_id = (p_row ->> 'id')::uuid)
      OR EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = (p_row ->> 'id')::uuid)
      OR EXISTS (SELECT FROM turntree.programs x WHERE x.workspace_id = p_ws AND x.id = (p_row ->> 'id')::uuid) THEN
    RAISE EXCEPTION '% is taken already', p_row ->> 'id' USING ERRCODE = 'TT003';
  END IF;
  a := turntree.insert_approval(p_ws, p_row || jsonb_build_object('kind', 'foreign_call', 'created_at', p_at, 'person', v_by), p_args);
  PERFORM turntree.record_event(p_ws, a.id, 'approval.requested', p_at, '{"answerers":' || turntree.canonical_texts(a.answerers)
    || ',"approval":"' || a.id || '","args_digest":"sha256:' || encode(a.args_digest, 'hex') || '"'
    || coalesce(',"call_id":' || turntree.canonical_text(a.call_id), '') || ',"expires_at":"'
    || to_char(a.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '","kind":"foreign_call","origin":'
    || turntree.canonical_text(a.origin) || coalesce(',"policy":"sha256:' || encode(a.policy, 'hex') || '"', '')
    || ',"reason":' || turntree.canonical_text(a.reason) || ',"tool":' || turntree.canonical_text(a.tool) || '}');
  RETURN a.id;
END $$;

-- Uses what a person has allowed for a call of another coding agent, once, with exactly these arguments. Returns false if
-- it does not allow that now.
CREATE OR REPLACE FUNCTION turntree.use_foreign_approval(p_ws uuid, p_id uuid, p_digest bytea, p_at text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.approvals SET state = 'used', used_at = p_at::timestamptz, args = NULL, answer = NULL, request_key = NULL
    WHERE workspace_id = p_ws AND id = p_id AND kind = 'foreign_call' AND state IN ('approved', 'edited')
      AND requested_by = turntree.viewer() AND expires_at > p_at::timestamptz AND p_digest IN (args_digest, allowed_digest);
  RETURN FOUND;
END $$;

-- Ends what a run still asks when it is over, and forgets the arguments: its turn has them.
CREATE OR REPLACE FUNCTION turntree.end_run_approvals(p_ws uuid, p_run uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_at text;
  v_id uuid;
BEGIN
  IF NOT EXISTS (SELECT FROM turntree.approvals a WHERE a.workspace_id = p_ws AND a.run_id = p_run) THEN
    RETURN;
  END IF;
  SELECT e.body::json ->> 'at' INTO v_at FROM turntree.events e WHERE e.workspace_id = p_ws AND e.stream_id = p_run ORDER BY e.seq DESC LIMIT 1;
  FOR v_id IN SELECT a.id FROM turntree.approvals a WHERE a.workspace_id = p_ws AND a.run_id = p_run AND a.state = 'pending'
      ORDER BY a.created_at, a.id FOR NO KEY UPDATE LOOP
    PERFORM turntree.end_approval(p_ws, v_id, 'canceled', 'system:runtime', NULL, NULL, NULL, v_at);
  END LOOP;
  UPDATE turntree.approvals SET args = NULL, answer = NULL, question = NULL
    WHERE workspace_id = p_ws AND run_id = p_run AND (args IS NOT NULL OR answer IS NOT NULL OR question IS NOT NULL);
END $$;

-- Forgets the arguments of calls that a message had, with the message. Called as turntree_eraser.
CREATE OR REPLACE FUNCTION turntree.erase_approval_args(p_ws uuid, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.approvals SET args = NULL, answer = NULL, question = NULL
    WHERE workspace_id = p_ws AND (args IS NOT NULL OR answer IS NOT NULL OR question IS NOT NULL) AND call_id IN (
      SELECT p.j ->> 'call_id' FROM jsonb_array_elements(turntree.document(p_message) -> 'parts') p (j));
END $$;

-- Returns the workspaces in which an approval has to be looked at, all in one call: a worker serves many.
CREATE OR REPLACE FUNCTION turntree.workspaces_with_due_approvals(p_at text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
  v_before constant text := current_setting('turntree.workspace', true);
  v_ws uuid;
BEGIN
  FOR v_ws IN SELECT id FROM turntree.workspaces ORDER BY id LOOP
    PERFORM set_config('turntree.workspace', v_ws::text, true);
    IF EXISTS (SELECT FROM turntree.approvals a WHERE a.workspace_id = v_ws AND a.state = 'pending' AND a.due_at <= p_at::timestamptz) THEN
      RETURN NEXT v_ws;
    END IF;
  END LOOP;
  PERFORM set_config('turntree.workspace', coalesce(v_before, ''), true);
END $$;

-- Does what is due about an approval that waits: a reminder, a last one that approvers get too, and then its end. An
-- approver is a person to whose entry another one gave the permission approve; where a policy names who answers, it is
-- not widened. Returns what was done, and the wake-up that the caller must deliver.
CREATE OR REPLACE FUNCTION turntree.attend_approval(p_ws uuid, p_id uuid, p_at text, OUT done text, OUT session uuid, OUT wake int)
LANGUAGE plpgsql AS $$
DECLARE
  a turntree.approvals := turntree.lock_approval(p_ws, p_id);
  v_at constant timestamptz := p_at::timestamptz;
  v_text text;
BEGIN
  IF a.state <> 'pending' OR a.due_at > v_at THEN
    RETURN;
  END IF;
  session := a.session_id;
  IF a.expires_at <= v_at THEN
    done := 'expired';
    PERFORM turntree.end_approval(p_ws, p_id, 'expired', 'system:runtime', NULL, NULL, NULL, p_at);
    IF a.run_id IS NOT NULL THEN
      wake := turntree.continue_decided_run(p_ws, a.run_id, a.session_id, p_at, '{"approval":"' || p_id || '","by":"system:runtime"}');
    END IF;
    RETURN;
  END IF;
  v_text := format('%s still waits for an answer about %s, until %s UTC', a.requested_by, a.tool,
    to_char(a.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'));
  -- One that was not looked after for long is not reminded of twice.
  UPDATE turntree.approvals SET reminders = n.reminders,
      due_at = turntree.approval_due_at(created_at, expires_at, n.reminders)
    FROM (SELECT CASE WHEN turntree.approval_due_at(a.created_at, a.expires_at, 1) <= v_at THEN 2 ELSE 1 END AS reminders) n
    WHERE workspace_id = p_ws AND id = p_id RETURNING approvals.* INTO a;
  IF a.reminders = 1 THEN
    done := 'reminded';
    PERFORM turntree.notice_approval(p_ws, a, a.answerers, 'approval reminder', v_text, v_at);
    RETURN;
  END IF;
  done := 'escalated';
  IF NOT a.is_named THEN
    UPDATE turntree.approvals SET escalated_to = ARRAY(SELECT 'human:' || p.name FROM turntree.programs p
        WHERE p.workspace_id = p_ws AND p.kind = 'human' AND turntree.was_granted(p_ws, 'human:' || p.name, 'approve')
          AND 'human:' || p.name <> ALL (a.answerers) AND NOT turntree.was_removed(p_ws, 'human:' || p.name)
          AND NOT turntree.is_program_hidden(p_ws, a.session_id, 'human:' || p.name) ORDER BY 1)
      WHERE workspace_id = p_ws AND id = p_id RETURNING * INTO a;
  END IF;
  PERFORM turntree.notice_approval(p_ws, a, a.answerers || a.escalated_to, 'approval ends', v_text, v_at);
END $$;

-- Whether the viewer may read an event of an approval: in a run's stream, or of an approval that they see. A function, so
-- that a policy with it is planned like one without.
CREATE OR REPLACE FUNCTION turntree.can_see_approval_event(p_ws uuid, p_stream uuid) RETURNS boolean LANGUAGE plpgsql STABLE COST 1000 AS $$
BEGIN
  RETURN turntree.viewer() LIKE 'system:%'
    OR EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = p_stream)
    OR EXISTS (SELECT FROM turntree.approvals a WHERE a.workspace_id = p_ws AND a.id = p_stream);
END $$;
