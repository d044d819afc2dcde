-- create: decides a batch of requests for holds, in order; later ones see what earlier ones took.
-- KEYS  the hashes of holds, each once; then for each line its marker. A call in which nothing is likely to be granted
--       is a brief one: it has no markers and no ids, which would be a third of what a refusal costs
-- ARGV  number of requests, of lines, of hashes, and texts, which cost far less than a text for each part
--       would; numbers are big-endian. The hashes, 2 bytes each: number of its allotment. The lines, 8 bytes each:
--       number of its hash (2), its place among the fields of that (2), quantity (4). How many lines each request has, a
--       byte each; empty if all have one. Unless the call is brief, how struct.unpack takes the next text apart into one
--       for each request, and that text: buyer's id, request id and, of a cart, its fingerprint, in MessagePack. For each
--       hash its fields: those of buyer (8) and hold (24) of each of its lines
-- Reply for each request: {OK, sequence ...} of its new holds; {KNOWN, hold ...}, what it got before; {AGAIN, line,
--       due tag ...}, the due holds of an allotment only once; {BRIEF, 1} in a brief call, for buyers that have something and from
--       the first request on that would be granted: these are to be sent again in full; or {status, line, facts ...}: ALL_HELD
--       adds tag and deadline of the buyer's own live hold, BUYER_LIMIT the units held and sold and then the same, MISMATCH
--       the field that differs. Shorter for a single line: the sequence for {OK, sequence}, -status for {status, 1}
-- O(log n) for each line, n being the live holds.

-- This is the script that meets the crowd, so it is written for speed: what costs are the tables it makes, the
-- commands it calls, and numbers that become texts.
local byte, sub, pack = string.byte, string.sub, cmsgpack.pack

