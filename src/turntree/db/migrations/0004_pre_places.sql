-- Where the turn of a document is in the tree, which never changes. A person who types asks for the places of all hits
-- at each key, and looking up each turn and its segment costs five times as much as finding the documents. Null in
-- documents from before this migration.
ALTER TABLE turntree.search_documents ADD COLUMN segment bigint, ADD COLUMN depth int;
