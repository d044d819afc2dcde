-- shrink: pins units that are to be taken off the capacity, as a CONFIRMING hold of no buyer.
-- KEYS  for each line: hash of holds, marker
-- ARGV  number of lines; for each: allotment number, tag, units, request id, lease in ms, 1 for a dry run
-- Reply for each: {OK, hold} (hold missing in a dry run), {AGAIN, 1, due tag ...}, {IN_USE}, {MISMATCH},
--       {TOO_MUCH} for less than one unit, or {status}
-- O(log n) for each, n being the live holds.

-- include indexes
-- include records

local function take(h, c)
  local a = h.a
  a.sequence = a.sequence + 1
  local old = h.r
  set(h, {CONFIRMING, c.units, a.epoch, a.sequence, now, 0, '', c.request, '', '', c.units,
    now + c.lease, '', 0, c.units})
  a.available, a.shrinking = a.available - c.units, a.shrinking + c.units
  a.dirty = true
  if old then put('ZREM', a.ended, h.tag) end
  put('ZADD', a.leases, h.r[LEASE], h.tag)
end

local function decide(h, c)
  local a = h.a
  if a.gate ~= S.OK then return {a.gate} end
  if h.damaged then return {S.DAMAGED} end
  if c.units < 1 then return {S.TOO_MUCH} end
  local r = h.r
  if r and (r[STATE] == CONFIRMING or r[STATE] == SOLD) then
    if r[QTY] ~= c.units then return {S.MISMATCH} end
    return {S.OK, view(h)}
  end
  if a.available < c.units then
    local tags = due(a)
    if tags then return again(1, tags) end
    return {S.IN_USE}
  end
  if c.dry then return {S.OK} end
  take(h, c)
  return {S.OK, view(h)}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 6 * i - 5
  local h = hold(allotments[tonumber(ARGV[p])], firstKey + 2 * i - 2, ARGV[p + 1])
  results[i] = decide(h, {units = tonumber(ARGV[p + 2]), request = ARGV[p + 3],
    lease = tonumber(ARGV[p + 4]), dry = ARGV[p + 5] == '1'})
end
return reply(results)
