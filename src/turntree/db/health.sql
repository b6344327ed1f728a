-- Health checks. Run as the owner; they change nothing.

-- name: list_roles
SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'turntree_') ORDER BY rolname;

-- name: list_tables_without_row_security
-- Tables with rows of workspaces whose row-level security is not on, or not for their owner.
SELECT c.relname FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped
  WHERE n.nspname = 'turntree' AND c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
  ORDER BY c.relname;

-- name: database_size
SELECT pg_database_size(current_database());
