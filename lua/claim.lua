-- claim (claim confirms): takes over confirms and shrinks whose lease ran out, under a new lease.
-- KEYS  for each hold: hash of holds, marker
-- ARGV  number of holds; for each: allotment number, tag, lease in ms
-- Reply for each: {OK, hold} if it is this caller's to drive on, else {NOT_DUE} or {status}
-- O(log n) for each, n being the confirms under way.

-- include indexes
-- include records

local function decide(h, lease)
  local a = h.a
  if a.gate ~= S.OK then return {a.gate} end
  local r, score = h.r, redis.call('ZSCORE', a.leases, h.tag)
  -- An entry of the index that says otherwise than the record is mended, lest it be met again for ever.
  if not r or r[STATE] ~= CONFIRMING then
    if score then put('ZREM', a.leases, h.tag) end
    return {(r or not score) and S.NOT_DUE or S.DAMAGED}
  end
  if r[LEASE] > now then
    if score and tonumber(score) ~= r[LEASE] then put('ZADD', a.leases, r[LEASE], h.tag) end
    return {S.NOT_DUE}
  end
  r[LEASE] = now + lease
  h.dirty = true
  pass(a.key)
  put('ZADD', a.leases, r[LEASE], h.tag)
  return {S.OK, view(h)}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 3 * i - 2
  local h = hold(allotments[tonumber(ARGV[p])], firstKey + 2 * i - 2, ARGV[p + 1])
  results[i] = decide(h, tonumber(ARGV[p + 2]))
end
return reply(results)
