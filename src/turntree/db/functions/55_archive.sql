-- Archives: rows of a ledger that come back from a file.

-- Inserts rows into a table. Returns how many are new, and the given rows that the table has with other values, as
-- their key or another unique key is taken. It runs with the rights of its caller, so row-level security decides
-- which rows may be written.
CREATE OR REPLACE FUNCTION turntree.import_rows(p_table text, p_rows jsonb, OUT added int, OUT differing jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  v_key text;
BEGIN
  EXECUTE format('INSERT INTO turntree.%1$I SELECT * FROM jsonb_populate_recordset(NULL::turntree.%1$I, $1)
    ON CONFLICT DO NOTHING', p_table) USING p_rows;
  GET DIAGNOSTICS added = ROW_COUNT;
  -- Into an empty ledger every row is new, and nothing has to be compared.
  IF added < jsonb_array_length(p_rows) THEN
    SELECT string_agg(format('t.%1$I = g.%1$I', a.attname), ' AND ') INTO v_key FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
      WHERE i.indrelid = format('turntree.%I', p_table)::regclass AND i.indisprimary;
    EXECUTE format('SELECT jsonb_agg(to_jsonb(g)) FROM jsonb_populate_recordset(NULL::turntree.%1$I, $1) g
      WHERE NOT EXISTS (SELECT FROM turntree.%1$I t WHERE %2$s AND t IS NOT DISTINCT FROM g)', p_table, v_key)
      INTO differing USING p_rows;
  END IF;
END $$;
