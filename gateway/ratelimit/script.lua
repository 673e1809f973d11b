-- Takes from buckets for many requests in one round trip; for each of them from all of its buckets or from none.
--
-- KEYS: the buckets of all requests, in order. ARGV[2], MessagePack: a list of requests, each a list with the rules that
-- it meets; with a second element it gives back what it has taken. A rule is {step, step's fraction, fractions in a microsecond, depth, depth's fraction}, or
-- {'day' or 'month', requests in it, older keys}: so many keys follow that of its bucket, under which it may be found.
-- Returns for each request a list of 1 or 0 (taken or not), then two numbers for each of its rules: what the bucket lacks
-- to be full, in microseconds and fractions, or the requests in the window and the microseconds that are left of it.
--
-- A bucket is kept as the time at which it will be full again; one with a window as its name, its beginning and the number
-- of requests. Numbers here are doubles: microseconds since 1970 are exact in them, and what is less than one is counted
-- apart.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local DAY, AHEAD = 86400, 3600 -- seconds; AHEAD as in rules.py

-- Redis forgets the bucket in the millisecond after it is full.
local function set(key, value, lacks)
  redis.call('SET', key, value, 'PX', math.floor(lacks / 1000) + 1)
end

local function write(key, lacks, fraction)
  local at = now + lacks
  if fraction > 0 then at = string.format('%.0f:%.0f', at, fraction) end
  set(key, at, lacks)
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

local function add(lacks, fraction, rule)
  lacks, fraction = lacks + rule[1], fraction + rule[2]
  if fraction >= rule[3] then return lacks + 1, fraction - rule[3] end
  return lacks, fraction
end

-- The day since 1970 on which a month begins, which is counted from the year 0: years that begin in March end with the
-- day that not all of them have.
local function first_day(month)
  local year, march = math.floor((month - 2) / 12), (month - 2) % 12
  return 365 * year + math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
    + math.floor((153 * march + 2) / 5) - 719468
end

-- When the window around a time begins and ends, in seconds since 1970.
local function window(kind, seconds)
  local day = math.floor(seconds / DAY)
  if kind == 'day' then return day * DAY, (day + 1) * DAY end
  local month = 23640 + math.floor(day / 30.436875)
  if first_day(month) > day then month = month - 1 end
  if first_day(month + 1) <= day then month = month + 1 end
  return first_day(month) * DAY, first_day(month + 1) * DAY
end

-- When the window that counts now begins and ends, and the requests in it.
local function count(first, rule)
  local seconds = math.floor(now / 1000000)
  local begins, ends = window(rule[1], seconds)
  local used = 0
  for key = first, first + rule[3] do
    local kind, began, number = string.match(redis.call('GET', KEYS[key]) or '', '^(%a+) (%d+) (%d+)$')
    began = tonumber(began)
    if kind == rule[1] and began > begins and began <= seconds + AHEAD then -- the clock has gone back
      begins, ends = window(kind, began)
      used = 0
    end
    if kind == rule[1] and began == begins then used = used + number end
  end
  return begins, ends, used
end

-- Sets the requests in a window; the bucket is kept longer, for a clock that goes back.
local function put(first, rule, begins, ends, used)
  set(KEYS[first], string.format('%s %.0f %.0f', rule[1], begins, used), (ends + AHEAD) * 1000000 - now)
  for key = first + 1, first + rule[3] do redis.call('DEL', KEYS[key]) end
end

local function is_calendar(rule) return type(rule[1]) == 'string' end

-- Takes one from each bucket, of which the first has this key, or none from any.
local function take(rules, key)
  local answer, keys, windows = { 1 }, {}, {}
  for index, rule in ipairs(rules) do
    local one, other, fits
    keys[index] = key
    if is_calendar(rule) then
      local begins, ends, used = count(key, rule)
      windows[index] = { begins, ends }
      one, other, fits = used, ends * 1000000 - now, used < rule[2]
      key = key + rule[3]
    else
      one, other = read(KEYS[key], rule)
      local lacks, fraction = add(one, other, rule)
      fits = lacks < rule[4] or (lacks == rule[4] and fraction <= rule[5])
    end
    answer[2 * index], answer[2 * index + 1] = one, other
    if not fits then answer[1] = 0 end
    key = key + 1
  end
  if answer[1] == 0 then return answer, key end
  for index, rule in ipairs(rules) do
    local one, other = answer[2 * index], answer[2 * index + 1]
    if is_calendar(rule) then
      one = one + 1
      put(keys[index], rule, windows[index][1], windows[index][2], one)
    else
      one, other = add(one, other, rule)
      write(KEYS[keys[index]], one, other)
    end
    answer[2 * index], answer[2 * index + 1] = one, other
  end
  return answer, key
end

-- Gives back what `take` took: what it returned last for each bucket says whether its window is still the same.
local function give_back(rules, lefts, key)
  for index, rule in ipairs(rules) do
    if is_calendar(rule) then
      local begins, ends, used = count(key, rule)
      if used > 0 and ends * 1000000 - now <= lefts[index] then put(key, rule, begins, ends, used - 1) end
      key = key + rule[3]
    else
      local lacks, fraction = read(KEYS[key], rule)
      lacks, fraction = lacks - rule[1], fraction - rule[2]
      if fraction < 0 then lacks, fraction = lacks - 1, fraction + rule[3] end
      if lacks < 0 or (lacks == 0 and fraction == 0) then
        redis.call('DEL', KEYS[key])
      else
        write(KEYS[key], lacks, fraction)
      end
    end
    key = key + 1
  end
  return { 1 }, key
end

local answers = {}
local key = 1
for number, request in ipairs(cmsgpack.unpack(ARGV[2])) do
  if request[2] then
    answers[number], key = give_back(request[1], request[2], key)
  else
    answers[number], key = take(request[1], key)
  end
end
return answers
