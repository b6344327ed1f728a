-- The schema of the ledger: roles, tables, constraints, indexes and grants. Functions, views and restrictive policies
-- are in functions/ and are replaced with each release; what is here is created once.
--
-- Roles belong to the whole cluster, so they may already exist.
--
--   turntree_app       what every process acts as: reads and appends, never changes an event
--   turntree_reader    people and dashboards: reads, under row-level security
--   turntree_importer  bulk COPY, which row-level security refuses; a trigger checks its workspace
--   turntree_eraser    replaces a message by its stub on request; may do nothing else
DO $$
DECLARE
  v_role text;
  -- Since PostgreSQL 16 a member of a role, or its creator, may still lack the right to SET ROLE to it.
  v_way_in text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  FOREACH v_role IN ARRAY ARRAY['turntree_app', 'turntree_reader', 'turntree_importer', 'turntree_eraser'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS', v_role);
    END IF;
  END LOOP;
  -- Only a superuser may grant BYPASSRLS; without one, imports go through staging tables, a little slower. Any other
  -- login must be granted the roles to act as them. If it has them already, it may lack the right to grant them, and
  -- does not need it.
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    -- Only once: two databases that alter one role at the same time do not wait for each other but fail.
    IF NOT (SELECT rolbypassrls FROM pg_roles WHERE rolname = 'turntree_importer') THEN
      ALTER ROLE turntree_importer BYPASSRLS;
    END IF;
  ELSE
    FOREACH v_role IN ARRAY ARRAY['turntree_app', 'turntree_reader', 'turntree_importer', 'turntree_eraser'] LOOP
      IF NOT pg_has_role(current_user, v_role, v_way_in) THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', v_role);
      END IF;
    END LOOP;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL; -- Another database of the same cluster is being set up at this moment.
END $$;
-- The searcher. Row-level security costs a search its index: the policy has to be evaluated before any operator that
-- might leak what it sees, and neither @@ nor <~> is declared leakproof, so PostgreSQL would ignore a GIN index and
-- read each row. The functions that search therefore belong to a role of their own, for which these tables, and no
-- others, have a policy that passes all rows. They read the workspace from the same setting as the policies and
-- compare it themselves. The role cannot log in and bypasses nothing.
DO $$
DECLARE
  v_way_in text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'turntree_searcher') THEN
    CREATE ROLE turntree_searcher NOLOGIN NOSUPERUSER NOBYPASSRLS;
  END IF;
  -- The login that migrates makes this role the owner of functions and later replaces them. For that it needs both
  -- SET ROLE and the inherited privileges of the role.
  IF NOT (pg_has_role(current_user, 'turntree_searcher', v_way_in)
      AND pg_has_role(current_user, 'turntree_searcher', 'USAGE')) THEN
    GRANT turntree_searcher TO CURRENT_USER;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL; -- Another database of the same cluster is being set up at this moment.
END $$;
CREATE SCHEMA turntree;
GRANT USAGE ON SCHEMA turntree TO turntree_app, turntree_reader, turntree_importer, turntree_eraser,
  turntree_searcher;

-- Stable names for people who write SQL; functions/ creates the views.
CREATE SCHEMA ledger;
GRANT USAGE ON SCHEMA ledger TO turntree_app, turntree_reader;

-- One row: the epoch that the feed's positions belong to. Restoring the database into another cluster starts a new
-- one.
CREATE TABLE turntree.shard (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  epoch int NOT NULL DEFAULT 1,
  system_identifier bigint NOT NULL
);
INSERT INTO turntree.shard (system_identifier) SELECT system_identifier FROM pg_control_system();

CREATE TABLE turntree.workspaces (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now()
);
-- Events are permanent, and no row of another workspace can be read or written.

CREATE FUNCTION turntree.forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'facts are permanent: % refuses %', TG_TABLE_NAME, lower(TG_OP)
    USING ERRCODE = 'TT003', HINT = 'Append a new fact instead; a session can be moved.';
END $$;

-- The one change a body may undergo: the eraser replaces lines by stubs that hold their digests.
CREATE FUNCTION turntree.check_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_old text[] := string_to_array(OLD.body, E'\n');
  v_new text[] := string_to_array(NEW.body, E'\n');
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: turn_bodies refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF (NEW.workspace_id, NEW.turn_id, NEW.header) IS DISTINCT FROM (OLD.workspace_id, OLD.turn_id, OLD.header)
      OR cardinality(v_old) <> cardinality(v_new) THEN
    RAISE EXCEPTION 'an erasure replaces messages and nothing else' USING ERRCODE = 'TT003';
  END IF;
  FOR i IN 1 .. cardinality(v_old) LOOP
    IF v_new[i] <> v_old[i] AND v_new[i] <>
        '{"erased":"sha256:' || encode(sha256(convert_to(v_old[i], 'UTF8')), 'hex') || '"}' THEN
      RAISE EXCEPTION 'message % was not replaced by its stub', i - 1 USING ERRCODE = 'TT003';
    END IF;
  END LOOP;
  RETURN NEW;
END $$;

-- An object is deleted only with the message that held it.
CREATE FUNCTION turntree.check_object_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: objects refuses delete' USING ERRCODE = 'TT003';
  END IF;
  RETURN OLD;
END $$;

-- COPY is refused under row-level security, so the importer bypasses it and this trigger checks what the policy would
-- have checked. The role is checked in here and not in the trigger's WHEN: each statement parses a WHEN again, which
-- cost a tenth of an append.
CREATE FUNCTION turntree.check_import_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_workspace uuid;
BEGIN
  IF current_user <> 'turntree_importer' THEN
    RETURN NEW;
  END IF;
  v_workspace := nullif(current_setting('turntree.workspace', true), '')::uuid;
  IF NEW.workspace_id IS DISTINCT FROM v_workspace THEN
    RAISE EXCEPTION 'a row of workspace % while working in %', NEW.workspace_id, coalesce(v_workspace::text, 'none')
      USING ERRCODE = '42501';
  END IF;
  RETURN NEW;
