-- adopt_end: puts the new counters in force, under the new epoch and this server's identity.
-- KEYS  none of its own
-- ARGV  claim, then the numbers: epoch, capacity, available, held, confirming, shrinking, sold,
--       sequence, version, feed, state, late, hold ms, longest ms, units per hold, units per buyer,
--       opens ms, closes ms
-- Reply {OK} or {BUSY}
-- O(1)

-- include adopt

local NAMES = {'epoch', 'capacity', 'available', 'held', 'confirming', 'shrinking', 'sold',
  'sequence', 'version', 'feed', 'state', 'late', 'hold', 'longest', 'perhold', 'perbuyer', 'opens',
  'closes'}

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
local set = {'HSET', a.key, 'format', FORMAT, 'identity', identity, 'time', now}
for j, name in ipairs(NAMES) do
  set[#set + 1] = name
  set[#set + 1] = tonumber(ARGV[firstArg + j])
end
put('HDEL', a.key, 'adopting', 'adoptlease', 'adoptee')
put(unpack(set))
return reply({{S.OK}})
