-- Sessions: every move is typed, checked, logged and recorded in one transaction.

-- Returns what a principal's idempotency key led to, or nulls if it is new. Two principals may use the same key. A
-- key returns the call it was first used for: for another session or another kind of move it raises, because
-- returning the old result would hide that nothing was done.
CREATE OR REPLACE FUNCTION turntree.find_idempotent_result(
  p_ws uuid, p_by text, p_key text, p_session uuid, p_kinds text[], OUT session_id uuid, OUT version int, OUT head uuid)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_kind text;
BEGIN
  SELECT i.session_id, i.version, h.after_id, h.kind INTO session_id, version, head, v_kind
    FROM turntree.idempotency_keys i
    JOIN turntree.session_history h ON h.workspace_id = i.workspace_id
      AND h.session_id = i.session_id AND h.version = i.version
    WHERE i.workspace_id = p_ws AND i.by = p_by AND i.idempotency_key = p_key;
  IF v_kind <> ALL (p_kinds) OR session_id <> p_session THEN
    RAISE EXCEPTION 'the key % was used for something else: % of session %', p_key, v_kind, session_id
      USING ERRCODE = 'TT003';
  END IF;
END $$;

-- Returns the data of the event that records a move.
CREATE OR REPLACE FUNCTION turntree.move_data(p_kind text, p_before uuid, p_after uuid, p_by text, p_version int)
RETURNS text LANGUAGE sql STABLE AS $$
  SELECT '{"after":' || coalesce('"' || p_after || '"', 'null') || ',"before":' || coalesce('"' || p_before || '"', 'null')
    || ',"by":' || turntree.canonical_text(p_by) || ',"move":"' || p_kind || '","version":' || p_version || '}'
$$;

-- Records the greatest depth that a session has reached in a segment.
CREATE OR REPLACE FUNCTION turntree.log_reach(p_ws uuid, p_session uuid, p_segment uuid, p_depth int)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.session_reach AS r (workspace_id, segment_id, session_id, max_depth)
    VALUES (p_ws, p_segment, p_session, p_depth)
    ON CONFLICT (workspace_id, segment_id, session_id)
    DO UPDATE SET max_depth = excluded.max_depth WHERE r.max_depth < excluded.max_depth;
END $$;