END $$;
-- The one change the files of a message may undergo.
CREATE FUNCTION turntree.check_file_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: message_files refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF NEW.path <> '(erased)' OR (NEW.workspace_id, NEW.turn_id, NEW.message, NEW.sequence, NEW.kind)
      IS DISTINCT FROM (OLD.workspace_id, OLD.turn_id, OLD.message, OLD.sequence, OLD.kind) THEN
    RAISE EXCEPTION 'an erasure takes out paths and nothing else' USING ERRCODE = 'TT003';
  END IF;
  RETURN NEW;
END $$;
-- The one change a block may undergo: with a message, the eraser takes out its records.
CREATE FUNCTION turntree.check_record_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: raw_blocks refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF (NEW.workspace_id, NEW.digest, NEW.turn_ids, NEW.record_spans) IS DISTINCT FROM
      (OLD.workspace_id, OLD.digest, OLD.turn_ids, OLD.record_spans) OR NEW.current_digest IS NULL THEN
    RAISE EXCEPTION 'an erasure replaces records and nothing else' USING ERRCODE = 'TT003';
  END IF;
  RETURN NEW;
END $$;
-- Enables row-level security on a table: each connection reads and writes one workspace, and none without a viewer.
-- The viewer is part of the value that the workspace is compared to, which an index scan evaluates once: a separate
-- condition would be another step of each plan.
CREATE FUNCTION turntree.enable_row_security(p_table text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', p_table);
  EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format($p$CREATE POLICY workspace ON turntree.%I
    USING (workspace_id = CASE WHEN current_setting('turntree.viewer', true) <> ''
      THEN nullif(current_setting('turntree.workspace', true), '')::uuid END)$p$, p_table);
  EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_app, turntree_reader, turntree_importer', p_table);
END $$;
-- The same for tables that are never updated. p_imported: an import copies into it.
CREATE FUNCTION turntree.make_append_only(
  p_table text, p_imported boolean, p_update text DEFAULT 'forbid_change', p_delete text DEFAULT 'forbid_change')
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.enable_row_security(p_table);
  EXECUTE format('CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.%I FOR EACH ROW
    EXECUTE FUNCTION turntree.%I()', p_table, p_update);
  EXECUTE format('CREATE TRIGGER refuse_delete BEFORE DELETE ON turntree.%I FOR EACH ROW
    EXECUTE FUNCTION turntree.%I()', p_table, p_delete);
  EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON turntree.%I
    EXECUTE FUNCTION turntree.forbid_change()', p_table);
  EXECUTE format('GRANT INSERT ON turntree.%I TO turntree_app', p_table);
  IF p_imported THEN
    EXECUTE format('GRANT INSERT ON turntree.%I TO turntree_importer', p_table);
    EXECUTE format('CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.check_import_workspace()', p_table);
  END IF;
END $$;

-- The ledger: the tree, its bodies, the sessions that point into it, and the events. Each key starts with the
-- workspace, so that a workspace can be moved and no key refers across two.

-- Digests and enumerations. They are domains because a table's CHECK is parsed again by each statement that writes to
-- it, while a domain's is cached by the connection.
CREATE DOMAIN turntree.digest AS bytea CHECK (length(VALUE) = 32);
CREATE DOMAIN turntree.turn_kind AS text CHECK (VALUE IN ('normal', 'compaction'));
CREATE DOMAIN turntree.outcome AS text CHECK (VALUE IN ('completed', 'failed', 'canceled', 'interrupted'));
CREATE DOMAIN turntree.agent_role AS text CHECK (VALUE IN ('manager', 'worker', 'unified'));
CREATE DOMAIN turntree.tool_status AS text
  CHECK (VALUE IN ('ok', 'error', 'timeout', 'canceled', 'interrupted'));
CREATE DOMAIN turntree.session_status AS text CHECK (VALUE IN ('active', 'archived', 'deleted'));
CREATE DOMAIN turntree.alias_reason AS text CHECK (VALUE IN ('identity_promotion', 'identity_merge', 'manual'));
CREATE DOMAIN turntree.move_kind AS text
  CHECK (VALUE IN ('create', 'advance', 'fork', 'rewind', 'reset', 'undo', 'import', 'handoff'));

-- An unbranched run of turns. A turn is (segment, depth); a fork opens a segment. fork_depth is
-- the depth of the turn it forks from (0 for a tree's first segment). ordinal counts the segments
-- above; jump_id skips over many of them (Myers' skew-binary rule), so that ancestor questions
-- stay logarithmic in nested forks.
CREATE TABLE turntree.segments (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  parent_id uuid,
  fork_depth int NOT NULL,
  ordinal int NOT NULL,
  jump_id uuid,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, parent_id) REFERENCES turntree.segments,
  CHECK ((parent_id IS NULL) = (ordinal = 0)),
  CHECK (ordinal > 0 OR fork_depth = 0)
);
CREATE INDEX segments_forks ON turntree.segments (workspace_id, parent_id, fork_depth);

-- A sealed turn's position and the columns that queries need; all of it can be rebuilt from the body.
CREATE TABLE turntree.turns (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  parent_id uuid,
  segment_id uuid NOT NULL,
  started_at timestamptz NOT NULL,
  sealed_at timestamptz NOT NULL,
  depth int NOT NULL CHECK (depth >= 1),
  digest turntree.digest NOT NULL,
  kind turntree.turn_kind NOT NULL,
  outcome turntree.outcome NOT NULL,
  agent_role turntree.agent_role NOT NULL,
  by text NOT NULL,
  model text,
  provider text,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, segment_id, depth),
  UNIQUE (workspace_id, digest),
  FOREIGN KEY (workspace_id, parent_id) REFERENCES turntree.turns,
  FOREIGN KEY (workspace_id, segment_id) REFERENCES turntree.segments,
  CHECK ((parent_id IS NULL) = (depth = 1)),
  CHECK (sealed_at >= started_at)
);
-- There are few actors and many turns, so index entries share their keys and take a few bytes each.
CREATE INDEX turns_by ON turntree.turns (workspace_id, by);
-- Few turns are compactions, and each context starts at the nearest one.
CREATE INDEX turns_compactions ON turntree.turns (workspace_id, segment_id, depth) WHERE kind = 'compaction';

-- The canonical bytes, the source of truth about a turn: the header, then one message on each line. The header is
-- full of digests, which do not compress. Stored separately it can be read without decompressing the body, and a turn
-- of 5 KB takes an eighth less space.
CREATE TABLE turntree.turn_bodies (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  header text NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id)
);

-- Slim projections: what people filter by, without payloads.
CREATE TABLE turntree.tool_calls (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  sequence smallint NOT NULL,
  status turntree.tool_status NOT NULL,
  tool text NOT NULL,
  call_id text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, sequence)
);

CREATE TABLE turntree.model_calls (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  sequence smallint NOT NULL,
  input_tokens int NOT NULL,
  output_tokens int NOT NULL,
  cached_input_tokens int NOT NULL,
  cache_write_tokens int NOT NULL,
  reasoning_tokens int NOT NULL,
  model text NOT NULL,
  provider text,
  call_id text,
  PRIMARY KEY (workspace_id, turn_id, sequence)
);

CREATE TABLE turntree.compactions (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  summarized_through uuid NOT NULL,
  first_kept uuid,
  turns_summarized int NOT NULL,
  kind text NOT NULL,
  trigger text NOT NULL,
  tokens_before int,
  tokens_after int,
  summary_tokens int,
  duration_ms int,
  PRIMARY KEY (workspace_id, turn_id),
  FOREIGN KEY (workspace_id, turn_id) REFERENCES turntree.turns,
  FOREIGN KEY (workspace_id, summarized_through) REFERENCES turntree.turns,
  FOREIGN KEY (workspace_id, first_kept) REFERENCES turntree.turns,
  -- I24: a summary covers turns that came before, and what is kept comes after those.
  CONSTRAINT compactions_lead_back
    CHECK (summarized_through <> turn_id AND first_kept IS DISTINCT FROM summarized_through),
  CONSTRAINT compactions_count CHECK (turns_summarized >= 1)
);

-- Large or repeated content, by the digest of its bytes.
CREATE TABLE turntree.objects (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (workspace_id, digest)
);

-- A session is a pointer. The row is updated by each move, so it stays narrow, leaves room for in-place updates and
-- has no index on anything that changes. head_id has no foreign key: each function that sets it looks the turn up,
-- turns are never deleted, and a key would lock the turn's row at each move, so that forks of a popular turn would
-- wait for each other.
CREATE TABLE turntree.sessions (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  head_id uuid,
  version int NOT NULL DEFAULT 0,
  event_seq int NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  status turntree.session_status NOT NULL DEFAULT 'active',
  origin text,
  origin_session_id text,
  imported_by text,
  PRIMARY KEY (workspace_id, id),
  CHECK ((origin IS NULL) = (origin_session_id IS NULL))
) WITH (fillfactor = 70);
-- A session follows its tool for the principal that imported it, so two people may import transcripts of the same name.
CREATE UNIQUE INDEX sessions_origin ON turntree.sessions (workspace_id, origin, origin_session_id, imported_by)
  WHERE origin IS NOT NULL;

-- Labels and aliases share one key, so that no alias can hide a label or point to another alias. reason is null for
-- the label. A name is written by the statement that created or found its session, and sessions are never deleted: a
-- foreign key would only lock that row again, a tenth of the cost of a fork.
CREATE TABLE turntree.session_names (
  workspace_id uuid NOT NULL,
  name text NOT NULL,
  session_id uuid NOT NULL,
  reason turntree.alias_reason,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (workspace_id, name)
);
CREATE UNIQUE INDEX session_names_label ON turntree.session_names (workspace_id, session_id)
  WHERE reason IS NULL;
CREATE INDEX session_names_aliases ON turntree.session_names (workspace_id, session_id)
  WHERE reason IS NOT NULL;

-- The reflog: one row for every move.
CREATE TABLE turntree.session_history (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  before_id uuid,
  after_id uuid,
  changed_at timestamptz NOT NULL,
  version int NOT NULL CHECK (version >= 1),
  kind turntree.move_kind NOT NULL,
  by text NOT NULL,
  PRIMARY KEY (workspace_id, session_id, version)
);

-- The greatest depth that each session ever reached in each segment; answers "which sessions held this turn".
CREATE TABLE turntree.session_reach (
  workspace_id uuid NOT NULL,
  segment_id uuid NOT NULL,
  session_id uuid NOT NULL,
  max_depth int NOT NULL,
  PRIMARY KEY (workspace_id, segment_id, session_id)
) WITH (fillfactor = 70);

-- Which move an idempotency key led to: a call that is repeated with the key returns that move. A key belongs to the
-- principal who chose it, so two principals may use the same one.
CREATE TABLE turntree.idempotency_keys (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  version int NOT NULL,
  idempotency_key text NOT NULL,
  by text NOT NULL,
  PRIMARY KEY (workspace_id, by, idempotency_key)
);

-- A subagent's session and the tool call that spawned it.
CREATE TABLE turntree.spawns (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  parent_session_id uuid NOT NULL,
  parent_turn_id uuid NOT NULL,
  call_id text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('fresh', 'fork')),
  task text,
  PRIMARY KEY (workspace_id, session_id),
  FOREIGN KEY (workspace_id, session_id) REFERENCES turntree.sessions,
  FOREIGN KEY (workspace_id, parent_session_id) REFERENCES turntree.sessions,
  FOREIGN KEY (workspace_id, parent_turn_id) REFERENCES turntree.turns,
  -- I31: no session spawns itself.
  CONSTRAINT spawns_by_another CHECK (session_id <> parent_session_id)
);
CREATE INDEX spawns_parent ON turntree.spawns (workspace_id, parent_turn_id);

