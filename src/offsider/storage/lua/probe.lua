#!lua flags=no-writes,allow-oom
-- Do nothing, to learn whether the server accepts scripts with flags (rule 26).
-- returns 1
return 1
