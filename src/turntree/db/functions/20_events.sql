-- Events: immutable records, each at its position in a stream.

-- Returns the canonical document of an event whose data is already canonical. The members are in sorted order and
-- each value is a word, a number or an id, so plain concatenation yields RFC 8785. Stable, as its operators are:
-- declared immutable it could not be inlined and would cost more.
CREATE OR REPLACE FUNCTION turntree.event_body(p_stream uuid, p_seq int, p_kind text, p_at text, p_data text)
RETURNS text LANGUAGE sql STABLE AS $$
  SELECT '{"at":"' || p_at || '","data":' || p_data || ',"kind":"' || p_kind || '","seq":' || p_seq
    || ',"stream":"' || p_stream || '","turntree":"event/1"}'
$$;

-- Returns a canonical JSON string, or null. PostgreSQL escapes text exactly as RFC 8785 requires.
CREATE OR REPLACE FUNCTION turntree.canonical_text(p_text text)
RETURNS text LANGUAGE sql STABLE AS $$ SELECT coalesce(to_json(p_text)::text, 'null') $$;

CREATE OR REPLACE FUNCTION turntree.insert_event(p_ws uuid, p_stream uuid, p_seq int, p_kind text, p_at text, p_data text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_body constant text := turntree.event_body(p_stream, p_seq, p_kind, p_at, p_data);
BEGIN
  INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body)
    VALUES (p_ws, p_stream, p_seq, sha256(convert_to(v_body, 'UTF8')), p_kind, v_body);
END $$;

-- Records which objects a turn, or the run that becomes it, refers to. Refuses an object that is hidden from the
-- viewer: otherwise a message could expose an object of a private session by naming its digest.
CREATE OR REPLACE FUNCTION turntree.hold_objects(p_ws uuid, p_turn uuid, p_messages text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_sees_all constant boolean := turntree.can_see_all_programs();
  v_digest bytea;
BEGIN
  FOR v_digest IN SELECT turntree.objects_in(p_messages) LOOP
    IF NOT (v_sees_all OR turntree.reader_can_see_object(p_ws, v_digest)) THEN
      RAISE EXCEPTION 'there is no object sha256:%', encode(v_digest, 'hex') USING ERRCODE = 'TT002';
    END IF;
    INSERT INTO turntree.object_holders (workspace_id, turn_id, digest) VALUES (p_ws, p_turn, v_digest) ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- Stores bytes under their digest, once, and records who stored them.
CREATE OR REPLACE FUNCTION turntree.put_object(p_ws uuid, p_digest bytea, p_bytes bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_by constant text := turntree.viewer();
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'create');
  INSERT INTO turntree.objects (workspace_id, digest, bytes) VALUES (p_ws, p_digest, p_bytes) ON CONFLICT DO NOTHING;
  IF v_by NOT LIKE 'system:%' THEN
    INSERT INTO turntree.object_writers (workspace_id, digest, by) VALUES (p_ws, p_digest, v_by) ON CONFLICT DO NOTHING;
  END IF;
END $$;

-- Appends an event at its position. Returns true if it is new, false if the same event is already there. p_epoch
-- fences a run: a worker that lost the run to another one is refused here.
CREATE OR REPLACE FUNCTION turntree.append_event(
  p_ws uuid, p_stream uuid, p_seq int, p_id bytea, p_kind text, p_body text, p_payload text, p_epoch int)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_id bytea;
  v_epoch int;
  v_status text;
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'create');
  IF p_stream = turntree.workspace_stream() THEN
    RAISE EXCEPTION 'no event can be appended to the stream of the workspace itself' USING ERRCODE = '42501';
  END IF;
  IF p_epoch IS NOT NULL THEN
    SELECT epoch, status INTO v_epoch, v_status FROM turntree.runs
      WHERE workspace_id = p_ws AND id = p_stream FOR NO KEY UPDATE;
    IF v_epoch IS NULL THEN
      RAISE EXCEPTION 'there is no run %', p_stream USING ERRCODE = 'TT002';
    END IF;
  END IF;
  SELECT id INTO v_id FROM turntree.events
    WHERE workspace_id = p_ws AND stream_id = p_stream AND seq = p_seq;
  IF v_id = p_id THEN
    RETURN false;
  ELSIF v_id IS NOT NULL THEN
    RAISE EXCEPTION 'another fact holds place % of %', p_seq, p_stream USING ERRCODE = 'TT001';
  ELSIF v_epoch <> p_epoch THEN
    RAISE EXCEPTION 'the run % was taken over: epoch % is over, it is now %', p_stream, p_epoch, v_epoch
      USING ERRCODE = 'TT001';
  ELSIF v_status = 'finished' THEN
    RAISE EXCEPTION 'the run % is finished', p_stream USING ERRCODE = 'TT003';
  END IF;
  IF p_seq > 0 AND NOT EXISTS (SELECT FROM turntree.events
      WHERE workspace_id = p_ws AND stream_id = p_stream AND seq = p_seq - 1) THEN
    RAISE EXCEPTION 'place % of % comes before place % is taken', p_seq, p_stream, p_seq - 1
      USING ERRCODE = 'TT003';
  END IF;
  INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body)
    VALUES (p_ws, p_stream, p_seq, p_id, p_kind, p_body)
    ON CONFLICT (workspace_id, stream_id, seq) DO NOTHING;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'another fact took place % of %', p_seq, p_stream USING ERRCODE = 'TT001';
  END IF;
  IF turntree.has_links(p_kind, p_body) THEN
    PERFORM turntree.insert_links(p_ws, p_stream, p_seq);
  END IF;
  IF p_payload IS NOT NULL THEN
    INSERT INTO turntree.run_payloads (workspace_id, run_id, seq, payload)
      VALUES (p_ws, p_stream, p_seq, p_payload);
    IF position('"object":"sha256:' IN p_payload) > 0 THEN
      PERFORM turntree.hold_objects(p_ws, p_stream, p_payload);
    END IF;
  END IF;
  RETURN true;