CREATE TABLE turntree.tags (
  workspace_id uuid NOT NULL,
  node_id uuid NOT NULL,
  tag text NOT NULL CHECK (tag <> ''),
  PRIMARY KEY (workspace_id, node_id, tag)
);
CREATE INDEX tags_by_tag ON turntree.tags (workspace_id, tag);

-- Runs. Mutable. A run and the turn that it is sealed as have the same id.
CREATE TABLE turntree.runs (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  session_id uuid,
  epoch int NOT NULL DEFAULT 1,
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'parked', 'finished')),
  started_at timestamptz NOT NULL DEFAULT now(),
  crash_count int NOT NULL DEFAULT 0,
  cancel_requested boolean NOT NULL DEFAULT false,
  discard boolean NOT NULL DEFAULT false,
  worker text,
  parked_reason text,
  canceled_by text,
  canceled_at timestamptz,
  -- How often a call was repeated after its worker had died, by call id. Not an event: a run that was taken over
  -- leaves the same events as one that was not. Null in nearly all runs.
  retaken jsonb,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, session_id) REFERENCES turntree.sessions
);
-- Each worker queries it twice a second; it is nearly always empty.
CREATE INDEX runs_canceled ON turntree.runs (workspace_id, worker) WHERE cancel_requested AND status <> 'finished';

