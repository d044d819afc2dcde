-- leave: removes keys of a closed allotment in which nothing lives, once the ledger has noted that it
-- is retired. State of another server than this one is removed too: nobody adopts it.
-- KEYS  other keys of the allotment
-- ARGV  epoch and feed number that the ledger has, 1 to remove the counters and indexes too
-- Reply {OK}, or {BUSY} if something lives, is remembered or is not applied, or an adopt is under way
-- O(keys); the memory is freed in the background.

-- include indexes

local a = allotments[1]

local function busy()
  if a.gate == S.OK then
    return a.state ~= CLOSED or a.held ~= 0 or a.confirming ~= 0 or a.shrinking ~= 0
      or a.feed ~= tonumber(ARGV[firstArg + 1]) or redis.call('ZCARD', a.ended) ~= 0
  end
  -- Of a newer epoch than the caller knows: it was reopened since. A claim whose lease is out is of an adopt that met the
  -- retirement, and has nobody who ends it.
  local v = a.fields
  if a.gate ~= S.ADOPT or not master or v.err or (a.epoch or 0) > tonumber(ARGV[firstArg]) then return true end
  local claim = redis.call('HMGET', a.key, 'adoptlease', 'adoptee')
  return v[2] and claim[2] == identity and (whole(claim[1]) or 0) > now
end

if busy() then return reply({{S.BUSY}}) end
local all = ARGV[firstArg + 2] == '1'
for j = all and 1 or firstKey, #KEYS do put('UNLINK', KEYS[j]) end
-- An adopt that had only stood still would go on, and put in force what is half gone.
if not all and a.gate == S.ADOPT and a.fields[2] then put('HSET', a.key, 'adopting', '') end
return reply({{S.OK}})
