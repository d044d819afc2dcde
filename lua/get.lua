-- get: reads holds.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  number of holds; for each: allotment number, tag
-- Reply for each: {OK, hold} or {status}
-- O(1) for each.

-- include records

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 2 * i - 1
  local a = allotments[tonumber(ARGV[p])]
  local h = hold(a, firstKey + 2 * i - 2, ARGV[p + 1])
  if a.gate ~= S.OK then
    results[i] = {a.gate}
  elseif h.damaged then
    results[i] = {S.DAMAGED}
  elseif not h.r or h.r[BUYER] == '' then
    results[i] = {S.NOT_FOUND}
  else
    results[i] = {S.OK, view(h)}
  end
end
return reply(results)