CREATE UNIQUE INDEX runs_one_open ON turntree.runs (workspace_id, session_id)
  WHERE status <> 'finished';

-- The messages of an open run; sealing moves them into the turn's body.
CREATE TABLE turntree.run_payloads (
  workspace_id uuid NOT NULL,
  run_id uuid NOT NULL,
  seq int NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (workspace_id, run_id, seq)
);

-- Events. (epoch, xid, n) is the feed's position: readers stop before the oldest transaction still running, so a late
-- commit is never skipped.
CREATE TABLE turntree.events (
  workspace_id uuid NOT NULL,
  stream_id uuid NOT NULL,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  n bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  seq int NOT NULL CHECK (seq >= 0),
  epoch int NOT NULL DEFAULT 1,
  id turntree.digest NOT NULL,
  kind text NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (workspace_id, stream_id, seq)
);
CREATE INDEX events_feed ON turntree.events (workspace_id, epoch, xid, n);
-- Few messages are ever erased, and each import looks for those.
CREATE INDEX events_erasures ON turntree.events (workspace_id, stream_id) WHERE kind = 'message.erased';
-- An audit reads these three kinds of events, and grants of access to sessions. There are few of either.
CREATE INDEX events_permissions ON turntree.events (workspace_id, stream_id, seq)
  WHERE kind IN ('permission.granted', 'permission.used', 'permission.denied');
CREATE INDEX events_shares ON turntree.events (workspace_id, stream_id, seq) WHERE kind IN ('program.granted', 'program.revoked');
-- Verifying a token checks whether it was revoked, and needs only these two kinds of events.
CREATE INDEX events_tokens ON turntree.events (workspace_id, stream_id, seq) WHERE kind IN ('token.issued', 'token.revoked');
-- An import moves no session, so the importer may write only the tables that it copies into.
SELECT turntree.make_append_only(t, true) FROM unnest(ARRAY['segments', 'turns', 'tool_calls', 'model_calls', 'compactions',
  'events']) t;
SELECT turntree.make_append_only('turn_bodies', true, p_update => 'check_erasure');
SELECT turntree.make_append_only('objects', true, p_delete => 'check_object_deletion');
SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['session_history', 'spawns', 'idempotency_keys']) t;
SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['sessions', 'session_names', 'session_reach', 'tags', 'runs',
  'run_payloads']) t;
GRANT INSERT, UPDATE ON turntree.sessions, turntree.session_names, turntree.session_reach, turntree.tags, turntree.runs,
  turntree.run_payloads TO turntree_app;

-- What may be deleted: names move from one session to another, tags are removed, payloads move into bodies.
GRANT DELETE ON turntree.session_names, turntree.tags, turntree.run_payloads TO turntree_app;
-- An erasure needs to know which threads a turn belongs to.
GRANT SELECT ON turntree.turn_bodies, turntree.events, turntree.turns, turntree.segments TO turntree_eraser;
GRANT INSERT ON turntree.events TO turntree_eraser;
GRANT UPDATE (body) ON turntree.turn_bodies TO turntree_eraser;
GRANT SELECT, DELETE ON turntree.objects TO turntree_eraser;
GRANT SELECT ON turntree.shard, turntree.workspaces TO turntree_app, turntree_reader, turntree_importer;
-- Only the system sees the other workspaces. The owner of the schema creates them.
ALTER TABLE turntree.workspaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY told ON turntree.workspaces FOR SELECT TO turntree_app, turntree_reader, turntree_importer
  USING (current_setting('turntree.viewer', true) LIKE 'system:%' OR id = CASE WHEN current_setting('turntree.viewer', true) <> ''
    THEN nullif(current_setting('turntree.workspace', true), '')::uuid END);

-- Which files a message touched, by path.

CREATE DOMAIN turntree.file_use AS text CHECK (VALUE IN ('read', 'written', 'referenced', 'attached'));

-- A narrow projection: the source of truth is the messages' contexts in the bodies.
CREATE TABLE turntree.message_files (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  message smallint NOT NULL,
  sequence smallint NOT NULL,
  line_start int,
  line_end int,
  kind turntree.file_use NOT NULL,
  path text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, message, sequence)
);
-- The same files are touched again and again, so index entries share their keys.
CREATE INDEX message_files_path ON turntree.message_files (workspace_id, path);

SELECT turntree.make_append_only('message_files', true, p_update => 'check_file_erasure');
GRANT SELECT ON turntree.message_files TO turntree_eraser;
GRANT UPDATE (path) ON turntree.message_files TO turntree_eraser;

-- Relations that an event states between two things, indexed from both ends, and at position -1 the sources that a
-- turn's header names. Only events about resources, policies, forks, interruptions and the like have any: what a
-- turn's own rows say already is not stored twice.

