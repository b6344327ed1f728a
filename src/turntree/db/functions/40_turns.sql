-- The hot path: one call stores a sealed turn, advances its session, logs the move and finishes the run, or does
-- nothing at all.
--
-- A turn that is already stored, or an idempotency key that was already used, returns its first result before any
-- head is compared: a caller that lost the acknowledgement may simply repeat the call.
CREATE OR REPLACE FUNCTION turntree.append_turn(
  p_ws uuid, p_turn uuid, p_parent uuid, p_parent_digest bytea, p_digest bytea,
  p_started text, p_sealed text, p_kind text, p_outcome text, p_role text, p_actor text, p_model text, p_provider text,
  p_header text, p_body text,
  p_calls text[],        -- call id, tool, status: three for each call
  p_models text[],       -- model, provider, call id: three for each model call
  p_tokens int[],        -- input, output, cached input, cache write, reasoning: five for each model call
  p_files text[],        -- message, kind, path, first line, last line: five for each file
  p_compaction jsonb,
  p_event_ids bytea[], p_event_kinds text[], p_event_bodies text[],  -- the events that the run's stream still lacks
  p_epoch int,           -- the run's fence, or null for a turn that was recorded elsewhere
  p_session uuid, p_by text, p_at text, p_key text,
  OUT turn_id uuid, OUT depth int, OUT version int, OUT repeated boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_head uuid;
  v_seq int;
  v_segment uuid;
  v_digest bytea;
  v_depth int;
  v_again int;
  v_first int := 0;
  v_moved text;
BEGIN
  IF p_session IS NOT NULL THEN
    -- Before the session's next position is read: it may record that access was used.
    PERFORM turntree.require_session_access(p_ws, p_session, 'invoke'), turntree.refuse_bound_session(p_ws, p_session);
    SELECT s.head_id, s.version + 1, s.event_seq INTO v_head, version, v_seq FROM turntree.sessions s
      WHERE s.workspace_id = p_ws AND s.id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'there is no session %', p_session USING ERRCODE = 'TT002';
    END IF;
  END IF;
  IF p_key IS NOT NULL AND EXISTS (SELECT FROM turntree.idempotency_keys i
      WHERE i.workspace_id = p_ws AND i.by = p_by AND i.idempotency_key = p_key) THEN
    SELECT a.head, a.version, t.depth INTO turn_id, v_again, depth
      FROM turntree.find_idempotent_result(p_ws, p_by, p_key, p_session, ARRAY['advance']) a
      JOIN turntree.turns t ON t.workspace_id = p_ws AND t.id = a.head;
    IF FOUND THEN
      version := v_again; repeated := true;
      RETURN;
    END IF;
  END IF;
  IF v_head IS DISTINCT FROM p_parent OR p_session IS NULL OR p_parent IS NULL THEN
    SELECT k.depth, k.version INTO depth, v_again FROM turntree.find_stored_turn(p_ws, p_turn, p_digest, p_session) k;
    IF depth IS NOT NULL THEN
      turn_id := p_turn; version := v_again; repeated := true;
      RETURN;
    ELSIF v_head IS DISTINCT FROM p_parent AND p_session IS NOT NULL THEN
      RAISE EXCEPTION 'the session stands at %, not at %', coalesce(v_head::text, 'no turn'), coalesce(p_parent::text, 'no turn')
        USING ERRCODE = 'TT001';
    END IF;
  END IF;

  IF p_parent IS NULL THEN
    depth := 1;
    v_segment := p_turn;
    PERFORM turntree.open_segment(p_ws, p_turn, NULL, 0);
  ELSE
    SELECT t.segment_id, t.depth + 1, t.digest INTO v_segment, depth, v_digest FROM turntree.turns t
      WHERE t.workspace_id = p_ws AND t.id = p_parent;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'there is no turn %', p_parent USING ERRCODE = 'TT002';
    END IF;
  END IF;
  -- A header without a parent is compared too: a missing digest must not match any digest.
  IF v_digest IS DISTINCT FROM p_parent_digest THEN
    RAISE EXCEPTION 'turn % was built on another parent than %', p_turn, coalesce(p_parent::text, 'no turn')
      USING ERRCODE = 'TT003';
  END IF;
  -- The first child of a turn extends its segment; all later ones fork. ON CONFLICT names no key, or the database
  -- would check whether the conflicting row can be seen, and a hidden session may hold it.
  INSERT INTO turntree.turns AS t (workspace_id, id, parent_id, segment_id, depth, digest, started_at, sealed_at,
      kind, outcome, agent_role, by, model, provider)
    VALUES (p_ws, p_turn, p_parent, v_segment, depth, p_digest, p_started::timestamptz, p_sealed::timestamptz,
      p_kind, p_outcome, p_role, p_actor, p_model, p_provider)
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    -- The position is taken: by a sibling, or by this very turn if its session was moved back.
    SELECT k.depth, k.version INTO v_depth, v_again FROM turntree.find_stored_turn(p_ws, p_turn, p_digest, p_session) k;
    IF v_depth IS NOT NULL THEN
      turn_id := p_turn; version := v_again; repeated := true;
      RETURN;
    END IF;
    PERFORM turntree.open_segment(p_ws, p_turn, v_segment, depth - 1);
    v_segment := p_turn;
    INSERT INTO turntree.turns (workspace_id, id, parent_id, segment_id, depth, digest, started_at, sealed_at,
        kind, outcome, agent_role, by, model, provider)
      VALUES (p_ws, p_turn, p_parent, v_segment, depth, p_digest, p_started::timestamptz, p_sealed::timestamptz,
        p_kind, p_outcome, p_role, p_actor, p_model, p_provider);
  END IF;
  INSERT INTO turntree.turn_bodies (workspace_id, turn_id, header, body) VALUES (p_ws, p_turn, p_header, p_body);
  IF cardinality(p_calls) > 0 THEN
    INSERT INTO turntree.tool_calls (workspace_id, turn_id, sequence, call_id, tool, status)
      SELECT p_ws, p_turn, i, p_calls[3 * i + 1], p_calls[3 * i + 2], p_calls[3 * i + 3]
        FROM generate_series(0, cardinality(p_calls) / 3 - 1) i;
  END IF;
  IF cardinality(p_models) > 0 THEN
    INSERT INTO turntree.model_calls (workspace_id, turn_id, sequence, model, provider, call_id,
        input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens)
      SELECT p_ws, p_turn, i, p_models[3 * i + 1], p_models[3 * i + 2], p_models[3 * i + 3], p_tokens[5 * i + 1],
          p_tokens[5 * i + 2], p_tokens[5 * i + 3], p_tokens[5 * i + 4], p_tokens[5 * i + 5]
        FROM generate_series(0, cardinality(p_models) / 3 - 1) i;
  END IF;
  IF cardinality(p_files) > 0 THEN
    INSERT INTO turntree.message_files (workspace_id, turn_id, message, sequence, kind, path, line_start, line_end)
      SELECT p_ws, p_turn, p_files[5 * i + 1]::smallint, i, p_files[5 * i + 2], p_files[5 * i + 3],
          p_files[5 * i + 4]::int, p_files[5 * i + 5]::int
        FROM generate_series(0, cardinality(p_files) / 5 - 1) i
      ON CONFLICT DO NOTHING;
  END IF;
  IF p_compaction IS NOT NULL THEN
    PERFORM turntree.insert_compaction(p_ws, p_turn, p_compaction);
  END IF;
  IF position('"object":"sha256:' IN p_body) > 0 THEN
    PERFORM turntree.hold_objects(p_ws, p_turn, p_body);
  END IF;
  IF p_epoch IS NOT NULL THEN
    v_first := turntree.finish_run(p_ws, p_turn, p_epoch);
    IF v_first <> (p_event_bodies[1]::json ->> 'seq')::int THEN
      RAISE EXCEPTION 'another fact took place % of %', p_event_bodies[1]::json ->> 'seq', p_turn USING ERRCODE = 'TT001';
    END IF;
    PERFORM turntree.move_agent(p_ws, p_turn, 'idle', p_at, p_outcome);
    PERFORM turntree.record_inferences(p_ws, p_turn);
  END IF;
  IF p_session IS NOT NULL THEN
    -- log_move in line: this path cannot afford another function call.
    UPDATE turntree.sessions SET head_id = p_turn, version = append_turn.version, event_seq = v_seq + 1,
        updated_at = p_at::timestamptz
      WHERE workspace_id = p_ws AND id = p_session;
    INSERT INTO turntree.session_history (workspace_id, session_id, version, kind, before_id, after_id, by, changed_at)
      VALUES (p_ws, p_session, version, 'advance', p_parent, p_turn, p_by, p_at::timestamptz);
    UPDATE turntree.session_reach SET max_depth = append_turn.depth
      WHERE workspace_id = p_ws AND segment_id = v_segment AND session_id = p_session AND max_depth < append_turn.depth;
    IF NOT FOUND THEN
      PERFORM turntree.log_reach(p_ws, p_session, v_segment, depth);
    END IF;
    IF p_key IS NOT NULL THEN
      INSERT INTO turntree.idempotency_keys (workspace_id, by, idempotency_key, session_id, version)
        VALUES (p_ws, p_by, p_key, p_session, version);
    END IF;
    v_moved := turntree.event_body(p_session, v_seq, 'session.head_moved', p_at,
      turntree.move_data('advance', p_parent, p_turn, p_by, version));
  END IF;
  INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body)
    SELECT p_ws, p_turn, v_first + o - 1, i, k, b
      FROM unnest(p_event_ids, p_event_kinds, p_event_bodies) WITH ORDINALITY AS x (i, k, b, o)
    UNION ALL SELECT p_ws, p_session, v_seq, sha256(convert_to(v_moved, 'UTF8')), 'session.head_moved', v_moved
      WHERE p_session IS NOT NULL;
  -- A run of ours may end with events about other things, and a header may name what the turn came from.
  IF p_epoch IS NOT NULL OR position('"derived_from":[' IN p_header) > 0 OR position('"retry_of":"' IN p_header) > 0 THEN
    PERFORM turntree.insert_links(p_ws, p_turn, v_first);
  END IF;
  -- Drop what the run referred to and the sealed turn does not.
  IF p_epoch IS NOT NULL THEN
    DELETE FROM turntree.object_holders h WHERE h.workspace_id = p_ws AND h.turn_id = p_turn
      AND h.digest NOT IN (SELECT turntree.objects_in(p_body));
  END IF;
  turn_id := p_turn;
  repeated := false;
