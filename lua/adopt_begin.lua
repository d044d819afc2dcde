-- adopt_begin: marks an allotment as being adopted. From now on every other script answers ADOPT
-- and changes nothing, until adopt_end. A claim is taken over only when its lease is out.
-- KEYS  none of its own
-- ARGV  claim (random), lease in ms, 0: only if it must be adopted, 1: to renew a claim that is still in force,
--       2: whatever its state
-- Reply {OK, epoch, feed, time, sequence, version} as they were (0: not known), {BUSY, ms left (0: another adopt has
--       ended)}, or {FORMAT} if a newer release wrote it
-- O(1)

-- include adopt

local a = allotments[1]
local claim, lease = ARGV[firstArg], tonumber(ARGV[firstArg + 1])
local v = redis.pcall('HMGET', a.key, 'adopting', 'adoptlease', 'epoch', 'feed', 'time', 'sequence',
  'version', 'adoptee', 'format')
if not master then return reply({{S.BUSY, lease}}) end
if v.err then
  put('DEL', a.key)
  v = {}
end
if (whole(v[9]) or 0) > FORMAT then return reply({{S.FORMAT}}) end
local mode = ARGV[firstArg + 2]
if mode == '0' and a.gate == S.OK then return reply({{S.BUSY, 0}}) end
local left = (whole(v[2]) or 0) - now
if mode == '1' and not claimed(a, claim) then return reply({{S.BUSY, left}}) end
-- A lease that has more left than one can have is of a clock that went back.
if v[1] and v[1] ~= claim and v[8] == identity and left > 0 and left <= lease then return reply({{S.BUSY, left}}) end
pass(a.key)
put('HSET', a.key, 'format', FORMAT, 'adopting', claim, 'adoptlease', now + lease, 'adoptee', identity)
local past = {S.OK}
for j = 3, 7 do past[j - 1] = whole(v[j]) or 0 end
return reply({past})
