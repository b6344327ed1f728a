-- The ledger as a graph: twenty-two kinds of edges. Nothing is copied: an edge is read from the rows that state it.
-- The ends are ids as text. Most start with the id of a turn, a run or a session, their stream, which is what the
-- indexes cover: call ledger.edges_from(id) and ledger.edges_to(id), or filter the views by from_stream and
-- to_stream.
--
--   Run, Branch, Subagent   stream                Event        stream/event/seq
--   Message                 stream/sequence       Generation   stream/generation/sequence
--   ToolCall                stream/call/call_id   ToolResult   stream/result/call_id
--   Summary                 stream/summary        Agent        kind:id
--   Resource, Snapshot, Policy, Handle            the id that their event gives

-- Returns the group of an event's kind: intent, observation, transition or provenance. A kind of an extension is an
-- observation. A test compares it with the registry in core.event.
CREATE OR REPLACE FUNCTION ledger.event_group(kind text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN $1 IN (
      'run.started', 'model_call.started', 'tool_call.started', 'tool_call.continued', 'approval.requested',
      'plan.started', 'plan.step_started', 'model.inference_requested', 'human.notified', 'human.approval_requested', 'code.invoked') THEN 'intent'
    WHEN $1 IN (
      'session.created', 'session.head_moved', 'session.renamed', 'session.aliased', 'session.merged',
      'session.archived', 'session.unarchived', 'session.persona_changed', 'permission.granted', 'token.issued',
      'token.revoked', 'member.added', 'member.role_changed', 'member.removed', 'member.password_set',
      'member.password_removed', 'invitation.created',
      'invitation.accepted', 'invitation.revoked', 'api_key.created', 'api_key.revoked', 'login_session.created', 'login_session.ended', 'identity.linked', 'identity.unlinked', 'policy.activated', 'policy.proposed', 'run.parked', 'run.unparked', 'run.finished',
      'run.failed', 'run.interrupted', 'event.substituted', 'resource.created', 'resource.attached',
      'resource.detached', 'resource.removed', 'plan.finished', 'node.tagged', 'node.untagged', 'provider.created',
      'provider.configured', 'provider.state_changed', 'model.created', 'model.configured', 'model.state_changed',
      'session.configured', 'session.state_changed', 'agent.created', 'agent.configured', 'agent.state_changed',
      'task.created', 'task.configured', 'task.state_changed', 'human.created', 'human.configured',
      'human.state_changed', 'code.created', 'code.configured', 'code.state_changed', 'information.created',
      'information.state_changed', 'conversation.created', 'conversation.configured', 'conversation.state_changed',
      'connector.created', 'connector.configured', 'connector.state_changed', 'participant.added', 'participant.removed', 'session.model_switched', 'session.completed', 'agent.task_assigned',
      'agent.thinking', 'agent.executing', 'agent.completed', 'agent.reset', 'task.assigned', 'task.started',
      'task.completed', 'task.failed', 'information.validated', 'information.updated', 'program.granted',
      'program.revoked', 'program.visibility_changed', 'webhook.created', 'webhook.rotated', 'webhook.paused', 'webhook.resumed',
      'webhook.deleted', 'trigger.created', 'trigger.rotated', 'trigger.paused', 'trigger.resumed', 'trigger.deleted') THEN 'transition'
    WHEN $1 IN (
      'session.forked', 'conversation.forked', 'session.spawned', 'plan.step_compensated', 'transcript.materialized', 'turn.recorded',
      'turn.snapshotted', 'message.erased', 'post.erased') THEN 'provenance'
    ELSE 'observation' END
$$;

-- Returns the source documents' name for an event kind, or the kind itself where they have none.
CREATE OR REPLACE FUNCTION ledger.document_kind(kind text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE $1
    WHEN 'model_call.started' THEN 'model_request'
    WHEN 'model_call.finished' THEN 'model_response'
    WHEN 'message.appended' THEN 'history_append'
    WHEN 'tool_call.started' THEN 'tool_call'
    WHEN 'tool_call.finished' THEN 'tool_result'
    WHEN 'policy.activated' THEN 'policy_activated'
    WHEN 'run.interrupted' THEN 'interruption'
    WHEN 'event.substituted' THEN 'substitution'
    WHEN 'session.forked' THEN 'agent_forked'
    WHEN 'run.started' THEN 'run_started'
    WHEN 'run.finished' THEN 'run_finished'
    WHEN 'transcript.materialized' THEN 'snapshot_materialized'
    WHEN 'snapshot.created' THEN 'snapshot_created'
    WHEN 'resource.attached' THEN 'resource_attached'
    WHEN 'resource.detached' THEN 'resource_detached'
    WHEN 'resource.probed' THEN 'resource_liveness_probe'
    WHEN 'snapshot.restore_attempted' THEN 'restore_attempted'
    ELSE $1 END
$$;

-- Returns the stream that an id starts with, or null.
CREATE OR REPLACE FUNCTION turntree.node_stream(p_id text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/|$)' THEN left(p_id, 36)::uuid END
$$;

-- When an event was recorded, and since when its statement has been true.
CREATE OR REPLACE FUNCTION turntree.recorded_at(p_event jsonb) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT turntree.unix_ms((p_event ->> 'at')::timestamptz)
$$;
CREATE OR REPLACE FUNCTION turntree.effective_from(p_event jsonb) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT turntree.unix_ms(coalesce(p_event ->> 'valid_from', p_event ->> 'at')::timestamptz)
$$;

-- Returns the index of the message that an event carried. Queries come first, then replies.
CREATE OR REPLACE FUNCTION turntree.event_message(p_ws uuid, p_stream uuid, p_seq int, p_kind text)
RETURNS int LANGUAGE sql STABLE AS $$
  SELECT count(*)::int FROM turntree.events o
    WHERE o.workspace_id = p_ws AND o.stream_id = p_stream AND position('"message":"sha256:' IN o.body) > 0
      AND CASE WHEN p_kind IN ('run.started', 'message.appended') THEN o.seq < p_seq AND o.kind IN ('run.started', 'message.appended')
        ELSE o.kind IN ('run.started', 'message.appended')
          OR o.seq < p_seq AND o.kind IN ('model_call.finished', 'tool_call.finished', 'route.chosen', 'run.interrupted') END
$$;

-- Returns the lines of a turn's body, as documents.
CREATE OR REPLACE FUNCTION turntree.turn_messages(p_ws uuid, p_turn uuid) RETURNS TABLE (sequence int, j jsonb)
LANGUAGE sql STABLE ROWS 6 AS $$
  SELECT (l.o - 1)::int, turntree.document(l.line)
    FROM turntree.turn_bodies b, LATERAL string_to_table(b.body, E'\n') WITH ORDINALITY AS l (line, o)
    WHERE b.workspace_id = p_ws AND b.turn_id = p_turn
$$;

-- Returns the history list that a message of a turn was appended to, if its events name one.
CREATE OR REPLACE FUNCTION turntree.history_list(p_ws uuid, p_turn uuid, p_sequence int) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT turntree.document(e.body) #>> '{data,list}' FROM turntree.events e
    WHERE e.workspace_id = p_ws AND e.stream_id = p_turn AND e.kind = 'message.appended'
      AND turntree.event_message(p_ws, p_turn, e.seq, e.kind) = p_sequence LIMIT 1), 'main')
