-- The ledger as tables for people who write SQL: stable names, no payload copied. Each view runs with the privileges
-- and the row-level security of the caller. Whatever requires reading a body is a column of its own, evaluated only
-- if a query selects it.

-- Sealed turns, and the runs that are not sealed yet, under one id. The casts are needed: the planner flattens a
-- UNION ALL, and drops columns that a query does not select, only if both sides have exactly the same types, and a
-- domain differs from its base type.
CREATE OR REPLACE VIEW ledger.turns WITH (security_invoker = true) AS
SELECT t.id, t.parent_id AS parent_turn_id, t.kind::text AS turn_type,
    CASE t.outcome WHEN 'completed' THEN 'completed' ELSE 'failed' END AS status,
    turntree.unix_ms(t.started_at) AS started_at, turntree.unix_ms(t.sealed_at) AS completed_at,
    t.model, t.provider, t.agent_role::text AS role,
    turntree.manifest_entry(t.workspace_id, t.id, 'toolset') ->> 'name' AS toolset_name,
    turntree.manifest_tools(t.workspace_id, t.id) AS tools_available,
    turntree.object_document(t.workspace_id, turntree.manifest_entry(t.workspace_id, t.id, 'permissions') ->> 'object')
      AS permissions_granted,
    turntree.permissions_used(t.workspace_id, t.id) AS permissions_used,
    (SELECT sum(m.input_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = t.workspace_id AND m.turn_id = t.id) AS input_tokens,
    (SELECT sum(m.output_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = t.workspace_id AND m.turn_id = t.id) AS output_tokens,
    (SELECT sum(m.cached_input_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = t.workspace_id AND m.turn_id = t.id) AS cached_input_tokens,
    (SELECT sum(m.cache_write_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = t.workspace_id AND m.turn_id = t.id) AS cache_write_tokens,
    (SELECT sum(m.reasoning_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = t.workspace_id AND m.turn_id = t.id) AS reasoning_tokens,
    (SELECT sum(m.input_tokens + m.cached_input_tokens + m.cache_write_tokens + m.output_tokens)
      FROM turntree.model_calls m WHERE m.workspace_id = t.workspace_id AND m.turn_id = t.id) AS total_tokens,
    (SELECT jsonb_agg(t.id || '/' || i) FROM generate_series(0,
      (turntree.turn_header(t.workspace_id, t.id) #>> '{messages,query}')::int - 1) i) AS query_message_ids,
    turntree.response_message_id(t.workspace_id, t.id) AS response_message_id,
    EXISTS (SELECT FROM turntree.turns n WHERE n.workspace_id = t.workspace_id
        AND n.segment_id = t.segment_id AND n.depth = t.depth + 1)
      OR EXISTS (SELECT FROM turntree.segments f WHERE f.workspace_id = t.workspace_id
        AND f.parent_id = t.segment_id AND f.fork_depth = t.depth) AS has_children,
    (SELECT count(*) FROM turntree.tool_calls c
      WHERE c.workspace_id = t.workspace_id AND c.turn_id = t.id) AS tool_call_count,
    turntree.ref_id(turntree.run_source(t.workspace_id, t.id) -> 'source_event') AS source_event_id,
    turntree.run_source(t.workspace_id, t.id) ->> 'workspace_path' AS workspace_path,
    t.outcome::text AS outcome, t.digest::bytea AS digest, t.depth
  FROM turntree.turns t
UNION ALL
SELECT r.id, (turntree.run_source(r.workspace_id, r.id) ->> 'parent')::uuid, 'normal',
    CASE WHEN EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = r.workspace_id
      AND e.stream_id = r.id AND e.kind IN ('model_call.started', 'model_call.finished')) THEN 'streaming' ELSE 'pending' END,
    turntree.unix_ms(r.started_at), NULL, turntree.run_source(r.workspace_id, r.id) ->> 'model', NULL, 'unified',
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false,
    (SELECT count(*) FROM turntree.events e WHERE e.workspace_id = r.workspace_id
      AND e.stream_id = r.id AND e.kind = 'tool_call.started'),
    turntree.ref_id(turntree.run_source(r.workspace_id, r.id) -> 'source_event'),
    turntree.run_source(r.workspace_id, r.id) ->> 'workspace_path', NULL, NULL, NULL
  FROM turntree.runs r WHERE r.status <> 'finished';

-- A turn with its ancestry. The function ancestry walks segments, so the cost is proportional to the result.
CREATE OR REPLACE VIEW ledger.threads WITH (security_invoker = true) AS
SELECT t.id AS turn_id,
    (SELECT jsonb_agg(a.turn_id ORDER BY a.depth) FROM turntree.ancestry(t.workspace_id, t.id) a) AS ancestry,
    (SELECT sum(m.input_tokens + m.cached_input_tokens + m.cache_write_tokens + m.output_tokens)
      FROM turntree.ancestry(t.workspace_id, t.id) a
      JOIN turntree.model_calls m ON m.workspace_id = t.workspace_id AND m.turn_id = a.turn_id) AS total_tokens,
    t.depth,
    turntree.manifest_entry(t.workspace_id, t.id, 'persona') ->> 'name' AS persona_id,
    turntree.manifest_entry(t.workspace_id, t.id, 'prompt') ->> 'object' AS system_prompt_hash,
    'turn:' || t.id AS thread_key
  FROM turntree.turns t;

CREATE OR REPLACE VIEW ledger.sessions WITH (security_invoker = true) AS
SELECT l.name AS label, s.head_id AS thread_id,
    turntree.manifest_entry(s.workspace_id, s.head_id, 'persona') ->> 'name' AS persona_id,
    w.session_id IS NOT NULL AS is_subagent,
    (SELECT name FROM turntree.session_names p WHERE p.workspace_id = s.workspace_id
      AND p.session_id = w.parent_session_id AND p.reason IS NULL) AS parent_session_label,
    w.parent_turn_id, w.call_id AS spawn_tool_call_id,
    coalesce(w.task, (SELECT turntree.object_document(v.workspace_id, 'sha256:' || encode(v.digest, 'hex')) ->> 'title'
      FROM turntree.programs k JOIN turntree.program_versions v ON v.workspace_id = k.workspace_id
        AND v.program_id = k.id AND v.version = k.version
      WHERE k.workspace_id = s.workspace_id AND k.kind = 'task' AND k.details ->> 'session' = l.name
      LIMIT 1)) AS task_description,
    CASE WHEN w.session_id IS NULL THEN (
        SELECT CASE k.state WHEN 'active' THEN 'running' WHEN 'blocked' THEN 'pending' ELSE k.state END
          FROM turntree.programs k
          WHERE k.workspace_id = s.workspace_id AND k.kind = 'task' AND k.details ->> 'session' = l.name LIMIT 1)
      WHEN EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = s.workspace_id
        AND r.session_id = s.id AND r.status <> 'finished') THEN 'running'
      WHEN s.head_id IS NULL THEN 'pending'
      ELSE (SELECT CASE t.outcome WHEN 'completed' THEN 'completed' ELSE 'failed' END FROM turntree.turns t
        WHERE t.workspace_id = s.workspace_id AND t.id = s.head_id) END AS task_status,
    (SELECT min(n.name) FROM turntree.session_names n WHERE n.workspace_id = s.workspace_id
      AND n.session_id = s.id AND n.name ~ '^(channel|entity):') AS routing_key,
    s.origin, s.origin_session_id,
    turntree.unix_ms(s.created_at) AS created_at, turntree.unix_ms(s.updated_at) AS updated_at, s.status,
    s.id, s.version
  FROM turntree.sessions s
  JOIN turntree.session_names l ON l.workspace_id = s.workspace_id AND l.session_id = s.id AND l.reason IS NULL
  LEFT JOIN turntree.spawns w ON w.workspace_id = s.workspace_id AND w.session_id = s.id;

-- A message's id is its turn's id and its sequence: look one up by both, or by ledger.message(id).
CREATE OR REPLACE VIEW ledger.messages WITH (security_invoker = true) AS
SELECT t.id || '/' || (l.o - 1) AS id, t.id AS turn_id, coalesce(d.j ->> 'role', 'erased') AS role,
    turntree.message_text(d.j, 'text') AS content, d.j ->> 'source' AS source, (l.o - 1)::int AS sequence,
    turntree.unix_ms(t.started_at) AS created_at, turntree.message_text(d.j, 'reasoning') AS thinking,
    d.j -> 'context' AS context_json, d.j -> 'meta' AS metadata_json, d.j -> 'parts' AS parts,
    -- Not created_at: a condition on the message's own time reads every body, one on the turn's uses an index.
    turntree.unix_ms(coalesce(turntree.moment(d.j ->> 'at'), t.started_at)) AS said_at
  FROM turntree.turns t,
    LATERAL (SELECT body FROM turntree.turn_bodies b WHERE b.workspace_id = t.workspace_id AND b.turn_id = t.id OFFSET 0) b,
    LATERAL string_to_table(b.body, E'\n') WITH ORDINALITY AS l (line, o),
    LATERAL (SELECT turntree.document(l.line) AS j) d;

-- Calls of sealed turns, and those of runs that are not sealed yet. The first part reads one table and the casts are
-- needed: otherwise the planner joins the union only after it has read the body of every turn.
CREATE OR REPLACE VIEW ledger.tool_calls WITH (security_invoker = true) AS
SELECT c.call_id AS id, c.turn_id,
    turntree.tool_part(c.workspace_id, c.turn_id, c.call_id, 'tool_use') ->> 'message_id' AS message_id,
    c.tool AS tool_name, c.sequence::int + 1 AS tool_number,
    turntree.tool_part(c.workspace_id, c.turn_id, c.call_id, 'tool_use') -> 'args' AS params_json,
    turntree.tool_part(c.workspace_id, c.turn_id, c.call_id, 'tool_result') -> 'output' AS result_json,
    CASE WHEN c.status <> 'ok'
      THEN turntree.tool_part(c.workspace_id, c.turn_id, c.call_id, 'tool_result') ->> 'output' END AS error,
    CASE c.status WHEN 'ok' THEN 'completed' ELSE 'failed' END AS status,
    (SELECT n.name FROM turntree.spawns w JOIN turntree.session_names n ON n.workspace_id = w.workspace_id
        AND n.session_id = w.session_id AND n.reason IS NULL
      WHERE w.workspace_id = c.workspace_id AND w.parent_turn_id = c.turn_id AND w.call_id = c.call_id
      LIMIT 1) AS spawned_session_label,
    turntree.unix_ms(coalesce(turntree.call_time(c.workspace_id, c.turn_id, c.call_id, 'tool_call.started', 'tool_use'),
      (SELECT t.started_at FROM turntree.turns t WHERE t.workspace_id = c.workspace_id AND t.id = c.turn_id))) AS started_at,
    turntree.unix_ms(coalesce(turntree.call_time(c.workspace_id, c.turn_id, c.call_id, 'tool_call.finished', 'tool_result'),
      (SELECT t.sealed_at FROM turntree.turns t WHERE t.workspace_id = c.workspace_id AND t.id = c.turn_id))) AS completed_at,
    c.sequence::int AS sequence, c.status AS outcome
  FROM turntree.tool_calls c
UNION ALL
SELECT s.d ->> 'call_id', r.id, turntree.open_tool_part(r.workspace_id, r.id, s.d ->> 'call_id', 'tool_use') ->> 'message_id',
    s.d ->> 'tool', n.earlier + 1, turntree.open_tool_part(r.workspace_id, r.id, s.d ->> 'call_id', 'tool_use') -> 'args',
    turntree.open_tool_part(r.workspace_id, r.id, s.d ->> 'call_id', 'tool_result') -> 'output',
    CASE WHEN f.d ->> 'status' <> 'ok'
      THEN turntree.open_tool_part(r.workspace_id, r.id, s.d ->> 'call_id', 'tool_result') ->> 'output' END,
    CASE f.d ->> 'status' WHEN 'ok' THEN 'completed' ELSE CASE WHEN f.d IS NULL THEN 'running' ELSE 'failed' END END,
    NULL, turntree.unix_ms(turntree.moment(s.at)), turntree.unix_ms(turntree.moment(f.at)), n.earlier,
    (f.d ->> 'status')::turntree.tool_status
  FROM turntree.runs r
  JOIN turntree.events e ON e.workspace_id = r.workspace_id AND e.stream_id = r.id AND e.kind = 'tool_call.started',
    LATERAL (SELECT e.body::jsonb -> 'data' AS d, e.body::jsonb ->> 'at' AS at) s,
    LATERAL (SELECT count(*)::int AS earlier FROM turntree.events x WHERE x.workspace_id = r.workspace_id
      AND x.stream_id = r.id AND x.kind = 'tool_call.started' AND x.seq < e.seq) n
    LEFT JOIN LATERAL (SELECT x.body::jsonb -> 'data' AS d, x.body::jsonb ->> 'at' AS at FROM turntree.events x
      WHERE x.workspace_id = r.workspace_id AND x.stream_id = r.id AND x.kind = 'tool_call.finished'
        AND x.body::jsonb #>> '{data,call_id}' = s.d ->> 'call_id' LIMIT 1) f ON true
  WHERE r.status <> 'finished';

CREATE OR REPLACE VIEW ledger.compactions WITH (security_invoker = true) AS
SELECT c.turn_id,
    (SELECT string_agg(turntree.message_text(turntree.document(l.line), 'text'), E'\n' ORDER BY l.o)
      FROM turntree.turn_bodies b, LATERAL string_to_table(b.body, E'\n') WITH ORDINALITY AS l (line, o)
      WHERE b.workspace_id = c.workspace_id AND b.turn_id = c.turn_id
        AND turntree.document(l.line) ->> 'role' = 'assistant') AS summary,
    c.summarized_through AS summarized_through_turn_id, c.first_kept AS first_kept_turn_id, c.turns_summarized,
    c.kind AS compaction_type, t.model, t.provider, c.tokens_before, c.tokens_after, c.summary_tokens,
    (SELECT sum(m.input_tokens + m.cached_input_tokens + m.cache_write_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = c.workspace_id AND m.turn_id = c.turn_id) AS summarization_input_tokens,
    (SELECT sum(m.output_tokens) FROM turntree.model_calls m
      WHERE m.workspace_id = c.workspace_id AND m.turn_id = c.turn_id) AS summarization_output_tokens,
    c.duration_ms, c.trigger,
    turntree.turn_header(c.workspace_id, c.turn_id) -> 'compaction' AS metadata_json
  FROM turntree.compactions c
  JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id;

CREATE OR REPLACE VIEW ledger.session_history WITH (security_invoker = true) AS
SELECT h.session_id || '@' || h.version AS id, l.name AS session_label, h.after_id AS thread_id,
    turntree.unix_ms(h.changed_at) AS changed_at, h.version, h.kind, h.before_id, h.by, h.session_id
  FROM turntree.session_history h
  JOIN turntree.session_names l ON l.workspace_id = h.workspace_id AND l.session_id = h.session_id AND l.reason IS NULL;

CREATE OR REPLACE VIEW ledger.session_aliases WITH (security_invoker = true) AS
SELECT a.name AS alias, l.name AS session_label, turntree.unix_ms(a.created_at) AS created_at, a.reason
  FROM turntree.session_names a
  JOIN turntree.session_names l ON l.workspace_id = a.workspace_id AND l.session_id = a.session_id AND l.reason IS NULL
  WHERE a.reason IS NOT NULL;

CREATE OR REPLACE VIEW ledger.message_files WITH (security_invoker = true) AS
SELECT f.turn_id || '/' || f.message || '/' || f.sequence AS id, f.turn_id || '/' || f.message AS message_id,
    f.kind, f.path AS file_path, f.line_start, f.line_end, f.turn_id
  FROM turntree.message_files f;

CREATE OR REPLACE VIEW ledger.message_lints WITH (security_invoker = true) AS
SELECT m.id || '/' || (x.o - 1) AS id, m.id AS message_id, x.j ->> 'path' AS file_path, x.j ->> 'message' AS message,
    x.j ->> 'source' AS lint_source, (x.j ->> 'line_start')::int AS start_line, (x.j ->> 'column_start')::int AS start_col,
    (x.j ->> 'line_end')::int AS end_line, (x.j ->> 'column_end')::int AS end_col, x.j ->> 'severity' AS severity, m.turn_id
  FROM ledger.messages m,
    LATERAL jsonb_array_elements(CASE jsonb_typeof(m.context_json -> 'lints') WHEN 'array'
      THEN m.context_json -> 'lints' ELSE '[]' END) WITH ORDINALITY AS x (j, o);

-- Fenced code blocks in assistant messages; "```python src/a.py" names the file that the block is for.
CREATE OR REPLACE VIEW ledger.message_codeblocks WITH (security_invoker = true) AS
SELECT m.id || '/' || (x.o - 1) AS id, m.id AS message_id, (x.o - 1)::int AS idx,
    nullif(split_part(x.m[1], ' ', 1), '') AS language, x.m[3] AS content,
    nullif(split_part(x.m[1], ' ', 2), '') AS file_path, NULL::int AS line_start, NULL::int AS line_end, m.turn_id
  FROM ledger.messages m,
    LATERAL regexp_matches(E'\n' || m.content || E'\n', '\n```([^\n`]*?)(\n)(.*?)\n```(?=\n)', 'g') WITH ORDINALITY AS x (m, o)
  WHERE m.role = 'assistant';

-- A thread, turn by turn: SELECT … FROM ledger.thread(head) a JOIN ledger.messages m USING (turn_id).
CREATE OR REPLACE FUNCTION ledger.thread(head uuid) RETURNS TABLE (turn_id uuid, depth int) LANGUAGE sql STABLE ROWS 100 AS $$
  SELECT a.turn_id, a.depth FROM turntree.ancestry(turntree.current_workspace(), head) a
$$;

-- Returns the children of a turn. A turn does not list its children, and there is no index on its parent: the first
-- child has the next depth in the same segment, each other one opens a segment.
CREATE OR REPLACE FUNCTION ledger.children(turn uuid) RETURNS TABLE (turn_id uuid) LANGUAGE sql STABLE ROWS 2 AS $$
  SELECT x.id FROM turntree.turns t, LATERAL (
      SELECT n.id FROM turntree.turns n
        WHERE n.workspace_id = t.workspace_id AND n.segment_id = t.segment_id AND n.depth = t.depth + 1
      UNION ALL
      SELECT f.id FROM turntree.segments f
        WHERE f.workspace_id = t.workspace_id AND f.parent_id = t.segment_id AND f.fork_depth = t.depth
    ) x
    WHERE t.workspace_id = turntree.current_workspace() AND t.id = turn
$$;

-- Returns one message by its id.
CREATE OR REPLACE FUNCTION ledger.message(id text) RETURNS SETOF ledger.messages LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT * FROM ledger.messages m WHERE m.turn_id = split_part($1, '/', 1)::uuid AND m.sequence = split_part($1, '/', 2)::int
$$;

-- Returns every session whose thread ever contained a turn. Reads session_reach, never ancestry.
CREATE OR REPLACE FUNCTION ledger.sessions_holding(turn uuid) RETURNS TABLE (session_label text, session_id uuid)
LANGUAGE sql STABLE ROWS 10 AS $$
  WITH RECURSIVE below (segment_id, low) AS (
    SELECT t.segment_id, t.depth FROM turntree.turns t
      WHERE t.workspace_id = turntree.current_workspace() AND t.id = turn
    UNION ALL
    SELECT s.id, s.fork_depth + 1 FROM below b, LATERAL (SELECT f.id, f.fork_depth FROM turntree.segments f
      WHERE f.workspace_id = turntree.current_workspace()
        AND f.parent_id = b.segment_id AND f.fork_depth >= b.low OFFSET 0) s
  )
  SELECT DISTINCT n.name, r.session_id FROM below b
    CROSS JOIN LATERAL (SELECT x.session_id FROM turntree.session_reach x
      WHERE x.workspace_id = turntree.current_workspace()
        AND x.segment_id = b.segment_id AND x.max_depth >= b.low OFFSET 0) r
    JOIN turntree.session_names n ON n.workspace_id = turntree.current_workspace()
      AND n.session_id = r.session_id AND n.reason IS NULL
$$;

GRANT SELECT ON ALL TABLES IN SCHEMA ledger TO turntree_app, turntree_reader;
