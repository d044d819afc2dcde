-- adopt_keep: indexes ended holds whose records stay as they are.
-- KEYS  none of its own
-- ARGV  claim, number of holds; for each: when it is to be purged, tag
-- Reply {OK} or {BUSY}
-- O(log n) for each, n being the ended holds.

-- include adopt

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
pass(a.key)
ensure(a.ended, 'ZCARD')
put('ZADD', a.ended, unpack(ARGV, firstArg + 2, firstArg + 1 + 2 * tonumber(ARGV[firstArg + 1])))
return reply({{S.OK}})
