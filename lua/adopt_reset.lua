-- adopt_reset: empties the indexes, which adopt_write sets anew.
-- KEYS  none of its own
-- ARGV  claim
-- Reply {OK} or {BUSY}
-- O(1); the memory is freed in the background.

-- include adopt

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
put('UNLINK', a.deadlines, a.leases, a.ended)
return reply({{S.OK}})
