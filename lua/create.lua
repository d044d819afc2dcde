-- create: decides a batch of requests for holds, in order; later ones see what earlier ones took.
-- KEYS  for each line: record hash, buyer hash, marker
-- ARGV  number of requests; for each: number of lines, buyer, request id, cart fingerprint ('' for
--       a single line); for each of its lines: allotment number, tag, quantity
-- Reply for each request: {OK, hold ...}, {AGAIN, line, due tag ...}, or {status, line, facts ...};
--       ALL_HELD adds tag and deadline of the buyer's own live hold, BUYER_LIMIT the units held and
--       sold and then the same, MISMATCH the field that differs
-- O(log n) for each line, n being the live holds.

-- The buyer's own live hold, newest first: {tag, deadline} or {}. One that this very call made is not in
-- the index yet.
local function own(a, e)
  for j = #e, B_TAGS + 1, -1 do
    local score = a.fresh[e[j]] or redis.call('ZSCORE', a.deadlines, e[j])
    if score and tonumber(score) > now then return {e[j], tonumber(score)} end
  end
  return {}
end

local function shut(a)
  if a.state == CLOSED or (a.closes > 0 and a.closes <= now) then return S.CLOSED end
  if a.opens > now then return S.NOT_OPEN end
  if a.state == PAUSED then return S.PAUSED end
end

-- nil: the line can be granted; otherwise the result of the whole request.
local function judge(j, line, name)
  local a, q = line.h.a, line.q
  local no = shut(a)
  if no then return {no, j} end
  local e = buyer(line.h.buyers, name)
  if not e then return {S.DAMAGED, j} end
  if a.perbuyer > 0 and e[B_HELD] + e[B_SOLD] + q > a.perbuyer then
    local tags = dueOf(a, e)
    if tags then return again(j, tags) end
    return {S.BUYER_LIMIT, j, e[B_HELD], e[B_SOLD], unpack(own(a, e))}
  end
  if q < 1 or q > a.perhold then return {S.TOO_MANY, j} end
  if a.available < q then
    local tags = due(a)
    if tags then return again(j, tags) end
    if a.capacity - a.sold < q then return {S.SOLD_OUT, j} end
    return {S.ALL_HELD, j, unpack(own(a, e))}
  end
end

local function take(line, name, request, cart)
  local h, q = line.h, line.q
  local a = h.a
  a.available, a.held, a.sequence, a.dirty = a.available - q, a.held + q, a.sequence + 1, true
  h.r = {HELD, q, a.epoch, a.sequence, now, a.hold, name, request}
  if cart ~= '' then h.r[CART] = cart end
  h.dirty = true
  local ends = deadline(h)
  a.fresh[h.tag] = ends
  if a.nextDeadline == 0 or ends < a.nextDeadline then a.nextDeadline = ends end
  put('ZADD', a.deadlines, ends, h.tag)
  put('SET', h.marker, 1, 'PX', a.hold)
  moveBuyer(h, q, 0, 1)
end

local function views(lines)
  local result = {S.OK}
  for j, line in ipairs(lines) do result[j + 1] = view(line.h) end
  return result
end

-- The stored answer, if the request is known; nil if it is new.
local function known(lines, name, request, cart)
  local found
  for j, line in ipairs(lines) do
    local h = line.h
    if h.a.gate ~= S.OK then return {h.a.gate, j} end
    if h.damaged then return {S.DAMAGED, j} end
    local r = h.r
    if r then
      if r[BUYER] ~= name or r[REQUEST] ~= request then return {S.MISMATCH, j, 'request_id'} end
      if (r[CART] or '') ~= cart then return {S.MISMATCH, j, 'lines'} end
      if r[QTY] ~= line.q then return {S.MISMATCH, j, 'quantity'} end
      found = j
    end
  end
  if not found then return nil end
  for j, line in ipairs(lines) do
    if not line.h.r then return {S.MISMATCH, j, 'lines'} end
  end
  return views(lines)
end

local function decide(lines, name, request, cart)
  local stored = known(lines, name, request, cart)
  if stored then return stored end
  for j, line in ipairs(lines) do
    local no = judge(j, line, name)
    if no then return no end
  end
  for _, line in ipairs(lines) do take(line, name, request, cart) end
  return views(lines)
end

local results = {}
local p, k = firstArg + 1, firstKey
for i = 1, tonumber(ARGV[firstArg]) do
  local count, name, request, cart = tonumber(ARGV[p]), ARGV[p + 1], ARGV[p + 2], ARGV[p + 3]
  p = p + 4
  local lines = {}
  for j = 1, count do
    lines[j] = {h = hold(allotments[tonumber(ARGV[p])], k, ARGV[p + 1]), q = tonumber(ARGV[p + 2])}
    p, k = p + 3, k + 3
  end
  results[i] = decide(lines, name, request, cart)
end
return reply(results)
