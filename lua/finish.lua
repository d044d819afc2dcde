-- finish (confirm-finish): ends holds as the ledger decided. An ended hold stays as it is.
-- KEYS  for each line: hash of holds, marker
-- ARGV  number of lines; for each: allotment number, tag, verdict (1 SOLD, 2 refused for the order,
--       3 for room, 4 for the cart), units sold, order id, epoch and sequence of the creation token
--       in the outcome row
-- Reply for each: {OK, hold} or {status}
-- O(log n) for each, n being the live holds.

-- include indexes
-- include records

local SOLD_VERDICT, ROOM = 1, 3
local REASONS = {[2] = 1, [3] = 2, [4] = 3}

-- Takes the hold's units out of the counter that they are in, and returns how many.
local function takeOut(h)
  local a, r = h.a, h.r
  if r[STATE] == HELD then
    a.held = a.held - r[QTY]
    return r[QTY]
  end
  local counter = r[BUYER] == '' and 'shrinking' or 'confirming'
  a[counter] = a[counter] - r[PIN]
  return r[PIN]
end

-- Ends h. Which holds its cart had is no longer asked: a repeat is answered from what was sold. With a cart of 100 it
-- would be 5 kB and more in each of 100 records for the retention.
local function conclude(h, state)
  h.r[MEMBERS] = ''
  finish(h, state)
end

local function sell(h, v)
  local a, r = h.a, h.r
  local same = r[EPOCH] == v.epoch and r[SEQ] == v.seq
  local units = takeOut(h)
  fill(r)
  if not same then
    -- This hold was made after an earlier one of the same id was sold and its record purged: that
    -- sale is counted already, and what this one took goes back.
    a.available = a.available + units
    moveBuyer(h, -units, 0, -1)
    r[EPOCH], r[SEQ], r[REASON] = v.epoch, v.seq, EARLIER
  elseif r[BUYER] == '' then
    a.capacity, a.available = a.capacity - v.sold, a.available + units - v.sold
  else
    a.sold, a.available = a.sold + v.sold, a.available + units - v.sold
    moveBuyer(h, -units, v.sold, -1)
  end
  r[WANT], r[ORDER] = v.sold, v.order
  conclude(h, SOLD)
end

local function refuse(h, v)
  local units = takeOut(h)
  fill(h.r)
  -- No room in the ledger means that these units do not exist: they are not given back.
  if v.kind ~= ROOM then h.a.available = h.a.available + units end
  moveBuyer(h, -units, 0, -1)
  h.r[REASON] = REASONS[v.kind]
  conclude(h, CANCELLED)
end

local function decide(h, v)
  if h.a.gate ~= S.OK then return {h.a.gate} end
  if h.damaged then return {S.DAMAGED} end
  if not h.r then return {S.NOT_FOUND} end
  if not buyerReady(h) then return {S.DAMAGED} end
  local r = h.r
  if r[STATE] == HELD or r[STATE] == CONFIRMING then
    if v.kind == SOLD_VERDICT then
      sell(h, v)
    elseif r[STATE] == CONFIRMING and r[EPOCH] == v.epoch and r[SEQ] == v.seq then
      refuse(h, v)
    end
  end
  return {S.OK, view(h)}
end

local results = {}
for i = 1, tonumber(ARGV[firstArg]) do
  local p = firstArg + 7 * i - 6
  local h = hold(allotments[tonumber(ARGV[p])], firstKey + 2 * i - 2, ARGV[p + 1])
  results[i] = decide(h, {kind = tonumber(ARGV[p + 2]), sold = tonumber(ARGV[p + 3]),
    order = ARGV[p + 4], epoch = tonumber(ARGV[p + 5]), seq = tonumber(ARGV[p + 6])})
end
return reply(results)
