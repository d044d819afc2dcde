-- adopt_end: puts the new counters in force, under the new epoch and this server's identity.
-- KEYS  none of its own
-- ARGV  claim, then the numbers as the function allotment takes them: epoch, capacity, available, held, confirming,
--       shrinking, sold, sequence, version, feed, state, late, hold ms, longest ms, units per hold, units per buyer,
--       opens ms, closes ms
-- Reply {OK} or {BUSY}
-- O(1)

-- include adopt

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
local numbers = {}
for j = 1, 18 do numbers[j] = tonumber(ARGV[firstArg + j]) end
put('HDEL', a.key, 'adopting', 'adoptlease', 'adoptee')
put('HSET', a.key, 'format', FORMAT, 'time', now, 'counters', packed(allotment(1, unpack(numbers))))
return reply({{S.OK}})
