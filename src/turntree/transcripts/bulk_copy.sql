-- Bulk import. The COPY statements name no schema: with search_path = turntree they write to the ledger itself; with
-- staging tables in front of it they write to those.

-- name: may_bypass
SELECT rolbypassrls OR rolsuper FROM pg_roles WHERE rolname = current_user;

-- name: bulk_begin
-- One importer at a time in a workspace. Appending sessions do not have to wait.
SELECT pg_advisory_xact_lock(hashtextextended('turntree:import:' || %(workspace)b::text, 0)),
  set_config('search_path', %(path)b, true),
  set_config('synchronous_commit', CASE WHEN %(hurrying)b THEN 'off' ELSE current_setting('synchronous_commit') END, true);

-- name: bulk_known
SELECT id::text, digest FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = ANY (%(turns)b::uuid[]);

-- name: bulk_places
-- The positions of parents, and whether a turn already follows them in their segment.
SELECT t.id::text, t.segment_id::text, t.depth, t.digest, EXISTS (SELECT FROM turntree.turns n
    WHERE n.workspace_id = t.workspace_id AND n.segment_id = t.segment_id AND n.depth = t.depth + 1)
  FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.id = ANY (%(turns)b::uuid[]);

-- name: bulk_objects
SELECT digest FROM turntree.objects WHERE workspace_id = %(workspace)b AND digest = ANY (%(digests)b::bytea[]);

-- name: bulk_hidden_objects
-- What turns refer to without storing it must not be hidden from the viewer.
SELECT d FROM unnest(%(digests)b::bytea[]) d
  WHERE NOT (turntree.can_see_all_programs() OR turntree.reader_can_see_object(%(workspace)b, d));

-- name: bulk_sources
SELECT turn_id::text, transcript_id FROM turntree.turn_sources
  WHERE workspace_id = %(workspace)b AND turn_id = ANY (%(turns)b::uuid[]);

-- name: bulk_insert_transcripts
INSERT INTO turntree.transcripts (workspace_id, origin, name)
  SELECT %(workspace)b, x.origin, x.bundle FROM unnest(%(origins)b::text[], %(bundles)b::text[]) AS x (origin, bundle)
  WHERE NOT EXISTS (SELECT FROM turntree.transcripts b
    WHERE b.workspace_id = %(workspace)b AND b.origin = x.origin AND b.name = x.bundle)
  RETURNING id;

-- name: bulk_transcripts
SELECT b.id, b.origin, b.name FROM unnest(%(origins)b::text[], %(bundles)b::text[]) AS x (origin, bundle)
  JOIN turntree.transcripts b ON b.workspace_id = %(workspace)b AND b.origin = x.origin AND b.name = x.bundle;

-- name: bulk_segment
SELECT ordinal, jump_id::text FROM turntree.segments WHERE workspace_id = %(workspace)b AND id = %(segment)b;

-- name: stage_tables
CREATE TEMP TABLE segments ON COMMIT DROP AS
  SELECT workspace_id, id, parent_id, fork_depth, ordinal, jump_id FROM turntree.segments WITH NO DATA;
CREATE TEMP TABLE turns ON COMMIT DROP AS SELECT * FROM turntree.turns WITH NO DATA;
CREATE TEMP TABLE turn_bodies ON COMMIT DROP AS SELECT * FROM turntree.turn_bodies WITH NO DATA;
CREATE TEMP TABLE tool_calls ON COMMIT DROP AS SELECT * FROM turntree.tool_calls WITH NO DATA;
CREATE TEMP TABLE model_calls ON COMMIT DROP AS SELECT * FROM turntree.model_calls WITH NO DATA;
CREATE TEMP TABLE message_files ON COMMIT DROP AS SELECT * FROM turntree.message_files WITH NO DATA;
CREATE TEMP TABLE compactions ON COMMIT DROP AS SELECT * FROM turntree.compactions WITH NO DATA;
CREATE TEMP TABLE events ON COMMIT DROP AS
  SELECT workspace_id, stream_id, seq, id, kind, body FROM turntree.events WITH NO DATA;
