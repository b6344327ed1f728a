-- The registry: whatever has an address and can be invoked. A row of programs is the fold of the
-- program's events; its versions and what they refer to are facts.

CREATE DOMAIN turntree.visibility AS text CHECK (VALUE IN ('public', 'private'));
CREATE DOMAIN turntree.program_right AS text CHECK (VALUE IN ('read', 'invoke', 'configure'));

-- A session's program has the session's id, and its events stand in the session's stream, which the
-- session numbers; event_seq counts those of every other kind. details is what events have set besides.
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

-- Every config a program ever had, by the digest of its canonical bytes, which are an object.
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

-- Which member of which version names which program.
CREATE TABLE turntree.program_refs (
  workspace_id uuid NOT NULL,
  program_id uuid NOT NULL,
  version int NOT NULL,
  member text NOT NULL,
  target_id uuid NOT NULL,
  PRIMARY KEY (workspace_id, program_id, version, member),
  FOREIGN KEY (workspace_id, program_id, version) REFERENCES turntree.program_versions,
  FOREIGN KEY (workspace_id, target_id) REFERENCES turntree.programs
);
CREATE INDEX program_refs_target ON turntree.program_refs (workspace_id, target_id);

-- Who besides the owner may do what.
CREATE TABLE turntree.program_grants (
  workspace_id uuid NOT NULL,
  program_id uuid NOT NULL,
  grantee text NOT NULL CHECK (grantee <> ''),
  "right" turntree.program_right NOT NULL,
  PRIMARY KEY (workspace_id, program_id, grantee, "right"),
  FOREIGN KEY (workspace_id, program_id) REFERENCES turntree.programs
);
CREATE INDEX program_grants_grantee ON turntree.program_grants (workspace_id, grantee);

SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['program_versions', 'program_refs']) t;
SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['programs', 'program_grants']) t;
GRANT INSERT, UPDATE ON turntree.programs, turntree.program_grants TO turntree_app;
GRANT DELETE ON turntree.program_grants TO turntree_app;
