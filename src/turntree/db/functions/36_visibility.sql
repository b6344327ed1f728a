-- Visibility. A session is visible to its whole workspace unless its program is private: then it is hidden from every
-- viewer without read access. Hidden means absent: the policies (95_row_security.sql) filter it out of each
-- statement, so no query has to remember to check.
--
-- The viewer is a setting of the connection, turntree.viewer, next to the workspace (05_console.sql). If it is unset
-- there is no viewer, and all private sessions are hidden. The functions here only read tables without such a policy,
-- or they would call each other forever.

-- Whether the viewer can see all sessions. Each policy evaluates this first, once per statement, so that a workspace
-- without private sessions pays for one look-up in an empty index. With more than eight private sessions of others it is
-- false without a look at who may read them, and policies decide row by row: a person who takes part in a hundred private
-- conversations would otherwise pay for the access rules of all their agents' sessions before each statement, of which
-- sending one message has twelve.
CREATE OR REPLACE FUNCTION turntree.can_see_all_sessions() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_ws constant uuid := turntree.current_workspace();
  v_by constant text := turntree.viewer();
BEGIN
  IF v_by LIKE 'system:%' THEN
    RETURN true;
  END IF;
  -- Two ranges instead of one inequality: the index skips the viewer's own sessions.
  IF EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.kind = 'session'
      AND p.visibility = 'private' AND p.owner < v_by OFFSET 8)
    OR EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.kind = 'session'
      AND p.visibility = 'private' AND p.owner > v_by OFFSET 8) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.kind = 'session'
      AND p.visibility = 'private' AND p.owner < v_by
      AND NOT turntree.has_program_access(v_ws, p.id, p.owner, p.visibility, v_by, 'read'))
    AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.kind = 'session'
      AND p.visibility = 'private' AND p.owner > v_by
      AND NOT turntree.has_program_access(v_ws, p.id, p.owner, p.visibility, v_by, 'read'));
END $$;

-- The same for programs of every kind: a private task is as absent from the feed as from every list. Only events and
-- tags use it, so that a private task does not make reading turns more expensive.
CREATE OR REPLACE FUNCTION turntree.can_see_all_programs() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_ws constant uuid := turntree.current_workspace();
  v_by constant text := turntree.viewer();
BEGIN
  IF v_by LIKE 'system:%' THEN
    RETURN true;
  END IF;
  IF EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.visibility = 'private'
      AND p.owner < v_by OFFSET 8)
    OR EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.visibility = 'private'
      AND p.owner > v_by OFFSET 8) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.visibility = 'private'
      AND p.owner < v_by AND NOT turntree.has_program_access(v_ws, p.id, p.owner, p.visibility, v_by, 'read'))
    AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = v_ws AND p.visibility = 'private'
      AND p.owner > v_by AND NOT turntree.has_program_access(v_ws, p.id, p.owner, p.visibility, v_by, 'read'));
END $$;

-- Whether a session, or any program, is hidden from a principal. An id without a program is visible.
CREATE OR REPLACE FUNCTION turntree.is_program_hidden(p_ws uuid, p_session uuid, p_by text)
RETURNS boolean LANGUAGE plpgsql STABLE COST 1000 AS $$
BEGIN
  RETURN EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_session
    AND p.visibility <> 'public' AND NOT turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'read'));
END $$;

-- Returns the sessions that hold the turn at a position: their head was there or below.
CREATE OR REPLACE FUNCTION turntree.sessions_holding_turn(p_ws uuid, p_segment uuid, p_depth int)
RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  WITH RECURSIVE below (segment_id, low) AS (
    SELECT p_segment, p_depth
    UNION ALL
    SELECT s.id, s.fork_depth + 1 FROM below b, LATERAL (SELECT f.id, f.fork_depth FROM turntree.segments f
      WHERE f.workspace_id = p_ws AND f.parent_id = b.segment_id AND f.fork_depth >= b.low OFFSET 0) s
  )
  SELECT r.session_id FROM below b, LATERAL (SELECT x.session_id FROM turntree.session_reach x
    WHERE x.workspace_id = p_ws AND x.segment_id = b.segment_id AND x.max_depth >= b.low OFFSET 0) r
$$;

