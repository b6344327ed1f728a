-- A worker may serve all workspaces of the database. It is registered once, under the workspace that no workspace has
-- (turntree.every_workspace), and the processes of each workspace see it there, and delete it when it is dead.
CREATE POLICY shared_worker ON turntree.workers FOR SELECT TO turntree_app
  USING (workspace_id = '00000000-0000-0000-0000-000000000000' AND current_setting('turntree.viewer', true) <> '');
CREATE POLICY dead_shared_worker ON turntree.workers FOR DELETE TO turntree_app
  USING (workspace_id = '00000000-0000-0000-0000-000000000000' AND current_setting('turntree.viewer', true) <> '');
