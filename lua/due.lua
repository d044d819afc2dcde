-- due: names the work that is due at allotments, and notes the time, from which an adopt after
-- an outage counts.
-- KEYS  none of its own
-- ARGV  most tags of each kind
-- Reply for each allotment: {OK, {lapsed tag ...}, {tag of a confirm out of lease ...},
--       {tag to purge ...}, number of ended holds, number of confirms under way} or {status}
-- O(log n + tags) for each, n being the holds.

-- include indexes

local function first(key)
  return redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, tonumber(ARGV[firstArg]))
end

local results = {}
for i, a in ipairs(allotments) do
  if a.gate == S.OK then
    pass(a.key)
    put('HSET', a.key, 'time', now)
    results[i] = {S.OK, first(a.deadlines), first(a.leases), first(a.ended),
      redis.call('ZCARD', a.ended), redis.call('ZCARD', a.leases)}
  else
    results[i] = {a.gate}
  end
end
return reply(results)
