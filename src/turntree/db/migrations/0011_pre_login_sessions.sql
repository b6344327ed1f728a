-- Login sessions: browsers in which a person has logged in to a server.

-- Only the digest of the code in the cookie is here. Its secret has 256 bits, so that a plain sha256 cannot be guessed back.
CREATE TABLE turntree.login_sessions (
  workspace_id uuid NOT NULL,
  id text NOT NULL,
  code_digest turntree.digest NOT NULL,
  holder text NOT NULL CHECK (holder LIKE 'human:_%'),
  method text NOT NULL CHECK (method IN ('password', 'key', 'invitation')),
  scopes jsonb NOT NULL,
  key_id text,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  last_used_at timestamptz NOT NULL,
  ended_at timestamptz,
  ended_by text,
  PRIMARY KEY (workspace_id, id),
  CHECK ((method = 'key') = (key_id IS NOT NULL)),
  CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
-- A removed member, a changed password and a revoked key end the sessions that are open.
CREATE INDEX open_login_sessions ON turntree.login_sessions (workspace_id, holder) WHERE ended_at IS NULL;
SELECT turntree.enable_row_security('login_sessions');
-- People who query with SQL have no use for it, and an import adds none.
REVOKE SELECT ON turntree.login_sessions FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.login_sessions TO turntree_app;
