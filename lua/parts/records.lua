-- How holds and buyers are read, changed and written.

local holds, entries = {}, {}

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

function setAll()
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
end