-- Whether a turn is hidden from a principal: at least one session holds it, and all that do are hidden. What a
-- visible thread shares with a hidden one stays visible. A turn that no session holds, because its run was canceled
-- or its branch was abandoned, is as hidden as the session of its run, or else as the nearest held turn above.
CREATE OR REPLACE FUNCTION turntree.is_turn_hidden(p_ws uuid, p_turn uuid, p_segment uuid, p_depth int, p_by text)
RETURNS boolean LANGUAGE plpgsql STABLE COST 1000 AS $$
DECLARE
  v_session uuid;
  v_held boolean := false;
  v_at uuid := p_segment;
  v_depth int := p_depth;
  v_found int;
BEGIN
  -- Checked first, in one statement: a visible thread may have any number of private forks.
  IF EXISTS (SELECT FROM turntree.sessions_holding_turn(p_ws, p_segment, p_depth) h (id) WHERE coalesce((SELECT p.visibility
      FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = h.id), 'public') = 'public') THEN
    RETURN false;
  END IF;
  FOR v_session IN SELECT turntree.sessions_holding_turn(p_ws, p_segment, p_depth) LOOP
    IF NOT turntree.is_program_hidden(p_ws, v_session, p_by) THEN
      RETURN false;
    END IF;
    v_held := true;
  END LOOP;
  IF v_held THEN
    RETURN true;
  END IF;
  SELECT r.session_id INTO v_session FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = p_turn;
  IF v_session IS NOT NULL THEN
    RETURN turntree.is_program_hidden(p_ws, v_session, p_by);
  END IF;
  LOOP
    -- The greatest depth at which a session holds this segment, or leaves it for one that is held.
    SELECT greatest((SELECT max(r.max_depth) FROM turntree.session_reach r
        WHERE r.workspace_id = p_ws AND r.segment_id = v_at),
      (SELECT f.fork_depth FROM turntree.segments f WHERE f.workspace_id = p_ws AND f.parent_id = v_at
        AND f.fork_depth <= v_depth AND EXISTS (SELECT FROM turntree.sessions_holding_turn(p_ws, f.id, f.fork_depth + 1))
        ORDER BY f.fork_depth DESC LIMIT 1)) INTO v_found;
    IF v_found IS NOT NULL THEN
      RETURN turntree.is_turn_hidden(p_ws, NULL, v_at, least(v_found, v_depth), p_by);
    END IF;
    SELECT s.parent_id, s.fork_depth INTO v_at, v_depth FROM turntree.segments s WHERE s.workspace_id = p_ws AND s.id = v_at;
    IF v_at IS NULL THEN
      RETURN false;
    END IF;
  END LOOP;
END $$;

-- Whether the stream of a program, run or turn is hidden from the viewer. A turn that has a body but cannot be seen
-- is hidden.
CREATE OR REPLACE FUNCTION turntree.is_stream_hidden(p_ws uuid, p_stream uuid)
RETURNS boolean LANGUAGE plpgsql STABLE COST 1000 AS $$
BEGIN
  RETURN turntree.is_program_hidden(p_ws, p_stream, turntree.viewer())
    OR EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = p_stream
      AND r.session_id IS NOT NULL AND turntree.is_program_hidden(p_ws, r.session_id, turntree.viewer()))
    OR EXISTS (SELECT FROM turntree.turn_bodies b WHERE b.workspace_id = p_ws AND b.turn_id = p_stream)
      AND NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = p_stream);
END $$;

-- Whether the viewer can see a turn, for code that reads what is derived from turns instead of the turns themselves.
CREATE OR REPLACE FUNCTION turntree.can_see_turn(p_ws uuid, p_turn uuid) RETURNS boolean LANGUAGE plpgsql STABLE COST 1000 AS $$
BEGIN
  RETURN EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = p_turn);
END $$;

