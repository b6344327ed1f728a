-- Bodies as JSON documents, for the views in schema ledger. All of it is read-only and runs with the caller's
-- privileges.

-- Returns a line of a body as jsonb. PostgreSQL's text cannot hold NUL, so an escaped NUL, unless it is part of an
-- escaped backslash, is shown as U+FFFD; the stored bytes keep it.
CREATE OR REPLACE FUNCTION turntree.document(p_line text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN position('\u0000' IN p_line) = 0 THEN p_line::jsonb
    ELSE regexp_replace(p_line, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb END
$$;

-- Returns the objects that messages refer to in their parts. p_messages holds one message on each line.
CREATE OR REPLACE FUNCTION turntree.objects_in(p_messages text) RETURNS SETOF bytea LANGUAGE sql STABLE AS $$
  SELECT DISTINCT decode(substr(p.j ->> 'object', 8), 'hex')
    FROM string_to_table(p_messages, E'\n') l (line), jsonb_array_elements(turntree.document(l.line) -> 'parts') p (j)
    WHERE position('"object":"sha256:' IN l.line) > 0 AND p.j ->> 'kind' IN ('object_ref', 'image', 'audio', 'file')
      AND p.j ->> 'object' ~ '^sha256:[0-9a-f]{64}$'
$$;

-- The header of a turn's body.
CREATE OR REPLACE FUNCTION turntree.turn_header(p_ws uuid, p_turn uuid) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT turntree.document(header) FROM turntree.turn_bodies
    WHERE workspace_id = p_ws AND turn_id = p_turn
$$;

-- Milliseconds since 1970.
CREATE OR REPLACE FUNCTION turntree.unix_ms(p_at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM p_at) * 1000)::bigint
$$;

-- Concatenates the text parts of one kind in a message, in order; null if there are none.
CREATE OR REPLACE FUNCTION turntree.message_text(p_message jsonb, p_kind text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT string_agg(p.j ->> 'text', '' ORDER BY p.o)
    FROM jsonb_array_elements(p_message -> 'parts') WITH ORDINALITY AS p (j, o) WHERE p.j ->> 'kind' = p_kind
$$;

-- Returns the id of the last assistant message of a turn.
CREATE OR REPLACE FUNCTION turntree.response_message_id(p_ws uuid, p_turn uuid) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT p_turn || '/' || max(l.o - 1) FROM turntree.turn_bodies b, string_to_table(b.body, E'\n') WITH ORDINALITY AS l (line, o)
    WHERE b.workspace_id = p_ws AND b.turn_id = p_turn AND turntree.document(l.line) ->> 'role' = 'assistant'
$$;

-- Returns a tool call or its result from the turn's body, with the id of its message.
CREATE OR REPLACE FUNCTION turntree.tool_part(p_ws uuid, p_turn uuid, p_call text, p_kind text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT p.j || jsonb_build_object('message_id', p_turn || '/' || (l.o - 1), 'at', turntree.document(l.line) -> 'at')
    FROM turntree.turn_bodies b, string_to_table(b.body, E'\n') WITH ORDINALITY AS l (line, o),
      jsonb_array_elements(turntree.document(l.line) -> 'parts') AS p (j)
    WHERE b.workspace_id = p_ws AND b.turn_id = p_turn AND p.j ->> 'call_id' = p_call
      AND p_kind IN (p.j ->> 'kind', p.j ->> 'part')
    LIMIT 1
$$;

-- The same of a run that is not sealed yet, whose messages stand beside its events.
CREATE OR REPLACE FUNCTION turntree.open_tool_part(p_ws uuid, p_run uuid, p_call text, p_kind text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT p.j || jsonb_build_object('message_id', p_run || '/' || (m.o - 1))
    FROM (SELECT x.payload, row_number() OVER (ORDER BY x.seq) AS o FROM turntree.run_payloads x
        WHERE x.workspace_id = p_ws AND x.run_id = p_run) m,
      jsonb_array_elements(turntree.document(m.payload) -> 'parts') AS p (j)
    WHERE p.j ->> 'call_id' = p_call AND p_kind IN (p.j ->> 'kind', p.j ->> 'part')
    LIMIT 1
$$;

-- Returns the moment that a document names, or null if it names none: its author chose the text, and one that cannot be
-- read must not fail a query over all others.
CREATE OR REPLACE FUNCTION turntree.moment(p_text text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN nullif(nullif(p_text::timestamptz, 'infinity'), '-infinity');
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;

-- Returns the id that a reference names: an id as it is, or a document that holds an address, a path, an external id
-- or an event.
CREATE OR REPLACE FUNCTION turntree.ref_id(p_ref jsonb) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE jsonb_typeof(p_ref) WHEN 'string' THEN p_ref #>> '{}' WHEN 'object' THEN
    coalesce(p_ref ->> 'uri', p_ref ->> 'path', p_ref ->> 'event_id', (p_ref ->> 'kind') || ':' || (p_ref ->> 'id')) END
$$;

-- Returns when a tool call started or finished: its event says it, or else the message of an imported turn.
CREATE OR REPLACE FUNCTION turntree.call_time(p_ws uuid, p_turn uuid, p_call text, p_kind text, p_part text)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT turntree.moment(d.j ->> 'at') FROM turntree.events e, LATERAL (SELECT turntree.document(e.body) AS j) d
      WHERE e.workspace_id = p_ws AND e.stream_id = p_turn AND e.kind = p_kind AND d.j #>> '{data,call_id}' = p_call
      ORDER BY e.seq LIMIT 1),
    turntree.moment(turntree.tool_part(p_ws, p_turn, p_call, p_part) ->> 'at'))
$$;

-- Returns an object that is a JSON document.
CREATE OR REPLACE FUNCTION turntree.object_document(p_ws uuid, p_digest text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT turntree.document(convert_from(bytes, 'UTF8')) FROM turntree.objects
    WHERE workspace_id = p_ws AND digest = decode(substr(p_digest, 8), 'hex')
$$;

-- The first entry of a kind in a turn's manifest.
CREATE OR REPLACE FUNCTION turntree.manifest_entry(p_ws uuid, p_turn uuid, p_kind text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT e.j FROM jsonb_array_elements(
      turntree.object_document(p_ws, turntree.turn_header(p_ws, p_turn) ->> 'manifest') -> 'entries') WITH ORDINALITY AS e (j, o)
    WHERE e.j ->> 'kind' = p_kind ORDER BY e.o LIMIT 1
$$;

-- The names of the tools a turn's manifest offers.
CREATE OR REPLACE FUNCTION turntree.manifest_tools(p_ws uuid, p_turn uuid) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_agg(e.j -> 'name' ORDER BY e.o) FROM jsonb_array_elements(
      turntree.object_document(p_ws, turntree.turn_header(p_ws, p_turn) ->> 'manifest') -> 'entries') WITH ORDINALITY AS e (j, o)
    WHERE e.j ->> 'kind' = 'tool'
$$;

-- The permissions a turn exercised: the tools that ran, and what its run recorded as used. A refused call did not run:
-- it ended in an error, and the manifest does not offer its tool. A turn of another program may have no manifest.
CREATE OR REPLACE FUNCTION turntree.permissions_used(p_ws uuid, p_turn uuid) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_agg(DISTINCT u.used ORDER BY u.used) FROM (
    SELECT 'tool:' || c.tool AS used FROM turntree.tool_calls c WHERE c.workspace_id = p_ws AND c.turn_id = p_turn
      AND (c.status <> 'error' OR coalesce(turntree.manifest_tools(p_ws, p_turn) ? c.tool,
        turntree.turn_header(p_ws, p_turn) ->> 'manifest' IS NULL))
    UNION SELECT turntree.document(e.body) #>> '{data,permission}' FROM turntree.events e
      WHERE e.workspace_id = p_ws AND e.stream_id = p_turn AND e.kind = 'permission.used') u
$$;

-- Returns the data of a run's first event: its parent, its model, what started it and where.
CREATE OR REPLACE FUNCTION turntree.run_source(p_ws uuid, p_run uuid) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT turntree.document(body) -> 'data' FROM turntree.events
    WHERE workspace_id = p_ws AND stream_id = p_run AND seq = 0 AND kind IN ('run.started', 'turn.recorded')
$$;

-- Returns the turns of a thread. Walks segments, so the cost is proportional to the result.
CREATE OR REPLACE FUNCTION turntree.ancestry(p_ws uuid, p_turn uuid) RETURNS TABLE (turn_id uuid, depth int)
LANGUAGE sql STABLE ROWS 100 AS $$
  WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
    SELECT s.id, s.fork_depth, t.depth, s.parent_id FROM turntree.turns t
      JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
      WHERE t.workspace_id = p_ws AND t.id = p_turn
    UNION ALL
    SELECT s.id, s.fork_depth, c.low, s.parent_id FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = p_ws AND id = c.parent_id OFFSET 0) s
  )
  SELECT t.id, t.depth FROM chain c, LATERAL (SELECT id, depth FROM turntree.turns
    WHERE workspace_id = p_ws AND segment_id = c.segment_id AND depth > c.low AND depth <= c.high OFFSET 0) t
$$;
