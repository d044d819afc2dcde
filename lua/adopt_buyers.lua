-- adopt_buyers: sets buyers' totals and lists of live holds.
-- KEYS  for each buyer: hash of its entry
-- ARGV  claim, number of buyers; for each: its field, units held, units sold, live holds, number of
--       names, names of the newest live holds
-- Reply {OK} or {BUSY}
-- O(1) for each.

-- include records
-- include adopt

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
local p = firstArg + 2
for i = 1, tonumber(ARGV[firstArg + 1]) do
  local key = KEYS[firstKey + i - 1]
  ensure(key, 'HLEN')
  pass(key)
  local b = buyer(key, ARGV[p])
  local e = {tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3]), ''}
  if b.r then e[B_HOME] = b.e[B_HOME] end
  local shown = tonumber(ARGV[p + 4])
  for j = 1, shown do
    local name = ARGV[p + 4 + j]
    if name ~= e[B_HOME] then e[#e + 1] = name end
  end
  b.e, b.dirty = e, true
  p = p + 5 + shown
end
return reply({{S.OK}})
