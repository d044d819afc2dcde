-- adopt_begin: marks an allotment as being adopted. From now on every other script answers ADOPT
-- and changes nothing, until adopt_end. A claim is taken over only when its lease is out.
-- KEYS  none of its own
-- ARGV  claim (random), lease in ms, 0: only if it must be adopted, 1: to renew a claim that is still in force,
--       2: whatever its state
-- Reply {OK, epoch, feed, time, sequence, version} as they were (0: not known), {BUSY, ms left (0: another adopt has
--       ended)}, or {FORMAT} if a newer release wrote it
-- O(1)

-- include indexes
-- include adopt

local a = allotments[1]
local claim, lease = ARGV[firstArg], tonumber(ARGV[firstArg + 1])
local v = redis.pcall('HMGET', a.key, 'adopting', 'adoptlease', 'adoptee', 'time')
if not master then return reply({{S.BUSY, lease}}) end
if a.gate == S.FORMAT then return reply({{S.FORMAT}}) end
if v.err then
  put('DEL', a.key)
  v = {}
end
local mode = ARGV[firstArg + 2]
if mode == '0' and a.gate == S.OK then return reply({{S.BUSY, 0}}) end
local left = (whole(v[2]) or 0) - now
if mode == '1' and not claimed(a, claim) then return reply({{S.BUSY, left}}) end
-- A lease that has more left than one can have is of a clock that went back.
if v[1] and v[1] ~= claim and v[3] == identity and left > 0 and left <= lease then return reply({{S.BUSY, left}}) end
pass(a.key)
put('HSET', a.key, 'format', FORMAT, 'adopting', claim, 'adoptlease', now + lease, 'adoptee', identity)
return reply({{S.OK, a.epoch or 0, a.feed or 0, whole(v[4]) or 0, a.sequence or 0, a.version or 0}})