CREATE TEMP TABLE objects ON COMMIT DROP AS SELECT * FROM turntree.objects WITH NO DATA;
CREATE TEMP TABLE object_holders ON COMMIT DROP AS SELECT * FROM turntree.object_holders WITH NO DATA;
CREATE TEMP TABLE turn_sources ON COMMIT DROP AS SELECT * FROM turntree.turn_sources WITH NO DATA;

-- name: unstage_tables
INSERT INTO turntree.segments SELECT * FROM pg_temp.segments ORDER BY ordinal;
INSERT INTO turntree.turns SELECT * FROM pg_temp.turns ORDER BY depth;
INSERT INTO turntree.turn_bodies SELECT * FROM pg_temp.turn_bodies;
INSERT INTO turntree.tool_calls SELECT * FROM pg_temp.tool_calls;
INSERT INTO turntree.model_calls SELECT * FROM pg_temp.model_calls;
INSERT INTO turntree.message_files SELECT * FROM pg_temp.message_files;
INSERT INTO turntree.compactions SELECT * FROM pg_temp.compactions;
INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body) SELECT * FROM pg_temp.events;
INSERT INTO turntree.objects SELECT * FROM pg_temp.objects;
INSERT INTO turntree.object_holders SELECT * FROM pg_temp.object_holders;
INSERT INTO turntree.turn_sources SELECT * FROM pg_temp.turn_sources;
-- The next batch may be part of the same transaction.
DROP TABLE pg_temp.segments, pg_temp.turns, pg_temp.turn_bodies, pg_temp.tool_calls, pg_temp.model_calls,
  pg_temp.message_files, pg_temp.compactions, pg_temp.events, pg_temp.objects, pg_temp.object_holders, pg_temp.turn_sources;

-- name: bulk_links
SELECT turntree.insert_links(%(workspace)b, s, 0) FROM unnest(%(streams)b::uuid[]) AS s;

-- name: copy_segments
COPY segments (workspace_id, id, parent_id, fork_depth, ordinal, jump_id) FROM STDIN (FORMAT binary);

-- name: copy_turns
COPY turns (workspace_id, id, parent_id, segment_id, depth, digest, started_at, sealed_at, kind, outcome,
  agent_role, by, model, provider) FROM STDIN (FORMAT binary);

-- name: copy_bodies
COPY turn_bodies (workspace_id, turn_id, header, body) FROM STDIN (FORMAT binary);

-- name: copy_tool_calls
COPY tool_calls (workspace_id, turn_id, sequence, call_id, tool, status) FROM STDIN (FORMAT binary);

-- name: copy_model_calls
COPY model_calls (workspace_id, turn_id, sequence, model, provider, call_id, input_tokens, output_tokens,
  cached_input_tokens, cache_write_tokens, reasoning_tokens) FROM STDIN (FORMAT binary);

-- name: copy_files
COPY message_files (workspace_id, turn_id, message, sequence, kind, path, line_start, line_end)
  FROM STDIN (FORMAT binary);

-- name: copy_compactions
COPY compactions (workspace_id, turn_id, summarized_through, first_kept, turns_summarized, kind, trigger,
  tokens_before, tokens_after, summary_tokens, duration_ms) FROM STDIN (FORMAT binary);

-- name: copy_events
COPY events (workspace_id, stream_id, seq, id, kind, body) FROM STDIN (FORMAT binary);

-- name: copy_objects
COPY objects (workspace_id, digest, bytes) FROM STDIN (FORMAT binary);

-- name: copy_holders
COPY object_holders (workspace_id, turn_id, digest) FROM STDIN (FORMAT binary);

-- name: copy_sources
COPY turn_sources (workspace_id, turn_id, transcript_id, record_first, record_last, importer_version, source_key)
  FROM STDIN (FORMAT binary);