-- Records in a session's stream that access was used or denied, or in the workspace's what concerns
-- no session. A use is not recorded again right after itself, and a
-- denial not within the next hundred events: viewers without access cannot make a stream grow.
CREATE OR REPLACE FUNCTION turntree.record_permission(p_ws uuid, p_session uuid, p_kind text, p_by text, p_right text, p_reason text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_data constant text := '{"by":{"id":' || turntree.canonical_text(substring(p_by FROM position(':' IN p_by) + 1))
    || ',"kind":' || turntree.canonical_text(split_part(p_by, ':', 1)) || '},"permission":' || turntree.canonical_text('action:' || p_right)
    || ',"reason":' || turntree.canonical_text(p_reason) || '}';
  v_now constant text := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
BEGIN
  IF NOT EXISTS (SELECT FROM (SELECT e.kind, e.body FROM turntree.events e
      WHERE e.workspace_id = p_ws AND e.stream_id = p_session ORDER BY e.seq DESC
      LIMIT CASE p_kind WHEN 'permission.denied' THEN 100 ELSE 1 END) n
      WHERE n.kind = p_kind AND position(v_data IN n.body) > 0) THEN
    IF p_session = turntree.workspace_stream() THEN
      PERFORM turntree.record_event(p_ws, p_session, p_kind, v_now, v_data);
    ELSE
      PERFORM turntree.record_session_event(p_ws, p_session, p_kind, v_now, v_data);
    END IF;
  END IF;
END $$;

-- Raises if a session is private and the viewer lacks access to it, or the viewer is a guest to whom it was not granted. A session that the viewer may not even read is
-- reported as not found. Using granted access leaves an event. A denial does too, but only after this transaction has
-- rolled back: the detail says what to record.
CREATE OR REPLACE FUNCTION turntree.require_session_access(p_ws uuid, p_session uuid, p_right text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_by constant text := turntree.viewer();
  v_held text;
  p record;
BEGIN
  IF v_by LIKE 'system:%' THEN
    RETURN;
  END IF;
  PERFORM turntree.require_member(p_ws, p_session, p_right);
  SELECT x.id, x.owner, x.visibility, x.name INTO p FROM turntree.programs x WHERE x.workspace_id = p_ws AND x.id = p_session AND x.visibility <> 'public';
  IF NOT FOUND OR p.owner = v_by THEN
    RETURN;
  ELSIF turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, v_by, p_right) THEN
    SELECT g.access INTO v_held FROM turntree.program_grants g
      WHERE g.workspace_id = p_ws AND g.program_id = p_session AND g.grantee = v_by AND g.access <> 'read'
      ORDER BY g.access <> p_right LIMIT 1;
    IF NOT FOUND THEN
      RETURN; -- A participant of its conversation, to whom nothing was granted by name.
    END IF;
    PERFORM turntree.record_permission(p_ws, p_session, 'permission.used', v_by, v_held, p.owner || ' granted it');
    RETURN;
  ELSIF NOT turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, v_by, 'read') THEN
    RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002', DETAIL = jsonb_build_object(
      'session', p_session, 'by', v_by, 'right', 'read', 'reason', 'the session is private')::text;
  END IF;
  RAISE EXCEPTION '% may read the session % and not % it: % may grant that', v_by, turntree.display_name(p_ws, p_session, p.name), p_right, p.owner
    USING ERRCODE = '42501', DETAIL = jsonb_build_object(
      'session', p_session, 'by', v_by, 'right', p_right, 'reason', p.owner || ' lets it be read',
      'hint', jsonb_build_object('action', 'program.grant', 'program', turntree.display_name(p_ws, p_session, p.name),
        'grantee', regexp_replace(v_by, '^human:', ''), 'access', p_right))::text;
END $$;

-- The same for a turn. What counts is the session in which the turn was recorded, or the oldest that holds it if it
-- came from elsewhere. For a turn that no session holds, it is that of the turn above. A turn that the viewer cannot
-- see is reported as not found.
CREATE OR REPLACE FUNCTION turntree.require_turn_access(p_ws uuid, p_turn uuid, p_right text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_at uuid := p_turn;
  v_session uuid;
BEGIN
  IF turntree.viewer() LIKE 'system:%' THEN
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = p_turn) THEN
    RAISE EXCEPTION 'there is no turn %', p_turn USING ERRCODE = 'TT002';
  END IF;
  WHILE v_at IS NOT NULL LOOP
    v_session := coalesce(turntree.session_of(p_ws, v_at), (SELECT s.id FROM turntree.turns t,
      LATERAL turntree.sessions_holding_turn(p_ws, t.segment_id, t.depth) h (id)
      JOIN turntree.sessions s ON s.workspace_id = p_ws AND s.id = h.id
      WHERE t.workspace_id = p_ws AND t.id = v_at ORDER BY s.created_at, s.id LIMIT 1));
    IF v_session IS NOT NULL THEN
      PERFORM turntree.require_session_access(p_ws, v_session, p_right);
      RETURN;
    END IF;
    SELECT t.parent_id INTO v_at FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = v_at;
  END LOOP;
  PERFORM turntree.require_member(p_ws, NULL, p_right);