-- A narrow projection: the source of truth is the events' bodies. valid_from and valid_to say when the relation was
-- true, which may differ from when it was recorded. An event that ends a relation has to name the same holder.
CREATE TABLE turntree.event_links (
  workspace_id uuid NOT NULL,
  stream_id uuid NOT NULL,
  seq int NOT NULL,
  sequence smallint NOT NULL,
  kind text NOT NULL,
  from_kind text NOT NULL,
  from_id text NOT NULL,
  to_kind text NOT NULL,
  to_id text NOT NULL,
  holder text,
  valid_from timestamptz NOT NULL,
  valid_to timestamptz,
  PRIMARY KEY (workspace_id, stream_id, seq, sequence)
);
CREATE INDEX event_links_from ON turntree.event_links (workspace_id, from_id);
CREATE INDEX event_links_to ON turntree.event_links (workspace_id, to_id);
-- Policies and resources are queried by kind: what was active, what was attached at a point in time.
CREATE INDEX event_links_kind ON turntree.event_links (workspace_id, kind, valid_from);

SELECT turntree.make_append_only('event_links', true);

-- Other tools' transcripts: their raw records, and which turns were made from which.

-- Raw records, packed in blocks. Unpacked, a block starts with a line that gives the position of each record; digest
-- is the sha256 of the whole text. Most of its content is also in the bodies of the turns that were made from it, so
-- it is compressed with their texts as a dictionary, which makes it a third as large. To unpack it, the bodies of
-- these turns and the objects they refer to are needed. record_spans holds two numbers for each turn: its first and
-- its last record in this block. If a record was erased, the text is no longer the original, and current_digest is
-- the digest of what is left.
--
-- Some records we wrote ourselves, into another tool's session that was imported later: a copy of a thread that is
-- already stored. handoff_turn_id is the last turn of that thread, and own_spans holds two numbers for each stretch
-- of such records in the block: the first and the last. Erasing a message of the thread removes them too.
CREATE TABLE turntree.raw_blocks (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  current_digest turntree.digest,
  needs_bodies boolean NOT NULL,
  data bytea NOT NULL,
  turn_ids uuid[] NOT NULL,
  record_spans int[] NOT NULL,
  object_digests bytea[] NOT NULL,
  own_spans int[] NOT NULL DEFAULT '{}',
  handoff_turn_id uuid,
  PRIMARY KEY (workspace_id, digest),
  FOREIGN KEY (workspace_id, handoff_turn_id) REFERENCES turntree.turns,
  CHECK (current_digest IS NULL OR NOT needs_bodies),
  CHECK (cardinality(record_spans) = 2 * cardinality(turn_ids)),
  CHECK ((handoff_turn_id IS NULL) = (cardinality(own_spans) = 0)),
  CHECK (cardinality(own_spans) % 2 = 0)
);
CREATE INDEX raw_blocks_handoff_turn ON turntree.raw_blocks (workspace_id, handoff_turn_id) WHERE handoff_turn_id IS NOT NULL;
-- Compressed data does not get smaller by compressing it again.
ALTER TABLE turntree.raw_blocks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Transcripts by number: their names are long, and thousands of turns come from one.
CREATE TABLE turntree.transcripts (
  workspace_id uuid NOT NULL,
  id int NOT NULL GENERATED ALWAYS AS IDENTITY,
  origin text NOT NULL,
  name text NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, origin, name)
);

-- Where a turn came from. A turn that a tool copied into another file has several sources.
CREATE TABLE turntree.turn_sources (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  transcript_id int NOT NULL,
  record_first int NOT NULL,
  record_last int NOT NULL,
  importer_version int NOT NULL,
  source_key text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, transcript_id),
  CHECK (record_first <= record_last)
);
CREATE INDEX turn_sources_transcript ON turntree.turn_sources (workspace_id, transcript_id);

-- How far each transcript has been read, for each principal: a cursor, not an event.
CREATE TABLE turntree.import_cursors (
  workspace_id uuid NOT NULL,
  origin text NOT NULL,
  transcript text NOT NULL,
  fingerprint text NOT NULL,
  importer_version int NOT NULL,
  redaction_version int NOT NULL,
  record_count int NOT NULL,
  raw_bytes bigint NOT NULL,
  prefix_digest turntree.digest NOT NULL,
  block_digests bytea[] NOT NULL,
  heads jsonb NOT NULL,
  report jsonb NOT NULL,
  imported_at timestamptz NOT NULL,
  by text NOT NULL DEFAULT 'system:import',
  PRIMARY KEY (workspace_id, origin, transcript, by)
);

-- Sessions that were written for other tools to continue, and the turn that each continues: by these an import
-- recognizes the records that we wrote ourselves. id_suffix: how the ids of our records end, wherever the tool copies
-- them; last_own_id is the last of them. Without a suffix, ours are the records in the first own_bytes of the file.
CREATE TABLE turntree.handoffs (
  workspace_id uuid NOT NULL,
  tool text NOT NULL,
  tool_session_id text NOT NULL,
  turn_id uuid NOT NULL,
  path text NOT NULL,
  own_bytes bigint NOT NULL,
  id_suffix text,
  last_own_id text,
  by text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, tool, tool_session_id),
  FOREIGN KEY (workspace_id, turn_id) REFERENCES turntree.turns,
  CHECK (own_bytes > 0),
  CHECK (id_suffix <> ''),
  CHECK ((id_suffix IS NULL) = (last_own_id IS NULL))
);
SELECT turntree.make_append_only('raw_blocks', false, p_update => 'check_record_erasure');
SELECT turntree.make_append_only('transcripts', true);
SELECT turntree.make_append_only('turn_sources', true);
SELECT turntree.make_append_only('handoffs', false);
SELECT turntree.enable_row_security('import_cursors');
GRANT INSERT, UPDATE ON turntree.import_cursors TO turntree_app;
GRANT SELECT ON turntree.raw_blocks, turntree.transcripts, turntree.turn_sources, turntree.import_cursors TO turntree_eraser;
GRANT UPDATE (current_digest, needs_bodies, data, object_digests) ON turntree.raw_blocks TO turntree_eraser;
GRANT UPDATE (heads) ON turntree.import_cursors TO turntree_eraser;

-- Resources: state outside the ledger that can be saved, restored and forked with a turn. None of its bytes are
-- stored here: a snapshot says where its bytes are and what their hash is.

