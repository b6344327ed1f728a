-- Rebuilding projections. Only tables whose rows follow from bodies, events and reflogs are written, or emptied of
-- what search cannot use; no statement here names another.

-- name: repair_begin
-- Acts as the owner, who has all privileges on the tables, but inside one workspace, and sees what is private too.
-- Writers wait until this is over.
SELECT set_config('turntree.workspace', %(workspace)s, true), set_config('turntree.viewer', 'system:repair', true), set_config('datestyle', 'ISO, YMD', true),
  set_config('timezone', 'UTC', true), set_config('jit', 'off', true);

-- name: repair_open
ALTER TABLE turntree.tool_calls DISABLE TRIGGER USER;
ALTER TABLE turntree.model_calls DISABLE TRIGGER USER;
ALTER TABLE turntree.compactions DISABLE TRIGGER USER;
ALTER TABLE turntree.message_files DISABLE TRIGGER USER;
LOCK TABLE turntree.session_reach, turntree.object_holders, turntree.tags, turntree.programs, turntree.program_grants IN SHARE ROW EXCLUSIVE MODE;

-- name: repair_close
-- Foreign keys are checked now, because a trigger cannot be enabled while checks are deferred.
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE turntree.tool_calls ENABLE TRIGGER USER;
ALTER TABLE turntree.model_calls ENABLE TRIGGER USER;
ALTER TABLE turntree.compactions ENABLE TRIGGER USER;
ALTER TABLE turntree.message_files ENABLE TRIGGER USER;

-- name: repair_drop_tool_calls
DELETE FROM turntree.tool_calls WHERE workspace_id = %(workspace)b AND turn_id = %(turn)b;

-- name: repair_drop_model_calls
DELETE FROM turntree.model_calls WHERE workspace_id = %(workspace)b AND turn_id = %(turn)b;

-- name: repair_drop_compactions
DELETE FROM turntree.compactions WHERE workspace_id = %(workspace)b AND turn_id = %(turn)b;

-- name: repair_drop_message_files
DELETE FROM turntree.message_files WHERE workspace_id = %(workspace)b AND turn_id = %(turn)b;

-- name: repair_drop_object_holders
DELETE FROM turntree.object_holders WHERE workspace_id = %(workspace)b AND turn_id = %(turn)b;

-- name: repair_drop_tags
DELETE FROM turntree.tags WHERE workspace_id = %(workspace)b AND node_id = %(turn)b;

-- name: repair_add_tool_calls
INSERT INTO turntree.tool_calls (workspace_id, turn_id, sequence, call_id, tool, status)
  VALUES (%(workspace)s, %(turn)s, %(c1)s, %(c2)s, %(c3)s, %(c4)s);

-- name: repair_add_model_calls
INSERT INTO turntree.model_calls (workspace_id, turn_id, sequence, model, provider, call_id, input_tokens,
    output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens)
  VALUES (%(workspace)s, %(turn)s, %(c1)s, %(c2)s, %(c3)s, %(c4)s, %(c5)s, %(c6)s, %(c7)s, %(c8)s, %(c9)s);

-- name: repair_add_compactions
INSERT INTO turntree.compactions (workspace_id, turn_id, summarized_through, first_kept, turns_summarized, kind,
    trigger, tokens_before, tokens_after, summary_tokens, duration_ms)
  VALUES (%(workspace)s, %(turn)s, %(c1)s, %(c2)s, %(c3)s, %(c4)s, %(c5)s, %(c6)s, %(c7)s, %(c8)s, %(c9)s);

-- name: repair_add_message_files
INSERT INTO turntree.message_files (workspace_id, turn_id, message, sequence, kind, path, line_start, line_end)
  VALUES (%(workspace)s, %(turn)s, %(c1)s, %(c2)s, %(c3)s, %(c4)s, %(c5)s, %(c6)s);

-- name: repair_add_object_holders
INSERT INTO turntree.object_holders (workspace_id, turn_id, digest) VALUES (%(workspace)s, %(turn)s, %(c1)b);

-- name: repair_stray_holders
-- Holders that are neither a turn, a run nor a queued message.
SELECT DISTINCT h.turn_id FROM turntree.object_holders h
  WHERE h.workspace_id = %(workspace)b
    AND NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = h.workspace_id AND t.id = h.turn_id)
    AND NOT EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = h.workspace_id AND r.id = h.turn_id)
    AND NOT EXISTS (SELECT FROM turntree.queued_messages i WHERE i.workspace_id = h.workspace_id AND i.run_id = h.turn_id)
  ORDER BY 1;

-- name: repair_add_tags
INSERT INTO turntree.tags (workspace_id, node_id, tag) VALUES (%(workspace)s, %(turn)s, %(c1)s);

