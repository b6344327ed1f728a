-- The ledger: the tree, its bodies, the sessions that point into it, and the journal.
-- Every key begins with the workspace, so that a workspace can move and no key refers across two.

-- Digests, and words of which there are few. They are domains because a table's CHECK is parsed
-- anew by every statement that writes to it, while a domain's is kept by the connection.
CREATE DOMAIN turntree.digest AS bytea CHECK (length(VALUE) = 32);
CREATE DOMAIN turntree.turn_kind AS text CHECK (VALUE IN ('normal', 'compaction'));
CREATE DOMAIN turntree.outcome AS text CHECK (VALUE IN ('completed', 'failed', 'canceled', 'interrupted'));
CREATE DOMAIN turntree.agent_role AS text CHECK (VALUE IN ('manager', 'worker', 'unified'));
CREATE DOMAIN turntree.tool_status AS text
  CHECK (VALUE IN ('ok', 'error', 'timeout', 'canceled', 'interrupted'));
CREATE DOMAIN turntree.session_status AS text CHECK (VALUE IN ('active', 'archived', 'deleted'));
CREATE DOMAIN turntree.alias_reason AS text CHECK (VALUE IN ('identity_promotion', 'identity_merge', 'manual'));
CREATE DOMAIN turntree.move_kind AS text
  CHECK (VALUE IN ('create', 'advance', 'fork', 'rewind', 'reset', 'undo'));

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

-- A sealed turn's place and what queries need; all of it can be rebuilt from the body.
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
-- Few act and they act often, so an entry shares its key with many others and takes a few bytes.
CREATE INDEX turns_by ON turntree.turns (workspace_id, by);
-- Few turns are compactions, and every context begins at the nearest one.
CREATE INDEX turns_compactions ON turntree.turns (workspace_id, segment_id, depth) WHERE kind = 'compaction';

-- The canonical bytes, the truth about a turn: the header, then a line a message. The header is
-- full of digests, which no compressor shortens; kept out of the compressed text it can be read
-- without it, and a turn of 5 KB takes an eighth less room.
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
  FOREIGN KEY (workspace_id, first_kept) REFERENCES turntree.turns
);

-- What is large or repeated, by the digest of its bytes.
CREATE TABLE turntree.objects (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (workspace_id, digest)
);

-- A session is a pointer. The row is updated at every move, so it stays narrow, leaves room for
-- updates in place and has no index on anything that changes. head_id has no foreign key: every
-- function that sets it looks the turn up, turns are never deleted, and a key would lock the turn's
-- row at every move, so that a turn thousands fork from would become a queue.
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
  PRIMARY KEY (workspace_id, id),
  CHECK ((origin IS NULL) = (origin_session_id IS NULL))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX sessions_origin ON turntree.sessions (workspace_id, origin, origin_session_id)
  WHERE origin IS NOT NULL;

-- Labels and aliases share one key, so that no alias can hide a label and none can point at
-- another alias. reason is null for the label. A name is written by the statement that made or
-- found its session, and no session is ever deleted: a foreign key would only lock that row again,
-- a tenth of what a fork costs.
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

-- How deep each session ever stood in each segment; answers "which sessions held this turn".
CREATE TABLE turntree.session_reach (
  workspace_id uuid NOT NULL,
  segment_id uuid NOT NULL,
  session_id uuid NOT NULL,
  max_depth int NOT NULL,
  PRIMARY KEY (workspace_id, segment_id, session_id)
) WITH (fillfactor = 70);

-- What was asked of a session under a key, in the order it was taken: a key asked again is
-- answered with what it led to.
CREATE TABLE turntree.inbox (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  version int NOT NULL,
  key text NOT NULL,
  PRIMARY KEY (workspace_id, key)
);

-- A subagent's session and the tool call that began it.
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
  FOREIGN KEY (workspace_id, parent_turn_id) REFERENCES turntree.turns
);
CREATE INDEX spawns_parent ON turntree.spawns (workspace_id, parent_turn_id);

CREATE TABLE turntree.tags (
  workspace_id uuid NOT NULL,
  target_id uuid NOT NULL,
  tag text NOT NULL CHECK (tag <> ''),
  PRIMARY KEY (workspace_id, target_id, tag)
);
CREATE INDEX tags_by_tag ON turntree.tags (workspace_id, tag);

-- An attempt that has not left its turn yet. Mutable, and gone from here once it is sealed.
CREATE TABLE turntree.runs (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  session_id uuid,
  epoch int NOT NULL DEFAULT 1,
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'parked', 'finished')),
  started_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, session_id) REFERENCES turntree.sessions
);
CREATE UNIQUE INDEX runs_one_open ON turntree.runs (workspace_id, session_id)
  WHERE status <> 'finished';

-- The words of an open run; sealing moves them into the turn's body.
CREATE TABLE turntree.run_payloads (
  workspace_id uuid NOT NULL,
  run_id uuid NOT NULL,
  seq int NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (workspace_id, run_id, seq)
);

-- The journal. (epoch, xid, n) is the feed's position: readers stop before the oldest
-- transaction still running, so a late commit is never skipped.
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
