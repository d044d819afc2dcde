-- What the steps of an adopt have in common.

local ensured = {}

-- For the steps of an adopt: removes a key that this command says is of another type than is to be
-- written there. To be called before anything is put there.
local function ensure(key, command)
  if ensured[key] then return end
  ensured[key] = true
  if type(redis.pcall(command, key)) ~= 'number' then put('UNLINK', key) end
end

-- Whether the adopt under this claim may go on: nobody took it over, and the server is still the one
-- on which it began.
local function claimed(a, claim)
  local v = redis.pcall('HMGET', a.key, 'adopting', 'adoptee')
  return master and not v.err and v[1] == claim and v[2] == identity
end
