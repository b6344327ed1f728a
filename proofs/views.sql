-- The look-ups people do through the schema ledger, each as they would write it.

-- name: analyze
ANALYZE;

-- name: set_role
SET ROLE turntree_reader;

-- name: set_workspace
SELECT set_config('turntree.workspace', %(workspace)s, false), set_config('turntree.viewer', 'human:ana', false);

-- name: count_alone
-- What parallel workers touch is not counted in their leader's transaction.
SET max_parallel_workers_per_gather = 0;

-- name: touched
-- What this transaction has read of the bodies so far, inside functions too.
SELECT seq_scan AS scans, seq_tup_read + idx_tup_fetch AS bodies FROM pg_stat_xact_user_tables
  WHERE relid = 'turntree.turn_bodies'::regclass;

-- name: explain
EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)

-- name: messages_of_a_turn
SELECT m.turn_id, m.sequence, m.role, m.content FROM ledger.messages m
  WHERE m.turn_id = %(turn)s::uuid ORDER BY m.sequence;

-- name: a_message_by_its_id
SELECT m.turn_id, m.role, m.content FROM ledger.message(%(message)s) m;

-- name: messages_of_a_session
SELECT m.turn_id, m.sequence, m.role, m.content
  FROM ledger.sessions s CROSS JOIN ledger.thread(s.thread_id) a JOIN ledger.messages m USING (turn_id)
  WHERE s.label = %(session)s ORDER BY a.depth, m.sequence;

-- name: messages_of_a_long_session
SELECT m.turn_id, m.sequence, m.role, m.content
  FROM ledger.sessions s CROSS JOIN ledger.thread(s.thread_id) a JOIN ledger.messages m USING (turn_id)
  WHERE s.label = %(long_session)s ORDER BY a.depth, m.sequence;

-- name: messages_in_a_time_range
SELECT m.turn_id, m.sequence, m.role, m.content FROM ledger.messages m
  WHERE m.created_at >= %(from)s AND m.created_at < %(to)s ORDER BY m.created_at, m.id;

-- name: a_role_s_messages_in_a_time_range
SELECT m.turn_id, m.content FROM ledger.messages m
  WHERE m.role = 'user' AND m.created_at >= %(from)s AND m.created_at < %(to)s;

-- name: tool_calls_by_name
SELECT c.turn_id, c.id, c.status, c.params_json, c.result_json FROM ledger.tool_calls c
  WHERE c.tool_name = %(tool)s;

-- name: tool_calls_of_a_turn
SELECT c.turn_id, c.id, c.message_id, c.tool_name, c.params_json, c.result_json, c.error
  FROM ledger.tool_calls c WHERE c.turn_id = %(turn)s::uuid ORDER BY c.sequence;

-- name: tool_calls_of_a_session
SELECT c.turn_id, c.id, c.tool_name, c.status, c.params_json
  FROM ledger.sessions s CROSS JOIN ledger.thread(s.thread_id) a JOIN ledger.tool_calls c USING (turn_id)
  WHERE s.label = %(session)s ORDER BY a.depth, c.sequence;

-- name: the_tool_call_that_spawned_a_session
SELECT c.turn_id, c.id, c.tool_name, c.params_json
  FROM ledger.sessions s JOIN ledger.tool_calls c ON c.turn_id = s.parent_turn_id AND c.id = s.spawn_tool_call_id
  WHERE s.label = %(worker)s;

-- name: sessions_a_turn_spawned
SELECT c.turn_id, c.id, c.spawned_session_label FROM ledger.tool_calls c
  WHERE c.turn_id = %(spawner)s::uuid AND c.spawned_session_label IS NOT NULL;

-- name: a_turn_with_every_column
SELECT t.id AS turn_id, t.* FROM ledger.turns t WHERE t.id = %(turn)s::uuid;

-- name: turns_by_status
SELECT t.id AS turn_id, t.model, t.response_message_id FROM ledger.turns t WHERE t.status = 'failed';

-- name: turns_by_model
SELECT t.id AS turn_id, t.status, t.total_tokens FROM ledger.turns t WHERE t.model = %(model)s;

-- name: turns_in_a_time_range
SELECT t.id AS turn_id, t.status, t.model, t.query_message_ids FROM ledger.turns t
  WHERE t.started_at >= %(from)s AND t.started_at < %(to)s ORDER BY t.started_at;

-- name: children_of_a_turn
SELECT t.id AS turn_id, t.status FROM ledger.children(%(fork)s::uuid) c JOIN ledger.turns t ON t.id = c.turn_id;

-- name: thread_of_a_deep_head
SELECT a.turn_id, a.depth, t.model, t.status
  FROM ledger.thread(%(deep)s::uuid) a JOIN ledger.turns t ON t.id = a.turn_id ORDER BY a.depth;

-- name: ancestry_of_a_deep_head_in_one_row
SELECT h.turn_id, h.depth, h.ancestry, h.total_tokens FROM ledger.threads h WHERE h.turn_id = %(deep)s::uuid;

-- name: where_a_session_stood
SELECT h.thread_id AS turn_id, h.kind, h.by FROM ledger.session_history h
  WHERE h.session_label = %(busy)s AND h.changed_at <= %(moment)s ORDER BY h.version DESC LIMIT 1;