END $$;

-- Returns the private session that a turn belongs to as far as p_by is concerned, or null if a visible session holds
-- it. A session that p_by may read comes before others; p_but does not count. For a turn that no session holds, it is
-- the session of its run, or else that of the nearest held turn above.
CREATE OR REPLACE FUNCTION turntree.private_session_of(p_ws uuid, p_turn uuid, p_by text, p_but uuid)
RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_at uuid;
  v_depth int;
  v_session uuid;
  v_found int;
BEGIN
  SELECT t.segment_id, t.depth INTO v_at, v_depth FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = p_turn;
  IF NOT EXISTS (SELECT FROM turntree.sessions_holding_turn(p_ws, v_at, v_depth) h (id) WHERE h.id <> p_but) THEN
    SELECT r.session_id INTO v_session FROM turntree.runs r WHERE r.workspace_id = p_ws AND r.id = p_turn;
    IF v_session IS NOT NULL THEN
      RETURN (SELECT p.id FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = v_session AND p.visibility = 'private');
    END IF;
  END IF;
  WHILE v_at IS NOT NULL LOOP
    IF EXISTS (SELECT FROM turntree.sessions_holding_turn(p_ws, v_at, v_depth) h (id) WHERE h.id <> p_but AND NOT EXISTS (SELECT
        FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = h.id AND p.visibility = 'private')) THEN
      RETURN NULL;
    END IF;
    SELECT h.id INTO v_session FROM turntree.sessions_holding_turn(p_ws, v_at, v_depth) h (id)
      JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = h.id WHERE h.id <> p_but
      ORDER BY turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'read') DESC, h.id LIMIT 1;
    IF FOUND THEN
      RETURN v_session;
    END IF;
    SELECT greatest((SELECT max(r.max_depth) FROM turntree.session_reach r
        WHERE r.workspace_id = p_ws AND r.segment_id = v_at AND r.session_id <> p_but),
      (SELECT f.fork_depth FROM turntree.segments f WHERE f.workspace_id = p_ws AND f.parent_id = v_at AND f.fork_depth <= v_depth
        AND EXISTS (SELECT FROM turntree.sessions_holding_turn(p_ws, f.id, f.fork_depth + 1) h (id) WHERE h.id <> p_but)
        ORDER BY f.fork_depth DESC LIMIT 1)) INTO v_found;
    IF v_found IS NOT NULL THEN
      v_depth := v_found;
    ELSE
      SELECT s.parent_id, s.fork_depth INTO v_at, v_depth FROM turntree.segments s WHERE s.workspace_id = p_ws AND s.id = v_at;
    END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Returns the conversation that a session is bound to; null if it is not.
CREATE OR REPLACE FUNCTION turntree.conversation_of(p_ws uuid, p_session uuid) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT b.conversation_id FROM turntree.bound_sessions b WHERE b.workspace_id = p_ws AND b.session_id = p_session
$$;

