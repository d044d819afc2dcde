-- scan: walks the hashes of an allotment, a part of each at a time: holds and buyers. For an adopt it removes
-- what cannot be read, which nothing else would and which stands in the way.
-- KEYS  for each part: a hash of holds
-- ARGV  claim of the adopt on whose behalf it walks ('': none), fields wanted at a time, number of parts; for
--       each: cursor (0: from the start)
-- Reply for each: {OK, next cursor (0: the end), {hold and its score in its index ...}, {{field of a buyer, held,
--       sold, live, name of the hold whose record is beside it, names of listed holds} ...}, {damaged field ...}};
--       {OK} if none of the hashes is there; or {status}
-- O(fields) for each; a hash in its compact form comes whole.

-- include indexes
-- include records
-- include adopt

local claim, count = ARGV[firstArg], ARGV[firstArg + 1]
local a = allotments[1]
local gate = a.gate
if claim ~= '' then gate = claimed(a, claim) and S.OK or S.BUSY end

local INDEX = {[HELD] = 'deadlines', [CONFIRMING] = 'leases'}

local function record(tag, r)
  local index = INDEX[r[STATE]] or 'ended'
  local v = view({a = a, tag = tag, r = r}, true)
  v[#v + 1] = tonumber(redis.pcall('ZSCORE', a[index], tag) or 0) or 0
  return v
end

-- Notes what a field says; false: it cannot be read.
local function read(found, field, raw)
  if #field == TAG then
    local r = decode(raw)
    if r then found.holds[#found.holds + 1] = record(field, r) end
    return r
  end
  if #field ~= TAG - NAME then return false end
  local e, r = decodeEntry(raw)
  if not e then return false end
  if r then found.holds[#found.holds + 1] = record(e[B_HOME] .. field, r) end
  table.insert(e, 1, field)
  found.buyers[#found.buyers + 1] = e
  return true
end

local function part(key, cursor)
  if gate ~= S.OK then return {gate} end
  local reply = redis.pcall('HSCAN', key, cursor, 'COUNT', count)
  if reply.err then
    if claim ~= '' then put('UNLINK', key) end
    return {S.OK, '0', {}, {}, {'*'}}
  end
  local found, damaged = {holds = {}, buyers = {}}, {}
  for j = 1, #reply[2], 2 do
    local field = reply[2][j]
    if not read(found, field, reply[2][j + 1]) then
      damaged[#damaged + 1] = field
      if claim ~= '' then put('HDEL', key, field) end
    end
  end
  return {S.OK, reply[1], found.holds, found.buyers, damaged}
end

-- Most hashes of a large allotment are not there yet, and to ask for all at once costs a fraction of a look at each.
local none = gate == S.OK and redis.call('EXISTS', unpack(KEYS, firstKey)) == 0

local results = {}
for i = 1, tonumber(ARGV[firstArg + 2]) do
  results[i] = none and {S.OK} or part(KEYS[firstKey + i - 1], ARGV[firstArg + 2 + i])
end
return reply(results)
