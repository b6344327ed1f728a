-- Runs: queued messages, and the workers that process them.
--
-- Locks are always taken in this order: the session's row, and that only where the use of access has to be recorded
-- in its stream; then its queue; then its run.

-- Returns the id of the run for the message at a position. The same algorithm as core.ids.derived_id, so that all
-- processes agree on it.
CREATE OR REPLACE FUNCTION turntree.derive_run_id(p_session uuid, p_seq int, p_at timestamptz)
RETURNS uuid LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_seed constant bit(80) := ('x' || left(encode(sha256(convert_to(
    '36:' || p_session || length(p_seq::text) || ':' || p_seq, 'UTF8')), 'hex'), 20))::bit(80);
  v_high constant bit(64) := floor(extract(epoch FROM p_at) * 1000)::bigint::bit(48) || B'0111' || substring(v_seed FROM 1 FOR 12);
  v_low constant bit(64) := B'10' || substring(v_seed FROM 13 FOR 62);
BEGIN
  RETURN lpad(to_hex(v_high::bigint), 16, '0') || lpad(to_hex(v_low::bigint), 16, '0');
END $$;

-- Returns the key of the advisory lock that a worker holds while it is alive.
CREATE OR REPLACE FUNCTION turntree.worker_lock_key(p_ws uuid, p_worker text)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended('turntree:worker:' || p_ws || ':' || p_worker, 0) $$;

-- Returns what stands for the workspace in the lock of a worker that serves all of them.
CREATE OR REPLACE FUNCTION turntree.every_workspace() RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT '00000000-0000-0000-0000-000000000000'::uuid
$$;

