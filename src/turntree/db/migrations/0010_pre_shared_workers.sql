-- Workers that serve all workspaces of the database. They belong to none, and the processes of each see them. A worker of
-- one workspace has its row in turntree.workers.
CREATE TABLE turntree.shared_workers (
  name text PRIMARY KEY CHECK (name <> ''),
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.shared_workers TO turntree_app;
