-- Conversations: each change is checked, applied and recorded in one transaction, while the row of the conversation is
-- locked. That row is locked before any session of the conversation, by those who post and by the worker that seals an
-- answer.

-- Locks a conversation until the transaction ends. One that the viewer may not read does not exist.
CREATE OR REPLACE FUNCTION turntree.lock_conversation(p_ws uuid, p_conversation uuid) RETURNS turntree.programs LANGUAGE plpgsql AS $$
DECLARE
  p turntree.programs;
BEGIN
  SELECT x.* INTO p FROM turntree.programs x
    WHERE x.workspace_id = p_ws AND x.id = p_conversation AND x.kind = 'conversation' FOR NO KEY UPDATE;
  IF NOT FOUND OR turntree.is_program_hidden(p_ws, p_conversation, turntree.viewer()) THEN
    RAISE EXCEPTION 'there is no conversation %', p_conversation USING ERRCODE = 'TT002';
  END IF;
  RETURN p;
END $$;

-- Records an event in the stream of a conversation.
CREATE OR REPLACE FUNCTION turntree.record_conversation_event(p_ws uuid, p_conversation uuid, p_kind text, p_at text, p_data text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.insert_event(p_ws, p_conversation, turntree.next_program_seq(p_ws, p_conversation, 'conversation'), p_kind, p_at, p_data);
END $$;

-- Makes the row of a conversation whose program is being created, with its creator as the first participant: an agent and
-- the person for whom it acts, if that is who creates it.
CREATE OR REPLACE FUNCTION turntree.start_conversation(p_ws uuid, p_conversation uuid, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.conversations (workspace_id, id) VALUES (p_ws, p_conversation);
  IF p_by LIKE 'human:_%' OR p_by LIKE 'agent:_%' THEN
    PERFORM turntree.insert_participant(p_ws, p_conversation, x, p_by, p_at) FROM (
      SELECT coalesce(substring(p_by FROM '^(agent:.*) for .*$'), p_by)
      UNION SELECT nullif(turntree.person_behind(turntree.viewer()), '') WHERE p_by LIKE 'agent:%') p (x) WHERE x IS NOT NULL;
  END IF;
END $$;

-- Adds a participant to a locked conversation. One who comes back is told what was said meanwhile, in the session of before.
CREATE OR REPLACE FUNCTION turntree.insert_participant(p_ws uuid, p_conversation uuid, p_principal text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_before record;
BEGIN
  SELECT x.session_id, x.told_seq INTO v_before FROM turntree.participants x
    WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation AND x.principal = p_principal ORDER BY x.number DESC LIMIT 1;
  INSERT INTO turntree.participants (workspace_id, conversation_id, number, principal, added_by, added_at, session_id, told_seq)
    SELECT p_ws, p_conversation, coalesce(max(x.number), 0) + 1, p_principal, p_by, p_at::timestamptz, v_before.session_id,
        coalesce(v_before.told_seq, 0)
      FROM turntree.participants x WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation;
  PERFORM turntree.record_conversation_event(p_ws, p_conversation, 'participant.added', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"participant":' || turntree.canonical_text(p_principal) || '}');
  IF p_principal <> p_by THEN
    PERFORM turntree.notice_conversation(p_ws, p_conversation, NULL, p_principal, 'invitation', p_by, 'added you to %s', p_at);
  END IF;
END $$;

-- Tells a person of what happened in a conversation. What was said there is no part of it: a person who is removed later
-- has been told nothing that they may no longer read.
CREATE OR REPLACE FUNCTION turntree.notice_conversation(
  p_ws uuid, p_conversation uuid, p_seq int, p_person text, p_kind text, p_by text, p_text text, p_at text) RETURNS void LANGUAGE sql AS $$
  SELECT turntree.add_notice(p_ws, p_person, p_kind, p_by, format(p_text, p.name) || coalesce(', in post ' || p_seq, ''),
      jsonb_strip_nulls(jsonb_build_object('conversation', p.id, 'post', p_seq)),
      format('%s %s %s: %s', p_kind, p.id, coalesce(p_seq::text, p_at), p_text), p_at::timestamptz)
    FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_conversation
$$;

-- Whether a principal takes part in a conversation, by its own name.
CREATE OR REPLACE FUNCTION turntree.is_participant(p_ws uuid, p_conversation uuid, p_principal text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.participants x WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation
    AND x.principal = p_principal AND x.removed_at IS NULL)
$$;

-- Raises unless a principal takes part. A member of the workspace joins a public conversation by what they do there, unless
-- another participant removed them from it.
CREATE OR REPLACE FUNCTION turntree.require_participant(p_ws uuid, p turntree.programs, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_removed_by text;
BEGIN
  PERFORM turntree.require_member(p_ws, p.id, 'invoke');
  IF p.state <> 'active' THEN
    RAISE EXCEPTION 'the conversation % is %', p.name, p.state USING ERRCODE = 'TT003', DETAIL = jsonb_build_object('hint',
      jsonb_build_object('action', 'program.set_state', 'kind', 'conversation', 'program', p.name, 'state', 'active'))::text;
  ELSIF p_by LIKE 'system:%' OR turntree.is_participant(p_ws, p.id, p_by) THEN
    RETURN;
  END IF;
  SELECT x.removed_by INTO v_removed_by FROM turntree.participants x
    WHERE x.workspace_id = p_ws AND x.conversation_id = p.id AND x.principal = p_by ORDER BY x.number DESC LIMIT 1;
  IF p.visibility <> 'public' OR p_by NOT LIKE 'human:%' OR v_removed_by <> p_by THEN
    RAISE EXCEPTION '% does not take part in %', p_by, p.name USING ERRCODE = '42501', DETAIL = jsonb_build_object(
      'session', turntree.workspace_stream(), 'by', p_by, 'right', 'invoke', 'reason', 'it is not a participant')::text;
  END IF;
  PERFORM turntree.insert_participant(p_ws, p.id, p_by, p_by, p_at);
END $$;

-- Adds a person or an agent. Who may use an agent may add it. Returns false for one who took part already: a person who
-- adds themselves to a public conversation joins it by that.
CREATE OR REPLACE FUNCTION turntree.add_participant(p_ws uuid, p_conversation uuid, p_principal text, p_by text, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  p constant turntree.programs := turntree.lock_conversation(p_ws, p_conversation);
  v_took_part constant boolean := turntree.is_participant(p_ws, p_conversation, p_principal);
  a turntree.programs;
BEGIN
  PERFORM turntree.require_participant(p_ws, p, p_by, p_at);
  IF turntree.is_participant(p_ws, p_conversation, p_principal) THEN
    RETURN NOT v_took_part;
  ELSIF p_principal LIKE 'agent:%' THEN
    SELECT * INTO a FROM turntree.programs x
      WHERE x.workspace_id = p_ws AND x.kind = 'agent' AND 'agent:' || x.name = p_principal AND x.state <> 'deleted';
    IF NOT FOUND OR NOT turntree.has_program_access(p_ws, a.id, a.owner, a.visibility, p_by, 'read') THEN
      RAISE EXCEPTION 'there is no agent %', substring(p_principal FROM 7) USING ERRCODE = 'TT002', DETAIL = jsonb_build_object(
        'hint', jsonb_build_object('action', 'program.list_kind', 'kind', 'agent'))::text;
    ELSIF NOT turntree.has_program_access(p_ws, a.id, a.owner, a.visibility, p_by, 'invoke') THEN
      RAISE EXCEPTION '% may not invoke @(%): % may grant it', p_by, a.name, a.owner USING ERRCODE = '42501',
        DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'program.grant', 'program', a.name,
          'grantee', regexp_replace(p_by, '^human:', ''), 'access', 'invoke'))::text;
    END IF;
  ELSIF EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws)
      AND NOT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = p_principal AND m.role IS NOT NULL) THEN
    RAISE EXCEPTION '% is not a member of this workspace', p_principal USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'member.list'))::text;
  END IF;
  PERFORM turntree.insert_participant(p_ws, p_conversation, p_principal, p_by, p_at);
  RETURN true;
