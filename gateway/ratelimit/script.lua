-- Takes from buckets for many requests in one round trip; for each of them from all of its buckets or from none.
--
-- KEYS: the buckets of all requests, in order. ARGV[2], MessagePack: a list of requests, each a list with one element, the
-- rules that it meets: {step, step's fraction, fractions in a microsecond, depth, depth's fraction}. Returns for each
-- request a list of 1 or 0 (taken or not), then for each of its rules what the bucket lacks to be full: microseconds and
-- fractions.
--
-- A bucket is kept as the time at which it will be full again. Numbers here are doubles: microseconds since 1970 are
-- exact in them, and what is less than one is counted apart.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function write(key, lacks, fraction)
  local at = now + lacks
  if fraction > 0 then at = string.format('%.0f:%.0f', at, fraction) end
  -- Redis forgets the bucket in the millisecond after it is full.
  redis.call('SET', key, at, 'PX', math.floor(lacks / 1000) + 1)
end

local function read(key, rule)
  local written = redis.call('GET', key)
  if not written then return 0, 0 end
  local at, fraction = tonumber(written), 0
  if not at then
    at, fraction = string.match(written, '^(%d+):(%d+)$')
    if not at then return 0, 0 end
  end
  local lacks = at - now
  fraction = math.min(tonumber(fraction), rule[3] - 1) -- of a rule that has been changed since
  if lacks < 0 then return 0, 0 end
  if lacks > rule[4] or (lacks == rule[4] and fraction > rule[5]) then
    -- More than there is in it: the clock went backwards, or the rule has been changed. Callers do not wait for the clock.
    lacks, fraction = rule[4], rule[5]
    if lacks > 0 or fraction > 0 then write(key, lacks, fraction) end
  end
  return lacks, fraction
end

local answers = {}
local key = 0
for number, request in ipairs(cmsgpack.unpack(ARGV[2])) do
  local answer = { 1 }
  local first = key
  for index, rule in ipairs(request[1]) do
    key = key + 1
    local lacks, fraction = read(KEYS[key], rule)
    answer[2 * index], answer[2 * index + 1] = lacks, fraction
    lacks, fraction = lacks + rule[1], fraction + rule[2]
    if fraction >= rule[3] then lacks, fraction = lacks + 1, fraction - rule[3] end
    if lacks > rule[4] or (lacks == rule[4] and fraction > rule[5]) then answer[1] = 0 end
  end
  if answer[1] == 1 then
    for index, rule in ipairs(request[1]) do
      local lacks, fraction = answer[2 * index] + rule[1], answer[2 * index + 1] + rule[2]
      if fraction >= rule[3] then lacks, fraction = lacks + 1, fraction - rule[3] end
      answer[2 * index], answer[2 * index + 1] = lacks, fraction
      write(KEYS[first + index], lacks, fraction)
    end
  end
  answers[number] = answer
end
return answers