$$;

-- Returns the turns of a thread from a depth on, by segments.
CREATE OR REPLACE FUNCTION turntree.thread_range(p_ws uuid, p_head uuid, p_low int) RETURNS TABLE (turn_id uuid)
LANGUAGE sql STABLE ROWS 20 AS $$
  WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
    SELECT s.id, s.fork_depth, t.depth, s.parent_id FROM turntree.turns t
      JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
      WHERE t.workspace_id = p_ws AND t.id = p_head
    UNION ALL
    SELECT s.id, s.fork_depth, c.low, s.parent_id FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = p_ws AND id = c.parent_id OFFSET 0) s WHERE c.low >= p_low
  )
  SELECT t.id FROM chain c, LATERAL (SELECT id FROM turntree.turns WHERE workspace_id = p_ws
    AND segment_id = c.segment_id AND depth > c.low AND depth <= c.high AND depth >= p_low OFFSET 0) t
$$;

-- Returns the compactions that cover a turn. There are few, and each is filtered by its depth before the walk.
CREATE OR REPLACE FUNCTION turntree.compactions_covering(p_ws uuid, p_turn uuid) RETURNS TABLE (turn_id uuid)
LANGUAGE sql STABLE ROWS 2 AS $$
  SELECT c.turn_id FROM turntree.turns x, turntree.compactions c
    JOIN turntree.turns l ON l.workspace_id = c.workspace_id AND l.id = c.summarized_through
    WHERE x.workspace_id = p_ws AND x.id = p_turn AND c.workspace_id = p_ws
      AND x.depth BETWEEN l.depth - c.turns_summarized + 1 AND l.depth AND turntree.is_ancestor(p_ws, p_turn, l.id)