END $$;

-- Removes a participant. Every participant may leave, except the creator. The creator may remove each of the others; the
-- others remove people whom they added, and agents, unless the owner of an agent has forbidden it. The owner may always
-- take an agent of theirs away. A system agent stays.
CREATE OR REPLACE FUNCTION turntree.remove_participant(p_ws uuid, p_conversation uuid, p_principal text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  p constant turntree.programs := turntree.lock_conversation(p_ws, p_conversation);
  v_viewer constant text := current_setting('turntree.viewer', true);
  x record;
  a record;
BEGIN
  PERFORM turntree.require_participant(p_ws, p, p_by, p_at);
  SELECT y.number, y.added_by INTO x FROM turntree.participants y
    WHERE y.workspace_id = p_ws AND y.conversation_id = p_conversation AND y.principal = p_principal AND y.removed_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION '% does not take part in %', p_principal, p.name USING ERRCODE = 'TT002';
  ELSIF p_principal = p.owner THEN
    RAISE EXCEPTION '% created % and stays in it', p_principal, p.name USING ERRCODE = 'TT003', DETAIL = jsonb_build_object('hint',
      jsonb_build_object('action', 'program.set_state', 'kind', 'conversation', 'program', p.name, 'state', 'archived'))::text;
  END IF;
  IF p_principal LIKE 'agent:%' THEN
    -- As the system: the config of a private agent is hidden from most participants, and binds them all the same.
    PERFORM set_config('turntree.viewer', 'system:turntree', true);
    SELECT y.owner, c.config ->> 'system_agent_kind' AS system_kind, c.config ->> 'removable_by' AS removable_by INTO a
      FROM turntree.programs y
      JOIN turntree.program_versions v ON v.workspace_id = p_ws AND v.program_id = y.id AND v.version = y.version
      JOIN turntree.objects o ON o.workspace_id = p_ws AND o.digest = v.digest,
        LATERAL (SELECT convert_from(o.bytes, 'UTF8')::jsonb AS config) c
      WHERE y.workspace_id = p_ws AND y.kind = 'agent' AND 'agent:' || y.name = p_principal;
    PERFORM set_config('turntree.viewer', v_viewer, true);
    IF a.system_kind IS NOT NULL AND a.owner LIKE 'system:%' THEN
      RAISE EXCEPTION '@(%) is a system agent and stays in every conversation', substring(p_principal FROM 7) USING ERRCODE = 'TT003',
        DETAIL = CASE WHEN turntree.find_triage_agent(p_ws) = substring(p_principal FROM 7) THEN jsonb_build_object('hint',
          jsonb_build_object('action', 'conversation.set_triage', 'conversation', p.name, 'on', 'off'))::text ELSE '' END;
    ELSIF a.removable_by = 'owner' AND p_by NOT IN (a.owner, p.owner) AND p_by NOT LIKE 'system:%' THEN
      RAISE EXCEPTION 'only % and % remove @(%) from %', a.owner, p.owner, substring(p_principal FROM 7), p.name USING ERRCODE = '42501',
        DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', p_by, 'right', 'configure',
          'reason', 'the owner of the agent keeps it there')::text;
    END IF;
  ELSIF p_by NOT IN (p_principal, p.owner, x.added_by) AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION '% is removed from % by % or by themselves', p_principal, p.name,
        array_to_string(ARRAY(SELECT DISTINCT unnest(ARRAY[p.owner, x.added_by]) ORDER BY 1), ' or ') USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', p_by, 'right', 'configure',
        'reason', 'it is not the creator')::text;
  END IF;
  UPDATE turntree.participants SET removed_by = p_by, removed_at = p_at::timestamptz
    WHERE workspace_id = p_ws AND conversation_id = p_conversation AND number = x.number;
  PERFORM turntree.record_conversation_event(p_ws, p_conversation, 'participant.removed', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"participant":' || turntree.canonical_text(p_principal) || '}');
  PERFORM turntree.settle_notices_of(p_ws, p_principal, p_conversation, p_at::timestamptz);
