-- API keys: how a program proves to a server for whom it acts.

-- Only the digest of a key is here. Its secret has 256 bits, so that a plain sha256 cannot be guessed back.
CREATE TABLE turntree.api_keys (
  workspace_id uuid NOT NULL,
  id text NOT NULL,
  key_digest turntree.digest NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  holder text NOT NULL CHECK (holder LIKE 'human:_%'),
  agent text,
  scopes jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  last_used_at timestamptz,
  revoked_by text,
  revoked_at timestamptz,
  reason text,
  PRIMARY KEY (workspace_id, id),
  CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
SELECT turntree.enable_row_security('api_keys');
-- People who query with SQL have no use for it, and an import adds none.
REVOKE SELECT ON turntree.api_keys FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.api_keys TO turntree_app;
