-- Put in front of every script by the lua package: the server's identity and clock, the
-- allotments of the call, and how all is written. What only some scripts need is in parts/, which they
-- include: making a function costs, at each call.
--
-- KEYS[4i-3 .. 4i]  counters (hash), deadlines, leases, ended (sorted sets) of allotment i = 1..n;
--                   the script's own keys follow
-- ARGV[1]           ms added to the server's clock: 0, or what a test asks for
-- ARGV[2]           ms that an ended hold stays readable
-- ARGV[3]           n; the script's own arguments follow
-- Reply             {now ms, {facts of allotment 1, ...}, {result 1, ...}}; facts are its counters and, as 8 bytes,
--                   its next deadline (0: nothing lives), or the gate, if it is shut
--
-- Everything is read and decided first and only then written (flush), since Redis does not roll
-- back: nothing may fail after the first write.

local FORMAT = 1 -- of the Redis state; a newer one is left alone
local BOUND = 128 -- due holds named at once
local MOST = 9007199254740992 -- 2^53: up to here every whole number is exact

local S = {OK = 0, AGAIN = 1, ADOPT = 2, DAMAGED = 3, NOT_FOUND = 4, SOLD_OUT = 5, ALL_HELD = 6,
  BUYER_LIMIT = 7, NOT_OPEN = 8, PAUSED = 9, CLOSED = 10, MISMATCH = 11, TOO_MANY = 12,
  CONFIRMING = 13, LAPSED = 14, CANCELLED = 15, SOLD = 16, EXTENSION_LIMIT = 17,
  ORDER_MISMATCH = 18, STALE_TOKEN = 19, IN_USE = 20, GAP = 21, BUSY = 22, TOO_MUCH = 23,
  FORMAT = 24, NOT_DUE = 25, KNOWN = 26, BRIEF = 27}

local OPEN, PAUSED, CLOSED = 1, 2, 3
local HELD, CONFIRMING, SOLD, CANCELLED, LAPSED = 1, 2, 3, 4, 5

-- Places in a hold's record, a MessagePack array. SPAN is seconds from CREATED to the deadline: a
-- number that is mostly small takes one byte, and so much fits into one size of Redis's memory. From
-- CART on, a place may be missing. ORDER of a HELD record that an adopt has set is ms from CREATED to
-- that adopt, from which its deadline counts. PIN is how many units are pinned, WANT how many of them are
-- (to be) sold, MEMBERS the ids of the cart's holds while it is CONFIRMING (earlier releases keep them), REASON why a CANCELLED hold ended.
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

-- The field 'counters' is one text, which costs a quarter of what a field for each number would: the identity of the
-- server that it was written for, then epoch to closes, as packed writes them.
local COUNTERS = '>c40i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8'
local COUNTERSSIZE = 184

local writes = {}

local function put(...)
  writes[#writes + 1] = {...}
end

-- Lets what this script writes pass when Redis is out of memory, which it may once a script has
-- deleted something: for scripts that free memory, or end what was begun. There is no such field.
local function pass(key)
  put('HDEL', key, '')
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

local function packed(a)
  return struct.pack(COUNTERS, identity, a.epoch, a.capacity, a.available, a.held, a.confirming, a.shrinking,
    a.sold, a.sequence, a.version, a.feed, a.state, a.late, a.hold, a.longest, a.perhold, a.perbuyer, a.opens,
    a.closes)
end

-- Allotment i with its numbers, which are nil if Redis does not have them.
local function allotment(i, epoch, capacity, available, held, confirming, shrinking, sold, sequence, version, feed,
    state, late, hold, longest, perhold, perbuyer, opens, closes)
  return {key = KEYS[4 * i - 3], deadlines = KEYS[4 * i - 2], leases = KEYS[4 * i - 1], ended = KEYS[4 * i],
    gate = S.ADOPT, nextDeadline = 0, fresh = {}, dirty = false, epoch = epoch, capacity = capacity,
    available = available, held = held, confirming = confirming, shrinking = shrinking, sold = sold,
    sequence = sequence, version = version, feed = feed, state = state, late = late, hold = hold,
    longest = longest, perhold = perhold, perbuyer = perbuyer, opens = opens, closes = closes}
end

-- gate is OK only if the counters are whole, of this server and not being adopted, and the deadlines can be written (for
-- leases and ended, see the part indexes); a script does nothing to an allotment whose gate is shut. fields are format,
-- claim of an adopt and counters.
local function load(i)
  local v = redis.pcall('HMGET', KEYS[4 * i - 3], 'format', 'adopting', 'counters')
  local text, a = v[3], nil
  if text and #text == COUNTERSSIZE then
    a = allotment(i, select(2, struct.unpack(COUNTERS, text)))
  else
    a = allotment(i)
  end
  a.fields = v
  local format = not v.err and whole(v[1]) or 0
  if format > FORMAT then
    a.gate = S.FORMAT
    return a
  end
  if format ~= FORMAT or v[2] or not master or not a.epoch or string.sub(text, 1, 40) ~= identity then return a end
  local first = redis.pcall('ZRANGE', a.deadlines, 0, 0, 'WITHSCORES')
  if a.hold < 1 or first.err then return a end
  if first[2] then a.nextDeadline = tonumber(first[2]) end
  a.gate, a.text = S.OK, text
  return a
end

local allotments = {}
for i = 1, tonumber(ARGV[3]) do
  allotments[i] = load(i)
end
local firstKey, firstArg = 4 * #allotments + 1, 4

-- Up to BOUND tags of the holds whose deadline has passed; nil if there is none.
local function due(a)
  if a.nextDeadline == 0 or a.nextDeadline > now then return nil end
  if not a.due then
    a.due = redis.call('ZRANGEBYSCORE', a.deadlines, '-inf', now, 'LIMIT', 0, BOUND)
  end
  return a.due
end

local function again(line, tags)
  local result = {S.AGAIN, line}
  for j = 1, #tags do result[j + 2] = tags[j] end
  return result
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

local setAll -- what the part records is to write, if it is included

local function flush()
  if setAll then setAll() end
  for _, list in pairs(sets) do writes[#writes + 1] = list end
  for i = 1, #writes do redis.call(unpack(writes[i])) end
  for _, a in ipairs(allotments) do
    if a.markers then -- of what create grants: a table for each would cost as much as its command
      local life = string.format('%d', a.hold)
      for _, marker in ipairs(a.markers) do redis.call('SET', marker, '1', 'PX', life) end
    end
    if a.dirty then
      a.version = a.version + 1
      a.text = packed(a)
      redis.call('HSET', a.key, 'counters', a.text)
    end
  end
end

local function reply(results)
  flush()
  local facts = {}
  for i, a in ipairs(allotments) do
    facts[i] = a.gate == S.OK and a.text .. struct.pack('>i8', a.nextDeadline) or a.gate
  end
  return {now, facts, results}
end