END $$;

-- Adds a post to a conversation. Its words are in the row and not in the event, from which nothing can be erased. p_author
-- null: the system says it. A key makes it safe to repeat. What an agent posts with a key of its own, and not as the answer
-- of a turn, follows from the newest post as an answer would: agents with a shell could go on forever otherwise.
DROP FUNCTION IF EXISTS turntree.create_post(uuid, uuid, uuid, text, text, text, text, uuid, int, int, text); -- its columns differ from earlier releases
CREATE OR REPLACE FUNCTION turntree.create_post(
  p_ws uuid, p_conversation uuid, p_post uuid, p_body text, p_author text, p_at text, p_key text,
  p_turn uuid, p_cause int, p_hops int, p_charged text, OUT seq int, OUT repeated boolean, OUT cause int, OUT hops int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  p constant turntree.programs := turntree.lock_conversation(p_ws, p_conversation);
  v_digest constant bytea := sha256(convert_to(p_body, 'UTF8'));
  v_earlier record;
BEGIN
  -- What an agent or the system has to say when it is done is recorded in an archived conversation too.
  IF p_turn IS NULL AND p_author IS NOT NULL THEN
    PERFORM turntree.require_participant(p_ws, p, p_author, p_at);
  END IF;
  IF p_key IS NOT NULL THEN
    SELECT x.seq, x.body INTO v_earlier FROM turntree.posts x WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation
      AND x.author IS NOT DISTINCT FROM p_author AND x.idempotency_key = p_key;
    IF FOUND AND v_earlier.body::jsonb ->> 'content' IS DISTINCT FROM p_body::jsonb ->> 'content' THEN
      RAISE EXCEPTION 'the key % was used for another post: choose another', p_key USING ERRCODE = 'TT003';
    ELSIF FOUND THEN
      seq := v_earlier.seq; repeated := true;
      RETURN;
    END IF;
  END IF;
  UPDATE turntree.conversations x SET post_seq = x.post_seq + 1, posted_at = p_at::timestamptz
    WHERE x.workspace_id = p_ws AND x.id = p_conversation RETURNING x.post_seq INTO seq;
  repeated := false; cause := p_cause; hops := p_hops;
  IF p_turn IS NULL AND p_cause IS NULL AND p_author LIKE 'agent:%' THEN
    SELECT x.cause_seq, x.hops + 1 INTO cause, hops FROM turntree.list_posts(p_ws, p_conversation, 0, seq, 1) x;
    hops := coalesce(hops, 1);
  END IF;
  cause := coalesce(cause, seq);
  INSERT INTO turntree.posts (workspace_id, conversation_id, seq, id, kind, author, digest, body, posted_at, turn_id,
      cause_seq, hops, charged_to, idempotency_key)
    VALUES (p_ws, p_conversation, seq, p_post, CASE WHEN p_author IS NULL THEN 'system' ELSE 'participant' END, p_author, v_digest,
      p_body, p_at::timestamptz, p_turn, cause, hops, p_charged, p_key);
  PERFORM turntree.record_conversation_event(p_ws, p_conversation, 'post.created', p_at,
    '{"by":' || turntree.canonical_text(coalesce(p_author, 'system:conversation')) || ',"cause":' || cause
      || ',"digest":"sha256:' || encode(v_digest, 'hex') || '","hops":' || hops || ',"id":"' || p_post || '","post":' || seq
      || coalesce(',"turn":"' || p_turn || '"', '') || '}');
END $$;

-- Makes the session in which an agent answers in a conversation: empty, or at the turn at which a fork begins. It belongs
-- to the system, and what is said in the conversation is all that reaches it.
CREATE OR REPLACE FUNCTION turntree.create_bound_session(
  p_ws uuid, p_conversation uuid, p_name text, p_agent text, p_head uuid, p_at text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  v_before constant text := turntree.viewer();
  v_wanted constant text := left(p_name, 100) || ':' || left(p_agent, 90);
  v_label text := v_wanted;
  v_number int := 1;
  v_session constant uuid := turntree.derive_run_id(p_conversation, hashtext(p_agent) & 2147483647, p_at::timestamptz);
  v_data text;
  v_body text;
BEGIN
  WHILE EXISTS (SELECT FROM turntree.session_names n WHERE n.workspace_id = p_ws AND n.name = v_label) LOOP
    v_number := v_number + 1;
    v_label := v_wanted || '-' || v_number;
  END LOOP;
  -- As the system: a guest who mentions an agent may begin no session of their own.
  PERFORM set_config('turntree.viewer', 'system:conversation', true);
  v_data := '{"after":' || coalesce('"' || p_head || '"', 'null') || ',"before":null,"by":"system:conversation","label":'
    || turntree.canonical_text(v_label) || ',"move":"' || CASE WHEN p_head IS NULL THEN 'create' ELSE 'fork' END || '","version":1}';
  v_body := turntree.event_body(v_session, 0, 'session.created', p_at, v_data);
  PERFORM turntree.insert_session(p_ws, v_session, v_label, p_head, 'system:conversation', p_at::timestamptz,
    sha256(convert_to(v_body, 'UTF8')), v_body, NULL, NULL, NULL, 'configured');
  INSERT INTO turntree.bound_sessions (workspace_id, session_id, conversation_id, agent)
    VALUES (p_ws, v_session, p_conversation, p_agent);
  INSERT INTO turntree.programs (workspace_id, id, kind, name, owner, state, visibility, details, created_at, updated_at)
    VALUES (p_ws, v_session, 'session', v_session, 'system:conversation', 'created', 'private', '{}', p_at::timestamptz, p_at::timestamptz);
  PERFORM turntree.add_program_version(p_ws, v_session, 1, sha256('{}'), '{}', '{}', '{}', 'system:conversation', p_at);
  PERFORM turntree.insert_event(p_ws, v_session, turntree.next_program_seq(p_ws, v_session, 'session'), 'session.configured', p_at,
    '{"by":"system:conversation","config":"sha256:' || encode(sha256('{}'), 'hex') || '","kind":"session","name":"' || v_session
    || '","owner":"system:conversation","state":"created","version":1,"visibility":"private"}');
  PERFORM set_config('turntree.viewer', v_before, true);
  RETURN v_session;
END $$;

-- Returns how many tokens agents have used since a time for the answers that a person is charged for, and for deciding who
-- answers, in conversations that the viewer may not read too.
CREATE OR REPLACE FUNCTION turntree.tokens_charged(p_ws uuid, p_person text, p_since timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
  v_tokens bigint;
BEGIN
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  SELECT coalesce(sum(c.input_tokens::bigint + c.cached_input_tokens + c.cache_write_tokens + c.output_tokens), 0) INTO v_tokens
    FROM (SELECT p.turn_id FROM turntree.posts p
        WHERE p.workspace_id = p_ws AND p.charged_to = p_person AND p.posted_at >= p_since AND p.turn_id IS NOT NULL
      UNION ALL SELECT d.turn_id FROM turntree.post_decisions d
        JOIN turntree.posts p ON p.workspace_id = p_ws AND p.conversation_id = d.conversation_id AND p.seq = d.seq
        WHERE d.workspace_id = p_ws AND p.charged_to = p_person AND d.decided_at >= p_since AND d.method = 'model') x
    JOIN turntree.model_calls c ON c.workspace_id = p_ws AND c.turn_id = x.turn_id;
  PERFORM set_config('turntree.viewer', v_viewer, true);
  RETURN v_tokens;
END $$;

-- Finds what the mentions of a post mean, in their order, and brings in the agents that its author may use. The
-- conversation is locked. What becomes of a mention:
--   addressed  an agent that has to answer, in its session
--   limit      an agent that would, but for the number of agents' turns since a person said something: one after the
--              other, or in all, however many agents an answer mentions
--   budget     an agent that would, but for the tokens that agents have used for this person today
--   unable     an agent that is paused or broken
--   person     a person who takes part
--   absent     a member who does not
-- A mention of anything else means nothing, and so does one of an agent that the author, or the person who is charged,
-- may not invoke: whether it exists is not told. People are told that they are mentioned, and the creator of the
-- conversation of those who would have to be added first.
CREATE OR REPLACE FUNCTION turntree.address_participants(
  p_ws uuid, p_conversation uuid, p_seq int, p_kinds text[], p_names text[], p_ids uuid[], p_author text, p_hops int, p_hops_max int,
  p_charged text, p_tokens_max bigint, p_at text)
RETURNS TABLE (became text, principal text, session_id uuid, told_seq int, is_new boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_name text;
  v_owner text;
  v_woken int := 0;
  v_is_spent boolean;
  a turntree.programs;
  x record;
BEGIN
  SELECT p.name, p.owner INTO v_name, v_owner FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_conversation;
  IF p_hops > 0 THEN
    SELECT count(*) INTO v_woken FROM turntree.posts y
      JOIN turntree.posts o ON o.workspace_id = p_ws AND o.conversation_id = p_conversation AND o.cause_seq = y.cause_seq AND o.turn_id IS NOT NULL
      JOIN turntree.post_deliveries d ON d.workspace_id = p_ws AND d.conversation_id = p_conversation AND d.seq = o.seq
      JOIN turntree.queued_messages q ON q.workspace_id = p_ws AND q.session_id = d.session_id AND q.seq = d.message_seq
        AND (q.options #>> '{conversation,post}')::int = o.seq
      WHERE y.workspace_id = p_ws AND y.conversation_id = p_conversation AND y.seq = p_seq;
  END IF;
  FOR i IN 1 .. cardinality(p_kinds) LOOP
    session_id := NULL; told_seq := NULL; is_new := false; became := NULL;
    SELECT * INTO a FROM turntree.programs y WHERE y.workspace_id = p_ws
      AND y.kind = CASE p_kinds[i] WHEN 'user' THEN 'human' ELSE 'agent' END AND (y.name = p_names[i] OR y.id = p_ids[i])
      ORDER BY y.name = p_names[i] DESC LIMIT 1;
    IF p_kinds[i] = 'user' THEN
      principal := 'human:' || coalesce(a.name, p_names[i]);
      became := CASE WHEN principal = p_author THEN NULL WHEN turntree.is_participant(p_ws, p_conversation, principal) THEN 'person'
        WHEN EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = address_participants.principal
          AND m.role IS NOT NULL) THEN 'absent' END;
      IF became = 'person' THEN
        PERFORM turntree.notice_conversation(p_ws, p_conversation, p_seq, principal, 'mention', p_author, 'mentioned you in %s', p_at);
      ELSIF became = 'absent' AND v_owner <> p_author THEN
        PERFORM turntree.notice_conversation(p_ws, p_conversation, p_seq, v_owner, 'mention', p_author,
          'mentioned ' || replace(principal, '%', '%%') || ', who takes no part in %s', p_at);
      END IF;
    ELSIF a.id IS NOT NULL AND a.state <> 'deleted' AND 'agent:' || a.name <> p_author AND a.owner <> 'system:triage'
        AND turntree.has_program_access(p_ws, a.id, a.owner, a.visibility, p_author, 'invoke')
        AND turntree.has_program_access(p_ws, a.id, a.owner, a.visibility, p_charged, 'invoke') THEN
      principal := 'agent:' || a.name;
      IF NOT turntree.is_participant(p_ws, p_conversation, principal) THEN
        PERFORM turntree.insert_participant(p_ws, p_conversation, principal, p_author, p_at);
      END IF;
      IF v_is_spent IS NULL AND p_tokens_max IS NOT NULL THEN
        v_is_spent := turntree.tokens_charged(p_ws, p_charged, date_trunc('day', p_at::timestamptz, 'UTC')) >= p_tokens_max;
      END IF;
      became := CASE WHEN a.state IN ('paused', 'error') THEN 'unable'
        WHEN p_hops >= p_hops_max OR v_woken >= p_hops_max THEN 'limit' WHEN v_is_spent THEN 'budget' ELSE 'addressed' END;
      IF became = 'addressed' THEN
        v_woken := v_woken + CASE WHEN p_hops > 0 THEN 1 ELSE 0 END;
        SELECT y.number, y.session_id, y.told_seq INTO x FROM turntree.participants y WHERE y.workspace_id = p_ws
          AND y.conversation_id = p_conversation AND y.principal = address_participants.principal AND y.removed_at IS NULL;
        session_id := x.session_id; told_seq := x.told_seq; is_new := told_seq = 0;
        IF session_id IS NULL THEN
          session_id := turntree.create_bound_session(p_ws, p_conversation, v_name, a.name, NULL, p_at);
          UPDATE turntree.participants y SET session_id = address_participants.session_id
            WHERE y.workspace_id = p_ws AND y.conversation_id = p_conversation AND y.number = x.number;
        END IF;
      END IF;
    END IF;
    IF became IS NOT NULL THEN
      RETURN NEXT;
    END IF;
  END LOOP;
END $$;

-- Returns the posts of a conversation and of those that it is a fork of, newest first, as the parts of each: the posts of
-- one conversation up to p_until.
CREATE OR REPLACE FUNCTION turntree.conversation_parts(p_ws uuid, p_conversation uuid)
RETURNS TABLE (conversation_id uuid, after_seq int, until_seq int) LANGUAGE sql STABLE AS $$
  WITH RECURSIVE parts (id, parent_id, after_seq, until_seq) AS (
    SELECT c.id, c.parent_id, coalesce(c.forked_seq, 0), 2147483647 FROM turntree.conversations c
      WHERE c.workspace_id = p_ws AND c.id = p_conversation
    UNION ALL
    SELECT c.id, c.parent_id, coalesce(c.forked_seq, 0), least(p.until_seq, p.after_seq) FROM parts p
      JOIN turntree.conversations c ON c.workspace_id = p_ws AND c.id = p.parent_id
  )
  SELECT id, after_seq, until_seq FROM parts
$$;

-- Returns posts of a conversation, those before its fork too, newest first: after one position and before another.
CREATE OR REPLACE FUNCTION turntree.list_posts(p_ws uuid, p_conversation uuid, p_after int, p_before int, p_limit int)
RETURNS SETOF turntree.posts LANGUAGE sql STABLE AS $$
  SELECT x.* FROM turntree.conversation_parts(p_ws, p_conversation) c, LATERAL (SELECT y.* FROM turntree.posts y
      WHERE y.workspace_id = p_ws AND y.conversation_id = c.conversation_id AND y.seq > greatest(c.after_seq, p_after)
        AND y.seq <= c.until_seq AND y.seq < p_before ORDER BY y.seq DESC LIMIT p_limit) x
    ORDER BY x.seq DESC LIMIT p_limit
$$;

-- Queues a message that tells an agent of posts, in its session of a conversation. The rights of the sender are checked
-- once, and the rest is done as the system: the rules of the conversation would otherwise be asked again for each of the
-- thirteen rows that a message reads or writes, which took twice as long as all else.
CREATE OR REPLACE FUNCTION turntree.tell_agent(
  p_ws uuid, p_session uuid, p_payload text, p_by text, p_at text, p_options jsonb, OUT run_id uuid, OUT seq int, OUT wake int)
LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
  q record;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke'), turntree.require_sender(p_ws, p_session, p_by, p_options);
  IF EXISTS (SELECT FROM turntree.objects_in(p_payload) o (digest) WHERE NOT turntree.reader_can_see_object(p_ws, o.digest)) THEN
    RAISE EXCEPTION 'a message names an object that its sender cannot see' USING ERRCODE = 'TT002';
  END IF;
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  SELECT m.run_id, m.seq, m.wake INTO q FROM turntree.post_message(p_ws, p_session, p_payload, p_by, p_at, NULL, p_options) m;
  PERFORM set_config('turntree.viewer', v_viewer, true);
  run_id := q.run_id; seq := q.seq; wake := q.wake;
END $$;

-- Records that a message tells an agent of a post, where that was posted, and how far the agent has been told.
CREATE OR REPLACE FUNCTION turntree.record_delivery(
  p_ws uuid, p_conversation uuid, p_seqs int[], p_session uuid, p_messages int[], p_until int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- An agent of a fork may be told of a post that was posted before the fork: who erases it there erases it here.
  INSERT INTO turntree.post_deliveries (workspace_id, conversation_id, seq, session_id, message_seq)
    SELECT p_ws, c.conversation_id, s, p_session, m FROM unnest(p_seqs, p_messages) x (s, m)
      JOIN turntree.conversation_parts(p_ws, p_conversation) c ON s > c.after_seq AND s <= c.until_seq ON CONFLICT DO NOTHING;
  UPDATE turntree.participants SET told_seq = p_until WHERE workspace_id = p_ws AND conversation_id = p_conversation
    AND session_id = p_session AND removed_at IS NULL;
END $$;

-- Has an agent told again of what it was told in a run whose turn its session did not keep: it failed or was canceled, so
-- the agent knows nothing of it. The heading is told again to an agent that has been told nothing else.
CREATE OR REPLACE FUNCTION turntree.forget_delivery(p_ws uuid, p_session uuid, p_run uuid) RETURNS void LANGUAGE sql AS $$
  UPDATE turntree.participants x SET told_seq = CASE WHEN s.head_id IS NULL THEN 0 ELSE least(x.told_seq, d.seq - 1) END
    FROM turntree.sessions s, (SELECT min(d.seq) AS seq FROM turntree.queued_messages q
        JOIN turntree.post_deliveries d ON d.workspace_id = p_ws AND d.session_id = q.session_id AND d.message_seq = q.seq
        WHERE q.workspace_id = p_ws AND q.session_id = p_session AND q.run_id = p_run) d
    WHERE x.workspace_id = p_ws AND x.session_id = p_session AND s.workspace_id = p_ws AND s.id = p_session
      AND s.head_id IS DISTINCT FROM p_run
$$;

-- Whether an agent knows of a post, or has a message that tells of it, in a session of a conversation.
CREATE OR REPLACE FUNCTION turntree.is_post_told(p_ws uuid, p_conversation uuid, p_seq int, p_session uuid)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.post_deliveries d
    JOIN turntree.bound_sessions o ON o.workspace_id = p_ws AND o.session_id = p_session
    JOIN turntree.bound_sessions b ON b.workspace_id = p_ws AND b.session_id = d.session_id AND b.agent = o.agent
    JOIN turntree.queued_messages q ON q.workspace_id = p_ws AND q.session_id = d.session_id AND q.seq = d.message_seq
    WHERE d.workspace_id = p_ws AND d.conversation_id = p_conversation AND d.seq = p_seq AND CASE
      WHEN EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = q.run_id) THEN turntree.is_ancestor(p_ws, q.run_id,
        (SELECT s.head_id FROM turntree.sessions s WHERE s.workspace_id = p_ws AND s.id = p_session))
      ELSE d.session_id = p_session END)
$$;

-- Returns posts of a conversation that an agent was not told of, newest first: after one position and before another. Who
-- may read the conversation may read all of them, so that is asked once instead of for each.
CREATE OR REPLACE FUNCTION turntree.list_untold_posts(
  p_ws uuid, p_conversation uuid, p_session uuid, p_after int, p_before int, p_limit int)
RETURNS SETOF turntree.posts LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
BEGIN
  IF turntree.is_program_hidden(p_ws, p_conversation, turntree.viewer()) THEN
    RETURN;
  END IF;
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  RETURN QUERY SELECT x.* FROM turntree.list_posts(p_ws, p_conversation, p_after, p_before, p_limit) x
    WHERE NOT turntree.is_post_told(p_ws, x.conversation_id, x.seq, p_session);
  PERFORM set_config('turntree.viewer', v_viewer, true);
END $$;

-- Makes a conversation that was just created a fork of another one, at one of its posts. Each agent of that one takes
-- part, in a session of its own that begins at the last turn that it took up to the post.
CREATE OR REPLACE FUNCTION turntree.fork_conversation(
  p_ws uuid, p_conversation uuid, p_parent uuid, p_seq int, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_name text;
  x record;
  v_turn uuid;
  v_session uuid;
BEGIN
  PERFORM turntree.lock_conversation(p_ws, p_parent);
  IF p_seq NOT BETWEEN 0 AND (SELECT c.post_seq FROM turntree.conversations c WHERE c.workspace_id = p_ws AND c.id = p_parent) THEN
    RAISE EXCEPTION 'there is no post % in it', p_seq USING ERRCODE = 'TT002';
  END IF;
  UPDATE turntree.conversations SET parent_id = p_parent, forked_seq = p_seq, post_seq = p_seq
    WHERE workspace_id = p_ws AND id = p_conversation AND parent_id IS NULL AND post_seq = 0;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the conversation % has posts of its own', p_conversation USING ERRCODE = 'TT003';
  END IF;
  PERFORM turntree.record_conversation_event(p_ws, p_conversation, 'conversation.forked', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"from":"' || p_parent || '","post":' || p_seq || '}');
  SELECT p.name INTO v_name FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_conversation;
  FOR x IN SELECT y.principal, y.told_seq FROM turntree.participants y WHERE y.workspace_id = p_ws AND y.conversation_id = p_parent
      AND y.principal LIKE 'agent:%' AND y.removed_at IS NULL ORDER BY y.number LOOP
    IF NOT turntree.is_participant(p_ws, p_conversation, x.principal) THEN
      PERFORM turntree.insert_participant(p_ws, p_conversation, x.principal, p_by, p_at);
    END IF;
    SELECT y.turn_id INTO v_turn FROM turntree.list_posts(p_ws, p_parent, 0, p_seq + 1, 2147483647) y
      WHERE y.author = x.principal AND y.turn_id IS NOT NULL ORDER BY y.seq DESC LIMIT 1;
    IF FOUND THEN
      v_session := turntree.create_bound_session(p_ws, p_conversation, v_name, substring(x.principal FROM 7), v_turn, p_at);
      -- What it was told up to that turn: the last of the posts that its messages carried.
      UPDATE turntree.participants y SET session_id = v_session, told_seq = least(p_seq, x.told_seq, coalesce((
          SELECT max(d.seq) FROM turntree.queued_messages q JOIN turntree.post_deliveries d ON d.workspace_id = p_ws
              AND d.session_id = q.session_id AND d.message_seq = q.seq
            WHERE q.workspace_id = p_ws AND q.run_id = v_turn), 0))
        WHERE y.workspace_id = p_ws AND y.conversation_id = p_conversation AND y.principal = x.principal AND y.removed_at IS NULL;
    END IF;
  END LOOP;
END $$;

-- Raises unless a principal may erase a post: its author, the creator of the conversation, or the system.
CREATE OR REPLACE FUNCTION turntree.require_post_erasure(p_ws uuid, p_conversation uuid, p_seq int, p_by text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  p constant turntree.programs := turntree.lock_conversation(p_ws, p_conversation);
  v_author text;
BEGIN
  SELECT x.author INTO v_author FROM turntree.posts x
    WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation AND x.seq = p_seq;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no post % in %', p_seq, p.name USING ERRCODE = 'TT002';
  ELSIF p_by NOT IN (p.owner, coalesce(v_author, '')) AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION 'only % and % erase post % of %', coalesce(v_author, 'the system'), p.owner, p_seq, p.name USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', p_by, 'right', 'configure',
        'reason', 'it is not the author')::text;
  END IF;
END $$;

-- Erases a post: its words, the messages that told agents of it, and the reply that it is. Its digest and an event stay.
-- Called as turntree_eraser. Refuses a post that an agent was told of in a turn that is not sealed yet.
CREATE OR REPLACE FUNCTION turntree.erase_post(
  p_ws uuid, p_conversation uuid, p_seq int, p_reason text, p_by text, p_at text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
  x record;
  d record;
BEGIN
  -- First: who tells an agent of posts holds this lock from reading them until it has committed. Without it, an agent that
  -- was brought in meanwhile kept the words.
  PERFORM FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_conversation FOR NO KEY UPDATE;
  SELECT y.body, y.digest, y.turn_id, y.author INTO x FROM turntree.posts y
    WHERE y.workspace_id = p_ws AND y.conversation_id = p_conversation AND y.seq = p_seq FOR NO KEY UPDATE;
  IF x.body LIKE '{"erased":"sha256:%"}' THEN
    RETURN false;
  END IF;
  FOR d IN SELECT q.run_id, (SELECT count(*)::int FROM turntree.queued_messages b WHERE b.workspace_id = p_ws
        AND b.session_id = q.session_id AND b.run_id = q.run_id AND b.seq < q.seq) AS place,
        EXISTS (SELECT FROM turntree.turn_bodies t WHERE t.workspace_id = p_ws AND t.turn_id = q.run_id) AS is_sealed
      FROM turntree.post_deliveries y JOIN turntree.queued_messages q ON q.workspace_id = p_ws AND q.session_id = y.session_id
        AND q.seq = y.message_seq WHERE y.workspace_id = p_ws AND y.conversation_id = p_conversation AND y.seq = p_seq
      UNION ALL SELECT x.turn_id, cardinality(string_to_array(t.body, E'\n')) - 1, true FROM turntree.turn_bodies t
        WHERE t.workspace_id = p_ws AND t.turn_id = x.turn_id AND x.author IS NOT NULL LOOP
    IF NOT d.is_sealed THEN
      RAISE EXCEPTION 'an agent is reading post %: erase it when the turn % has ended', p_seq, d.run_id USING ERRCODE = 'TT001',
        DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'run.tail', 'run', d.run_id))::text;
    END IF;
    PERFORM turntree.erase_message(p_ws, d.run_id, d.place, p_reason, p_by, p_at);
  END LOOP;
  UPDATE turntree.posts SET body = '{"erased":"sha256:' || encode(x.digest, 'hex') || '"}'
    WHERE workspace_id = p_ws AND conversation_id = p_conversation AND seq = p_seq;
  UPDATE turntree.programs SET event_seq = event_seq + 1
    WHERE workspace_id = p_ws AND id = p_conversation RETURNING event_seq - 1 INTO v_seq;
  PERFORM turntree.insert_event(p_ws, p_conversation, v_seq, 'post.erased', p_at, '{"by":' || turntree.canonical_text(p_by)
    || ',"post":' || p_seq || ',"reason":' || turntree.canonical_text(p_reason) || '}');
  RETURN true;
END $$;

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
