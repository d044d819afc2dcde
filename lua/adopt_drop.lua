-- adopt_drop: gives up a claim, whose lease nobody needs to wait for then. If nothing was changed under it, the state that was
-- in force before is in force again, unless an earlier adopt was given up that had changed it (adopt_reset).
-- KEYS  none of its own
-- ARGV  claim, 1 if nothing was changed
-- Reply {OK} or {BUSY}
-- O(1)

-- include adopt

local a = allotments[1]
if not claimed(a, ARGV[firstArg]) then return reply({{S.BUSY}}) end
pass(a.key)
if ARGV[firstArg + 1] == '1' then
  put('HDEL', a.key, 'adopting', 'adoptlease', 'adoptee')
else
  put('HSET', a.key, 'adoptlease', 0)
end
return reply({{S.OK}})
