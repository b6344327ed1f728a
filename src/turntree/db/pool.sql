-- What a lease of a connection sets.

-- name: enter_scope
SELECT set_config('turntree.workspace', %(workspace)s, false), set_config('turntree.viewer', %(sight)s, false);