-- The hashes: a is their allotment, fields are those of buyer and hold of each line, got what they have. If this batch
-- makes buyers, made has their values, and sets is the command that writes these, of count parts. If buyers are decoded, of
-- has them, and got and made do not tell all. Few lines share a hash of a large allotment, so a hash makes no table in vain.
local hashes, owners = {}, ARGV[firstArg + 3]
local brief, formats = ARGV[firstArg + 6] == '', {}
for j = 1, tonumber(ARGV[firstArg + 2]) do
  local high, low = byte(owners, 2 * j - 1, 2 * j)
  local text = ARGV[firstArg + 7 + j]
  local key = KEYS[firstKey + j - 1]
  local fields = formats[#text]
  if not fields then
    fields = string.rep('c8c24', #text / 32)
    formats[#text] = fields
  end
  fields = {struct.unpack(fields, text)}
  hashes[j] = {a = allotments[256 * high + low], key = key, fields = fields,
    got = redis.pcall('HMGET', key, unpack(fields, 1, #text / 16))}
end
local marker, rest = firstKey + #hashes - 1, nil -- rest: the answer to all that follow

-- Of line l the places 3l-2 to 3l are the number of its hash, where in that its buyer is (its hold is next), and the
-- quantity. One call reads all: it is the loop over lines that would cost.
local lineCount = tonumber(ARGV[firstArg + 1])
local lines = {struct.unpack(string.rep('>HHI', lineCount), ARGV[firstArg + 4])}

-- Hash and place, allotment and quantity of line l.
local function lineAt(l)
  local p = 3 * l
  local hash = hashes[lines[p - 2]]
  return hash, lines[p - 1], hash.a, lines[p]
end

local counts = ARGV[firstArg + 5]
local ids = {struct.unpack(ARGV[firstArg + 6], ARGV[firstArg + 7])}

-- Nothing is known of a line's buyer and of its hold.
local function isNew(hash, at)
  local got, made, of, field = hash.got, hash.made, hash.of, hash.fields[at]
  return not (got[at] or got[at + 1] or made and made[field] or of and of[field] or got.err)
end

local function refuse(status, j)
  return j == 1 and -status or {status, j}
end

-- Prepares what the holds of an allotment have in common. last and free: its sequence and what was available before.
local function open(a)
  a.ends, a.endsText = now + a.hold, string.format('%d', now + a.hold)
  a.index, a.markers, a.heads, a.last, a.free = {'ZADD', a.deadlines}, {}, {}, a.sequence, a.available
  a.tail = pack(now, a.hold / 1000)
end

-- Texts of up to 255 bytes only begin with their length; that of an entry and a record, with what they have
-- in common for one quantity: an entry of four places, and a record of eight, or nine with a cart.
local function headsOf(a, q)
  local units = pack(q)
  local heads = {'\148' .. units .. '\0\1\176', '\152\1' .. units .. pack(a.epoch), '\153\1' .. units .. pack(a.epoch)}
  a.heads[q] = heads
  return heads
end

-- Takes the units of line l, and puts its hold into what is to be written to the indexes. Returns its sequence.
local function take(l, a, q, tag)
  if not a.index then open(a) end
  local sequence, index = a.sequence + 1, a.index
  local n = sequence - a.last
  a.available, a.sequence = a.available - q, sequence
  index[2 * n + 1], index[2 * n + 2], a.markers[n] = a.endsText, tag, KEYS[marker + l]
  return sequence
end

-- The first hold of a buyer: its entry and record as setBuyer would pack them. whole: the request has one line.
local function takeFirst(i, l, hash, at, a, q, whole)
  local fields = hash.fields
  local field, tag = fields[at], fields[at + 1]
  local sequence = take(l, a, q, tag)
  local heads = a.heads[q] or headsOf(a, q)
  local value = heads[1] .. sub(tag, 1, NAME) .. heads[whole and 2 or 3] .. pack(sequence) .. a.tail .. ids[i]
  if not hash.made then
    hash.made, hash.sets, hash.count = {}, {'HSET', hash.key}, 2
  end
  local sets, count = hash.sets, hash.count
  sets[count + 1], sets[count + 2] = field, value
  hash.made[field], hash.count = value, count + 2
  return sequence
end

-- What is needed only for buyers that have something already or may be at a limit. Most batches have none, so it is
-- made when the first is met.
local buyerOf, withOwn, judgeLimit, takeNext, known
local function meetBuyers()
  if known then return end
  -- include records

  for _, hash in ipairs(hashes) do
    hash.of = {}
    entries[hash.key] = hash.of
  end

  -- The buyer of line l; nil if it has nothing yet.
  function buyerOf(l)
    local hash, at = lineAt(l)
    local field = hash.fields[at]
    local b = hash.of[field]
    if b then return b end
    local raw = hash.made and hash.made[field] or hash.got[at]
    return raw and buyer(hash.key, field, raw)
  end

  -- The hold of line l, or what is to become it.
  local function holdOf(l)
    local hash, at, a = lineAt(l)
    local raw = hash.got
    local made = hash.made and hash.made[hash.fields[at]]
    if not raw.err then raw = {made or raw[at], raw[at + 1]} end
    return holdAt(a, hash.key, KEYS[marker + l], hash.fields[at + 1], raw)
  end

  -- Buyer's id, request id and cart of request i.
  local function headOf(i)
    local name, request, cart = cmsgpack.unpack(ids[i])
    return name, request, cart or ''
  end

  -- Adds the buyer's own live hold to a refusal, newest first: tag and deadline.
  function withOwn(result, a, b)
    if not b or not b.e then return result end
    local tags, ends = liveOf(a, b)
    for j = 1, #tags do
      if ends[j] > now then
        result[#result + 1], result[#result + 2] = tags[j], ends[j]
        return result
      end
    end
    return result
  end

  function judgeLimit(j, l)
    local _, _, a, q = lineAt(l)
    local b = buyerOf(l)
    if b and not b.e then return {S.DAMAGED, j} end
    local held, sold = 0, 0
    if b then held, sold = b.e[B_HELD], b.e[B_SOLD] end
    if held + sold + q <= a.perbuyer then return nil end
    local tags = b and dueOf(a, b)
    if tags then return again(j, tags) end
    return withOwn({S.BUYER_LIMIT, j, held, sold}, a, b)
  end

  -- Another hold of a buyer.
  function takeNext(i, l, a, q)
    local h = holdOf(l)
    take(l, a, q, h.tag)
    local name, request, cart = headOf(i)
    local r = {HELD, q, a.epoch, a.sequence, now, a.hold / 1000, name, request}
    if cart ~= '' then r[CART] = cart end
    set(h, r)
    a.fresh[h.tag] = a.ends
    moveBuyer(h, q, 0, 1)
  end

  -- The stored answer, if request i is known; nil if it is new.
  function known(i, first, last)
    local name, request, cart = headOf(i)
    local result, missing = {S.KNOWN}, nil
    for l = first, last do
      local h, j = holdOf(l), l - first + 1
      local r = h.r
      if h.damaged then return {S.DAMAGED, j} end
      if r then
        if r[BUYER] ~= name or r[REQUEST] ~= request then return {S.MISMATCH, j, 'request_id'} end
        if (r[CART] or '') ~= cart then return {S.MISMATCH, j, 'lines'} end
        if r[QTY] ~= lines[3 * l] then return {S.MISMATCH, j, 'quantity'} end
        result[#result + 1] = view(h)
      else
        missing = missing or j
      end
    end
    if #result == 1 then return nil end
    return missing and {S.MISMATCH, missing, 'lines'} or result
  end
end

-- shut: why no line of an allotment can be granted. most: the most units that a buyer can get who has none.
local function prepare(a)
  a.most = 0
  if a.gate ~= S.OK then return end
  if a.state == CLOSED or (a.closes > 0 and a.closes <= now) then
    a.shut = S.CLOSED
  elseif a.opens > now then
    a.shut = S.NOT_OPEN
  elseif a.state == PAUSED then
    a.shut = S.PAUSED
  else
    a.most = a.perbuyer > 0 and math.min(a.perbuyer, a.perhold) or a.perhold
  end
end

-- The due holds of an allotment, for the first request that they stand in the way of: when holds lapse, that are many.
local function againOf(a, j, tags)
  if a.named then return refuse(S.AGAIN, j) end
  a.named = true
  return again(j, tags)
end

-- nil: line l, the j-th of its request, can be granted; otherwise the result of the whole request.
local function judge(j, l)
  local hash, at, a, q = lineAt(l)
  if a.shut then return refuse(a.shut, j) end
  if q < 1 or q > a.perhold then return refuse(S.TOO_MANY, j) end
  if a.perbuyer > 0 then
    meetBuyers()
    local no = judgeLimit(j, l)
    if no then return no end
  end
  if a.available >= q then return nil end
  local tags = due(a)
  if tags then return againOf(a, j, tags) end
  if not a.refused or q < a.refused then a.refused = q end
  if a.capacity - a.sold < q then return refuse(S.SOLD_OUT, j) end
  if isNew(hash, at) then return refuse(S.ALL_HELD, j) end
  meetBuyers()
  return withOwn({S.ALL_HELD, j}, a, buyerOf(l))
end

local function decide(i, first, last)
  local new = true
  for l = first, last do
    local hash, at, a = lineAt(l)
    if a.gate ~= S.OK then return refuse(a.gate, l - first + 1) end
    new = new and isNew(hash, at)
  end
  local no
  if not new then
    if brief then return -S.BRIEF end
    meetBuyers()
    no = known(i, first, last)
    if no then return no end
  end
  for l = first, last do
    no = judge(l - first + 1, l)
    if no then return no end
  end
  if brief then
    rest = -S.BRIEF
    return rest
  end
  local result, whole = {S.OK}, first == last
  for l = first, last do
    local hash, at, a, q = lineAt(l)
    if isNew(hash, at) then
      takeFirst(i, l, hash, at, a, q, whole)
    else
      meetBuyers()
      takeNext(i, l, a, q)
    end
    result[l - first + 2] = a.sequence
  end
  return whole and result[2] or result
end

for _, a in ipairs(allotments) do prepare(a) end
local results, requests = {}, tonumber(ARGV[firstArg])

local function decideCarts()
  local l = 1
  for i = 1, requests do
    local count = byte(counts, i)
    results[i] = rest or decide(i, l, l + count - 1)
    l = l + count
  end
end

-- Requests of a line each, of which nearly all are of buyers who have nothing: they get what they want if it is there.
-- What was too many for an earlier one of the batch is too many for a later one, as what is available only falls
-- meanwhile, and nothing that lapsed is in the way. What it takes to tell is kept in variables while hash and allotment
-- stay the same.
local function decideLines()
  local last, got, made, fields, met, a, least, most, left
  for i = 1, requests do
    local p = 3 * i
    local hash, at, q = hashes[lines[p - 2]], lines[p - 1], lines[p]
    if hash ~= last then
      last, got, made, fields = hash, hash.got, hash.made, hash.fields
      met = hash.of or got.err
      if hash.a ~= a then
        a = hash.a
        least, most, left = not rest and a.refused or MOST, a.most, a.refused and a.capacity - a.sold
      end
    end
    local new = q <= most and not got[at] and not got[at + 1] and not (made and made[fields[at]]) and (not met or isNew(hash, at))
    if new and q >= least then
      results[i] = q > left and -S.SOLD_OUT or -S.ALL_HELD
    elseif new and q >= 1 and q <= a.available and not brief then
      results[i], made = takeFirst(i, i, hash, at, a, q, true), hash.made
    else
      results[i], last, a = rest or decide(i, i, i), nil, nil
    end
  end
end

if requests == lineCount then decideLines() else decideCarts() end
for _, hash in ipairs(hashes) do
  if hash.sets then writes[#writes + 1] = hash.sets end
end
for _, a in ipairs(allotments) do
  if a.index then
    a.held, a.dirty, writes[#writes + 1] = a.held + a.free - a.available, true, a.index
    if a.nextDeadline == 0 or a.ends < a.nextDeadline then a.nextDeadline = a.ends end
  end
end
return reply(results)
