-- Identities: accounts at an identity provider with which members log in.

-- Which account it is at the provider says only the row: every member reads the events. A row goes when the account is
-- unlinked or its member removed; the events keep that.
CREATE TABLE turntree.identities (
  workspace_id uuid NOT NULL,
  id text NOT NULL,
  issuer text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 2000),
  subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
  principal text NOT NULL CHECK (principal LIKE 'human:_%'),
  linked_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  -- One account is one person; a person may have several.
  UNIQUE (workspace_id, issuer, subject)
);
SELECT turntree.enable_row_security('identities');
REVOKE SELECT ON turntree.identities FROM turntree_reader, turntree_importer;
GRANT INSERT, DELETE ON turntree.identities TO turntree_app;

-- The states of logins at an identity provider that came back, until they expire: each counts once. What a browser was
-- only sent away with is not here, so that strangers cannot fill the table.
CREATE TABLE turntree.login_states (
  workspace_id uuid NOT NULL,
  state_digest turntree.digest NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, state_digest)
);
SELECT turntree.enable_row_security('login_states');
REVOKE SELECT ON turntree.login_states FROM turntree_reader, turntree_importer;
GRANT INSERT, DELETE ON turntree.login_states TO turntree_app;

ALTER TABLE turntree.login_sessions ADD COLUMN identity_id text;
ALTER TABLE turntree.login_sessions DROP CONSTRAINT login_sessions_method_check;
ALTER TABLE turntree.login_sessions ADD CHECK (method IN ('password', 'key', 'invitation', 'identity'));
ALTER TABLE turntree.login_sessions ADD CHECK ((method = 'identity') = (identity_id IS NOT NULL));
