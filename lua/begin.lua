-- begin (confirm-begin): pins the holds of a cart, so that they cannot lapse any more, and notes
-- what is to be confirmed. A lapsed hold is taken again if its stock is still free and
-- the caller allows. All or nothing.
-- KEYS  for each line: hash of holds, marker
-- ARGV  number of requests; for each: number of lines, order id, units to sell (0: all), epoch and
--       sequence of the fencing token to compare (0: none), lease in ms, ids of the cart's holds in
--       one text ('' for a single one), ms by the clock of Redis until which a lapsed hold may be taken
--       again (0: not at all); for each of its lines: allotment number, tag
-- Reply for each request: {OK, hold ...} with every hold CONFIRMING, or SOLD by the same order;
--       {AGAIN, line, due tag ...}; or {status, line, hold}
-- O(log n) for each line, n being the live holds.

-- include indexes
-- include records

-- What the hold must sell, or the reason why it cannot.
local function judgePinned(h, order, want, members)
  local r = h.r
  if r[ORDER] ~= order then return S.ORDER_MISMATCH end
  if r[WANT] ~= want or r[MEMBERS] ~= members then return S.MISMATCH end
end

-- A lapsed hold, whether or not it was released, under the allotment's rule for late confirms. A request that was given up
-- may run much later, when its caller has been told that the hold lapsed, which stands: so it has its time.
local function judgeLate(j, h, want, latest)
  local a = h.a
  if a.late ~= 1 or now >= latest then return {S.LAPSED, j, view(h)} end
  if h.r[STATE] == HELD then return nil end
  local e = h.b.e
  if a.perbuyer > 0 and e[B_HELD] + e[B_SOLD] + want > a.perbuyer then
    local tags = dueOf(a, h.b)
    return tags and again(j, tags) or {S.LAPSED, j, view(h)}
  end
  if a.available < want then
    local tags = due(a)
    return tags and again(j, tags) or {S.LAPSED, j, view(h)}
  end
end

-- nil: the line is pinned, sold, or can be pinned; otherwise the result of the whole request.
local function judge(j, h, c)
  if h.a.gate ~= S.OK then return {h.a.gate, j} end
  if h.damaged then return {S.DAMAGED, j} end
  local r = h.r
  if not r or r[BUYER] == '' then return {S.NOT_FOUND, j} end
  if not buyerReady(h) then return {S.DAMAGED, j} end
  -- Quantity and token are of the earlier hold: a repeat knows those of the later one.
  if r[STATE] == SOLD and r[REASON] == EARLIER then
    return r[ORDER] ~= c.order and {S.ORDER_MISMATCH, j, view(h)} or nil
  end
  if c.epoch ~= 0 and (c.epoch ~= r[EPOCH] or c.seq ~= r[SEQ]) then
    return {S.STALE_TOKEN, j, view(h)}
  end
  local want = c.want == 0 and r[QTY] or c.want
  if want < 1 or want > r[QTY] then return {S.TOO_MUCH, j, view(h)} end
  if r[STATE] == CONFIRMING or r[STATE] == SOLD then
    local no = judgePinned(h, c.order, want, r[STATE] == SOLD and r[MEMBERS] or c.members)
    return no and {no, j, view(h)}
  end
  if r[STATE] == CANCELLED then return {S.CANCELLED, j, view(h)} end
  if not isLive(h) then return judgeLate(j, h, want, c.latest) end
end

local function pin(h, c)
  local a, r = h.a, h.r
  if r[STATE] ~= HELD and r[STATE] ~= LAPSED then return end
  fill(r)
  r[WANT] = c.want == 0 and r[QTY] or c.want
  if r[STATE] == HELD then
    r[PIN] = r[QTY]
    a.held = a.held - r[PIN]
    put('ZREM', a.deadlines, h.tag)
  else
    r[PIN] = r[WANT]
    a.available = a.available - r[PIN]
    moveBuyer(h, r[PIN], 0, 1)
    put('ZREM', a.ended, h.tag)
  end
  a.confirming = a.confirming + r[PIN]
  r[STATE], r[ORDER], r[LEASE], r[MEMBERS] = CONFIRMING, c.order, now + c.lease, c.members
  put('ZADD', a.leases, r[LEASE], h.tag)
  put('DEL', h.marker)
  h.dirty, a.dirty = true, true
end

local function decide(lines, c)
  for j, h in ipairs(lines) do
    local no = judge(j, h, c)
    if no then return no end
  end
  local result = {S.OK}
  for j, h in ipairs(lines) do
    pin(h, c)
    result[j + 1] = view(h)
  end
  return result
end

local results = {}
local p, k = firstArg + 1, firstKey
for i = 1, tonumber(ARGV[firstArg]) do
  local count = tonumber(ARGV[p])
  local c = {order = ARGV[p + 1], want = tonumber(ARGV[p + 2]), epoch = tonumber(ARGV[p + 3]),
    seq = tonumber(ARGV[p + 4]), lease = tonumber(ARGV[p + 5]), members = ARGV[p + 6], latest = tonumber(ARGV[p + 7])}
  p = p + 8
  local lines = {}
  for j = 1, count do
    lines[j] = hold(allotments[tonumber(ARGV[p])], k, ARGV[p + 1])
    p, k = p + 2, k + 2
  end
  results[i] = decide(lines, c)
end
return reply(results)
