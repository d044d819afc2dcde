-- adopt_write: sets hold records with their indexes and markers; the same again gives the same.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  claim, number of holds; for each: tag, score in its index (0: its record is removed), and
--       the 15 places of its record
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

if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
pass(a.key)
for _, key in ipairs({a.deadlines, a.leases, a.ended}) do ensure(key, 'ZCARD') end
for i = 1, tonumber(ARGV[firstArg + 1]) do
  ensure(KEYS[firstKey + 2 * i - 2], 'HLEN')
  write(firstArg + 2 + WIDTH * (i - 1), firstKey + 2 * i - 2)
end
return reply({{S.OK}})
