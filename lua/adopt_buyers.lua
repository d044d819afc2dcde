-- adopt_buyers: sets buyers' totals and lists of live holds.
-- KEYS  for each buyer: hash of its entry
-- ARGV  claim, number of buyers; for each: buyer, units held, units sold, live holds, number of
--       tags, tags of the newest live holds
-- Reply {OK} or {BUSY}
-- O(1) for each.

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
local p = firstArg + 2
for i = 1, tonumber(ARGV[firstArg + 1]) do
  local e = {tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])}
  local shown = tonumber(ARGV[p + 4])
  for j = 1, shown do e[B_TAGS + j] = ARGV[p + 4 + j] end
  ensure(KEYS[firstKey + i - 1], 'HLEN')
  put('HDEL', KEYS[firstKey + i - 1], ARGV[p])
  put('HSET', KEYS[firstKey + i - 1], ARGV[p], cmsgpack.pack(e))
  p = p + 5 + shown
end
return reply({{S.OK}})
