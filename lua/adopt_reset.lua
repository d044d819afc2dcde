-- adopt_reset: empties the indexes, which adopt_write sets anew. From now on the counters are of no server: if this adopt is given
-- up, the next one may not put them in force again (adopt_drop), as nobody would find lapsed holds or leases that ran out.
-- KEYS  none of its own
-- ARGV  claim
-- Reply {OK} or {BUSY}
-- O(1); the memory is freed in the background.

-- include adopt

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
put('UNLINK', a.deadlines, a.leases, a.ended)
identity = string.rep('-', 40)
if a.epoch then put('HSET', a.key, 'counters', packed(a)) end
return reply({{S.OK}})
