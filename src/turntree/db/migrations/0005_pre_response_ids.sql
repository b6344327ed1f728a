-- A turn is found by the id that a provider gave to one of its responses. A hash index, because only whole ids are
-- looked up: with 300,000 calls it takes 10 MB, a tree of the ids 22 MB. Calls without an id are not in it.
CREATE INDEX model_calls_by_call_id ON turntree.model_calls USING hash (call_id);