-- Logs the move of a locked session: reflog, reach, event and, with an idempotency key, the result.
CREATE OR REPLACE FUNCTION turntree.log_move(
  p_ws uuid, p_session uuid, p_version int, p_event_seq int, p_kind text, p_before uuid, p_after uuid,
  p_segment uuid, p_depth int, p_by text, p_at text, p_key text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.session_history (workspace_id, session_id, version, kind, before_id, after_id, by, changed_at)
    VALUES (p_ws, p_session, p_version, p_kind, p_before, p_after, p_by, p_at::timestamptz);
  IF p_segment IS NOT NULL THEN
    PERFORM turntree.log_reach(p_ws, p_session, p_segment, p_depth);
  END IF;
  PERFORM turntree.insert_event(p_ws, p_session, p_event_seq, 'session.head_moved', p_at,
    turntree.move_data(p_kind, p_before, p_after, p_by, p_version));
  IF p_key IS NOT NULL THEN
    INSERT INTO turntree.idempotency_keys (workspace_id, by, idempotency_key, session_id, version)
      VALUES (p_ws, p_by, p_key, p_session, p_version);
  END IF;
END $$;

-- Creates a session, empty (p_head null) or at any turn (a fork: nothing is copied), with its first event (p_id,
-- p_body). It inherits the visibility of p_source, the session or turn it is made from, and of its head, or that of the
-- program in whose namespace its label is, unless p_visibility overrides it; 'configured' leaves it to the program that
-- the caller creates in the same transaction. Forking is as hot as appending. The function therefore returns nothing, because the
-- caller knows the result, and repeats the statements of log_move in line.
CREATE OR REPLACE FUNCTION turntree.insert_session(
  p_ws uuid, p_session uuid, p_label text, p_head uuid, p_by text, p_at timestamptz,
  p_id bytea, p_body text, p_origin text, p_origin_session text, p_source uuid, p_visibility text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_visibility constant text := CASE WHEN p_label LIKE '%:%' THEN turntree.namespace_visibility(p_ws, p_label, p_visibility, p_by)
    ELSE p_visibility END;
BEGIN
  PERFORM turntree.require_member(p_ws, NULL, 'create');
  IF p_head IS NOT NULL THEN
    INSERT INTO turntree.session_reach (workspace_id, segment_id, session_id, max_depth)
      SELECT p_ws, t.segment_id, p_session, t.depth
        FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = p_head;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'there is no turn %', p_head USING ERRCODE = 'TT002';
    END IF;
  END IF;
  INSERT INTO turntree.sessions (workspace_id, id, head_id, version, event_seq, created_at, updated_at,
      origin, origin_session_id, imported_by)
    VALUES (p_ws, p_session, p_head, 1, 1, p_at, p_at, p_origin, p_origin_session,
      CASE WHEN p_origin IS NOT NULL THEN p_by END);
  INSERT INTO turntree.session_names (workspace_id, name, session_id) VALUES (p_ws, p_label, p_session)
    ON CONFLICT (workspace_id, name) DO NOTHING;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the name % is taken', p_label USING ERRCODE = 'TT001';
  END IF;
  INSERT INTO turntree.session_history (workspace_id, session_id, version, kind, after_id, by, changed_at)
    VALUES (p_ws, p_session, 1, CASE WHEN p_head IS NULL THEN 'create' ELSE 'fork' END, p_head, p_by, p_at);
  INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body)
    VALUES (p_ws, p_session, 0, p_id, 'session.created', p_body);
  IF v_visibility IN ('public', 'private') OR v_visibility IS NULL AND coalesce(p_source, p_head) IS NOT NULL
      AND EXISTS (SELECT FROM turntree.programs p
        WHERE p.workspace_id = p_ws AND p.kind = 'session' AND p.visibility = 'private') THEN
    PERFORM turntree.inherit_visibility(p_ws, p_session, p_source, p_head, v_visibility, p_by, p_at);
  END IF;
END $$;

-- The same for a process of the previous release, which does not name a source.
CREATE OR REPLACE FUNCTION turntree.insert_session(
  p_ws uuid, p_session uuid, p_label text, p_head uuid, p_by text, p_at timestamptz,
  p_id bytea, p_body text, p_origin text, p_origin_session text)
RETURNS void LANGUAGE sql AS $$
  SELECT turntree.insert_session(p_ws, p_session, p_label, p_head, p_by, p_at, p_id, p_body, p_origin, p_origin_session, NULL, NULL)
$$;

-- Creates a session that is spawned by a tool call, or created only once under an idempotency key.
CREATE OR REPLACE FUNCTION turntree.create_session(
  p_ws uuid, p_session uuid, p_label text, p_head uuid, p_by text, p_at timestamptz,
  p_id bytea, p_body text, p_origin text, p_origin_session text, p_source uuid, p_visibility text, p_key text,
  p_parent_session uuid, p_parent_turn uuid, p_call text, p_mode text, p_task text,
  OUT session_id uuid, OUT version int, OUT head uuid, OUT repeated boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  IF p_key IS NOT NULL THEN
    SELECT a.session_id, a.version, a.head INTO session_id, version, head
      FROM turntree.find_idempotent_result(p_ws, p_by, p_key, NULL, ARRAY['create', 'fork']) a WHERE a.session_id IS NOT NULL;
    repeated := FOUND;
    IF repeated THEN RETURN; END IF;
  END IF;
  PERFORM turntree.insert_session(p_ws, p_session, p_label, p_head, p_by, p_at, p_id, p_body, p_origin, p_origin_session,
    coalesce(p_parent_session, p_source), p_visibility);
  IF p_parent_session IS NOT NULL THEN
    INSERT INTO turntree.spawns (workspace_id, session_id, parent_session_id, parent_turn_id, call_id, mode, task)
      VALUES (p_ws, p_session, p_parent_session, p_parent_turn, p_call, p_mode, p_task);
    PERFORM turntree.record_session_event(p_ws, p_parent_session, 'session.spawned',
      to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      '{"by":' || turntree.canonical_text(p_by) || ',"call_id":' || turntree.canonical_text(p_call) || ',"session":"' || p_session
        || '","turn":"' || p_parent_turn || '"}');
  END IF;
  IF p_key IS NOT NULL THEN
    INSERT INTO turntree.idempotency_keys (workspace_id, by, idempotency_key, session_id, version) VALUES (p_ws, p_by, p_key, p_session, 1);
  END IF;
  session_id := p_session; version := 1; head := p_head; repeated := false;
END $$;

-- The same for a process of the previous release.
CREATE OR REPLACE FUNCTION turntree.create_session(
  p_ws uuid, p_session uuid, p_label text, p_head uuid, p_by text, p_at timestamptz,
  p_id bytea, p_body text, p_origin text, p_origin_session text, p_key text,
  p_parent_session uuid, p_parent_turn uuid, p_call text, p_mode text, p_task text,
  OUT session_id uuid, OUT version int, OUT head uuid, OUT repeated boolean)
LANGUAGE sql AS $$
  SELECT * FROM turntree.create_session(p_ws, p_session, p_label, p_head, p_by, p_at, p_id, p_body, p_origin,
    p_origin_session, NULL, NULL, p_key, p_parent_session, p_parent_turn, p_call, p_mode, p_task)
$$;

-- Moves a session to another turn. If p_check is set, p_expected must still be its head.
--   rewind  to an ancestor of the head, or to no turn, as before the first one
--   reset   to any turn; import and handoff do the same, because they follow a tool
--   undo    to the head before the newest move that was not undone; p_target is ignored
CREATE OR REPLACE FUNCTION turntree.move_session(
  p_ws uuid, p_session uuid, p_kind text, p_target uuid, p_check boolean, p_expected uuid,
  p_by text, p_at text, p_key text,
  OUT session_id uuid, OUT version int, OUT before uuid, OUT head uuid, OUT repeated boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  s record;
  v_target uuid := p_target;
  v_segment uuid;
  v_depth int;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke'), turntree.refuse_bound_session(p_ws, p_session);
  SELECT x.id, x.head_id, x.version, x.event_seq INTO s FROM turntree.sessions x
    WHERE x.workspace_id = p_ws AND x.id = p_session FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002';
  END IF;
  IF p_key IS NOT NULL THEN
    SELECT a.session_id, a.version, a.head INTO session_id, version, head
      FROM turntree.find_idempotent_result(p_ws, p_by, p_key, p_session, ARRAY[p_kind]) a WHERE a.session_id IS NOT NULL;
    repeated := FOUND;
    IF repeated THEN RETURN; END IF;
  END IF;
  IF p_check AND s.head_id IS DISTINCT FROM p_expected THEN
    RAISE EXCEPTION 'the session stands at %, not at %', coalesce(s.head_id::text, 'no turn'), coalesce(p_expected::text, 'no turn')
      USING ERRCODE = 'TT001';
  END IF;
  IF p_kind = 'undo' THEN
    v_target := turntree.undo_target(p_ws, p_session);
  ELSIF p_kind = 'rewind' AND p_target IS NULL AND s.head_id IS NULL THEN
    RAISE EXCEPTION 'the session stands at no turn already' USING ERRCODE = 'TT003';
  ELSIF p_kind = 'rewind' AND p_target IS NOT NULL AND NOT coalesce(
      turntree.is_ancestor(p_ws, p_target, s.head_id) AND p_target <> s.head_id, false) THEN
    RAISE EXCEPTION 'a session rewinds to an ancestor of its head, and % is none', p_target USING ERRCODE = 'TT003';
  END IF;
  SELECT t.segment_id, t.depth INTO v_segment, v_depth
    FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = v_target;
  IF NOT FOUND AND NOT (v_target IS NULL AND p_kind IN ('undo', 'rewind')) THEN
    RAISE EXCEPTION 'there is no turn %', v_target USING ERRCODE = 'TT002';
  END IF;
  PERFORM turntree.forbid_exposure(p_ws, p_session, v_target);
  UPDATE turntree.sessions x SET head_id = v_target, version = s.version + 1, event_seq = s.event_seq + 1,
      updated_at = p_at::timestamptz
    WHERE x.workspace_id = p_ws AND x.id = p_session;
  PERFORM turntree.log_move(p_ws, p_session, s.version + 1, s.event_seq, p_kind, s.head_id, v_target,
    v_segment, v_depth, p_by, p_at, p_key);
  session_id := p_session; version := s.version + 1; before := s.head_id; head := v_target; repeated := false;
END $$;

-- Returns the head that the next undo restores. Skips moves that were already undone.
CREATE OR REPLACE FUNCTION turntree.undo_target(p_ws uuid, p_session uuid)
RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  m record;
  v_skip int := 0;
BEGIN
  FOR m IN SELECT kind, before_id FROM turntree.session_history
      WHERE workspace_id = p_ws AND session_id = p_session ORDER BY version DESC LOOP
    IF m.kind IN ('create', 'fork') THEN
      EXIT;
    ELSIF m.kind = 'undo' THEN
      v_skip := v_skip + 1;
    ELSIF v_skip > 0 THEN
      v_skip := v_skip - 1;
    ELSE
      RETURN m.before_id;
    END IF;
  END LOOP;
  RAISE EXCEPTION 'there is nothing to undo' USING ERRCODE = 'TT003';
END $$;

-- Gives a session another name. With p_as_label, p_name becomes the label and the old label stays as an alias with
-- p_reason; without, p_name becomes an alias.
CREATE OR REPLACE FUNCTION turntree.name_session(
  p_ws uuid, p_session uuid, p_name text, p_as_label boolean, p_reason text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
  v_label text;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'configure'), turntree.require_private_main(
    p_ws, p_name, (SELECT p.visibility FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_session), p_by);
  UPDATE turntree.sessions SET event_seq = event_seq + 1
    WHERE workspace_id = p_ws AND id = p_session RETURNING event_seq - 1 INTO v_seq;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002';
  END IF;
  SELECT name INTO v_label FROM turntree.session_names
    WHERE workspace_id = p_ws AND session_id = p_session AND reason IS NULL;
  BEGIN
    IF p_as_label AND v_label <> p_name THEN
      UPDATE turntree.session_names SET reason = p_reason WHERE workspace_id = p_ws AND name = v_label;
      INSERT INTO turntree.session_names (workspace_id, name, session_id) VALUES (p_ws, p_name, p_session)
        ON CONFLICT (workspace_id, name) DO UPDATE SET reason = NULL WHERE session_names.session_id = p_session;
    ELSE
      INSERT INTO turntree.session_names (workspace_id, name, session_id, reason)
        VALUES (p_ws, p_name, p_session, p_reason) ON CONFLICT (workspace_id, name) DO NOTHING;
    END IF;
  EXCEPTION WHEN insufficient_privilege THEN
    -- The name belongs to a hidden session: reveal only that it is taken.
    RAISE EXCEPTION 'the name % is taken', p_name USING ERRCODE = 'TT001';
  END;
  -- Checked only now: a transaction that took the name while this one waited has committed.
  IF NOT EXISTS (SELECT FROM turntree.session_names WHERE workspace_id = p_ws AND name = p_name AND session_id = p_session) THEN
    RAISE EXCEPTION 'the name % is taken', p_name USING ERRCODE = 'TT001';
  END IF;
  PERFORM turntree.insert_event(p_ws, p_session, v_seq, CASE WHEN p_as_label THEN 'session.renamed' ELSE 'session.aliased' END,
    p_at, '{"by":' || turntree.canonical_text(p_by) || ',"name":' || turntree.canonical_text(p_name)
    || ',"reason":"' || p_reason || '"}');
END $$;

-- Merges two sessions that turn out to be one: all names of p_other now point to p_session. The other session keeps
-- its head and its reflog under p_kept_label, archived.
CREATE OR REPLACE FUNCTION turntree.merge_sessions(
  p_ws uuid, p_session uuid, p_other uuid, p_kept_label text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
  v_other_seq int;
BEGIN
  IF p_session = p_other THEN
    RAISE EXCEPTION 'a session cannot be merged into itself' USING ERRCODE = 'TT003';
  END IF;
  PERFORM turntree.require_session_access(p_ws, p_session, 'configure'), turntree.require_session_access(p_ws, p_other, 'configure');
  -- Always lock in the same order, so that two merges cannot deadlock.
  PERFORM FROM turntree.sessions WHERE workspace_id = p_ws AND id IN (p_session, p_other) ORDER BY id FOR NO KEY UPDATE;
  UPDATE turntree.sessions SET event_seq = event_seq + 1
    WHERE workspace_id = p_ws AND id = p_session RETURNING event_seq - 1 INTO v_seq;
  UPDATE turntree.sessions SET event_seq = event_seq + 1, status = 'archived', updated_at = p_at::timestamptz
    WHERE workspace_id = p_ws AND id = p_other RETURNING event_seq - 1 INTO v_other_seq;
  IF v_seq IS NULL OR v_other_seq IS NULL THEN
    RAISE EXCEPTION 'there is no such session' USING ERRCODE = 'TT002';
  END IF;
  UPDATE turntree.session_names SET session_id = p_session, reason = 'identity_merge'
    WHERE workspace_id = p_ws AND session_id = p_other AND reason IS NOT NULL;
  UPDATE turntree.session_names SET session_id = p_session, reason = 'identity_merge'
    WHERE workspace_id = p_ws AND session_id = p_other AND reason IS NULL;
  INSERT INTO turntree.session_names (workspace_id, name, session_id) VALUES (p_ws, p_kept_label, p_other);
  PERFORM turntree.insert_event(p_ws, p_session, v_seq, 'session.merged', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"from":"' || p_other || '"}');
  PERFORM turntree.insert_event(p_ws, p_other, v_other_seq, 'session.merged', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"into":"' || p_session || '"}');
EXCEPTION WHEN unique_violation THEN
  RAISE EXCEPTION 'the name % is taken', p_kept_label USING ERRCODE = 'TT001';
END $$;

-- Archives a session, marks it deleted or makes it active again. Its turns stay in any case.
CREATE OR REPLACE FUNCTION turntree.set_session_status(p_ws uuid, p_session uuid, p_status text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'configure');
  UPDATE turntree.sessions SET event_seq = event_seq + 1, status = p_status, updated_at = p_at::timestamptz
    WHERE workspace_id = p_ws AND id = p_session AND status <> p_status RETURNING event_seq - 1 INTO v_seq;
  IF v_seq IS NULL THEN
    IF NOT EXISTS (SELECT FROM turntree.sessions WHERE workspace_id = p_ws AND id = p_session) THEN
      RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002';
    END IF;
    RETURN;
  END IF;
  PERFORM turntree.insert_event(p_ws, p_session, v_seq, CASE WHEN p_status = 'active' THEN 'session.unarchived' ELSE 'session.archived' END,
    p_at, '{"by":' || turntree.canonical_text(p_by) || ',"status":"' || p_status || '"}');
END $$;

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
