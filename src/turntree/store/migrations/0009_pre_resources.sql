-- What lies outside of the ledger and can be kept, brought back and forked with a turn. No byte of it
-- is stored here: a snapshot says where its bytes are and what they hash to.

CREATE DOMAIN turntree.attach_mode AS text CHECK (VALUE IN ('ro', 'rw'));
CREATE DOMAIN turntree.liveness AS text CHECK (VALUE IN ('unknown', 'alive', 'dead'));
CREATE DOMAIN turntree.consistency AS text CHECK (VALUE IN ('exact', 'crash_consistent', 'inconsistent'));
CREATE DOMAIN turntree.plan_outcome AS text CHECK (VALUE IN ('completed', 'rolled_back'));

-- A place on a machine. agent_id, run_id and session_id are its scope: whose it is.
CREATE TABLE turntree.resources (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  part_of uuid,
  session_id uuid,
  created_at timestamptz NOT NULL,
  imperative boolean NOT NULL,
  kind text NOT NULL CHECK (kind <> ''),
  host text NOT NULL,
  place text NOT NULL CHECK (place <> ''),
  name text NOT NULL,
  capabilities text[] NOT NULL,
  agent_id text,
  run_id text,
  metadata jsonb NOT NULL,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, part_of) REFERENCES turntree.resources,
  CHECK (part_of <> id)
);
-- A path may be longer than an entry of an index.
CREATE UNIQUE INDEX resources_place ON turntree.resources (workspace_id, kind, host, md5(place));

-- A state that was kept. The same state of a resource is noted once, however often it comes back.
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

-- A live grip, which nothing brings back.
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

-- What each session works on now; its events tell since when, and what it worked on before.
CREATE TABLE turntree.resource_attachments (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  mode turntree.attach_mode NOT NULL,
  PRIMARY KEY (workspace_id, session_id, resource_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);

-- In which state a turn found a resource and in which it left it. Beside the turn, not inside its digest.
CREATE TABLE turntree.turn_resources (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  before_id uuid,
  after_id uuid NOT NULL,
  began_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  mode turntree.attach_mode NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, resource_id),
  FOREIGN KEY (workspace_id, turn_id) REFERENCES turntree.turns,
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources,
  FOREIGN KEY (workspace_id, before_id) REFERENCES turntree.snapshots,
  FOREIGN KEY (workspace_id, after_id) REFERENCES turntree.snapshots,
  CHECK (began_at <= ended_at)
);
-- Who worked in a place at the same time is asked whenever changes are told apart.
CREATE INDEX turn_resources_time ON turntree.turn_resources (workspace_id, resource_id, ended_at);

-- Advice: it may be out of date the moment it is read, and nothing follows from it.
CREATE TABLE turntree.resource_liveness (
  workspace_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  probed_at timestamptz NOT NULL,
  status turntree.liveness NOT NULL,
  PRIMARY KEY (workspace_id, resource_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);
CREATE TABLE turntree.leases (
  workspace_id uuid NOT NULL,
  resource_id uuid NOT NULL,
  expires_at timestamptz NOT NULL,
  holder text NOT NULL,
  PRIMARY KEY (workspace_id, resource_id),
  FOREIGN KEY (workspace_id, resource_id) REFERENCES turntree.resources
);

-- Whether a plan has ended; everything else about it stands in the events of its stream.
CREATE TABLE turntree.plans (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  started_at timestamptz NOT NULL,
  kind text NOT NULL,
  outcome turntree.plan_outcome,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX plans_open ON turntree.plans (workspace_id, id) WHERE outcome IS NULL;

-- Which move of a session took files with it, so that taking it back takes them back.
CREATE TABLE turntree.session_plans (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  plan_id uuid NOT NULL,
  version int NOT NULL,
  PRIMARY KEY (workspace_id, session_id, version),
  FOREIGN KEY (workspace_id, plan_id) REFERENCES turntree.plans
);

SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['resources', 'snapshots', 'handles', 'turn_resources',
  'session_plans']) t;
SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['resource_attachments', 'resource_liveness', 'leases', 'plans']) t;
GRANT INSERT, UPDATE ON turntree.resource_attachments, turntree.resource_liveness, turntree.leases, turntree.plans
  TO turntree_app;
GRANT DELETE ON turntree.resource_attachments, turntree.leases TO turntree_app;