CREATE DOMAIN turntree.attach_mode AS text CHECK (VALUE IN ('ro', 'rw'));
CREATE DOMAIN turntree.liveness AS text CHECK (VALUE IN ('unknown', 'alive', 'dead'));
CREATE DOMAIN turntree.consistency AS text CHECK (VALUE IN ('exact', 'crash_consistent', 'inconsistent'));
CREATE DOMAIN turntree.plan_outcome AS text CHECK (VALUE IN ('completed', 'rolled_back'));

-- A location on a host. agent_id, run_id and session_id are its scope: to what it belongs.
CREATE TABLE turntree.resources (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  part_of uuid,
  session_id uuid,
  created_at timestamptz NOT NULL,
  imperative boolean NOT NULL,
  kind text NOT NULL CHECK (kind <> ''),
  host text NOT NULL,
  location text NOT NULL CHECK (location <> ''),
  name text NOT NULL,
  capabilities text[] NOT NULL,
  agent_id text,
  run_id text,
  metadata jsonb NOT NULL,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, part_of) REFERENCES turntree.resources,
  CHECK (part_of <> id)
);
-- A path may be longer than an index entry can be.
CREATE UNIQUE INDEX resources_location ON turntree.resources (workspace_id, kind, host, md5(location));

-- A saved state. The same state of a resource is stored once, however often it recurs.
CREATE TABLE turntree.snapshots (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  resource_id uuid NOT NULL,
  taken_at timestamptz NOT NULL,
  size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
  restorable boolean NOT NULL,
  consistency turntree.consistency NOT NULL,
  method text NOT NULL,
  external_kind text NOT NULL,
  external_id text NOT NULL CHECK (length(external_id) < 1000),
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, resource_id, external_kind, external_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);

-- A live handle. It cannot be restored.
CREATE TABLE turntree.handles (
  workspace_id uuid NOT NULL,
  id text NOT NULL,
  resource_id uuid NOT NULL,
  restorable boolean NOT NULL DEFAULT false,
  provider text NOT NULL,
  provider_id text NOT NULL,
  capabilities text[] NOT NULL,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources,
  CONSTRAINT handles_never_come_back CHECK (NOT restorable)
);

-- Which resources each session is attached to now; its events record the past.
CREATE TABLE turntree.resource_attachments (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  mode turntree.attach_mode NOT NULL,
  PRIMARY KEY (workspace_id, session_id, resource_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);

-- The snapshots of a resource before and after a turn. Stored next to the turn, not covered by its digest.
CREATE TABLE turntree.turn_snapshots (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  before_snapshot_id uuid,
  after_snapshot_id uuid NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  mode turntree.attach_mode NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, resource_id),
  FOREIGN KEY (workspace_id, turn_id) REFERENCES turntree.turns,
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources,
  FOREIGN KEY (workspace_id, before_snapshot_id) REFERENCES turntree.snapshots,
  FOREIGN KEY (workspace_id, after_snapshot_id) REFERENCES turntree.snapshots,
  CHECK (started_at <= ended_at)
);
-- Attributing changes needs the turns that worked on a resource at the same time.
CREATE INDEX turn_snapshots_time ON turntree.turn_snapshots (workspace_id, resource_id, ended_at);

-- Advisory: it may be out of date as soon as it is read, and nothing depends on it.
CREATE TABLE turntree.resource_liveness (
  workspace_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  probed_at timestamptz NOT NULL,
  status turntree.liveness NOT NULL,
  PRIMARY KEY (workspace_id, resource_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);
CREATE TABLE turntree.resource_leases (
  workspace_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  expires_at timestamptz NOT NULL,
  holder text NOT NULL,
  PRIMARY KEY (workspace_id, resource_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);

-- Whether a plan has finished; everything else about it is in the events of its stream.
CREATE TABLE turntree.plans (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  started_at timestamptz NOT NULL,
  kind text NOT NULL,
  outcome turntree.plan_outcome,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX plans_open ON turntree.plans (workspace_id, id) WHERE outcome IS NULL;

-- Which move of a session changed files, so that undoing the move restores them.
CREATE TABLE turntree.session_plans (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  plan_id uuid NOT NULL,
  version int NOT NULL,
  PRIMARY KEY (workspace_id, session_id, version),
  FOREIGN KEY (workspace_id, plan_id) REFERENCES turntree.plans
);

SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['resources', 'snapshots', 'handles', 'turn_snapshots',
  'session_plans']) t;
SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['resource_attachments', 'resource_liveness', 'resource_leases', 'plans']) t;
GRANT INSERT, UPDATE ON turntree.resource_attachments, turntree.resource_liveness, turntree.resource_leases, turntree.plans
  TO turntree_app;
GRANT DELETE ON turntree.resource_attachments, turntree.resource_leases TO turntree_app;

-- The registry: everything that has an address and can be invoked. A row of programs is the fold of the program's
-- events; versions and references are append-only.

CREATE DOMAIN turntree.visibility AS text CHECK (VALUE IN ('public', 'private'));
CREATE DOMAIN turntree.program_access AS text CHECK (VALUE IN ('read', 'invoke', 'configure'));

-- A session's program has the session's id, and its events are in the session's stream, which the session numbers;
-- event_seq counts those of every other kind. details is what events have set besides.
CREATE TABLE turntree.programs (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  kind text NOT NULL CHECK (kind <> ''),
  name text NOT NULL CHECK (name <> ''),
  owner text NOT NULL,
  state text NOT NULL,
  visibility turntree.visibility NOT NULL,
  version int NOT NULL DEFAULT 1,
  event_seq int NOT NULL DEFAULT 0,
  details jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name)
) WITH (fillfactor = 70);
CREATE INDEX programs_kind ON turntree.programs (workspace_id, kind, name);
-- Each statement checks whether anything is hidden from its viewer. These indexes group the private programs of each
-- owner.
CREATE INDEX programs_private_sessions ON turntree.programs (workspace_id, owner) WHERE kind = 'session' AND visibility = 'private';
CREATE INDEX programs_private ON turntree.programs (workspace_id, owner) WHERE visibility = 'private';

