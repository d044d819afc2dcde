-- purge: forgets ended holds whose time to be remembered is over.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  number of holds; for each: allotment number, tag
-- Reply for each: {OK}, {NOT_DUE} or {status}
-- O(log n) for each, n being the ended holds.

-- include indexes
-- include records

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 2 * i - 1
  local a, tag = allotments[tonumber(ARGV[p])], ARGV[p + 1]
  local h = hold(a, firstKey + 2 * i - 2, tag)
  local score = a.gate == S.OK and redis.call('ZSCORE', a.ended, tag)
  if a.gate ~= S.OK then
    results[i] = {a.gate}
  elseif score and tonumber(score) <= now then
    put('ZREM', a.ended, tag)
    if (h.damaged and not h.foreign) or (h.r and h.r[STATE] >= SOLD) then remove(h) end
    results[i] = {S.OK}
  else
    results[i] = {S.NOT_DUE}
  end
end
return reply(results)
