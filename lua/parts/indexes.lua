-- For scripts that write leases or ended: shuts the gate if one of these keys is of another type, so that no
-- write fails half-way.
for _, a in ipairs(allotments) do
  if a.gate == S.OK and (type(redis.pcall('ZCARD', a.leases)) ~= 'number'
      or type(redis.pcall('ZCARD', a.ended)) ~= 'number') then
    a.gate = S.ADOPT
  end
end
