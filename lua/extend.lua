-- extend: gives live holds their allotment's hold duration from now, within the maximum.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  number of holds; for each: allotment number, tag
-- Reply for each: {OK, hold}, {EXTENSION_LIMIT, hold}, {how it has ended, or CONFIRMING, hold}, or {status}
-- O(log n) for each, n being the live holds.

-- include indexes
-- include records

local ENDED = {[CONFIRMING] = S.CONFIRMING, [SOLD] = S.SOLD, [CANCELLED] = S.CANCELLED,
  [LAPSED] = S.LAPSED}

local function decide(h)
  local a = h.a
  if a.gate ~= S.OK then return {a.gate} end
  if h.damaged then return {S.DAMAGED} end
  if not h.r or h.r[BUYER] == '' then return {S.NOT_FOUND} end
  local r = h.r
  if r[STATE] ~= HELD then return {ENDED[r[STATE]], view(h)} end
  if not isLive(h) then return {S.LAPSED} end
  if a.state == CLOSED or (a.closes > 0 and a.closes <= now) then return {S.CLOSED} end
  local latest = r[CREATED] + a.longest
  local wanted = math.min(now + a.hold, latest)
  if wanted <= deadline(h) then
    if deadline(h) >= latest then return {S.EXTENSION_LIMIT, view(h)} end
    return {S.OK, view(h)}
  end
  r[SPAN] = (wanted - r[CREATED]) / 1000
  h.dirty, a.dirty = true, true
  put('ZADD', a.deadlines, wanted, h.tag)
  put('SET', h.marker, 1, 'PX', wanted - now)
  return {S.OK, view(h)}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 2 * i - 1
  results[i] = decide(hold(allotments[tonumber(ARGV[p])], firstKey + 2 * i - 2, ARGV[p + 1]))
end
return reply(results)