-- name: sessions_that_ever_held_a_turn
SELECT s.session_label FROM ledger.sessions_holding(%(fork)s::uuid) s;

-- name: a_session_by_an_alias
SELECT s.label, s.thread_id AS turn_id FROM ledger.session_aliases a JOIN ledger.sessions s ON s.label = a.session_label
  WHERE a.alias = %(alias)s;

-- name: sessions_by_label
SELECT s.label, s.thread_id AS turn_id, s.status, s.updated_at FROM ledger.sessions s
  WHERE s.label >= %(session)s ORDER BY s.label LIMIT 50;

-- name: compactions_with_summaries
SELECT c.turn_id, c.summary, c.summarized_through_turn_id FROM ledger.compactions c;

-- name: compactions_of_a_session
SELECT c.turn_id, c.summary
  FROM ledger.sessions s CROSS JOIN ledger.thread(s.thread_id) a JOIN ledger.compactions c USING (turn_id)
  WHERE s.label = %(long_session)s;

-- name: files_by_path
SELECT f.turn_id, f.message_id, f.kind, f.line_start FROM ledger.message_files f WHERE f.file_path = %(path)s;

-- name: code_of_a_turn
SELECT b.turn_id, b.language, b.content FROM ledger.message_codeblocks b WHERE b.turn_id = %(turn)s::uuid;

-- name: usage_of_a_session
SELECT h.turn_id, h.total_tokens FROM ledger.sessions s JOIN ledger.threads h ON h.turn_id = s.thread_id
  WHERE s.label = %(session)s;

-- name: usage_of_a_session_by_model
SELECT t.model, count(*), sum(t.total_tokens)
  FROM ledger.sessions s CROSS JOIN ledger.thread(s.thread_id) a JOIN ledger.turns t ON t.id = a.turn_id
  WHERE s.label = %(long_session)s GROUP BY 1;

-- name: usage_by_model
SELECT t.model, count(*), sum(t.input_tokens), sum(t.output_tokens) FROM ledger.turns t GROUP BY 1;

-- name: edges_from_a_turn
SELECT %(turn)s::uuid AS turn_id, e.kind, e.to_kind, e.to_id, e.attributes FROM ledger.edges_from(%(turn)s) e;

-- name: edges_to_a_turn
SELECT %(turn)s::uuid AS turn_id, e.kind, e.from_kind, e.from_id, e.attributes FROM ledger.edges_to(%(turn)s) e;

-- name: edges_to_a_turn_that_was_forked
SELECT %(fork)s::uuid AS turn_id, e.kind, e.from_kind, e.from_id FROM ledger.edges_to(%(fork)s) e;

-- name: edges_to_a_message
SELECT %(turn)s::uuid AS turn_id, e.kind, e.from_kind, e.from_id FROM ledger.edges_to(%(message)s) e;

-- name: edges_of_a_tool_call
SELECT %(turn)s::uuid AS turn_id, e.kind, e.from_id, e.to_id FROM ledger.edges_from(%(call)s) e
UNION ALL SELECT %(turn)s::uuid, e.kind, e.from_id, e.to_id FROM ledger.edges_to(%(call)s) e;

-- name: edges_of_a_session
SELECT e.kind, e.to_kind, e.to_id, e.attributes FROM ledger.edges_from(%(worker_id)s) e;

-- name: edges_from_an_agent
SELECT e.to_stream AS turn_id, e.kind FROM ledger.edges_from(%(agent)s) e LIMIT 50;

-- name: edges_to_an_agent
SELECT e.kind, e.from_id, e.attributes FROM ledger.edges_to(%(agent)s) e;

-- name: edges_from_a_resource
SELECT e.kind, e.to_id, e.valid_from, e.valid_to FROM ledger.edges_from(%(resource)s) e;

-- name: edges_to_a_resource
SELECT e.kind, e.from_id, e.attributes, e.valid_from, e.valid_to FROM ledger.edges_to(%(resource)s) e;

-- name: edges_of_an_event
SELECT e.kind, e.to_kind, e.to_id FROM ledger.edges_from(%(event)s) e;

-- name: lineage_of_a_deep_turn
SELECT l.to_id::uuid AS turn_id, l.step, l.how FROM ledger.lineage(%(deep)s, 20) l;

-- name: calls_of_a_turn_with_their_results
SELECT %(turn)s::uuid AS turn_id, c.call_id, c.tool, c.status, c.message_id, c.spawned_session_id
  FROM ledger.calls(%(turn)s::uuid) c;

-- name: history_of_a_session
SELECT h.seq, h.kind, h.data FROM ledger.history(%(worker_id)s::uuid) h;

-- name: policies_over_time
SELECT p.what, p.policy, p.valid_from, p.valid_to FROM ledger.policies() p;

-- name: what_an_agent_held_at_a_moment
SELECT h.kind, h.holder_id, h.resource FROM ledger.resources_at(%(held)s, %(agent)s) h;

-- name: ancestry_of_a_subagent
SELECT a.turn_id, a.step, a.kind, a.parent_session_id FROM ledger.ancestry(%(worker_id)s::uuid) a;
