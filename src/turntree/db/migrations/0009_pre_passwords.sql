-- Passwords, for an admin who has no other way to log in to a server yet.

-- The hash is Argon2's, with its own salt and cost. Only the system reads it, to verify a password.
CREATE TABLE turntree.passwords (
  workspace_id uuid NOT NULL,
  principal text NOT NULL CHECK (principal LIKE 'human:_%'),
  hash text NOT NULL CHECK (hash LIKE '$argon2id$%'),
  changed_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, principal)
);
SELECT turntree.enable_row_security('passwords');
REVOKE SELECT ON turntree.passwords FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE, DELETE ON turntree.passwords TO turntree_app;
