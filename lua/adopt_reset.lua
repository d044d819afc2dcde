-- adopt_reset: empties the indexes and the buyers' totals, which adopt_write sets anew.
-- KEYS  every hash of buyers
-- ARGV  claim
-- Reply {OK} or {BUSY}
-- O(keys); the memory is freed in the background.

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
put('UNLINK', a.deadlines, a.leases, a.ended)
for j = firstKey, #KEYS do put('UNLINK', KEYS[j]) end
return reply({{S.OK}})
