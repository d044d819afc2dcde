-- Put in front of every script by the lua package: the server's identity and clock, the
-- allotments of the call, and how holds and buyers are read and changed.
--
-- KEYS[4i-3 .. 4i]  counters (hash), deadlines, leases, ended (sorted sets) of allotment i = 1..n;
--                   the script's own keys follow
-- ARGV[1]           ms added to the server's clock: 0, or what a test asks for
-- ARGV[2]           ms that an ended hold stays readable
-- ARGV[3]           n; the script's own arguments follow
-- Reply             {now ms, {facts of allotment 1, ...}, {result 1, ...}}; facts are a text (see reply), or
--                   the gate, if it is shut
--
-- Everything is read and decided first and only then written (flush), since Redis does not roll
-- back: nothing may fail after the first write.

local FORMAT = 1 -- of the Redis state; a newer one is left alone
local BOUND = 64 -- due holds named at once
local MOST = 9007199254740992 -- 2^53: up to here every whole number is exact

local S = {OK = 0, AGAIN = 1, ADOPT = 2, DAMAGED = 3, NOT_FOUND = 4, SOLD_OUT = 5, ALL_HELD = 6,
  BUYER_LIMIT = 7, NOT_OPEN = 8, PAUSED = 9, CLOSED = 10, MISMATCH = 11, TOO_MANY = 12,
  CONFIRMING = 13, LAPSED = 14, CANCELLED = 15, SOLD = 16, EXTENSION_LIMIT = 17,
  ORDER_MISMATCH = 18, STALE_TOKEN = 19, IN_USE = 20, GAP = 21, BUSY = 22, TOO_MUCH = 23,
  FORMAT = 24, NOT_DUE = 25, KNOWN = 26}

local OPEN, PAUSED, CLOSED = 1, 2, 3
local HELD, CONFIRMING, SOLD, CANCELLED, LAPSED = 1, 2, 3, 4, 5

-- Places in a hold's record, a MessagePack array. SPAN is seconds from CREATED to the deadline: a
-- number that is mostly small takes one byte, and so much fits into one size of Redis's memory. From
-- CART on, a place may be missing. ORDER of a HELD record that an adopt has set is ms from CREATED to
-- that adopt, from which its deadline counts. PIN is how many units are pinned, WANT how many of them are
-- (to be) sold, MEMBERS the ids of the cart's holds, REASON why a CANCELLED hold ended.
local STATE, QTY, EPOCH, SEQ, CREATED, SPAN, BUYER, REQUEST = 1, 2, 3, 4, 5, 6, 7, 8
local CART, ORDER, WANT, LEASE, MEMBERS, REASON, PIN = 9, 10, 11, 12, 13, 14, 15
local EARLIER = 4 -- REASON of a SOLD hold: the sale is an earlier hold's of the same id

-- A tag (TAG bytes) is the hold's name at its buyer (NAME bytes), then the buyer's key. Places in a
-- buyer's entry; the names of up to SHOWN live holds follow, newest last. One hold of the buyer, whose
-- name is HOME, has its record beside the entry: most buyers have one, which then takes one field.
local TAG, NAME = 24, 16
local B_HELD, B_SOLD, B_LIVE, B_HOME, B_NAMES = 1, 2, 3, 4, 4
local SHOWN = 16

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local retention = tonumber(ARGV[2])
local replication = redis.call('INFO', 'replication')
local _, before = string.find(replication, 'master_replid:', 1, true)
local identity = string.sub(replication, before + 1, before + 40)
local master = string.find(replication, 'role:master', 1, true)

-- Scripts change those from capacity to feed.
local COUNTERS = {'format', 'identity', 'adopting', 'epoch', 'capacity', 'available', 'held',
  'confirming', 'shrinking', 'sold', 'sequence', 'version', 'feed', 'state', 'late', 'hold',
  'longest', 'perhold', 'perbuyer', 'opens', 'closes'}
local FIRST_CHANGED, LAST_CHANGED = 5, 13

local writes, holds, entries = {}, {}, {}

