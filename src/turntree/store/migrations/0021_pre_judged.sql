-- Who judges what is closed reads what a person's config says, for whomever that is closed to.
GRANT SELECT ON turntree.program_versions, turntree.objects TO turntree_searcher;
