-- Policies: what decides about tool calls. A version is never changed; which one is in force is. Each proposal and each
-- activation is an event of the workspace's own stream, which does not leave with an archive: an archive brings no policy.

-- The agent is empty for the policy of all agents of the workspace. Source, docstring and tests are one text, and its digest
-- names the version in the decisions that it makes.
CREATE TABLE turntree.policies (
  workspace_id uuid NOT NULL,
  agent text NOT NULL,
  number int NOT NULL CHECK (number > 0),
  digest turntree.digest NOT NULL,
  language text NOT NULL CHECK (language IN ('python', 'javascript', 'typescript')),
  lane text NOT NULL CHECK (lane IN ('monty', 'process')),
  source text NOT NULL CHECK (length(source) BETWEEN 1 AND 65536),
  docstring text NOT NULL,
  tests int NOT NULL CHECK (tests > 0),
  notes text,
  proposed_by text NOT NULL,
  proposed_at timestamptz NOT NULL,
  activated_by text,
  activated_at timestamptz,
  is_active boolean NOT NULL DEFAULT false,
  PRIMARY KEY (workspace_id, agent, number),
  CHECK (NOT is_active OR activated_at IS NOT NULL)
);
CREATE UNIQUE INDEX policies_active ON turntree.policies (workspace_id, agent) WHERE is_active;
CREATE UNIQUE INDEX policies_digest ON turntree.policies (workspace_id, agent, digest, lane);

SELECT turntree.enable_row_security('policies');
-- People who query with SQL read the events, and an import adds none.
REVOKE SELECT ON turntree.policies FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.policies TO turntree_app;