-- name: repair_reach
-- The reach of each session, by its reflog and as stored. Null where one of them has none.
SELECT coalesce(h.session_id, r.session_id), coalesce(h.segment_id, r.segment_id), r.max_depth, h.depth
  FROM (
    SELECT m.session_id, t.segment_id, max(t.depth) AS depth FROM turntree.session_history m
      JOIN turntree.turns t ON t.workspace_id = m.workspace_id AND t.id = m.after_id
      WHERE m.workspace_id = %(workspace)b GROUP BY m.session_id, t.segment_id
  ) h
  FULL JOIN (SELECT * FROM turntree.session_reach WHERE workspace_id = %(workspace)b) r
    ON r.session_id = h.session_id AND r.segment_id = h.segment_id
  WHERE r.max_depth IS DISTINCT FROM h.depth
  ORDER BY 1, 2;

-- name: repair_stray_documents
SELECT d.turn_id FROM turntree.search_documents d
  WHERE d.workspace_id = %(workspace)b AND NOT EXISTS (
    SELECT FROM turntree.turns t WHERE t.workspace_id = d.workspace_id AND t.id = d.turn_id)
  ORDER BY 1;

-- name: repair_drop_document
DELETE FROM turntree.search_documents WHERE workspace_id = %(workspace)b AND turn_id = %(turn)b;

-- name: repair_stale_embeddings
SELECT node_id, embedder FROM turntree.stale_embeddings(%(workspace)b);

-- name: repair_drop_embedding
-- Without its progress the embedder's index reads all turns again, and adds what is missing.
WITH progress AS (
  DELETE FROM turntree.search_progress WHERE workspace_id = %(workspace)b AND index_name = %(embedder)b::text
)
DELETE FROM turntree.embeddings
  WHERE workspace_id = %(workspace)b AND node_id = %(turn)b AND embedder = %(embedder)b::text;

-- name: repair_drop_reach
DELETE FROM turntree.session_reach
  WHERE workspace_id = %(workspace)b AND session_id = %(session)b AND segment_id = %(segment)b;

-- name: repair_add_reach
INSERT INTO turntree.session_reach (workspace_id, segment_id, session_id, max_depth)
  VALUES (%(workspace)b, %(segment)b, %(session)b, %(depth)b);

-- name: repair_program_events
-- Only of programs whose events all match their digests.
SELECT e.stream_id::text, e.seq, e.body FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND e.stream_id = ANY (%(programs)b::uuid[]) AND e.kind <> 'session.head_moved'
    AND NOT EXISTS (SELECT FROM turntree.events f WHERE f.workspace_id = e.workspace_id
      AND f.stream_id = e.stream_id AND f.id <> sha256(convert_to(f.body, 'UTF8')))
  ORDER BY e.stream_id, e.seq;

-- name: repair_lost_programs
-- Programs that were created but have no row.
SELECT e.stream_id::text FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND position('"config":"sha256:' IN e.body) > 0 AND position('"owner":"' IN e.body) > 0
    AND (e.kind LIKE '%%.created' OR e.kind = 'session.configured')
    AND e.stream_id > %(after)b
    AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = e.workspace_id AND p.id = e.stream_id)
  ORDER BY e.stream_id LIMIT %(limit)b;

-- name: repair_free_name
-- Until its row is repaired, a program has a name that no other program can have.
UPDATE turntree.programs SET name = id::text WHERE workspace_id = %(workspace)b AND id = %(program)b;

-- name: repair_put_program
-- The row keeps its times if it exists. A program whose name was taken while its row was missing is named after its
-- id.
INSERT INTO turntree.programs (workspace_id, id, kind, name, owner, state, visibility, version, event_seq, details,
    created_at, updated_at)
  VALUES (%(workspace)s, %(program)s, %(kind)s, CASE WHEN EXISTS (SELECT FROM turntree.programs p
      WHERE p.workspace_id = %(workspace)s AND p.name = %(name)s AND p.id <> %(program)s) THEN %(program)s::text ELSE %(name)s END,
    %(owner)s, %(state)s, %(visibility)s, %(version)s,
    %(event_seq)s, %(details)s::jsonb, %(created_at)s::timestamptz, %(updated_at)s::timestamptz)
  ON CONFLICT (workspace_id, id) DO UPDATE SET kind = excluded.kind, name = excluded.name, owner = excluded.owner,
    state = excluded.state, visibility = excluded.visibility, version = excluded.version,
    event_seq = excluded.event_seq, details = excluded.details;

-- name: repair_drop_grant
DELETE FROM turntree.program_grants WHERE workspace_id = %(workspace)s AND program_id = %(program)s
  AND grantee = %(grantee)s AND access = %(right)s;

-- name: repair_add_grant
INSERT INTO turntree.program_grants (workspace_id, program_id, grantee, access)
  VALUES (%(workspace)s, %(program)s, %(grantee)s, %(right)s);