END $$;

-- Appends an event to a stream that no row numbers, such as a plan's or a sealed turn's. An advisory lock serializes
-- the writers.
CREATE OR REPLACE FUNCTION turntree.record_event(p_ws uuid, p_stream uuid, p_kind text, p_at text, p_data text)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('turntree:stream:' || p_stream, 0));
  SELECT coalesce(max(seq) + 1, 0) INTO v_seq FROM turntree.events WHERE workspace_id = p_ws AND stream_id = p_stream;
  PERFORM turntree.insert_event(p_ws, p_stream, v_seq, p_kind, p_at, p_data);
  IF turntree.has_links(p_kind, p_data) THEN
    PERFORM turntree.insert_links(p_ws, p_stream, v_seq);
  END IF;
  RETURN v_seq;
END $$;

-- The same for a session, whose row numbers its events.
CREATE OR REPLACE FUNCTION turntree.record_session_event(p_ws uuid, p_session uuid, p_kind text, p_at text, p_data text)
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
  IF turntree.has_links(p_kind, p_data) THEN
    PERFORM turntree.insert_links(p_ws, p_session, v_seq);
  END IF;
END $$;

-- Starts a run, with its first event. A session has at most one open run.
CREATE OR REPLACE FUNCTION turntree.start_run(
  p_ws uuid, p_run uuid, p_session uuid, p_at text, p_id bytea, p_body text, p_payload text)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_epoch int;
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke');
  SELECT epoch INTO v_epoch FROM turntree.runs WHERE workspace_id = p_ws AND id = p_run;
  IF v_epoch IS NULL THEN
    INSERT INTO turntree.runs (workspace_id, id, session_id, started_at)
      VALUES (p_ws, p_run, p_session, p_at::timestamptz);
    v_epoch := 1;
  END IF;
  PERFORM turntree.append_event(p_ws, p_run, 0, p_id, 'run.started', p_body, p_payload, NULL);
  RETURN v_epoch;
EXCEPTION WHEN unique_violation THEN
  RAISE EXCEPTION 'the session has another open run' USING ERRCODE = 'TT001';
END $$;

-- Claims a run from a worker that may be dead. Returns the epoch to write under.
CREATE OR REPLACE FUNCTION turntree.claim_run(p_ws uuid, p_run uuid)
RETURNS int LANGUAGE sql AS $$
  UPDATE turntree.runs SET epoch = epoch + 1
    WHERE workspace_id = p_ws AND id = p_run AND status <> 'finished' RETURNING epoch
$$;

-- Adds a tag to a turn or a program, or removes it. Does nothing if that is already so.
CREATE OR REPLACE FUNCTION turntree.set_tag(
  p_ws uuid, p_node uuid, p_tag text, p_on boolean, p_by text, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
  v_kind text;
  v_name text;
  v_may boolean;
BEGIN
  IF EXISTS (SELECT FROM turntree.turns WHERE workspace_id = p_ws AND id = p_node) THEN
    -- To archive a turn hides it from others, as archiving its session does.
    PERFORM turntree.require_turn_access(p_ws, p_node, CASE p_tag WHEN 'archived' THEN 'configure' ELSE 'invoke' END);
    -- No row numbers the events of a sealed turn, so the advisory lock serializes them.
    PERFORM pg_advisory_xact_lock(hashtextextended('turntree:stream:' || p_node, 0));
  ELSE
    SELECT p.kind, p.name, turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'invoke')
      INTO v_kind, v_name, v_may FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_node
      AND turntree.has_program_access(p_ws, p.id, p.owner, p.visibility, p_by, 'read') FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'there is no turn and no program %', p_node USING ERRCODE = 'TT002';
    ELSIF v_kind = 'session' THEN
      PERFORM turntree.require_session_access(p_ws, p_node, 'invoke');
    ELSIF NOT v_may THEN
      RAISE EXCEPTION '% may read % and not tag it: that takes the right invoke', p_by, v_name USING ERRCODE = '42501';
    ELSE
      PERFORM turntree.require_member(p_ws, p_node, 'invoke');
    END IF;
  END IF;
  IF p_on THEN
    INSERT INTO turntree.tags (workspace_id, node_id, tag) VALUES (p_ws, p_node, p_tag)
      ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM turntree.tags WHERE workspace_id = p_ws AND node_id = p_node AND tag = p_tag;
  END IF;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF v_kind IS NOT NULL THEN
    v_seq := turntree.next_program_seq(p_ws, p_node, v_kind);
  ELSE
    SELECT coalesce(max(seq) + 1, 0) INTO v_seq FROM turntree.events
      WHERE workspace_id = p_ws AND stream_id = p_node;
  END IF;
  PERFORM turntree.insert_event(p_ws, p_node, v_seq, CASE WHEN p_on THEN 'node.tagged' ELSE 'node.untagged' END,
    p_at, '{"by":' || turntree.canonical_text(p_by) || ',"tag":' || turntree.canonical_text(p_tag) || '}');
  RETURN true;
END $$;
