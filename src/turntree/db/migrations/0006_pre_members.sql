-- The members of a workspace, and what each may do there.

CREATE DOMAIN turntree.member_role AS text CHECK (VALUE IN ('admin', 'member', 'guest'));

-- The rows follow from the events of the workspace's own stream. A person who was removed
-- keeps a row without a role: a person who was never added and opens the database with its own login counts as a
-- member, and one who was removed must not.
CREATE TABLE turntree.members (
  workspace_id uuid NOT NULL,
  principal text NOT NULL CHECK (principal LIKE 'human:_%'),
  role turntree.member_role,
  changed_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, principal)
);
SELECT turntree.enable_row_security('members');
GRANT INSERT, UPDATE ON turntree.members TO turntree_app;
