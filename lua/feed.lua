-- feed (apply feed): applies changes of the ledger, each exactly once and in order.
-- KEYS  for each change: hash of its buyer's entry
-- ARGV  number of changes; for each: allotment number, feed number, kind (1 growth, 2 cancelled
--       units, 3 rules), units, field of its buyer, and the rules: state, late, hold ms, longest ms, units per
--       hold, units per buyer, opens ms, closes ms
-- Reply for each: {OK} if it is applied, now or before; {GAP} if one before it is missing; {FORMAT}
--       if its kind is not known; {status}
-- O(1) for each.

-- include records

local WIDTH = 13
local RULES = {'state', 'late', 'hold', 'longest', 'perhold', 'perbuyer', 'opens', 'closes'}

local function setRules(a, p)
  for j, name in ipairs(RULES) do
    a[name] = tonumber(ARGV[p + 4 + j])
  end
end

local function cancelUnits(a, b, units)
  a.sold, a.available = a.sold - units, a.available + units
  b.e[B_SOLD], b.dirty = b.e[B_SOLD] - units, true
end

local function decide(a, p, key)
  if a.gate ~= S.OK then return {a.gate} end
  local number, kind, units = tonumber(ARGV[p + 1]), ARGV[p + 2], tonumber(ARGV[p + 3])
  if number <= a.feed then return {S.OK} end
  if number ~= a.feed + 1 then return {S.GAP} end
  if kind == '1' then
    a.capacity, a.available = a.capacity + units, a.available + units
  elseif kind == '2' then
    local b = buyer(key, ARGV[p + 4])
    if not b.e then return {S.DAMAGED} end
    cancelUnits(a, b, units)
  elseif kind == '3' then
    setRules(a, p)
  else
    return {S.FORMAT}
  end
  pass(a.key)
  a.feed, a.dirty = number, true
  return {S.OK}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + WIDTH * (i - 1) + 1
  results[i] = decide(allotments[tonumber(ARGV[p])], p, KEYS[firstKey + i - 1])
end
return reply(results)
