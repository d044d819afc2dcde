-- adopt_write: sets hold records with their indexes and markers; the same again gives the same.
-- KEYS  for each hold: record hash, buyer hash, marker
-- ARGV  claim, number of holds; for each: tag, score in its index (0: its record is removed), and
--       the 15 places of its record
-- Reply {OK} or {BUSY}
-- O(log n) for each, n being the holds.

local WIDTH = 17
local function record(p)
  local r = {}
  for j = STATE, PIN do
    local value = ARGV[p + 1 + j]
    r[j] = TEXT[j] and value or tonumber(value)
  end
  if r[STATE] == HELD then
    r[ORDER] = tonumber(r[ORDER])
    for j = PIN, WANT, -1 do r[j] = nil end
  end
  return r
end

local a = allotments[1]

local function set(p, k)
  local tag, score = ARGV[p], tonumber(ARGV[p + 1])
  put('DEL', KEYS[k + 2])
  if score == 0 then
    put('HDEL', KEYS[k], tag)
    return
  end
  local r = record(p)
  put('HSET', KEYS[k], tag, cmsgpack.pack(r))
  local index = a.ended
  if r[STATE] == HELD then index = a.deadlines elseif r[STATE] == CONFIRMING then index = a.leases end
  put('ZADD', index, score, tag)
  if r[STATE] == HELD and score > now then put('SET', KEYS[k + 2], 1, 'PX', score - now) end
end

if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
for _, index in ipairs({a.deadlines, a.leases, a.ended}) do ensure(index, 'ZCARD') end
for i = 1, tonumber(ARGV[firstArg + 1]) do
  ensure(KEYS[firstKey + 3 * i - 3], 'HLEN')
  set(firstArg + 2 + WIDTH * (i - 1), firstKey + 3 * i - 3)
end
return reply({{S.OK}})