-- Whether a process holds the lock of a worker, in the workspace or for all of them. Reads pg_locks instead of trying
-- the lock, so checking cannot take it.
CREATE OR REPLACE FUNCTION turntree.is_worker_alive(p_ws uuid, p_worker text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_own constant bigint := turntree.worker_lock_key(p_ws, p_worker);
  v_shared constant bigint := turntree.worker_lock_key(turntree.every_workspace(), p_worker);
BEGIN
  RETURN EXISTS (SELECT FROM pg_locks l, (VALUES (v_own), (v_shared)) k (key)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid::bigint = (k.key >> 32) & 4294967295 AND l.objid::bigint = k.key & 4294967295);
END $$;

-- Locks the queue of a session, and creates it with the first message.
CREATE OR REPLACE FUNCTION turntree.lock_queue(p_ws uuid, p_session uuid)
RETURNS turntree.session_queues LANGUAGE plpgsql AS $$
DECLARE
  v_queue turntree.session_queues;
BEGIN
  SELECT * INTO v_queue FROM turntree.session_queues
    WHERE workspace_id = p_ws AND session_id = p_session FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    IF NOT EXISTS (SELECT FROM turntree.sessions WHERE workspace_id = p_ws AND id = p_session) THEN
      RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002';
    END IF;
    INSERT INTO turntree.session_queues (workspace_id, session_id, awake_since) VALUES (p_ws, p_session, clock_timestamp())
      ON CONFLICT DO NOTHING;
    SELECT * INTO v_queue FROM turntree.session_queues
      WHERE workspace_id = p_ws AND session_id = p_session FOR NO KEY UPDATE;
  END IF;
  RETURN v_queue;
END $$;

-- Wakes a locked queue. Returns the number of the wake-up that the caller must deliver, or null if one is under way.
CREATE OR REPLACE FUNCTION turntree.wake_queue(p_ws uuid, p_session uuid)
RETURNS int LANGUAGE sql AS $$
  UPDATE turntree.session_queues SET awake = true, wakeup_number = wakeup_number + 1, awake_since = clock_timestamp(), worker = NULL
    WHERE workspace_id = p_ws AND session_id = p_session AND NOT awake RETURNING wakeup_number
$$;

-- Returns the program that answers a message, or null if the model answers without an agent. No other place decides
-- this. The first of these counts: the agent that the message names, the session's owner, the agent that the session
-- was forked for, the agent in whose namespace its label is, the agent of its last turn, which a fork keeps. An owner
-- that is a human means: no agent. A session that does not exist yet is described by its label and the turn it begins
-- at. An agent must not take over sessions of others: a label counts only if the session's owner may see the agent, which
-- is not newer than the session or has the same owner, and a last turn only if the session's owner may invoke the agent.
CREATE OR REPLACE FUNCTION turntree.answering_program(
  p_ws uuid, p_session uuid, p_label text, p_head uuid, p_named text, p_by text)
RETURNS turntree.programs LANGUAGE plpgsql STABLE AS $$
DECLARE
  p turntree.programs;
  v_owner text;
  v_begun timestamptz;
  v_namespace constant text := CASE WHEN p_label LIKE '%:%' THEN split_part(p_label, ':', 1) END;
BEGIN
  IF p_named IS NOT NULL THEN
    SELECT * INTO p FROM turntree.programs x
      WHERE x.workspace_id = p_ws AND x.name = regexp_replace(p_named, '^@\((.*)\)$', '\1');
    RETURN p;
  END IF;
  SELECT x.* INTO p FROM turntree.programs s
    JOIN turntree.program_refs r ON r.workspace_id = p_ws AND r.program_id = s.id AND r.version = s.version AND r.path = 'owner'
    JOIN turntree.programs x ON x.workspace_id = p_ws AND x.id = r.target_id AND x.kind IN ('agent', 'human')
    WHERE s.workspace_id = p_ws AND s.id = p_session;
  IF FOUND THEN
    RETURN p;
  END IF;
  -- A session changes its persona at its beginning or not at all.
  SELECT x.* INTO p FROM turntree.events e
    JOIN turntree.programs x ON x.workspace_id = p_ws AND x.kind = 'agent' AND x.name = turntree.document(e.body) #>> '{data,persona}'
    WHERE e.workspace_id = p_ws AND e.stream_id = p_session AND e.seq < 16 AND e.kind = 'session.persona_changed'
    ORDER BY e.seq DESC LIMIT 1;
  IF FOUND OR v_namespace IS NULL AND p_head IS NULL THEN
    RETURN p;
  END IF;
  SELECT coalesce(o.owner, h.by), s.created_at INTO v_owner, v_begun FROM turntree.sessions s
    LEFT JOIN turntree.programs o ON o.workspace_id = p_ws AND o.id = s.id
    LEFT JOIN turntree.session_history h ON h.workspace_id = p_ws AND h.session_id = s.id AND h.version = 1
    WHERE s.workspace_id = p_ws AND s.id = p_session;
  IF NOT FOUND AND p_head IS NOT NULL THEN
    -- A fork of something private belongs to the owner of that.
    SELECT o.owner INTO v_owner FROM turntree.programs o WHERE o.workspace_id = p_ws
      AND o.id = turntree.private_session_of(p_ws, p_head, p_by, '00000000-0000-0000-0000-000000000000');
  END IF;
  v_owner := CASE WHEN v_owner IS NULL OR v_owner LIKE 'system:%' THEN p_by ELSE v_owner END;
  SELECT x.* INTO p FROM (SELECT 1 AS place, v_namespace AS name WHERE v_namespace NOT IN ('channel', 'entity')
      UNION ALL SELECT 2, turntree.object_document(p_ws,
        turntree.manifest_entry(p_ws, p_head, 'persona') ->> 'object') ->> 'agent') c
    JOIN turntree.programs x ON x.workspace_id = p_ws AND x.kind IN ('agent', 'human') AND x.name = c.name
    WHERE turntree.has_program_access(p_ws, x.id, x.owner, x.visibility, v_owner, CASE c.place WHEN 1 THEN 'read' ELSE 'invoke' END)
      AND (c.place = 2 OR v_begun IS NULL OR x.created_at <= v_begun OR x.owner = v_owner)
    ORDER BY c.place LIMIT 1;
  RETURN p;
END $$;

-- Returns the agent that answers a message, or null. Refuses a sender who may not invoke it: answering without the
-- agent would look like its answer.
CREATE OR REPLACE FUNCTION turntree.require_agent(
  p_ws uuid, p_session uuid, p_label text, p_head uuid, p_named text, p_by text)
RETURNS turntree.programs LANGUAGE plpgsql STABLE AS $$
DECLARE
  p turntree.programs := turntree.answering_program(p_ws, p_session, p_label, p_head, p_named, p_by);
  v_grant constant jsonb := jsonb_build_object('program', p.name, 'grantee', regexp_replace(p_by, '^human:', ''), 'access', 'invoke');
  v_is_begun constant boolean := p_session IS NOT NULL OR p_head IS NOT NULL; -- else there is nothing to fork
BEGIN
  IF p_named IS NOT NULL AND (p.id IS NULL OR NOT turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'read')) THEN
    RAISE EXCEPTION 'there is no agent %', p_named USING ERRCODE = 'TT002', DETAIL = jsonb_build_object(
      'hint', jsonb_build_object('action', 'program.list_kind', 'kind', 'agent'))::text;
  ELSIF p_named IS NOT NULL AND p.kind <> 'agent' THEN
    RAISE EXCEPTION '@(%) is not an agent: its kind is %', p.name, p.kind USING ERRCODE = 'TT003';
  ELSIF p.kind IS DISTINCT FROM 'agent' THEN
    RETURN NULL;
  ELSIF turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'invoke') THEN
    RETURN p;
  ELSIF p_named IS NOT NULL THEN
    RAISE EXCEPTION '% may not invoke @(%): % may grant it', p_by, p.name, p.owner USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('hint', v_grant || '{"action": "program.grant"}')::text;
  END IF;
  RAISE EXCEPTION '@(%) answers here, and % may not invoke it: % may grant it%', p.name, p_by, p.owner,
      CASE WHEN v_is_begun THEN ', or fork with another agent' ELSE '' END
    USING ERRCODE = '42501', DETAIL = jsonb_build_object('hint', v_grant || CASE WHEN v_is_begun
      THEN jsonb_build_object('action', 'agent.answer_here', 'revision', coalesce(p_label, p_head::text))
      ELSE '{"action": "program.grant"}' END)::text;
END $$;

-- Refuses a message that its session or its agent would not answer, and says what to do.
CREATE OR REPLACE FUNCTION turntree.require_answer(p_ws uuid, p_session uuid, p_agent turntree.programs) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_state text;
  v_name text;
BEGIN
  SELECT p.state, n.name INTO v_state, v_name FROM turntree.programs p
    LEFT JOIN turntree.session_names n ON n.workspace_id = p.workspace_id AND n.session_id = p.id AND n.reason IS NULL
    WHERE p.workspace_id = p_ws AND p.id = p_session;
  IF v_state = 'completed' THEN
    RAISE EXCEPTION '% is completed and takes no more messages: fork it to continue', v_name USING ERRCODE = 'TT003',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'session.fork', 'revision', v_name))::text;
  ELSIF v_state = 'paused' THEN
    RAISE EXCEPTION '% is paused', v_name USING ERRCODE = 'TT003', DETAIL = jsonb_build_object('hint', jsonb_build_object(
      'action', 'program.set_state', 'kind', 'program', 'program', v_name, 'state', 'active'))::text;
  ELSIF p_agent.state IN ('paused', 'error', 'deleted') THEN
    RAISE EXCEPTION 'the agent % is %', p_agent.name, CASE p_agent.state WHEN 'error' THEN 'in error' ELSE p_agent.state END
      USING ERRCODE = 'TT003', DETAIL = jsonb_build_object('hint', jsonb_build_object(
        'action', 'program.set_state', 'kind', 'agent', 'program', p_agent.name, 'state', 'idle'))::text;
  END IF;