-- Makes a new session as private as what it is made from, a session or a turn, or as its head: same owner, same
-- grantees, and its creator may continue it. What is made from a session of a conversation is bound to it too. Only the owner may make it public from the start. p_visibility may make
-- a session private that is made from something public: it then belongs to its creator. An imported session belongs
-- to the importer in any case: the importer has the transcript, and what the tool appends next is not for the owner
-- of another copy.
CREATE OR REPLACE FUNCTION turntree.inherit_visibility(
  p_ws uuid, p_session uuid, p_source uuid, p_head uuid, p_visibility text, p_by text, p_at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_at constant text := to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  v_by constant text := turntree.canonical_text(p_by);
  v_source uuid := coalesce((SELECT p.id FROM turntree.programs p
      WHERE p.workspace_id = p_ws AND p.id = p_source AND p.kind = 'session' AND p.visibility = 'private'),
    turntree.private_session_of(p_ws, p_source, p_by, p_session), turntree.private_session_of(p_ws, p_head, p_by, p_session));
  v_owner text := (SELECT p.owner FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = v_source);
  v_conversation constant uuid := turntree.conversation_of(p_ws, v_source);
  g record;
BEGIN
  IF p_visibility = 'public' AND v_conversation IS NOT NULL THEN
    RAISE EXCEPTION 'what was said in a conversation stays in it: leave out --public' USING ERRCODE = '42501';
  ELSIF p_visibility = 'public' AND v_owner <> p_by AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION 'only % opens what was said in a private session of theirs: leave out --public', v_owner USING ERRCODE = '42501';
  ELSIF p_visibility = 'public' OR v_owner IS NULL AND p_visibility IS NULL THEN
    RETURN;
  END IF;
  IF v_owner <> p_by AND EXISTS (SELECT FROM turntree.sessions s
      WHERE s.workspace_id = p_ws AND s.id = p_session AND s.origin IS NOT NULL) THEN
    v_source := NULL;
    v_owner := p_by;
  END IF;
  v_owner := coalesce(v_owner, p_by);
  IF v_conversation IS NOT NULL AND v_source IS NOT NULL THEN
    INSERT INTO turntree.bound_sessions (workspace_id, session_id, conversation_id) VALUES (p_ws, p_session, v_conversation);
  END IF;
  INSERT INTO turntree.programs (workspace_id, id, kind, name, owner, state, visibility, details, created_at, updated_at)
    VALUES (p_ws, p_session, 'session', p_session, v_owner, 'created', 'private', '{}', p_at, p_at);
  PERFORM turntree.add_program_version(p_ws, p_session, 1, sha256('{}'), '{}', '{}', '{}', p_by, v_at);
  -- Before the first event: its writer has to be able to see the session.
  INSERT INTO turntree.program_grants (workspace_id, program_id, grantee, access)
    SELECT p_ws, p_session, x.grantee, x.access FROM turntree.program_grants x
      WHERE x.workspace_id = p_ws AND x.program_id = v_source AND x.grantee <> p_by
    UNION SELECT p_ws, p_session, p_by, 'configure' WHERE p_by <> v_owner AND p_by NOT LIKE 'system:%';
  PERFORM turntree.insert_event(p_ws, p_session, turntree.next_program_seq(p_ws, p_session, 'session'), 'session.configured',
    v_at, '{"by":' || v_by || ',"config":"sha256:' || encode(sha256('{}'), 'hex') || '","kind":"session","name":"' || p_session
    || '","owner":' || turntree.canonical_text(v_owner) || ',"state":"created","version":1,"visibility":"private"}');
  FOR g IN SELECT x.grantee, x.access FROM turntree.program_grants x
      WHERE x.workspace_id = p_ws AND x.program_id = p_session ORDER BY 1, 2 LOOP
    PERFORM turntree.insert_event(p_ws, p_session, turntree.next_program_seq(p_ws, p_session, 'session'), 'program.granted',
      v_at, '{"access":"' || g.access || '","by":' || v_by || ',"to":' || turntree.canonical_text(g.grantee) || '}');
  END LOOP;
END $$;

-- Refuses a name that would make a session the main session of a private agent, NAME:main, unless the agent's owner
-- gives it to a private session: what is said to the agent is as private as the agent. The others learn only that the
-- name is taken.
CREATE OR REPLACE FUNCTION turntree.require_private_main(p_ws uuid, p_name text, p_visibility text, p_by text)
RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  a record;
BEGIN
  SELECT p.name, p.owner INTO a FROM turntree.programs p WHERE p_name LIKE '%:main' AND p.workspace_id = p_ws
    AND p.name = left(p_name, -5) AND p.kind = 'agent' AND p.visibility = 'private';
  IF FOUND AND p_by <> a.owner AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION 'the name % is taken', p_name USING ERRCODE = 'TT001';
  ELSIF FOUND AND p_visibility IS DISTINCT FROM 'private' THEN
    RAISE EXCEPTION '% is the main session of @(%), which is private: so is the session', p_name, a.name USING ERRCODE = 'TT003',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'program.publish', 'program', a.name))::text;
  END IF;
END $$;

