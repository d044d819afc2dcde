-- availability: the counters of allotments; the facts of the reply are the answer.
-- KEYS  none of its own
-- ARGV  none of its own
-- Reply for each allotment: {OK}, {AGAIN, 1, due tag ...} or {status}
-- O(log n) for each, n being the live holds.

local results = {}
for i, a in ipairs(allotments) do
  local tags = a.gate == S.OK and due(a)
  results[i] = tags and again(1, tags) or {a.gate}
end
return reply(results)