END $$;

-- Refuses a message in the name of another principal, or of a tool call: its run would work with their access. Only a
-- worker sends for the tool calls of its runs. An agent sends on behalf of the viewer, as its chain says, and a task runs
-- for the principal that assigned it, whoever drives it.
CREATE OR REPLACE FUNCTION turntree.require_sender(p_ws uuid, p_session uuid, p_by text, p_options jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := turntree.viewer();
BEGIN
  IF v_viewer LIKE 'system:%' OR NOT p_options ? 'caller' AND (p_by = v_viewer OR starts_with(v_viewer, p_by || ' for ')
      OR p_by LIKE 'agent:%' AND regexp_replace(v_viewer, '^.* for ', '')
        = (p_options #>> '{chain,0,kind}') || ':' || (p_options #>> '{chain,0,id}')
      OR EXISTS (SELECT FROM turntree.session_names n JOIN turntree.programs t ON t.workspace_id = p_ws AND t.kind = 'task'
          AND t.details ->> 'session' = n.name AND t.details ->> 'given_by' = p_by
        WHERE n.workspace_id = p_ws AND n.session_id = p_session)) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION '% cannot send as %', v_viewer, coalesce(p_options #>> '{caller,reader}', p_by) USING ERRCODE = '42501';
END $$;

-- Records that a message was sent to a session, as the event that its turn came from, and which agent answers it. The
-- first message makes the session active.
CREATE OR REPLACE FUNCTION turntree.record_message(
  p_ws uuid, p_session uuid, p_seq int, p_run uuid, p_agent text, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
  v_data constant text := '{"by":' || turntree.canonical_text(p_by) || ',"run":"' || p_run || '","seq":' || p_seq || '}';
BEGIN
  UPDATE turntree.programs SET state = 'active', updated_at = p_at::timestamptz
    WHERE workspace_id = p_ws AND id = p_session AND kind = 'session' AND state = 'created';
  IF FOUND THEN
    PERFORM turntree.record_session_event(p_ws, p_session, 'session.state_changed', p_at,
      '{"by":' || turntree.canonical_text(p_by) || ',"from":"created","to":"active"}');
  END IF;
  UPDATE turntree.sessions SET event_seq = event_seq + 1
    WHERE workspace_id = p_ws AND id = p_session RETURNING event_seq - 1 INTO v_seq;
  PERFORM turntree.insert_event(p_ws, p_session, v_seq, 'session.message', p_at, v_data);
  UPDATE turntree.queued_messages SET options = options || jsonb_strip_nulls(jsonb_build_object('agent', p_agent)) || jsonb_build_object(
      'source_event', jsonb_build_object('event_id', 'sha256:' || encode(sha256(convert_to(
        turntree.event_body(p_session, v_seq, 'session.message', p_at, v_data), 'UTF8')), 'hex'),
      'stream', p_session, 'seq', v_seq))
    WHERE workspace_id = p_ws AND session_id = p_session AND seq = p_seq;
END $$;

-- Adds a message to a session's queue, with the agent that answers it among its options. wake is the number of the
-- wake-up that the caller must deliver, or null. The option rest is the digest of the messages that follow in the same
-- call: the idempotency key covers all of them.
CREATE OR REPLACE FUNCTION turntree.post_message(
  p_ws uuid, p_session uuid, p_payload text, p_by text, p_at text, p_key text, p_options jsonb,
  OUT run_id uuid, OUT seq int, OUT repeated boolean, OUT wake int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_at constant timestamptz := p_at::timestamptz;
  v_digest constant bytea := sha256(convert_to(p_payload, 'UTF8'));
  a turntree.session_queues;
  i record;
  v_label text;
  v_agent turntree.programs;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke'), turntree.require_sender(p_ws, p_session, p_by, p_options);
  IF NOT p_options ? 'conversation' THEN
    PERFORM turntree.refuse_bound_session(p_ws, p_session);
  END IF;
  a := turntree.lock_queue(p_ws, p_session);
  IF p_options ? 'caller' THEN
    -- The lock makes a cancellation wait, which then finds this message and cancels its run too.
    PERFORM FROM turntree.runs x WHERE x.workspace_id = p_ws AND x.id = (p_options #>> '{caller,run}')::uuid FOR SHARE;
    IF EXISTS (SELECT FROM turntree.runs x WHERE x.workspace_id = p_ws AND x.id = (p_options #>> '{caller,run}')::uuid
        AND x.cancel_requested) THEN
      RAISE EXCEPTION 'the run % was canceled', p_options #>> '{caller,run}' USING ERRCODE = 'TT004';
    END IF;
  END IF;
  IF p_options @> '{"fold": true}' THEN
    -- Join the newest message, unless a worker claimed it already or it was canceled. The run acts for the sender of its
    -- first message, with the rights of that message: no other principal may add words to it.
    SELECT x.run_id INTO run_id FROM turntree.queued_messages x
      WHERE x.workspace_id = p_ws AND x.session_id = p_session AND x.seq = a.posted_seq AND x.seq > a.claimed_seq
        AND x.payload IS NOT NULL AND x.canceled_at IS NULL AND x.by = p_by
        AND x.options -> 'chain' IS NOT DISTINCT FROM p_options -> 'chain'
        AND x.options -> 'permissions' IS NOT DISTINCT FROM p_options -> 'permissions';
  END IF;
  seq := a.posted_seq + 1;
  run_id := coalesce(run_id, turntree.derive_run_id(p_session, seq, v_at));
  repeated := false;
  INSERT INTO turntree.queued_messages (workspace_id, session_id, seq, run_id, idempotency_key, digest, payload, options, by, received_at)
    VALUES (p_ws, p_session, seq, run_id, p_key, v_digest, p_payload, p_options, p_by, v_at)
    ON CONFLICT (workspace_id, by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING;
  IF NOT FOUND THEN
    SELECT x.session_id, x.digest, x.run_id, x.seq, x.options -> 'rest' AS rest INTO i FROM turntree.queued_messages x
      WHERE x.workspace_id = p_ws AND x.by = p_by AND x.idempotency_key = p_key;
    IF i.session_id IS DISTINCT FROM p_session OR i.digest <> v_digest OR i.rest IS DISTINCT FROM p_options -> 'rest' THEN
      -- Null if that session is hidden from the viewer.
      SELECT n.name INTO v_label FROM turntree.session_names n
        WHERE n.workspace_id = p_ws AND n.session_id = i.session_id AND n.reason IS NULL;
      RAISE EXCEPTION 'the key % was used for another message%: choose another', p_key, coalesce(' to ' || v_label, '')
        USING ERRCODE = 'TT003', DETAIL = CASE WHEN v_label IS NULL THEN '' ELSE jsonb_build_object(
          'hint', jsonb_build_object('action', 'run.tail', 'run', i.run_id))::text END;
    END IF;
    run_id := i.run_id; seq := i.seq; repeated := true;
    RETURN;
  END IF;
  -- Under the lock of the queue: no worker claims a message meanwhile, and no other message comes between.
  IF p_options ? 'expected_head' THEN
    SELECT n.name INTO v_label FROM turntree.sessions s
      JOIN turntree.session_names n ON n.workspace_id = p_ws AND n.session_id = s.id AND n.reason IS NULL
      WHERE s.workspace_id = p_ws AND s.id = p_session AND s.head_id::text IS DISTINCT FROM p_options ->> 'expected_head';
    IF FOUND THEN
      RAISE EXCEPTION 'the head of % is another turn than %', v_label, p_options ->> 'expected_head' USING ERRCODE = 'TT001';
    END IF;
    IF EXISTS (SELECT FROM turntree.queued_messages x WHERE x.workspace_id = p_ws AND x.session_id = p_session
        AND x.seq > a.claimed_seq AND x.seq < post_message.seq AND x.payload IS NOT NULL AND x.canceled_at IS NULL)
      OR EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.session_id = p_session AND r.status <> 'finished') THEN
      RAISE EXCEPTION 'another message comes after %', p_options ->> 'expected_head' USING ERRCODE = 'TT001';
    END IF;
  END IF;
  v_agent := turntree.require_agent(p_ws, p_session, n.name, s.head_id, p_options ->> 'agent', coalesce(p_options #>> '{caller,reader}', p_by))
    FROM turntree.sessions s
    JOIN turntree.session_names n ON n.workspace_id = p_ws AND n.session_id = s.id AND n.reason IS NULL
    WHERE s.workspace_id = p_ws AND s.id = p_session;
  PERFORM turntree.require_answer(p_ws, p_session, v_agent);
  PERFORM turntree.record_message(p_ws, p_session, seq, run_id, v_agent.name, p_by, p_at);
  IF position('"object":"sha256:' IN p_payload) > 0 THEN
    PERFORM turntree.hold_objects(p_ws, run_id, p_payload);
  END IF;
  IF a.awake THEN
    UPDATE turntree.session_queues SET posted_seq = post_message.seq WHERE workspace_id = p_ws AND session_id = p_session;
  ELSE
    UPDATE turntree.session_queues SET posted_seq = post_message.seq, awake = true, wakeup_number = wakeup_number + 1,
        awake_since = clock_timestamp(), worker = NULL
      WHERE workspace_id = p_ws AND session_id = p_session RETURNING wakeup_number INTO wake;
  END IF;
END $$;

-- Claims the next work of a session for a worker.
--   begin     one row for each message: no run has started with them yet
--   continue  an open run, claimed under a new epoch
--   sleep     nothing to do: the session just went idle, or another live worker serves it
DROP FUNCTION IF EXISTS turntree.next_work(uuid, uuid, text); -- its columns differ from earlier releases
CREATE OR REPLACE FUNCTION turntree.next_work(p_ws uuid, p_session uuid, p_worker text)
RETURNS TABLE (what text, run_id uuid, epoch int, canceled boolean, head uuid, head_digest bytea, workspace_path text,
  seq int, payload text, sender text, received_at timestamptz, options jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a turntree.session_queues;
  r record;
  v_first record;
  v_last int;
BEGIN
  a := turntree.lock_queue(p_ws, p_session);
  -- A wake-up may be delivered twice. The worker that came first continues while it is alive.
  IF a.awake AND a.worker <> p_worker AND turntree.is_worker_alive(p_ws, a.worker) THEN
    what := 'sleep';
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT x.id, x.status, x.cancel_requested INTO r FROM turntree.runs x
    WHERE x.workspace_id = p_ws AND x.session_id = p_session AND x.status <> 'finished' FOR NO KEY UPDATE;
  IF FOUND AND (r.status = 'open' OR r.cancel_requested) THEN
    UPDATE turntree.runs x SET epoch = x.epoch + 1, worker = p_worker, status = 'open', parked_reason = NULL
      WHERE x.workspace_id = p_ws AND x.id = r.id RETURNING x.epoch INTO epoch;
    PERFORM turntree.assign_queue(p_ws, p_session, a, p_worker, a.claimed_seq);
    what := 'continue'; run_id := r.id; canceled := r.cancel_requested;
    RETURN NEXT;
    RETURN;
  ELSIF NOT FOUND THEN
    SELECT x.run_id, x.seq INTO v_first FROM turntree.queued_messages x
      WHERE x.workspace_id = p_ws AND x.session_id = p_session AND x.payload IS NOT NULL ORDER BY x.seq LIMIT 1;
    IF FOUND THEN
      SELECT s.head_id INTO head FROM turntree.sessions s WHERE s.workspace_id = p_ws AND s.id = p_session;
      SELECT t.digest INTO head_digest FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = head;
      SELECT x.location INTO workspace_path FROM turntree.resource_attachments y
        JOIN turntree.resources x ON x.workspace_id = p_ws AND x.id = y.resource_id AND x.kind = 'directory'
        WHERE y.workspace_id = p_ws AND y.session_id = p_session ORDER BY y.mode = 'rw' DESC, x.id LIMIT 1;
      what := 'begin';
      FOR run_id, seq, payload, sender, received_at, options IN
          SELECT x.run_id, x.seq, x.payload, x.by, x.received_at, x.options FROM turntree.queued_messages x
            WHERE x.workspace_id = p_ws AND x.session_id = p_session AND x.payload IS NOT NULL
              AND x.seq >= v_first.seq ORDER BY x.seq LOOP
        EXIT WHEN run_id <> v_first.run_id;
        v_last := seq;
        RETURN NEXT;
      END LOOP;
      PERFORM turntree.assign_queue(p_ws, p_session, a, p_worker, greatest(a.claimed_seq, v_last));
      RETURN;
    END IF;
  END IF;
  IF a.awake THEN
    UPDATE turntree.session_queues x SET awake = false, worker = NULL
      WHERE x.workspace_id = p_ws AND x.session_id = p_session;
  END IF;
  what := 'sleep';
  RETURN NEXT;
END $$;

-- Records which worker serves a locked queue. Writes only if something changed, because workers ask often.
CREATE OR REPLACE FUNCTION turntree.assign_queue(
  p_ws uuid, p_session uuid, p_queue turntree.session_queues, p_worker text, p_taken int)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (p_queue.awake, p_queue.worker, p_queue.claimed_seq) IS DISTINCT FROM (true, p_worker, p_taken) THEN
    UPDATE turntree.session_queues SET awake = true, worker = p_worker, claimed_seq = p_taken
      WHERE workspace_id = p_ws AND session_id = p_session;
  END IF;
END $$;

-- Records in an agent's stream what it does in a run, and changes its state. It is idle again when the last of its runs
-- ends; a task that it works on decides for itself. A state that a person set stays: a paused agent finishes its turn
-- and stays paused. The runtime is the author, and a private session is not named: an agent may be public.
CREATE OR REPLACE FUNCTION turntree.move_agent(p_ws uuid, p_run uuid, p_to text, p_at text, p_outcome text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_name text;
  v_session uuid;
  a record;
  v_steps int;
  v_runs int;
  v_to text := p_to;
  v_seq int;
  v_is_task boolean;
BEGIN
  SELECT regexp_replace(d.j ->> 'agent', '^@\((.*)\)$', '\1'), (d.j ->> 'session')::uuid INTO v_name, v_session
    FROM turntree.events e, LATERAL (SELECT e.body::json -> 'data' AS j) d
    WHERE e.workspace_id = p_ws AND e.stream_id = p_run AND e.seq = 0 AND e.kind = 'run.started';
  SELECT p.id, p.state, p.details INTO a FROM turntree.programs p
    WHERE p.workspace_id = p_ws AND p.name = v_name AND p.kind = 'agent' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  v_is_task := EXISTS (SELECT FROM turntree.session_names n WHERE n.workspace_id = p_ws
    AND n.name = a.details ->> 'current_session' AND n.session_id = v_session);
  v_steps := (SELECT count(*) FROM (SELECT FROM turntree.events e WHERE e.workspace_id = p_ws AND e.stream_id = p_run
    AND e.kind = 'model_call.started' LIMIT 2) x);
  IF p_to = 'idle' AND (v_is_task OR v_steps = 0) THEN
    RETURN;
  END IF;
  v_runs := greatest(0, coalesce((a.details ->> 'open_runs')::int, 0)
    + CASE WHEN v_is_task THEN 0 WHEN p_to = 'idle' THEN -1 WHEN p_to = 'thinking' AND v_steps = 1 THEN 1 ELSE 0 END);
  IF a.state IN ('paused', 'error') OR p_to = 'idle' AND (v_runs > 0 OR a.details ? 'current_session') THEN
    v_to := a.state;
  END IF;
  IF v_to = a.state AND p_to <> 'idle' AND NOT (p_to = 'thinking' AND v_steps = 1 AND NOT v_is_task) THEN
    RETURN;
  END IF;
  UPDATE turntree.programs SET state = v_to, event_seq = event_seq + 1, updated_at = p_at::timestamptz,
      details = CASE WHEN v_runs > 0 THEN details || jsonb_build_object('open_runs', v_runs) ELSE details - 'open_runs' END
    WHERE workspace_id = p_ws AND id = a.id RETURNING event_seq - 1 INTO v_seq;
  PERFORM turntree.insert_event(p_ws, a.id, v_seq,
    CASE p_to WHEN 'idle' THEN 'agent.completed' ELSE 'agent.' || p_to END, p_at,
    '{"by":"system:runtime","details":{"open_runs":' || coalesce(nullif(v_runs, 0)::text, 'null') || '}'
    || CASE WHEN v_to <> a.state THEN ',"from":"' || a.state || '"' ELSE '' END
    || coalesce(',"outcome":"' || p_outcome || '"', '')
    || CASE WHEN turntree.is_private_session(p_ws, v_session) THEN '' ELSE ',"run":"' || p_run || '"' END
    || CASE WHEN v_to <> a.state THEN ',"to":"' || v_to || '"' ELSE '' END || '}');
END $$;

-- Whether a session's program is private.
CREATE OR REPLACE FUNCTION turntree.is_private_session(p_ws uuid, p_session uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.programs p
    WHERE p.workspace_id = p_ws AND p.id = p_session AND p.visibility = 'private')
$$;

-- Records the inferences of a sealed run in the stream of its model, with the times at which they happened. All at
-- once, because many runs share a model's row.
CREATE OR REPLACE FUNCTION turntree.record_inferences(p_ws uuid, p_run uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_model uuid;
  v_seq int;
  v_run constant text := CASE WHEN turntree.is_private_session(p_ws,
      (SELECT r.session_id FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = p_run))
    THEN '' ELSE ',"run":"' || p_run || '"' END;
  e record;
BEGIN
  SELECT p.id INTO v_model FROM turntree.programs p
    WHERE p.workspace_id = p_ws AND p.kind = 'model' AND p.name = (
      SELECT regexp_replace(x.body::json #>> '{data,versions,model,address}', '^@\((.*)\)$', '\1') FROM turntree.events x
        WHERE x.workspace_id = p_ws AND x.stream_id = p_run AND x.kind = 'model_call.started' ORDER BY x.seq LIMIT 1)
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOR e IN SELECT x.seq, x.kind, x.body::json ->> 'at' AS at FROM turntree.events x
      WHERE x.workspace_id = p_ws AND x.stream_id = p_run AND x.kind IN ('model_call.started', 'model_call.finished')
      ORDER BY x.seq LOOP
    v_seq := turntree.next_program_seq(p_ws, v_model, 'model');
    PERFORM turntree.insert_event(p_ws, v_model, v_seq,
      CASE e.kind WHEN 'model_call.started' THEN 'model.inference_requested' ELSE 'model.inference_completed' END, e.at,
      '{"by":"system:runtime"' || v_run || ',"seq":' || e.seq || '}');
  END LOOP;
END $$;

-- Inserts events of a run at positions that are known to be free, with their payloads.
CREATE OR REPLACE FUNCTION turntree.insert_run_events(
  p_ws uuid, p_run uuid, p_first int, p_ids bytea[], p_kinds text[], p_bodies text[], p_payloads text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1 .. cardinality(p_ids) LOOP
    INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body)
      VALUES (p_ws, p_run, p_first + i - 1, p_ids[i], p_kinds[i], p_bodies[i]);
    IF p_payloads[i] IS NOT NULL THEN
      INSERT INTO turntree.run_payloads (workspace_id, run_id, seq, payload)
        VALUES (p_ws, p_run, p_first + i - 1, p_payloads[i]);
      IF position('"object":"sha256:' IN p_payloads[i]) > 0 THEN
        PERFORM turntree.hold_objects(p_ws, p_run, p_payloads[i]);
      END IF;
    END IF;
    IF turntree.has_links(p_kinds[i], p_bodies[i]) THEN
      PERFORM turntree.insert_links(p_ws, p_run, p_first + i - 1);
    END IF;
    IF p_kinds[i] IN ('model_call.started', 'tool_call.started') THEN
      PERFORM turntree.move_agent(p_ws, p_run, CASE p_kinds[i] WHEN 'model_call.started' THEN 'thinking' ELSE 'executing' END,
        p_bodies[i]::json ->> 'at');
    END IF;
  END LOOP;
END $$;

-- Starts a run with its first events. The texts of its messages move from the queue to the run.
CREATE OR REPLACE FUNCTION turntree.start_queued_run(
  p_ws uuid, p_run uuid, p_session uuid, p_seqs int[], p_worker text, p_at text,
  p_ids bytea[], p_kinds text[], p_bodies text[], p_payloads text[])
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_taken int;
BEGIN
  PERFORM turntree.lock_queue(p_ws, p_session);
  IF EXISTS (SELECT FROM turntree.runs WHERE workspace_id = p_ws AND session_id = p_session AND status <> 'finished') THEN
    RAISE EXCEPTION 'the session has another open run' USING ERRCODE = 'TT001';
  END IF;
  UPDATE turntree.queued_messages SET payload = NULL
    WHERE workspace_id = p_ws AND session_id = p_session AND seq = ANY (p_seqs) AND run_id = p_run AND payload IS NOT NULL;
  GET DIAGNOSTICS v_taken = ROW_COUNT;
  IF v_taken <> cardinality(p_seqs) THEN
    RAISE EXCEPTION 'somebody else took a message of the run %', p_run USING ERRCODE = 'TT001';
  END IF;
  -- A message that was canceled in the queue starts as a canceled run.
  INSERT INTO turntree.runs (workspace_id, id, session_id, started_at, worker, cancel_requested, canceled_by, canceled_at)
    SELECT p_ws, p_run, p_session, p_at::timestamptz, p_worker,
        coalesce(bool_or(canceled_at IS NOT NULL), false), max(canceled_by), max(canceled_at)
      FROM turntree.queued_messages WHERE workspace_id = p_ws AND session_id = p_session AND seq = ANY (p_seqs);
  PERFORM turntree.insert_run_events(p_ws, p_run, 0, p_ids, p_kinds, p_bodies, p_payloads);
  RETURN 1;
END $$;

-- Appends events of an open run atomically. If exactly these events are already there it returns false: a caller that
-- lost the acknowledgement may repeat the call.
CREATE OR REPLACE FUNCTION turntree.append_run_events(
  p_ws uuid, p_run uuid, p_epoch int, p_first int, p_ids bytea[], p_kinds text[], p_bodies text[], p_payloads text[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v_next int;
  v_parked text;
  v_session uuid;
BEGIN
  SELECT epoch, status, cancel_requested INTO r FROM turntree.runs
    WHERE workspace_id = p_ws AND id = p_run FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no run %', p_run USING ERRCODE = 'TT002';
  END IF;
  SELECT coalesce(max(seq) + 1, 0) INTO v_next FROM turntree.events WHERE workspace_id = p_ws AND stream_id = p_run;
  IF v_next >= p_first + cardinality(p_ids) AND p_ids = (
      SELECT array_agg(id::bytea ORDER BY seq) FROM turntree.events
        WHERE workspace_id = p_ws AND stream_id = p_run AND seq >= p_first AND seq < p_first + cardinality(p_ids)) THEN
    RETURN false;
  ELSIF r.epoch <> p_epoch THEN
    RAISE EXCEPTION 'the run % was taken over: epoch % is over, it is now %', p_run, p_epoch, r.epoch
      USING ERRCODE = 'TT001';
  ELSIF r.status = 'finished' THEN
    RAISE EXCEPTION 'the run % is finished', p_run USING ERRCODE = 'TT003';
  ELSIF v_next > p_first THEN
    RAISE EXCEPTION 'another fact holds place % of %', p_first, p_run USING ERRCODE = 'TT001';
  ELSIF v_next < p_first THEN
    RAISE EXCEPTION 'place % of % comes before place % is taken', p_first, p_run, v_next USING ERRCODE = 'TT003';
  ELSIF r.cancel_requested AND p_kinds && ARRAY['model_call.started', 'tool_call.started', 'tool_call.continued'] THEN
    RAISE EXCEPTION 'the run % was canceled', p_run USING ERRCODE = 'TT004';
  END IF;
  PERFORM turntree.insert_run_events(p_ws, p_run, p_first, p_ids, p_kinds, p_bodies, p_payloads);
  FOR i IN 1 .. cardinality(p_kinds) LOOP
    CASE p_kinds[i] WHEN 'tool_call.judged' THEN PERFORM turntree.check_judged(p_ws, p_bodies[i]);
      WHEN 'approval.requested' THEN PERFORM turntree.request_approval(p_ws, p_run, p_bodies[i]);
      WHEN 'tool_call.started' THEN PERFORM turntree.use_approval(p_ws, p_run, p_bodies[i]);
      ELSE NULL; END CASE;
  END LOOP;
  IF 'run.parked' = ANY (p_kinds) THEN
    v_parked := p_bodies[array_position(p_kinds, 'run.parked')];
    UPDATE turntree.runs SET status = 'parked', parked_reason = v_parked::json -> 'data' ->> 'reason'
      WHERE workspace_id = p_ws AND id = p_run RETURNING session_id INTO v_session;
    -- All of it may have been decided while the run did something else. The worker that appends serves the session: it
    -- goes on with the run, and needs no wake-up.
    IF v_parked::json -> 'data' -> 'approvals' IS NOT NULL THEN
      PERFORM turntree.continue_decided_run(p_ws, p_run, v_session, v_parked::json ->> 'at', '{"by":"system:runtime"}');
    END IF;
  ELSIF 'run.failed' = ANY (p_kinds) THEN
    PERFORM turntree.notice_failed_run(p_ws, p_run, turntree.document(p_bodies[array_position(p_kinds, 'run.failed')]));
  END IF;
  RETURN true;
END $$;

-- Resumes a parked run, with its event.
CREATE OR REPLACE FUNCTION turntree.unpark_run(
  p_ws uuid, p_run uuid, p_at text, p_data text, OUT unparked boolean, OUT session uuid, OUT wake int)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT session_id INTO session FROM turntree.runs WHERE workspace_id = p_ws AND id = p_run;
  IF session IS NOT NULL THEN
    PERFORM turntree.require_session_access(p_ws, session, 'invoke');
    PERFORM turntree.lock_queue(p_ws, session);
  END IF;
  UPDATE turntree.runs SET status = 'open', parked_reason = NULL
    WHERE workspace_id = p_ws AND id = p_run AND status = 'parked';
  unparked := FOUND;
  IF unparked THEN
    PERFORM turntree.insert_event(p_ws, p_run, (SELECT max(seq) + 1 FROM turntree.events
      WHERE workspace_id = p_ws AND stream_id = p_run), 'run.unparked', p_at, p_data);
    wake := turntree.wake_queue(p_ws, session);
  END IF;
END $$;

-- Requests cancellation of a session's open run. The worker learns of it with its next heartbeat, and at the latest
-- when it tries to start another model or tool call.
CREATE OR REPLACE FUNCTION turntree.cancel_session_run(
  p_ws uuid, p_session uuid, p_by text, p_at text, p_discard boolean, OUT run_id uuid, OUT wake int)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke');
  PERFORM turntree.lock_queue(p_ws, p_session);
  UPDATE turntree.runs SET discard = discard OR p_discard, cancel_requested = true,
      canceled_by = coalesce(canceled_by, p_by), canceled_at = coalesce(canceled_at, p_at::timestamptz)
    WHERE workspace_id = p_ws AND session_id = p_session AND status <> 'finished' RETURNING id INTO run_id;
  IF run_id IS NOT NULL THEN
    wake := turntree.wake_queue(p_ws, p_session);
  END IF;
END $$;

-- Requests cancellation of one run, or cancels the queued message that it would start with. Returns false for a
-- finished run.
CREATE OR REPLACE FUNCTION turntree.cancel_run(
  p_ws uuid, p_run uuid, p_by text, p_at text, p_discard boolean, OUT canceled boolean, OUT session uuid, OUT wake int)
LANGUAGE plpgsql AS $$
DECLARE
  v_conversation uuid;
BEGIN
  SELECT coalesce(
      (SELECT session_id FROM turntree.runs WHERE workspace_id = p_ws AND id = p_run),
      (SELECT session_id FROM turntree.queued_messages WHERE workspace_id = p_ws AND run_id = p_run AND payload IS NOT NULL LIMIT 1))
    INTO session;
  canceled := false;
  IF session IS NULL THEN
    RETURN;
  END IF;
  PERFORM turntree.require_session_access(p_ws, session, 'invoke');
  -- The post that such a run decides about waits for it: its conversation is locked before its session.
  IF turntree.is_triage_session(p_ws, session) THEN
    SELECT (b.lock).id INTO v_conversation FROM (SELECT turntree.lock_conversation(p_ws, x.conversation_id) AS lock
      FROM turntree.bound_sessions x WHERE x.workspace_id = p_ws AND x.session_id = session) b;
  END IF;
  PERFORM turntree.lock_queue(p_ws, session);
  UPDATE turntree.runs SET discard = discard OR p_discard, cancel_requested = true,
      canceled_by = coalesce(canceled_by, p_by), canceled_at = coalesce(canceled_at, p_at::timestamptz)
    WHERE workspace_id = p_ws AND id = p_run AND status <> 'finished';
  IF FOUND THEN
    canceled := true;
    wake := turntree.wake_queue(p_ws, session);
    RETURN;
  END IF;
  UPDATE turntree.queued_messages SET canceled_by = coalesce(canceled_by, p_by), canceled_at = coalesce(canceled_at, p_at::timestamptz)
    WHERE workspace_id = p_ws AND session_id = session AND run_id = p_run AND payload IS NOT NULL;
  canceled := FOUND;
  IF canceled AND v_conversation IS NOT NULL THEN
    PERFORM turntree.decide_post(p_ws, v_conversation, (q.options #>> '{conversation,post}')::int, '{}', 'it was canceled by ' || p_by, 'rules', NULL, p_at)
      FROM turntree.queued_messages q WHERE q.workspace_id = p_ws AND q.session_id = session AND q.run_id = p_run;
  END IF;
END $$;

-- Returns why a run failed, as its events say; null if they do not.
CREATE OR REPLACE FUNCTION turntree.failure_reason(p_ws uuid, p_run uuid)
RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws(': ', nullif(d.said ->> 'reason', ''), nullif(d.said ->> 'error', ''))
    FROM (SELECT e.body::json -> 'data' AS said FROM turntree.events e
      WHERE e.workspace_id = p_ws AND e.stream_id = p_run AND e.kind = 'run.failed' ORDER BY e.seq DESC LIMIT 1) d
$$;

-- Wakes a session again whose wake-up p_wakes was lost. Null if that is no longer so.
CREATE OR REPLACE FUNCTION turntree.requeue_wakeup(p_ws uuid, p_session uuid, p_wakes int)
RETURNS int LANGUAGE sql AS $$
  UPDATE turntree.session_queues SET wakeup_number = wakeup_number + 1, awake_since = clock_timestamp(), worker = NULL
    WHERE workspace_id = p_ws AND session_id = p_session AND awake AND wakeup_number = p_wakes RETURNING wakeup_number
$$;

-- Returns the workers whose lock is free or whose last heartbeat is older than p_silent.
CREATE OR REPLACE FUNCTION turntree.expired_workers(p_ws uuid, p_silent interval)
RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT name FROM (
      SELECT name, heartbeat_at FROM turntree.workers WHERE workspace_id = p_ws
      UNION ALL SELECT name, heartbeat_at FROM turntree.shared_workers
    ) x
    WHERE heartbeat_at < clock_timestamp() - p_silent OR NOT turntree.is_worker_alive(p_ws, name)
    ORDER BY name
$$;

-- Counts what waits and what runs, in all workspaces together: for the system, whose other statements see one workspace
-- each. Sessions that are archived do not count, because no worker answers in them.
CREATE OR REPLACE FUNCTION turntree.count_work(OUT waiting bigint, OUT oldest_s float8, OUT open bigint, OUT parked bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_before constant text := current_setting('turntree.workspace', true);
  v_oldest timestamptz;
  v_ws uuid;
  w record;
  r record;
BEGIN
  waiting := 0; open := 0; parked := 0;
  FOR v_ws IN SELECT id FROM turntree.workspaces LOOP
    PERFORM set_config('turntree.workspace', v_ws::text, true);
    SELECT count(*) AS waiting, min(i.received_at) AS oldest INTO w
      FROM turntree.queued_messages i
      JOIN turntree.sessions s ON s.workspace_id = i.workspace_id AND s.id = i.session_id AND s.status = 'active'
      WHERE i.workspace_id = v_ws AND i.payload IS NOT NULL AND i.canceled_at IS NULL;
    SELECT count(*) FILTER (WHERE x.status = 'open') AS open, count(*) FILTER (WHERE x.status = 'parked') AS parked INTO r
      FROM turntree.runs x WHERE x.workspace_id = v_ws AND x.status <> 'finished';
    waiting := waiting + w.waiting; v_oldest := least(v_oldest, w.oldest);
    open := open + r.open; parked := parked + r.parked;
  END LOOP;
  PERFORM set_config('turntree.workspace', coalesce(v_before, ''), true);
  oldest_s := greatest(0, extract(epoch FROM clock_timestamp() - v_oldest));
END $$;
