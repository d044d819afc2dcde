-- leave: removes all keys of a closed allotment in which nothing lives, once the ledger has noted
-- that it is retired.
-- KEYS  every other key of the allotment
-- ARGV  feed number that the ledger has
-- Reply {OK} or {status}; {BUSY} if something lives or is not applied
-- O(keys); the memory is freed in the background.

local a = allotments[1]
local status = a.gate
if status == S.OK and (a.state ~= CLOSED or a.held ~= 0 or a.confirming ~= 0 or a.shrinking ~= 0
    or a.feed ~= tonumber(ARGV[firstArg])) then
  status = S.BUSY
end
if status == S.OK then
  for j = 1, #KEYS do put('UNLINK', KEYS[j]) end
end
return reply({{status}})
