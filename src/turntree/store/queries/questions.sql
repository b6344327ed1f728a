-- What people ask in SQL of their own.

-- name: ask_as_people
-- Nothing can be changed, nothing lasts for ever, and the views are found by their own names.
SELECT set_config('default_transaction_read_only', 'on', false), set_config('statement_timeout', %(timeout)s, false),
  set_config('search_path', 'ledger, turntree', false);

-- name: list_views
SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
  WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind = 'v' AND a.attnum > 0 AND NOT a.attisdropped
  GROUP BY c.relname ORDER BY c.relname;