-- Every config that a program ever had, by the digest of its canonical bytes, which are an object.
CREATE TABLE turntree.program_versions (
  workspace_id uuid NOT NULL,
  program_id uuid NOT NULL,
  version int NOT NULL CHECK (version >= 1),
  digest turntree.digest NOT NULL,
  created_at timestamptz NOT NULL,
  by text NOT NULL,
  PRIMARY KEY (workspace_id, program_id, version),
  FOREIGN KEY (workspace_id, program_id) REFERENCES turntree.programs,
  FOREIGN KEY (workspace_id, digest) REFERENCES turntree.objects
);

-- Which member of which version refers to which program.
CREATE TABLE turntree.program_refs (
  workspace_id uuid NOT NULL,
  program_id uuid NOT NULL,
  version int NOT NULL,
  path text NOT NULL,
  target_id uuid NOT NULL,
  PRIMARY KEY (workspace_id, program_id, version, path),
  FOREIGN KEY (workspace_id, program_id, version) REFERENCES turntree.program_versions,
  FOREIGN KEY (workspace_id, target_id) REFERENCES turntree.programs
);
CREATE INDEX program_refs_target ON turntree.program_refs (workspace_id, target_id);

-- Access of principals other than the owner.
CREATE TABLE turntree.program_grants (
  workspace_id uuid NOT NULL,
  program_id uuid NOT NULL,
  grantee text NOT NULL CHECK (grantee <> ''),
  access turntree.program_access NOT NULL,
  PRIMARY KEY (workspace_id, program_id, grantee, access),
  FOREIGN KEY (workspace_id, program_id) REFERENCES turntree.programs
);
CREATE INDEX program_grants_grantee ON turntree.program_grants (workspace_id, grantee);

SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['program_versions', 'program_refs']) t;
SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['programs', 'program_grants']) t;
GRANT INSERT, UPDATE ON turntree.programs, turntree.program_grants TO turntree_app;
GRANT DELETE ON turntree.program_grants TO turntree_app;

-- The runtime: queued messages, sessions that are awake, and the workers that process them.

-- The queue of a session. Separate from sessions, whose row is locked by each move: posting to a busy session must
-- not wait for it. awake means that one wake-up is under way, number wakeup_number; worker is the one that took it.
-- Messages at or before claimed_seq were claimed already, and no later message can join them.
CREATE TABLE turntree.session_queues (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  awake_since timestamptz NOT NULL,
  posted_seq int NOT NULL DEFAULT 0,
  claimed_seq int NOT NULL DEFAULT 0,
  wakeup_number int NOT NULL DEFAULT 0,
  awake boolean NOT NULL DEFAULT false,
  worker text,
  PRIMARY KEY (workspace_id, session_id)
) WITH (fillfactor = 70);
-- A search for sessions without a worker never reads one that is idle.
CREATE INDEX session_queues_awake ON turntree.session_queues (workspace_id, awake_since) WHERE awake;

-- Messages sent to a session, in order. The text is here until a run starts with it, and only its digest afterwards:
-- it can be erased from a turn, and must not survive in here. A message that no run has started with can be canceled.
-- It keeps its position, so that the order stays: its run starts as canceled and calls no model and no tool.
CREATE TABLE turntree.queued_messages (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  run_id uuid NOT NULL,
  received_at timestamptz NOT NULL,
  seq int NOT NULL,
  digest turntree.digest NOT NULL,
  by text NOT NULL,
  idempotency_key text,
  payload text,
  options jsonb NOT NULL,
  canceled_at timestamptz,
  canceled_by text,
  PRIMARY KEY (workspace_id, session_id, seq)
);
-- A key belongs to the principal who chose it.
CREATE UNIQUE INDEX queued_messages_keys ON turntree.queued_messages (workspace_id, by, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX queued_messages_waiting ON turntree.queued_messages (workspace_id, session_id, seq) WHERE payload IS NOT NULL;
CREATE INDEX queued_messages_waiting_runs ON turntree.queued_messages (workspace_id, run_id) WHERE payload IS NOT NULL;

-- A worker is alive while it holds its advisory lock, and not stuck while heartbeat_at is recent.
CREATE TABLE turntree.workers (
  workspace_id uuid NOT NULL,
  name text NOT NULL CHECK (name <> ''),
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (workspace_id, name)
) WITH (fillfactor = 50);

SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['session_queues', 'queued_messages', 'workers']) t;
GRANT INSERT, UPDATE ON turntree.session_queues, turntree.queued_messages, turntree.workers TO turntree_app;
GRANT DELETE ON turntree.workers TO turntree_app;
-- For which viewer, and in which workspace, a connection of the SQL console runs. A query cannot change it: a row is
-- valid for one transaction of one process, and only the application writes rows. Nothing here outlives its
-- transaction.
CREATE UNLOGGED TABLE turntree.console_bindings (
  pid int PRIMARY KEY,
  transaction text NOT NULL,
  workspace uuid NOT NULL,
  viewer text NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.console_bindings TO turntree_searcher;

-- An object is found by its digest, and viewers without access to a private session may know the digest of what it
-- holds: from a time when they were granted access, or from a copy. So the ledger records which turns an object is
-- part of, and who stored its bytes.

-- Which turns refer to an object in a message. A run has the id of the turn that it becomes, so what an open run or a
-- queued message refers to is recorded under that id. Derived from bodies and payloads; repair can rebuild it.
CREATE TABLE turntree.object_holders (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, digest)
);
CREATE INDEX object_holders_digest ON turntree.object_holders (workspace_id, digest);

-- Who stored the bytes of an object: they have them anyway, and may refer to them. Without this table, a principal
-- who stores the same bytes as a private session could not read them back.
CREATE TABLE turntree.object_writers (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  by text NOT NULL,
  PRIMARY KEY (workspace_id, digest, by)
);

-- Versions of programs refer to objects too: their configs.
CREATE INDEX program_versions_digest ON turntree.program_versions (workspace_id, digest);

