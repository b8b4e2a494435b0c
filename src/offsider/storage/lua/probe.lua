#!lua flags=no-writes,allow-oom
-- A no-op that tests whether the server accepts scripts with flags (rule 26).
-- returns 1
return 1
