-- adopt_write: sets hold records with their indexes and markers, and buyers' totals and lists of live holds; the same
-- again gives the same.
-- KEYS  for each hold: hash of holds, marker; for each buyer: hash of its entry
-- ARGV  claim, number of holds, number of buyers; for each hold: tag, score in its index (0: its record is
--       removed), and the 15 places of its record; for each buyer: its field, units held, units sold, live
--       holds, number of names, names of the newest live holds
-- Reply {OK} or {BUSY}
-- O(log n) for each, n being the holds.

-- include records
-- include adopt

local WIDTH = 17
local function record(p)
  local r = {}
  for j = STATE, PIN do
    local value = ARGV[p + 1 + j]
    r[j] = TEXT[j] and value or tonumber(value)
  end
  r[SPAN] = r[SPAN] / 1000
  if r[STATE] == HELD then
    r[ORDER] = tonumber(r[ORDER])
    for j = PIN, WANT, -1 do r[j] = nil end
  end
  return r
end

local a = allotments[1]

local adds = {}
local function index(key, score, tag)
  local list = adds[key]
  if not list then
    list = {'ZADD', key}
    adds[key] = list
    writes[#writes + 1] = list
  end
  list[#list + 1], list[#list + 2] = score, tag
end

local function write(p, k)
  local tag, score = ARGV[p], tonumber(ARGV[p + 1])
  local h = hold(a, k, tag)
  if not h.b.e then h.b.e = {0, 0, 0, ''} end -- damaged since the walk
  local r = score ~= 0 and record(p)
  if r and r[STATE] == HELD and score > now then
    put('SET', h.marker, 1, 'PX', score - now)
  else
    put('DEL', h.marker)
  end
  if not r then
    remove(h)
    return
  end
  set(h, r)
  index(r[STATE] == HELD and a.deadlines or r[STATE] == CONFIRMING and a.leases or a.ended, score, tag)
end

-- Sets the entry of the buyer at argument p, and returns where the next one is.
local function writeBuyer(p, key)
  ensure(key, 'HLEN')
  local b = buyer(key, ARGV[p])
  local e = {tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3]), ''}
  if b.e then e[B_HOME] = b.e[B_HOME] end
  local shown = tonumber(ARGV[p + 4])
  for j = 1, shown do
    local name = ARGV[p + 4 + j]
    if name ~= e[B_HOME] then e[#e + 1] = name end
  end
  b.e, b.dirty = e, true
  return p + 5 + shown
end

if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
pass(a.key)
for _, key in ipairs({a.deadlines, a.leases, a.ended}) do ensure(key, 'ZCARD') end
local count = tonumber(ARGV[firstArg + 1])
for i = 1, count do
  ensure(KEYS[firstKey + 2 * i - 2], 'HLEN')
  write(firstArg + 3 + WIDTH * (i - 1), firstKey + 2 * i - 2)
end
local p = firstArg + 3 + WIDTH * count
for i = 1, tonumber(ARGV[firstArg + 2]) do
  p = writeBuyer(p, KEYS[firstKey + 2 * count + i - 1])
end
return reply({{S.OK}})
