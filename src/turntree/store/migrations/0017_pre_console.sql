-- Whose question a connection of the SQL console asks, and in which workspace. A question cannot change it: a row holds for one
-- transaction of one process, and only the application writes rows. Nothing here outlives the transaction it names.
CREATE UNLOGGED TABLE turntree.console_bindings (
  pid int PRIMARY KEY,
  transaction text NOT NULL,
  workspace uuid NOT NULL,
  viewer text NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.console_bindings TO turntree_searcher;
