-- release: ends the holds whose deadline has passed; their units are free. It looks only at the
-- deadline: whoever calls it, for whatever reason and however often, each hold lapses once.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  number of holds; for each: allotment number, tag
-- Reply for each: {OK, ms since the deadline} if it lapsed now, else {NOT_DUE} or {status}. A record
--       that is gone or damaged leaves the index, so that it is met once; its units stay taken
--       until the allotment is adopted.
-- O(log n) for each, n being the live holds.

-- include indexes
-- include records

-- Mends an entry of the index that says otherwise than the record, lest it be met again for ever.
local function mend(h)
  local score = redis.call('ZSCORE', h.a.deadlines, h.tag)
  if score and not (h.r and h.r[STATE] == HELD) then
    put('ZREM', h.a.deadlines, h.tag)
  elseif score and tonumber(score) ~= deadline(h) then
    put('ZADD', h.a.deadlines, deadline(h), h.tag)
  end
  return score
end

local function decide(h)
  if h.a.gate ~= S.OK then return {h.a.gate} end
  if not h.r then return {mend(h) and S.DAMAGED or S.NOT_DUE} end
  if h.r[STATE] ~= HELD or isLive(h) then
    mend(h)
    return {S.NOT_DUE}
  end
  if not buyerReady(h) then
    put('ZREM', h.a.deadlines, h.tag)
    return {S.DAMAGED}
  end
  local lag = now - deadline(h)
  giveBack(h, LAPSED)
  return {S.OK, lag}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 2 * i - 1
  results[i] = decide(hold(allotments[tonumber(ARGV[p])], firstKey + 2 * i - 2, ARGV[p + 1]))
end
return reply(results)
