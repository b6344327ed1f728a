-- Approvals: what a person has to decide before a tool call is made, and what they decided.

ALTER DOMAIN turntree.notice_kind DROP CONSTRAINT notice_kind_check;
ALTER DOMAIN turntree.notice_kind ADD CONSTRAINT notice_kind_check
  CHECK (VALUE IN ('message', 'question', 'mention', 'invitation', 'failure', 'approval'));

CREATE DOMAIN turntree.approval_kind AS text CHECK (VALUE IN ('call', 'question', 'foreign_call'));
CREATE DOMAIN turntree.approval_state AS text
  CHECK (VALUE IN ('pending', 'approved', 'edited', 'rejected', 'answered', 'expired', 'canceled', 'used'));

-- A call of a run, a question that a tool asks in the middle of one, or a call that another coding agent wants to make.
-- The arguments are the canonical bytes that args_digest covers; allowed_digest is that of the arguments that may run,
-- which differs after an edit. Both are empty of content once the call is part of a sealed turn: the turn has it.
CREATE TABLE turntree.approvals (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  kind turntree.approval_kind NOT NULL,
  run_id uuid,
  session_id uuid,
  call_id text,
  tool text NOT NULL,
  origin text NOT NULL,
  args text,
  args_digest turntree.digest NOT NULL,
  folder text,
  policy turntree.digest,
  line int,
  reason text NOT NULL,
  question jsonb,
  requested_by text NOT NULL,
  answerers text[] NOT NULL,
  is_named boolean NOT NULL,
  escalated_to text[] NOT NULL DEFAULT '{}',
  request_key text,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  due_at timestamptz NOT NULL,
  reminders int NOT NULL DEFAULT 0,
  state turntree.approval_state NOT NULL DEFAULT 'pending',
  decided_by text,
  decided_at timestamptz,
  note text,
  answer jsonb,
  allowed_digest turntree.digest,
  used_at timestamptz,
  PRIMARY KEY (workspace_id, id),
  CHECK (expires_at > created_at),
  CHECK ((state = 'pending') = (decided_at IS NULL)),
  CHECK ((used_at IS NULL) = (state <> 'used')),
  CHECK (state NOT IN ('approved', 'edited', 'used') OR allowed_digest IS NOT NULL),
  CHECK (kind = 'foreign_call' OR run_id IS NOT NULL AND session_id IS NOT NULL AND call_id IS NOT NULL)
);
-- What the sweep looks for: it costs nothing for what only waits.
CREATE INDEX approvals_due ON turntree.approvals (workspace_id, due_at) WHERE state = 'pending';
CREATE INDEX approvals_run ON turntree.approvals (workspace_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX approvals_session ON turntree.approvals (workspace_id, session_id) WHERE state = 'pending';
CREATE INDEX approvals_order ON turntree.approvals (workspace_id, created_at, id);
CREATE INDEX approvals_waiting ON turntree.approvals (workspace_id, created_at, id) WHERE state = 'pending';
CREATE UNIQUE INDEX approvals_key ON turntree.approvals (workspace_id, requested_by, request_key)
  WHERE request_key IS NOT NULL AND state IN ('pending', 'approved', 'edited');

SELECT turntree.enable_row_security('approvals');
-- People who query with SQL read the events, and an import adds none.
REVOKE SELECT ON turntree.approvals FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.approvals TO turntree_app;
GRANT SELECT, UPDATE (args, answer, question) ON turntree.approvals TO turntree_eraser;
