-- Rules that fsck checks and that a constraint can keep for next to nothing. Only tables that are
-- written seldom get one here: a CHECK is parsed anew by every statement that writes to its table, so
-- on the path of an append the functions and the domains do that work.

-- I24: a summary stands for something that came before, and what is kept comes after that.
ALTER TABLE turntree.compactions
  ADD CONSTRAINT compactions_lead_back
    CHECK (summarized_through <> turn_id AND first_kept IS DISTINCT FROM summarized_through),
  ADD CONSTRAINT compactions_count CHECK (turns_summarized >= 1);

-- I31: nobody begins itself.
ALTER TABLE turntree.spawns
  ADD CONSTRAINT spawns_by_another CHECK (session_id <> parent_session_id);