SELECT turntree.make_append_only('object_writers', false, p_delete => 'check_object_deletion');
SELECT turntree.enable_row_security('object_holders');
GRANT INSERT, UPDATE, DELETE ON turntree.object_holders TO turntree_app;
GRANT INSERT ON turntree.object_holders TO turntree_importer;
CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.object_holders FOR EACH ROW
  EXECUTE FUNCTION turntree.check_import_workspace();
GRANT SELECT, DELETE ON turntree.object_holders, turntree.object_writers TO turntree_eraser;
GRANT SELECT ON turntree.object_holders, turntree.object_writers, turntree.queued_messages TO turntree_searcher;

-- What search keeps of turns: derived, bounded, and rebuilt at will. No append writes to these tables, and emptying
-- them loses nothing but the time to fill them again.

-- The lexemes of a turn, without positions: phrases are matched in the texts themselves, and a position would cost as
-- much as half a lexeme. recipe is the version of the rules by which a text is selected and tokenized.
CREATE TABLE turntree.search_documents (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  recipe smallint NOT NULL,
  lexemes tsvector NOT NULL,
  PRIMARY KEY (workspace_id, turn_id)
);

-- Each search scans the pending list, and its space is never given back, so it is kept short.
CREATE INDEX search_documents_lexemes ON turntree.search_documents USING gin (lexemes)
  WITH (gin_pending_list_limit = 512);

-- How far each index has read the feed: one for words, and one for each embedder. No row means that the turns from
-- before the index existed have not been read yet.
CREATE TABLE turntree.search_progress (
  workspace_id uuid NOT NULL,
  index_name text NOT NULL,
  epoch int NOT NULL,
  xid xid8 NOT NULL,
  n bigint NOT NULL,
  PRIMARY KEY (workspace_id, index_name)
);

DO $$
DECLARE
  v_table text;
BEGIN
  FOREACH v_table IN ARRAY ARRAY['search_documents', 'search_progress'] LOOP
    EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', v_table);
    EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', v_table);
    EXECUTE format($p$CREATE POLICY workspace ON turntree.%I TO turntree_app, turntree_reader
      USING (workspace_id = CASE WHEN current_setting('turntree.viewer', true) <> ''
        THEN nullif(current_setting('turntree.workspace', true), '')::uuid END)$p$, v_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.%I TO turntree_app', v_table);
    EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_reader', v_table);
  END LOOP;
END $$;
CREATE POLICY searcher ON turntree.search_documents TO turntree_searcher USING (true);
GRANT SELECT, DELETE ON turntree.search_documents TO turntree_searcher;

-- What the searcher filters by and what its policies read, under the same policies as for every role.
GRANT SELECT ON turntree.turns, turntree.segments, turntree.sessions, turntree.session_names,
  turntree.session_reach, turntree.message_files, turntree.tags, turntree.programs, turntree.program_grants,
  turntree.program_versions, turntree.objects, turntree.runs, turntree.turn_bodies TO turntree_searcher;
-- Creates the table of embeddings where pgvector 0.8 or later is available, and returns whether it exists. A function,
-- because the extension may be installed long after this file has run.
CREATE FUNCTION turntree.create_embeddings_table() RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE
  v_dims int;
  v_vectors text;
BEGIN
  IF to_regclass('turntree.embeddings') IS NOT NULL THEN
    RETURN true;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_available_extension_versions
      WHERE name = 'vector' AND version ~ '^(0\.([89]|[1-9][0-9])|[1-9])') THEN
    RETURN false;
  END IF;
  BEGIN
    CREATE EXTENSION IF NOT EXISTS vector;
  EXCEPTION WHEN insufficient_privilege THEN
    RETURN false; -- A privileged role has to install it first.
  END;
  SELECT quote_ident(n.nspname) INTO v_vectors FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector';
  -- Vectors of different embedders are never compared, and each embedder has its own length. Half precision halves a
  -- row. An index of the signs alone would have to propose nearly a hundred times the requested number before
  -- nineteen of the twenty nearest are among them, so it holds the numbers themselves.
  -- kind says what was embedded, so that a search can be limited to programs. digest is the sha256 of the embedded
  -- text if that text may change: only new text is embedded. The text of a turn never changes, so it has none.
  EXECUTE format('CREATE TABLE turntree.embeddings (
    workspace_id uuid NOT NULL,
    node_id uuid NOT NULL,
    embedder text NOT NULL,
    vector %s.halfvec NOT NULL,
    kind text NOT NULL DEFAULT ''turn'' CHECK (kind <> ''''),
    digest turntree.digest,
    PRIMARY KEY (workspace_id, node_id, embedder)
  )', v_vectors);
  FOREACH v_dims IN ARRAY ARRAY[384, 768, 1024, 1536] LOOP
    EXECUTE format('CREATE INDEX embeddings_%1$s ON turntree.embeddings
      USING hnsw ((vector::%2$s.halfvec(%1$s)) %2$s.halfvec_cosine_ops) WITH (m = 12, ef_construction = 64)
      WHERE %2$s.vector_dims(vector) = %1$s', v_dims, v_vectors);
  END LOOP;
  -- Counts the vectors of a kind before they are compared one by one. It has few distinct keys.
  CREATE INDEX embeddings_kinds ON turntree.embeddings (workspace_id, embedder, kind);
  ALTER TABLE turntree.embeddings ENABLE ROW LEVEL SECURITY;
  ALTER TABLE turntree.embeddings FORCE ROW LEVEL SECURITY;
  CREATE POLICY workspace ON turntree.embeddings TO turntree_app, turntree_reader
    USING (workspace_id = CASE WHEN current_setting('turntree.viewer', true) <> ''
      THEN nullif(current_setting('turntree.workspace', true), '')::uuid END);
  CREATE POLICY searcher ON turntree.embeddings TO turntree_searcher USING (true);
  GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.embeddings TO turntree_app;
  GRANT SELECT ON turntree.embeddings TO turntree_reader;
  GRANT SELECT, DELETE ON turntree.embeddings TO turntree_searcher;
  RETURN true;
END $f$;
SELECT turntree.create_embeddings_table();