$$;

-- Edges whose two ends belong to one run.
CREATE OR REPLACE VIEW turntree.run_edges WITH (security_invoker = true) AS
SELECT 'RUN_HAS_EVENT' AS kind, 'Run' AS from_kind, e.stream_id::text AS from_id, 'Event' AS to_kind,
    e.stream_id || '/event/' || e.seq AS to_id,
    jsonb_build_object('seq', e.seq, 'event', ledger.document_kind(e.kind)) AS attributes,
    turntree.effective_from(turntree.document(e.body)) AS valid_from, NULL::bigint AS valid_to,
    turntree.recorded_at(turntree.document(e.body)) AS recorded_at, e.stream_id
  FROM turntree.events e
  WHERE EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = e.workspace_id AND t.id = e.stream_id)
    OR EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = e.workspace_id AND r.id = e.stream_id)
UNION ALL
-- What a run of ours produced, event by event.
SELECT 'EVENT_PRODUCES', 'Event', e.stream_id || '/event/' || e.seq, p.to_kind, e.stream_id || p.to_part, '{}'::jsonb,
    turntree.effective_from(turntree.document(e.body)), NULL, turntree.recorded_at(turntree.document(e.body)), e.stream_id
  FROM turntree.events e, LATERAL (
    SELECT 'Message' AS to_kind, '/' || turntree.event_message(e.workspace_id, e.stream_id, e.seq, e.kind) AS to_part
    UNION ALL SELECT 'Generation', '/generation/' || turntree.event_message(e.workspace_id, e.stream_id, e.seq, e.kind)
      WHERE e.kind IN ('model_call.finished', 'run.interrupted')
    UNION ALL SELECT 'ToolResult', '/result/' || (turntree.document(e.body) #>> '{data,call_id}') WHERE e.kind = 'tool_call.finished'
  ) p
  WHERE e.kind IN ('run.started', 'message.appended', 'model_call.finished', 'tool_call.finished', 'route.chosen', 'run.interrupted')
    AND position('"message":"sha256:' IN e.body) > 0
UNION ALL
-- What an imported turn produced: its only event represents all of it.
SELECT 'EVENT_PRODUCES', 'Event', e.stream_id || '/event/' || e.seq, p.to_kind, e.stream_id || p.to_part, '{}'::jsonb,
    turntree.effective_from(turntree.document(e.body)), NULL, turntree.recorded_at(turntree.document(e.body)), e.stream_id
  FROM turntree.events e, LATERAL (
    SELECT 'Generation' AS to_kind, '/generation/' || m.sequence AS to_part FROM turntree.turn_messages(e.workspace_id, e.stream_id) m
      WHERE m.j ->> 'role' = 'assistant'
    UNION ALL SELECT 'ToolResult', '/result/' || c.call_id FROM turntree.tool_calls c
      WHERE c.workspace_id = e.workspace_id AND c.turn_id = e.stream_id
    UNION ALL SELECT 'Summary', '/summary' FROM turntree.compactions c
      WHERE c.workspace_id = e.workspace_id AND c.turn_id = e.stream_id
    UNION ALL SELECT 'Message', '/' || i FROM (SELECT turntree.turn_header(e.workspace_id, e.stream_id) -> 'messages' AS h OFFSET 0) h,
      generate_series((h.h ->> 'query')::int, (h.h ->> 'count')::int - 1) i
  ) p
  WHERE e.kind = 'turn.recorded'
UNION ALL
SELECT 'EVENT_CONSUMES', 'Event', e.stream_id || '/event/' || e.seq, p.to_kind, e.stream_id || p.to_part, '{}'::jsonb,
    turntree.effective_from(turntree.document(e.body)), NULL, turntree.recorded_at(turntree.document(e.body)), e.stream_id
  FROM turntree.events e, LATERAL (
    SELECT 'Message' AS to_kind, '/' || i AS to_part
      FROM generate_series(0, (turntree.turn_header(e.workspace_id, e.stream_id) #>> '{messages,query}')::int - 1) i
      WHERE e.kind = 'turn.recorded'
    UNION ALL SELECT CASE WHEN o.kind = 'model_call.finished' THEN 'Generation' ELSE 'Message' END,
        CASE WHEN o.kind = 'model_call.finished' THEN '/generation/' ELSE '/' END
          || turntree.event_message(o.workspace_id, o.stream_id, o.seq, o.kind)
      FROM turntree.events o
      WHERE e.kind = 'model_call.started' AND o.workspace_id = e.workspace_id AND o.stream_id = e.stream_id AND o.seq < e.seq
        AND o.kind IN ('run.started', 'message.appended', 'model_call.finished', 'tool_call.finished')
        AND position('"message":"sha256:' IN o.body) > 0
    UNION ALL SELECT 'ToolCall', '/call/' || (turntree.document(e.body) #>> '{data,call_id}') WHERE e.kind = 'tool_call.finished'
  ) p
  WHERE e.kind IN ('turn.recorded', 'model_call.started', 'tool_call.finished')
UNION ALL
SELECT 'APPENDED_TO_HISTORY', 'Run', t.id::text, 'Message', t.id || '/' || i,
    jsonb_build_object('list', turntree.history_list(t.workspace_id, t.id, i)),
    turntree.unix_ms(t.started_at), NULL, turntree.unix_ms(t.sealed_at), t.id
  FROM turntree.turns t, LATERAL generate_series(0, (turntree.turn_header(t.workspace_id, t.id) #>> '{messages,count}')::int - 1) i
UNION ALL
SELECT 'CALLS_TOOL', 'Generation',
    replace(turntree.tool_part(c.workspace_id, c.turn_id, c.call_id, 'tool_use') ->> 'message_id', '/', '/generation/'),
    'ToolCall', c.turn_id || '/call/' || c.call_id, jsonb_build_object('tool', c.tool),
    turntree.unix_ms(t.started_at), NULL, turntree.unix_ms(t.sealed_at), c.turn_id
  FROM turntree.tool_calls c JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id
UNION ALL
SELECT 'CALLS_TOOL', 'Event', e.stream_id || '/event/' || e.seq, 'ToolCall',
    e.stream_id || '/call/' || (turntree.document(e.body) #>> '{data,call_id}'),
    jsonb_strip_nulls(jsonb_build_object('tool', turntree.document(e.body) #> '{data,tool}')),
    turntree.effective_from(turntree.document(e.body)), NULL, turntree.recorded_at(turntree.document(e.body)), e.stream_id
  FROM turntree.events e WHERE e.kind = 'tool_call.started'
UNION ALL
SELECT 'RETURNS_RESULT', 'ToolCall', c.turn_id || '/call/' || c.call_id, 'ToolResult', c.turn_id || '/result/' || c.call_id,
    jsonb_build_object('status', c.status::text),
    turntree.unix_ms(t.started_at), NULL, turntree.unix_ms(t.sealed_at), c.turn_id
  FROM turntree.tool_calls c JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id;

-- Which agent acted, and which tool call spawned a subagent.
CREATE OR REPLACE VIEW turntree.agent_edges WITH (security_invoker = true) AS
SELECT 'AGENT_HAS_RUN' AS kind, 'Agent' AS from_kind, t.by AS from_id, 'Run' AS to_kind, t.id::text AS to_id,
    jsonb_build_object('outcome', t.outcome::text) AS attributes, turntree.unix_ms(t.started_at) AS valid_from,
    NULL::bigint AS valid_to, turntree.unix_ms(t.sealed_at) AS recorded_at, NULL::uuid AS from_stream, t.id AS to_stream
  FROM turntree.turns t;

CREATE OR REPLACE VIEW turntree.spawn_edges WITH (security_invoker = true) AS
SELECT 'SPAWNED_FROM' AS kind, 'Subagent' AS from_kind, w.session_id::text AS from_id, 'Agent' AS to_kind, t.by AS to_id,
    jsonb_strip_nulls(jsonb_build_object('session', w.parent_session_id, 'turn', w.parent_turn_id, 'call_id', w.call_id,
      'mode', w.mode, 'task', w.task)) AS attributes, turntree.unix_ms(s.created_at) AS valid_from,
    NULL::bigint AS valid_to, turntree.unix_ms(s.created_at) AS recorded_at, w.session_id AS from_stream, NULL::uuid AS to_stream
  FROM turntree.spawns w
  JOIN turntree.turns t ON t.workspace_id = w.workspace_id AND t.id = w.parent_turn_id
  JOIN turntree.sessions s ON s.workspace_id = w.workspace_id AND s.id = w.session_id;

-- A turn is derived from the one it follows.
CREATE OR REPLACE VIEW turntree.parent_edges WITH (security_invoker = true) AS
SELECT 'DERIVED_FROM' AS kind, 'Run' AS from_kind, t.id::text AS from_id, 'Run' AS to_kind, t.parent_id::text AS to_id,
    '{"how": "follows"}'::jsonb AS attributes, turntree.unix_ms(t.started_at) AS valid_from, NULL::bigint AS valid_to,
    turntree.unix_ms(t.sealed_at) AS recorded_at, t.id AS from_stream, t.parent_id AS to_stream
  FROM turntree.turns t WHERE t.parent_id IS NOT NULL;

-- A summary represents each turn it covers, and is derived from the last of them.
CREATE OR REPLACE VIEW turntree.summary_edges WITH (security_invoker = true) AS
SELECT x.kind, 'Summary' AS from_kind, c.turn_id || '/summary' AS from_id, 'Run' AS to_kind, x.turn_id::text AS to_id,
    x.attributes, turntree.unix_ms(t.started_at) AS valid_from, NULL::bigint AS valid_to,
    turntree.unix_ms(t.sealed_at) AS recorded_at, c.turn_id AS from_stream, x.turn_id AS to_stream
  FROM turntree.compactions c
  JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id
  CROSS JOIN LATERAL (
    SELECT 'SUMMARIZES' AS kind, a.turn_id, '{}'::jsonb AS attributes FROM turntree.turns l,
        turntree.thread_range(c.workspace_id, c.summarized_through, l.depth - c.turns_summarized + 1) a
      WHERE l.workspace_id = c.workspace_id AND l.id = c.summarized_through
    UNION ALL SELECT 'DERIVED_FROM', c.summarized_through, '{"how": "summarizes"}'::jsonb
  ) x;

-- A session that was forked at a turn.
CREATE OR REPLACE VIEW turntree.fork_edges WITH (security_invoker = true) AS
SELECT 'FORKED_FROM' AS kind, CASE WHEN w.session_id IS NULL THEN 'Branch' ELSE 'Subagent' END AS from_kind,
    h.session_id::text AS from_id, 'Run' AS to_kind, h.after_id::text AS to_id, jsonb_build_object('by', h.by) AS attributes,
    turntree.unix_ms(h.changed_at) AS valid_from, NULL::bigint AS valid_to, turntree.unix_ms(h.changed_at) AS recorded_at,
    h.session_id AS from_stream, h.after_id AS to_stream
  FROM turntree.session_history h
  LEFT JOIN turntree.spawns w ON w.workspace_id = h.workspace_id AND w.session_id = h.session_id
  WHERE h.version = 1 AND h.kind = 'fork';

-- Relations that events state. valid_from and valid_to say when the relation was true, recorded_at when it was
-- recorded. Unless the event ends it itself, a later event does: a resource is attached until it is detached from the
-- same holder, owned until then or until it has another owner, and a policy is in force until the same agent's next
-- one.
CREATE OR REPLACE VIEW turntree.link_edges WITH (security_invoker = true) AS
SELECT l.kind, l.from_kind, l.from_id, l.to_kind, l.to_id,
    jsonb_strip_nulls(jsonb_build_object('event', CASE WHEN l.seq >= 0 THEN l.stream_id || '/event/' || l.seq END) || CASE l.kind
      WHEN 'MCP_RESOURCE_UPDATED' THEN jsonb_build_object('uri', e.d #> '{data,uri}', 'server', e.d #> '{data,server}',
        'etag', e.d #> '{data,etag}', 'hash', e.d #> '{data,hash}')
      WHEN 'MOUNTS_RESOURCE' THEN jsonb_build_object('mount', e.d #> '{data,mount}', 'mode', coalesce(e.d #> '{data,mode}', '"rw"'))
      WHEN 'ATTACHED_TO' THEN jsonb_build_object('mode', coalesce(e.d #> '{data,mode}', '"rw"'))
      WHEN 'DERIVED_FROM' THEN jsonb_build_object('how', CASE WHEN l.seq < 0 THEN l.holder
        WHEN l.from_kind = 'Resource' THEN 'restored' WHEN l.from_kind = 'Event' THEN 'caused' ELSE 'started' END)
      WHEN 'FORKED_FROM' THEN jsonb_build_object('from_branch', e.d #> '{data,from_branch}')
      WHEN 'ACTIVATES_POLICY' THEN jsonb_build_object('agent_id', e.d #> '{data,agent_id}', 'notes', e.d #> '{data,notes}')
      WHEN 'PROPOSES_POLICY' THEN jsonb_build_object('agent_id', e.d #> '{data,agent_id}', 'notes', e.d #> '{data,notes}')
      ELSE jsonb_build_object('reason', e.d #> '{data,reason}') END) AS attributes,
    turntree.unix_ms(l.valid_from) AS valid_from, turntree.unix_ms(coalesce(l.valid_to, least(
      CASE WHEN l.kind IN ('ATTACHED_TO', 'MOUNTS_RESOURCE', 'OWNS_RESOURCE') THEN (SELECT min(n.valid_from) FROM turntree.event_links n
        WHERE n.workspace_id = l.workspace_id AND n.kind = 'DETACHED' AND n.holder = l.holder AND n.valid_from > l.valid_from
          AND n.from_id = CASE l.kind WHEN 'ATTACHED_TO' THEN l.from_id ELSE l.to_id END) END,
      CASE WHEN l.kind = 'OWNS_RESOURCE' THEN (SELECT min(n.valid_from) FROM turntree.event_links n
        WHERE n.workspace_id = l.workspace_id AND n.kind = l.kind AND n.to_id = l.to_id AND n.valid_from > l.valid_from) END,
      CASE WHEN l.kind = 'ACTIVATES_POLICY' THEN (SELECT min(n.valid_from) FROM turntree.event_links n
        WHERE n.workspace_id = l.workspace_id AND n.kind = l.kind AND n.valid_from > l.valid_from
          AND n.holder IS NOT DISTINCT FROM l.holder) END))) AS valid_to,
    coalesce(turntree.recorded_at(e.d), turntree.unix_ms(l.valid_from)) AS recorded_at,
    turntree.node_stream(l.from_id) AS from_stream, turntree.node_stream(l.to_id) AS to_stream
  FROM turntree.event_links l LEFT JOIN LATERAL (SELECT turntree.document(x.body) AS d FROM turntree.events x
    WHERE x.workspace_id = l.workspace_id AND x.stream_id = l.stream_id AND x.seq = l.seq OFFSET 0) e ON true
  WHERE l.kind NOT IN ('DETACHED', 'HANDLE');

-- All edges.
CREATE OR REPLACE VIEW ledger.edges WITH (security_invoker = true) AS
SELECT kind, from_kind, from_id, to_kind, to_id, attributes, valid_from, valid_to, recorded_at,
    stream_id AS from_stream, stream_id AS to_stream FROM turntree.run_edges
UNION ALL SELECT * FROM turntree.agent_edges
UNION ALL SELECT * FROM turntree.spawn_edges
UNION ALL SELECT * FROM turntree.parent_edges
UNION ALL SELECT * FROM turntree.summary_edges
UNION ALL SELECT * FROM turntree.fork_edges
UNION ALL SELECT * FROM turntree.link_edges;

-- Returns the edges that leave a node, by its id.
CREATE OR REPLACE FUNCTION ledger.edges_from(id text) RETURNS SETOF ledger.edges LANGUAGE sql STABLE ROWS 20 AS $$
  SELECT e.kind, e.from_kind, e.from_id, e.to_kind, e.to_id, e.attributes, e.valid_from, e.valid_to, e.recorded_at,
      e.stream_id, e.stream_id FROM turntree.run_edges e WHERE e.stream_id = turntree.node_stream($1) AND e.from_id = $1
  UNION ALL SELECT * FROM turntree.agent_edges e WHERE e.from_id = $1
  UNION ALL SELECT * FROM turntree.spawn_edges e WHERE e.from_stream = turntree.node_stream($1) AND e.from_id = $1
  UNION ALL SELECT * FROM turntree.parent_edges e WHERE e.from_stream = turntree.node_stream($1) AND e.from_id = $1
  UNION ALL SELECT * FROM turntree.summary_edges e WHERE e.from_stream = turntree.node_stream($1) AND e.from_id = $1
  UNION ALL SELECT * FROM turntree.fork_edges e WHERE e.from_stream = turntree.node_stream($1) AND e.from_id = $1
  UNION ALL SELECT * FROM turntree.link_edges e WHERE e.from_id = $1
$$;

-- Returns the edges that arrive at a node, by its id. No index leads from a turn to its children or forks: children
-- are found by segment and depth, forks by the sessions that reached the segment.
CREATE OR REPLACE FUNCTION ledger.edges_to(id text) RETURNS SETOF ledger.edges LANGUAGE sql STABLE ROWS 20 AS $$
  SELECT e.kind, e.from_kind, e.from_id, e.to_kind, e.to_id, e.attributes, e.valid_from, e.valid_to, e.recorded_at,
      e.stream_id, e.stream_id FROM turntree.run_edges e WHERE e.stream_id = turntree.node_stream($1) AND e.to_id = $1
  UNION ALL SELECT * FROM turntree.agent_edges e WHERE e.to_stream = turntree.node_stream($1) AND e.to_id = $1
  UNION ALL SELECT * FROM turntree.spawn_edges e WHERE e.to_id = $1
  UNION ALL SELECT e.* FROM ledger.children(CASE WHEN length($1) = 36 THEN turntree.node_stream($1) END) c,
    LATERAL (SELECT * FROM turntree.parent_edges f WHERE f.from_stream = c.turn_id AND f.to_id = $1 OFFSET 0) e
  UNION ALL SELECT e.* FROM turntree.compactions_covering(turntree.current_workspace(), CASE WHEN length($1) = 36 THEN turntree.node_stream($1) END) c,
    LATERAL (SELECT * FROM turntree.summary_edges s WHERE s.from_stream = c.turn_id AND s.to_id = $1 OFFSET 0) e
  UNION ALL SELECT e.* FROM turntree.turns t JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id
      AND r.segment_id = t.segment_id AND r.max_depth >= t.depth,
    LATERAL (SELECT * FROM turntree.fork_edges f WHERE f.from_stream = r.session_id AND f.to_id = $1 OFFSET 0) e
    WHERE t.workspace_id = turntree.current_workspace() AND t.id = CASE WHEN length($1) = 36 THEN turntree.node_stream($1) END
  UNION ALL SELECT * FROM turntree.link_edges e WHERE e.to_id = $1
$$;

GRANT SELECT ON turntree.run_edges, turntree.agent_edges, turntree.spawn_edges, turntree.parent_edges,
  turntree.summary_edges, turntree.fork_edges, turntree.link_edges TO turntree_app, turntree_reader;
