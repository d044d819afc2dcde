-- cancel: ends HELD holds; their units are free at once. An ended hold stays as it is.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  number of holds; for each: allotment number, tag
-- Reply for each: {OK, hold}, {OK, hold, ms since the deadline} if it lapsed now, since nobody had released it,
--       {SOLD or CONFIRMING, hold}, or {status}
-- O(log n) for each, n being the live holds.

-- include indexes
-- include records

local function decide(h)
  if h.a.gate ~= S.OK then return {h.a.gate} end
  if h.damaged then return {S.DAMAGED} end
  if not h.r or h.r[BUYER] == '' then return {S.NOT_FOUND} end
  local state = h.r[STATE]
  if state == CONFIRMING then return {S.CONFIRMING, view(h)} end
  if state == SOLD then return {S.SOLD, view(h)} end
  if state ~= HELD then return {S.OK, view(h)} end
  if not buyerReady(h) then return {S.DAMAGED} end
  if isLive(h) then
    giveBack(h, CANCELLED)
    return {S.OK, view(h)}
  end
  local lag = now - deadline(h)
  giveBack(h, LAPSED)
  return {S.OK, view(h), lag}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 2 * i - 1
  results[i] = decide(hold(allotments[tonumber(ARGV[p])], firstKey + 2 * i - 2, ARGV[p + 1]))
end
return reply(results)
