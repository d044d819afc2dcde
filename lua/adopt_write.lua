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

local function write(p, k)
  local tag, score = ARGV[p], tonumber(ARGV[p + 1])
  local h = hold(a, k, tag)
  if not h.b.e then h.b.e = {0, 0, 0, ''} end -- damaged since the walk
  put('DEL', h.marker)
  if score == 0 then
    remove(h)
    return
  end
  local r = record(p)
  set(h, r)
  local index = a.ended
  if r[STATE] == HELD then index = a.deadlines elseif r[STATE] == CONFIRMING then index = a.leases end
  put('ZADD', index, score, tag)
  if r[STATE] == HELD and score > now then put('SET', h.marker, 1, 'PX', score - now) end
end

if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
for _, index in ipairs({a.deadlines, a.leases, a.ended}) do ensure(index, 'ZCARD') end
for i = 1, tonumber(ARGV[firstArg + 1]) do
  ensure(KEYS[firstKey + 2 * i - 2], 'HLEN')
  write(firstArg + 2 + WIDTH * (i - 1), firstKey + 2 * i - 2)
end
return reply({{S.OK}})