-- Returns the visibility of a new session whose label is in the namespace of a program: what principals say to a
-- private program is private unless they decide otherwise. A program that its creator may not invoke does not count.
CREATE OR REPLACE FUNCTION turntree.namespace_visibility(p_ws uuid, p_label text, p_visibility text, p_by text)
RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_visibility text := p_visibility;
BEGIN
  IF p_visibility IS NULL AND EXISTS (SELECT FROM turntree.programs p
      WHERE p.workspace_id = p_ws AND p.name = split_part(p_label, ':', 1) AND p.visibility = 'private'
        AND turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'invoke')) THEN
    v_visibility := 'private';
  END IF;
  IF p_visibility IS DISTINCT FROM 'configured' THEN
    PERFORM turntree.require_private_main(p_ws, p_label, v_visibility, p_by);
  END IF;
  RETURN v_visibility;
END $$;

-- Makes the main session of an agent that has become private as private as the agent, if the agent's owner began it. A
-- session that another principal began stays theirs: nobody hides it from them by naming an agent after it.
CREATE OR REPLACE FUNCTION turntree.close_main_session(p_ws uuid, p_agent text, p_owner text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  s record;
BEGIN
  SELECT n.session_id, p.visibility INTO s FROM turntree.session_names n
    JOIN turntree.session_history h ON h.workspace_id = p_ws AND h.session_id = n.session_id AND h.version = 1
    LEFT JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = n.session_id
    WHERE n.workspace_id = p_ws AND n.name = p_agent || ':main' AND coalesce(p.owner, h.by) = p_owner;
  IF NOT FOUND OR s.visibility = 'private' THEN
    RETURN;
  ELSIF s.visibility IS NULL THEN
    PERFORM turntree.inherit_visibility(p_ws, s.session_id, NULL, NULL, 'private', p_owner, p_at::timestamptz);
    RETURN;
  END IF;
  UPDATE turntree.programs SET visibility = 'private', updated_at = p_at::timestamptz WHERE workspace_id = p_ws AND id = s.session_id;
  PERFORM turntree.insert_event(p_ws, s.session_id, turntree.next_program_seq(p_ws, s.session_id, 'session'),
    'program.visibility_changed', p_at, '{"by":' || turntree.canonical_text(p_by) || ',"visibility":"private"}');
END $$;

-- Refuses to move a session to a turn of another owner's private session, and a public session to any private turn:
-- the owner of a session decides who reads what it holds. Where a session of the same owner was already, nothing is
-- exposed.
CREATE OR REPLACE FUNCTION turntree.forbid_exposure(p_ws uuid, p_session uuid, p_turn uuid)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_detail text;
  v_mover text; -- The owner of the session that moves, if it is private.
  v_owner text;
  v_name text;
  v_conversation uuid;
  v_private uuid;
BEGIN
  IF p_turn IS NULL OR turntree.viewer() LIKE 'system:%' OR NOT EXISTS (SELECT FROM turntree.programs p
      WHERE p.workspace_id = p_ws AND p.kind = 'session' AND p.visibility = 'private') THEN
    RETURN;
  END IF;
  SELECT p.owner INTO v_mover FROM turntree.programs p
    WHERE p.workspace_id = p_ws AND p.id = p_session AND p.visibility = 'private';
  v_conversation := turntree.conversation_of(p_ws, p_session);
  IF v_conversation IS NOT NULL AND EXISTS (SELECT FROM turntree.turns t,
      LATERAL turntree.sessions_holding_turn(p_ws, t.segment_id, t.depth) h (id)
      WHERE t.workspace_id = p_ws AND t.id = p_turn AND turntree.conversation_of(p_ws, h.id) = v_conversation) THEN
    RETURN;
  ELSIF v_conversation IS NULL AND v_mover IS NOT NULL AND EXISTS (SELECT FROM turntree.turns t,
      LATERAL turntree.sessions_holding_turn(p_ws, t.segment_id, t.depth) h (id)
      JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = h.id AND p.owner = v_mover
      WHERE t.workspace_id = p_ws AND t.id = p_turn) THEN
    RETURN;
  END IF;
  v_private := turntree.private_session_of(p_ws, p_turn,
    turntree.viewer(), CASE WHEN v_mover IS NULL THEN '00000000-0000-0000-0000-000000000000' ELSE p_session END);
  SELECT p.owner INTO v_owner FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = v_private;
  IF v_owner IS NULL OR v_owner = v_mover AND v_conversation IS NOT DISTINCT FROM turntree.conversation_of(p_ws, v_private) THEN
    RETURN;
  END IF;
  SELECT n.name INTO v_name FROM turntree.session_names n
    WHERE n.workspace_id = p_ws AND n.session_id = p_session AND n.reason IS NULL;
  v_detail := jsonb_build_object('hint', jsonb_build_object('action', 'session.fork', 'revision', p_turn));
  IF v_mover IS NULL THEN
    RAISE EXCEPTION 'the session % is public and the turn % is private: the whole workspace would read it there', v_name, p_turn
      USING ERRCODE = 'TT003', DETAIL = v_detail;
  END IF;
  RAISE EXCEPTION 'the turn % is private and %''s, and the session % is %''s, who could publish it there',
    p_turn, v_owner, v_name, v_mover USING ERRCODE = 'TT003', DETAIL = v_detail;
END $$;

-- What the viewer may see, evaluated as the searcher, from whom the tables that these checks read hide nothing. A
-- reader cannot see a hidden run, and so could not find out which session it belongs to. The searcher's own policies
-- limit the answers to the workspace of the connection.
CREATE OR REPLACE FUNCTION turntree.reader_can_see_all() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp AS $$ SELECT turntree.can_see_all_programs() $$;

CREATE OR REPLACE FUNCTION turntree.reader_can_see(p_ws uuid, p_stream uuid) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp COST 1000 AS $$ SELECT NOT turntree.is_stream_hidden(p_ws, p_stream) $$;

-- Returns the programs that decide who reads some streams: their own, the sessions of their runs and those that hold
-- their turns, the conversations of these sessions, and what those were forked from. Null among them says that this
-- cannot be known from here: no session holds a turn, and the nearest held one above it decides.
CREATE OR REPLACE FUNCTION turntree.programs_deciding(p_ws uuid, p_streams uuid[]) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  WITH RECURSIVE held (turn_id, session_id) AS (
    SELECT t.id, h.id FROM turntree.turns t
      LEFT JOIN LATERAL turntree.sessions_holding_turn(p_ws, t.segment_id, t.depth) h (id) ON true
      WHERE t.workspace_id = p_ws AND t.id = ANY (p_streams)
  ), deciding (id) AS (
    SELECT d.id FROM (SELECT unnest(p_streams)
      UNION ALL SELECT r.session_id FROM turntree.runs r
        WHERE r.workspace_id = p_ws AND r.id = ANY (p_streams) AND r.session_id IS NOT NULL
      UNION ALL SELECT h.session_id FROM held h WHERE h.session_id IS NOT NULL OR NOT EXISTS (SELECT FROM turntree.runs r
        WHERE r.workspace_id = p_ws AND r.id = h.turn_id AND r.session_id IS NOT NULL)) d (id)
    UNION
    SELECT n.id FROM deciding d, LATERAL (
      SELECT b.conversation_id FROM turntree.bound_sessions b WHERE b.workspace_id = p_ws AND b.session_id = d.id
      UNION ALL SELECT c.parent_id FROM turntree.conversations c
        WHERE c.workspace_id = p_ws AND c.id = d.id AND c.parent_id IS NOT NULL) n (id)
  )
  SELECT id FROM deciding
$$;

-- Returns viewers in groups of which one answer about some streams holds for all. Access depends on a person's name in
-- three places only: the owners, the grants and the participants of the programs that decide. People of whom these say
-- the same are a group; an agent that acts for a person, and any other viewer, is one by itself.
CREATE OR REPLACE FUNCTION turntree.group_viewers(p_ws uuid, p_viewers text[], p_streams uuid[])
RETURNS TABLE (viewers text[]) LANGUAGE sql STABLE AS $$
  WITH deciding AS MATERIALIZED (
    SELECT d.id FROM turntree.programs_deciding(p_ws, p_streams) d (id)
  ), named (viewer, what) AS (
    SELECT p.owner, 'owner ' || p.id FROM deciding d JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = d.id
    UNION ALL SELECT g.grantee, g.access || ' ' || g.program_id FROM deciding d
      JOIN turntree.program_grants g ON g.workspace_id = p_ws AND g.program_id = d.id
    UNION ALL SELECT x.principal, 'participant ' || x.conversation_id FROM deciding d
      JOIN turntree.participants x ON x.workspace_id = p_ws AND x.conversation_id = d.id AND x.removed_at IS NULL
  )
  SELECT array_agg(v.viewer) FROM (
    SELECT w.viewer, array_agg(n.what ORDER BY n.what) AS what,
        CASE WHEN w.viewer NOT LIKE 'human:%' OR w.viewer LIKE '% for %' OR EXISTS (SELECT FROM deciding d WHERE d.id IS NULL)
          THEN w.viewer END AS alone
      FROM unnest(p_viewers) w (viewer) LEFT JOIN named n ON n.viewer = w.viewer GROUP BY w.viewer) v
    GROUP BY v.what, v.alone
$$;

-- Returns which of some streams viewers may read, by groups that may read the same, in one statement: the server asks
-- this for all who listen to a workspace. One evaluation of the rules for each of 1000 listeners took 1.5 s.
CREATE OR REPLACE FUNCTION turntree.list_visible_by_group(p_ws uuid, p_viewers text[], p_streams uuid[])
RETURNS TABLE (viewers text[], streams text[]) LANGUAGE plpgsql AS $$
DECLARE
  v_before constant text := current_setting('turntree.viewer', true);
  -- Before the viewer changes: the groups are made as the one who asks sees the programs.
  v_groups constant jsonb := (SELECT coalesce(jsonb_agg(g.viewers), '[]') FROM turntree.group_viewers(p_ws, p_viewers, p_streams) g);
BEGIN
  FOR viewers IN SELECT ARRAY(SELECT jsonb_array_elements_text(g)) FROM jsonb_array_elements(v_groups) g LOOP
    PERFORM set_config('turntree.viewer', viewers[1], true);
    streams := ARRAY(SELECT s.id::text FROM unnest(p_streams) s (id) WHERE turntree.reader_can_see(p_ws, s.id));
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('turntree.viewer', v_before, true);
END $$;

-- The same for a turn, by its id. A turn that a visible session holds is visible there, even if its run's own session
-- and therefore the run's events are hidden. What has no turn yet is as visible as its run.
CREATE OR REPLACE FUNCTION turntree.reader_can_see_turn(p_ws uuid, p_turn uuid) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp COST 1000 AS $$
  SELECT CASE WHEN EXISTS (SELECT FROM turntree.turn_bodies b WHERE b.workspace_id = p_ws AND b.turn_id = p_turn)
    THEN turntree.can_see_turn(p_ws, p_turn) ELSE NOT turntree.is_stream_hidden(p_ws, p_turn) END
$$;

-- A segment is visible to the viewers of its first turn: a session that holds any of its turns holds that one.
CREATE OR REPLACE FUNCTION turntree.reader_can_see_segment(p_ws uuid, p_segment uuid, p_fork_depth int)
RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp COST 1000 AS $$
  SELECT NOT turntree.is_turn_hidden(p_ws, p_segment, p_segment, p_fork_depth + 1, turntree.viewer())
$$;

-- Whether an object may be read: by a principal who stored its bytes, or who can see a turn, run or program that
-- refers to it. An object that nothing refers to is visible: a manifest, an entry of one, a list of a plan. So is the
-- empty config: it reveals nothing, and any number of programs refer to it.
CREATE OR REPLACE FUNCTION turntree.reader_can_see_object(p_ws uuid, p_digest bytea) RETURNS boolean LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, turntree, pg_temp COST 1000 AS $$
DECLARE
  v_stream uuid;
BEGIN
  IF p_digest = sha256('{}') OR EXISTS (SELECT FROM turntree.object_writers w
      WHERE w.workspace_id = p_ws AND w.digest = p_digest AND w.by = turntree.viewer()) THEN
    RETURN true;
  END IF;
  FOR v_stream IN SELECT h.turn_id FROM turntree.object_holders h WHERE h.workspace_id = p_ws AND h.digest = p_digest
      UNION ALL SELECT v.program_id FROM turntree.program_versions v WHERE v.workspace_id = p_ws AND v.digest = p_digest LOOP
    -- A queued message has the id of a run that does not exist yet.
    IF turntree.reader_can_see_turn(p_ws, v_stream) AND NOT EXISTS (SELECT FROM turntree.queued_messages i WHERE i.workspace_id = p_ws
        AND i.run_id = v_stream AND i.payload IS NOT NULL AND turntree.is_program_hidden(p_ws, i.session_id, turntree.viewer())) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN NOT FOUND;
END $$;
