-- Invitations to a workspace: each lets one person in, once, until it expires.

-- Only the digest of the code is here: a reader of the table cannot let themselves in. Whom an invitation is for is in
-- no event, because every member reads those.
CREATE TABLE turntree.invitations (
  workspace_id uuid NOT NULL,
  id text NOT NULL,
  code_digest turntree.digest NOT NULL,
  invitee text NOT NULL CHECK (length(invitee) BETWEEN 1 AND 320),
  role turntree.member_role NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  accepted_by text,
  revoked_by text,
  ended_at timestamptz,
  PRIMARY KEY (workspace_id, id),
  CHECK ((ended_at IS NULL) = (accepted_by IS NULL AND revoked_by IS NULL))
);
SELECT turntree.enable_row_security('invitations');
-- People who query with SQL have no use for it, and an import adds none.
REVOKE SELECT ON turntree.invitations FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.invitations TO turntree_app;