local function put(...)
  writes[#writes + 1] = {...}
end

-- Lets what this script writes pass when Redis is out of memory, which it may once a script has
-- deleted something: for scripts that free memory, or end what was begun. There is no such field.
local function pass(key)
  put('HDEL', key, '')
end

local ensured = {}

-- For the steps of an adopt: removes a key that this command says is of another type than is to be
-- written there. To be called before anything is put there.
local function ensure(key, command)
  if ensured[key] then return end
  ensured[key] = true
  if type(redis.pcall(command, key)) ~= 'number' then put('UNLINK', key) end
end

-- Neither NaN nor infinite, no fraction, and exact.
local function isWhole(n)
  return type(n) == 'number' and n % 1 == 0 and n <= MOST and n >= -MOST
end

-- The whole number that a counter's text is, or nil.
local function whole(text)
  local n = tonumber(text)
  return isWhole(n) and n or nil
end

-- The counters of allotment i. gate is OK only if they are whole, of this server and not being
-- adopted; a script does nothing to an allotment whose gate is shut.
local function load(i)
  -- With room for all that it will have: a table that grows is made anew.
  local a = {key = KEYS[4 * i - 3], deadlines = KEYS[4 * i - 2], leases = KEYS[4 * i - 1],
    ended = KEYS[4 * i], gate = S.OK, nextDeadline = 0, fresh = {}, dirty = false, epoch = 0,
    capacity = 0, available = 0, held = 0, confirming = 0, shrinking = 0, sold = 0, sequence = 0,
    version = 0, feed = 0, state = 0, late = 0, hold = 0, longest = 0, perhold = 0, perbuyer = 0,
    opens = 0, closes = 0}
  local v = redis.pcall('HMGET', a.key, unpack(COUNTERS))
  local format = not v.err and whole(v[1]) or 0
  if format > FORMAT then
    a.gate = S.FORMAT
    return a
  end
  if format ~= FORMAT or v[2] ~= identity or not master or v[3] then
    a.gate = S.ADOPT
    return a
  end
  for j = 4, #COUNTERS do
    local n = v[j] == '0' and 0 or tonumber(v[j]) -- many are 0, and reading a number takes a while
    if not n or n % 1 ~= 0 or n > MOST or n < -MOST then
      a.gate = S.ADOPT
      return a
    end
    a[COUNTERS[j]], v[j] = n, n
  end
  a.read = v
  local first = redis.pcall('ZRANGE', a.deadlines, 0, 0, 'WITHSCORES')
  if a.hold < 1 or first.err or type(redis.pcall('ZCARD', a.leases)) ~= 'number'
      or type(redis.pcall('ZCARD', a.ended)) ~= 'number' then
    a.gate = S.ADOPT
  elseif first[2] then
    a.nextDeadline = tonumber(first[2])
  end
  return a
end

-- Whether the adopt under this claim may go on: nobody took it over, and the server is still the one
-- on which it began.
local function claimed(a, claim)
  local v = redis.pcall('HMGET', a.key, 'adopting', 'adoptee')
  return master and not v.err and v[1] == claim and v[2] == identity
end

local allotments = {}
for i = 1, tonumber(ARGV[3]) do
  allotments[i] = load(i)
end
local firstKey, firstArg = 4 * #allotments + 1, 4

local TEXT = {[BUYER] = true, [REQUEST] = true, [CART] = true, [ORDER] = true, [MEMBERS] = true}

-- Whether a record has all that scripts work with: what is not sane must not fail them half-way.
local function sane(r)
  if type(r) ~= 'table' then return false end
  local pinned = r[STATE] == CONFIRMING or r[STATE] == SOLD
  for j = STATE, PIN do
    local v = r[j]
    local right = isWhole(v)
    if TEXT[j] then right = type(v) == 'string' or (j == ORDER and right and not pinned) end
    if j == SPAN then right = type(v) == 'number' and math.abs(v) < MOST / 1000 end
    if not right and (v ~= nil or j < CART or pinned) then return false end
  end
  return r[STATE] >= HELD and r[STATE] <= LAPSED and r[QTY] >= 0
end

local function decode(raw)
  local ok, r = pcall(cmsgpack.unpack, raw)
  if ok and sane(r) then return r end
end

-- An entry and the record beside it; nil if it is damaged.
local function decodeEntry(raw)
  local ok, e, r = pcall(cmsgpack.unpack, raw)
  if not ok or type(e) ~= 'table' or type(e[B_HOME]) ~= 'string' then return nil end
  if not (isWhole(e[B_HELD]) and isWhole(e[B_SOLD]) and isWhole(e[B_LIVE])) then return nil end
  for j = B_NAMES + 1, #e do
    if type(e[j]) ~= 'string' then return nil end
  end
  if r == nil and e[B_HOME] == '' or #e[B_HOME] == NAME and sane(r) then return e, r end
end

-- The buyer that a field of this hash is the entry of. e is the entry, nil if it is damaged; r the
-- record beside it.
local function buyer(key, field, raw)
  local of = entries[key]
  if not of then
    of = {}
    entries[key] = of
  end
  local b = of[field]
  if b then return b end
  if raw == nil then raw = redis.pcall('HGET', key, field) end
  b = {key = key, field = field}
  if not raw then
    b.e = {0, 0, 0, ''}
  elseif type(raw) == 'string' then
    b.e, b.r = decodeEntry(raw)
  end
  of[field] = b
  return b
end

-- The hold of a tag: b is its buyer, r its record, nil if there is none; damaged: what there is cannot be
-- read; foreign: it is not even in a hash. raw are the fields of buyer and hold, if they have been read.
local function holdAt(a, key, marker, tag, raw)
  local of = holds[key]
  if not of then
    of = {}
    holds[key] = of
  end
  local h = of[tag]
  if h then return h end
  local name, field = string.sub(tag, 1, NAME), string.sub(tag, NAME + 1)
  h = {a = a, key = key, marker = marker, tag = tag, name = name}
  of[tag] = h
  raw = raw or redis.pcall('HMGET', key, field, tag)
  h.foreign = raw.err ~= nil
  h.b = buyer(key, field, not h.foreign and raw[1])
  local e = h.b.e
  h.stored = raw[2] and true
  h.home = e and e[B_HOME] == name
  if h.home then
    h.r = h.b.r
  elseif raw[2] then
    h.r = decode(raw[2])
  end
  h.damaged = not h.r and (h.foreign or h.stored or not e)
  return h
end

-- The same, KEYS[k] and KEYS[k+1] being the hash that it is in and its marker.
local function hold(a, k, tag)
  return holdAt(a, KEYS[k], KEYS[k + 1], tag)
end

-- Gives h a record: beside its buyer's entry if that has none yet.
local function set(h, r)
  local b = h.b
  h.r, h.dirty = r, true
  if not h.home and not h.stored and r[BUYER] ~= '' and b.e[B_HOME] == '' then
    b.e[B_HOME], h.home = h.name, true
  end
  if h.home then b.r = r end
end

-- Takes away the record of h, or what stands in its place.
local function remove(h)
  if h.home then
    h.b.e[B_HOME], h.b.r, h.b.dirty = '', nil, true
  elseif h.stored then
    put('HDEL', h.key, h.tag)
  end
  h.r, h.dirty = nil, nil
end

-- Whether the entry of a hold's buyer can be read, so that moveBuyer cannot fail later.
local function buyerReady(h)
  return h.r[BUYER] == '' or h.b.e ~= nil
end

-- Adds to a buyer's totals; live +1 lists the hold, -1 takes it off the list.
local function moveBuyer(h, held, sold, live)
  if h.r[BUYER] == '' then return end
  local e = h.b.e
  h.b.dirty = true
  e[B_HELD], e[B_SOLD], e[B_LIVE] = e[B_HELD] + held, e[B_SOLD] + sold, e[B_LIVE] + live
  if h.home then return end
  if live > 0 then
    if #e - B_NAMES >= SHOWN then table.remove(e, B_NAMES + 1) end
    e[#e + 1] = h.name
  elseif live < 0 then
    for j = #e, B_NAMES + 1, -1 do
      if e[j] == h.name then table.remove(e, j) end
    end
  end
end

local function endOf(r)
  return r[CREATED] + math.floor(r[SPAN] * 1000 + 0.5)
end

local function deadline(h)
  return endOf(h.r)
end

local function isLive(h)
  return h.r[STATE] == HELD and deadline(h) > now
end

-- Up to BOUND tags of the holds whose deadline has passed; nil if there is none.
local function due(a)
  if a.nextDeadline == 0 or a.nextDeadline > now then return nil end
  if not a.due then
    a.due = redis.call('ZRANGEBYSCORE', a.deadlines, '-inf', now, 'LIMIT', 0, BOUND)
  end
  return a.due
end

-- The HELD holds of a buyer that its entry lists, newest first, with their deadlines; and whether no live one is
-- missing in the list.
local function liveOf(a, b)
  local e, r, found, of = b.e, b.r, {}, {}
  local listed = #e - B_NAMES
  for j = #e, B_NAMES + 1, -1 do
    local tag = e[j] .. b.field
    local score = a.fresh[tag] or tonumber(redis.call('ZSCORE', a.deadlines, tag) or 0)
    if score > 0 then found[#found + 1], of[#of + 1] = tag, score end
  end
  if r and r[STATE] <= CONFIRMING then listed = listed + 1 end
  if r and r[STATE] == HELD then
    found[#found + 1], of[#of + 1] = e[B_HOME] .. b.field, endOf(r)
  end
  return found, of, listed >= e[B_LIVE]
end

-- Up to BOUND tags of due holds of one buyer. If its entry does not list all, the allotment's count.
local function dueOf(a, b)
  local listed, of, all = liveOf(a, b)
  local tags = {}
  for j = 1, #listed do
    if of[j] <= now then tags[#tags + 1] = listed[j] end
  end
  if #tags > 0 then return tags end
  if not all then return due(a) end
end

local function again(line, tags)
  local result = {S.AGAIN, line}
  for j = 1, #tags do result[j + 2] = tags[j] end
  return result
end

-- What callers see of a hold; one that is due is LAPSED, whether or not it was released. A walk asks
-- for the state as it is stored.
local function view(h, stored)
  local r = h.r
  local state = r[STATE]
  if state == HELD and deadline(h) <= now and not stored then state = LAPSED end
  return {h.tag, state, r[QTY], r[EPOCH], r[SEQ], r[CREATED], deadline(h), r[BUYER], r[REQUEST],
    r[CART] or '', r[ORDER] or '', r[WANT] or 0, r[LEASE] or 0, r[MEMBERS] or '', r[REASON] or 0,
    r[PIN] or 0}
end

-- Ends h: out of the indexes of what lives, into that of what is to be purged.
local function finish(h, state)
  put('ZREM', h.r[STATE] == CONFIRMING and h.a.leases or h.a.deadlines, h.tag)
  h.r[STATE], h.dirty, h.a.dirty = state, true, true
  put('ZADD', h.a.ended, now + retention, h.tag)
  put('DEL', h.marker)
end

-- Ends a HELD hold as LAPSED or CANCELLED: its units are free again.
local function giveBack(h, state)
  local q = h.r[QTY]
  h.a.available, h.a.held = h.a.available + q, h.a.held - q
  moveBuyer(h, -q, 0, -1)
  finish(h, state)
end

-- Sets the places from CART on, so that the record stays an array without holes.
local function fill(r)
  r[CART], r[ORDER], r[WANT] = r[CART] or '', r[ORDER] or '', r[WANT] or 0
  r[LEASE], r[MEMBERS], r[REASON] = r[LEASE] or 0, r[MEMBERS] or '', r[REASON] or 0
  r[PIN] = r[PIN] or 0
end

-- Sets a field of the hash at key, together with the others of that hash.
local sets = {}
local function setField(key, field, value)
  local list = sets[key]
  if not list or #list > 1000 then
    if list then writes[#writes + 1] = list end
    list = {'HSET', key}
    sets[key] = list
  end
  list[#list + 1], list[#list + 2] = field, value
end

local function setBuyer(b)
  local e = b.e
  if e[B_HOME] ~= '' then
    setField(b.key, b.field, cmsgpack.pack(e, b.r))
  elseif e[B_HELD] == 0 and e[B_SOLD] == 0 and e[B_LIVE] == 0 then
    put('HDEL', b.key, b.field)
  else
    setField(b.key, b.field, cmsgpack.pack(e))
  end
end

local function setAll()
  for key, of in pairs(holds) do
    for _, h in pairs(of) do
      if h.dirty and h.home then
        h.b.dirty = true
      elseif h.dirty then
        setField(key, h.tag, cmsgpack.pack(h.r))
      end
    end
  end
  for _, of in pairs(entries) do
    for _, b in pairs(of) do
      if b.dirty then setBuyer(b) end
    end
  end
  for _, list in pairs(sets) do writes[#writes + 1] = list end
end

local function flush()
  setAll()
  for i = 1, #writes do redis.call(unpack(writes[i])) end
  for _, a in ipairs(allotments) do
    if a.dirty then
      a.version = a.version + 1
      local list = {'HSET', a.key}
      for j = FIRST_CHANGED, LAST_CHANGED do
        local name = COUNTERS[j]
        if a[name] ~= a.read[j] then
          list[#list + 1], list[#list + 2] = name, string.format('%d', a[name])
        end
      end
      redis.call(unpack(list))
    end
  end
end

local function reply(results)
  flush()
  local facts = {}
  for i, a in ipairs(allotments) do
    -- One text, since each number of a reply costs more than packing all.
    facts[i] = a.gate == S.OK and struct.pack('>i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8', a.epoch, a.capacity,
      a.available, a.held, a.confirming, a.shrinking, a.sold, a.version, a.feed, a.state, a.opens,
      a.closes, a.perhold, a.perbuyer, a.nextDeadline, a.hold) or a.gate
  end
  return {now, facts, results}
end
