-- scan: walks the hashes of an allotment, a part of each at a time. For an adopt it removes what cannot
-- be read: nothing else would, and it stands in the way.
-- KEYS  for each part: a hash of records, or of buyers
-- ARGV  claim of the adopt on whose behalf it walks ('': none), 'holds' or 'buyers', fields wanted
--       at a time, number of parts; for each: cursor (0: from the start)
-- Reply for each: {OK, next cursor (0: the end), {hold and its score in its index, or {buyer, held, sold, live} ...},
--       {damaged field ...}} or {status}
-- O(fields) for each; a hash in its compact form comes whole.

local claim, kind, count = ARGV[firstArg], ARGV[firstArg + 1], ARGV[firstArg + 2]
local a = allotments[1]
local gate = a.gate
if claim ~= '' then gate = claimed(a, claim) and S.OK or S.BUSY end

local INDEX = {[HELD] = 'deadlines', [CONFIRMING] = 'leases'}

local function read(field, raw)
  if kind == 'holds' then
    local r = decode(raw)
    if not r then return nil end
    local index = INDEX[r[STATE]] or 'ended'
    local v = view({a = a, tag = field, r = r}, true)
    v[#v + 1] = tonumber(redis.pcall('ZSCORE', a[index], field) or 0) or 0
    return v
  end
  local e = decodeBuyer(raw)
  return e and {field, e[B_HELD], e[B_SOLD], e[B_LIVE]}
end

local function part(key, cursor)
  if gate ~= S.OK then return {gate} end
  local reply = redis.pcall('HSCAN', key, cursor, 'COUNT', count)
  if reply.err then
    if claim ~= '' then put('UNLINK', key) end
    return {S.OK, '0', {}, {'*'}}
  end
  local found, damaged = {}, {}
  for j = 1, #reply[2], 2 do
    local value = read(reply[2][j], reply[2][j + 1])
    if value then
      found[#found + 1] = value
    else
      damaged[#damaged + 1] = reply[2][j]
      if claim ~= '' then put('HDEL', key, reply[2][j]) end
    end
  end
  return {S.OK, reply[1], found, damaged}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg + 3]) do
  results[i] = part(KEYS[firstKey + i - 1], ARGV[firstArg + 3 + i])
end
return reply(results)