END $$;

-- Locks a session until the transaction ends. Returns its head, or no row. Two statements, because a single one would
-- see the head that the last lock holder set but not that holder's turn, which is younger than the statement's
-- snapshot.
CREATE OR REPLACE FUNCTION turntree.lock_session(p_ws uuid, p_session uuid)
RETURNS TABLE (head uuid, digest bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  SELECT s.head_id INTO head FROM turntree.sessions s
    WHERE s.workspace_id = p_ws AND s.id = p_session FOR NO KEY UPDATE;
  IF FOUND THEN
    SELECT t.digest INTO digest FROM turntree.turns t WHERE t.workspace_id = p_ws AND t.id = head;
    RETURN NEXT;
  END IF;
END $$;

-- Returns the depth of a turn that is already stored, and the version at which it advanced the session. Nulls if it
-- is not stored.
CREATE OR REPLACE FUNCTION turntree.find_stored_turn(
  p_ws uuid, p_turn uuid, p_digest bytea, p_session uuid, OUT depth int, OUT version int)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_digest bytea;
BEGIN
  SELECT t.digest, t.depth INTO v_digest, depth FROM turntree.turns t
    WHERE t.workspace_id = p_ws AND t.id = p_turn;
  IF v_digest <> p_digest THEN
    RAISE EXCEPTION 'turn % is sealed with another digest', p_turn USING ERRCODE = 'TT003';
  END IF;
  IF FOUND AND p_session IS NOT NULL THEN
    SELECT h.version INTO version FROM turntree.session_history h
      WHERE h.workspace_id = p_ws AND h.session_id = p_session AND h.after_id = p_turn AND h.kind = 'advance'
      ORDER BY h.version DESC LIMIT 1;
  END IF;
END $$;

-- Stores the details of a compaction turn. Its summary covers ancestors only, and what it keeps follows them
-- directly.
CREATE OR REPLACE FUNCTION turntree.insert_compaction(p_ws uuid, p_turn uuid, p jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_through constant uuid := p ->> 'summarized_through';
  v_kept constant uuid := p ->> 'first_kept';
BEGIN
  -- The first kept turn must follow the last summarized one. If no turn is kept, the compaction itself must.
  IF NOT coalesce(turntree.is_ancestor(p_ws, v_through, p_turn)
      AND (SELECT parent_id FROM turntree.turns WHERE workspace_id = p_ws AND id = coalesce(v_kept, p_turn)) = v_through
      AND turntree.is_ancestor(p_ws, coalesce(v_kept, p_turn), p_turn), false) THEN
    RAISE EXCEPTION 'a compaction covers ancestors of its turn, and keeps what follows them' USING ERRCODE = 'TT003';
  END IF;
  INSERT INTO turntree.compactions (workspace_id, turn_id, summarized_through, first_kept, turns_summarized, kind,
      trigger, tokens_before, tokens_after, summary_tokens, duration_ms)
    VALUES (p_ws, p_turn, v_through, v_kept, (p ->> 'turns_summarized')::int, p ->> 'kind', p ->> 'trigger',
      (p ->> 'tokens_before')::int, (p ->> 'tokens_after')::int, (p ->> 'summary_tokens')::int, (p ->> 'duration_ms')::int);
END $$;

-- Finishes the run of a sealed turn and deletes its payloads, which are now in the turn's body. Returns the position
-- of the next event in its stream.
CREATE OR REPLACE FUNCTION turntree.finish_run(p_ws uuid, p_run uuid, p_epoch int)
RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.runs SET status = 'finished'
    WHERE workspace_id = p_ws AND id = p_run AND epoch = p_epoch AND status <> 'finished';
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the run % was taken over or is finished', p_run USING ERRCODE = 'TT001';
  END IF;
  DELETE FROM turntree.run_payloads WHERE workspace_id = p_ws AND run_id = p_run;
  PERFORM turntree.end_run_approvals(p_ws, p_run);
  RETURN (SELECT coalesce(max(seq) + 1, 0) FROM turntree.events
    WHERE workspace_id = p_ws AND stream_id = p_run);
END $$;

-- Returns the heads of a transcript's sessions without their titles.
CREATE OR REPLACE FUNCTION turntree.untitled(p_heads jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(jsonb_object_agg(h.key, CASE WHEN jsonb_typeof(h.value) = 'object' AND h.value ->> 'title' IS NOT NULL
    THEN h.value || '{"title": "(erased)"}' ELSE h.value END), '{}') FROM jsonb_each(p_heads) h
$$;


-- Erases a message: its line becomes a stub with its digest, and an event is the receipt. Called as turntree_eraser,
-- the only role that may update a body.
CREATE OR REPLACE FUNCTION turntree.erase_message(
  p_ws uuid, p_turn uuid, p_sequence int, p_reason text, p_by text, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_lines text[];
  v_line text;
  v_digest bytea;
  v_seq int;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('turntree:stream:' || p_turn, 0));
  SELECT string_to_array(body, E'\n') INTO v_lines FROM turntree.turn_bodies
    WHERE workspace_id = p_ws AND turn_id = p_turn;
  v_line := v_lines[p_sequence + 1];
  IF v_line IS NULL OR p_sequence < 0 THEN
    RAISE EXCEPTION 'turn % has no message %', p_turn, p_sequence USING ERRCODE = 'TT002';
  ELSIF v_line LIKE '{"erased":"sha256:%"}' THEN
    RETURN false;
  END IF;
  v_lines[p_sequence + 1] := '{"erased":"sha256:' || encode(sha256(convert_to(v_line, 'UTF8')), 'hex') || '"}';
  UPDATE turntree.turn_bodies SET body = array_to_string(v_lines, E'\n')
    WHERE workspace_id = p_ws AND turn_id = p_turn;
  -- What search keeps of the turn is deleted at once. The receipt below makes the indexer add the rest of the turn
  -- again.
  PERFORM turntree.unindex_turn(p_turn);
  -- So are the arguments of its calls, where a person was asked about them.
  PERFORM turntree.erase_approval_args(p_ws, v_line);
  -- So are the paths it named, and titles, which may be its first words.
  UPDATE turntree.message_files SET path = '(erased)'
    WHERE workspace_id = p_ws AND turn_id = p_turn AND message = p_sequence AND path <> '(erased)';
  UPDATE turntree.import_cursors i SET heads = turntree.untitled(i.heads)
    FROM turntree.turn_sources s JOIN turntree.transcripts b ON b.workspace_id = s.workspace_id AND b.id = s.transcript_id
    WHERE s.workspace_id = p_ws AND s.turn_id = p_turn AND i.workspace_id = p_ws AND i.origin = b.origin AND i.transcript = b.name;
  -- An object that was too large for the message is deleted with it, unless another message still refers to it.
  DELETE FROM turntree.object_holders h WHERE h.workspace_id = p_ws AND h.turn_id = p_turn
    AND h.digest NOT IN (SELECT turntree.objects_in(array_to_string(v_lines, E'\n')));
  FOR v_digest IN SELECT turntree.objects_in(v_line) LOOP
    IF NOT EXISTS (SELECT FROM turntree.object_holders h WHERE h.workspace_id = p_ws AND h.digest = v_digest) THEN
      DELETE FROM turntree.object_writers w WHERE w.workspace_id = p_ws AND w.digest = v_digest;
      DELETE FROM turntree.objects o WHERE o.workspace_id = p_ws AND o.digest = v_digest;
    END IF;
  END LOOP;
  SELECT coalesce(max(seq) + 1, 0) INTO v_seq FROM turntree.events
    WHERE workspace_id = p_ws AND stream_id = p_turn;
  PERFORM turntree.insert_event(p_ws, p_turn, v_seq, 'message.erased', p_at, '{"by":' || turntree.canonical_text(p_by)
    || ',"reason":' || turntree.canonical_text(p_reason) || ',"sequence":' || p_sequence || '}');
  RETURN true;
END $$;

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
