-- Adds to the counts of a day, and reads them. ARGV[2], MessagePack: a list of operations, whose keys follow one another:
--
-- {'add', sequence, day, days to keep, rows in a day at most, {account, tool, kind, number, ...}}, with the keys of the
--   day and of the writer. Returns 1, or 0 if this writer has added what has this sequence number before.
-- {'read'}, with the key of the day. Returns 'rows' and a list of fields and numbers.
--
-- A day is a hash with a field for each account, tool and kind. A row that there is no room for counts for the tool
-- 'other'.

local DAY = 86400
local ROOM = 1000 -- rows beyond the most there may be: of the tool 'other', one for each account and kind
local KNOWN = DAY -- seconds for which a writer's last number is known; it tries again after some

local operations = {}

function operations.add(keys, sequence, day, kept, most, rows)
  local counts, writer = keys(), keys()
  if sequence <= tonumber(redis.call('GET', writer) or 0) then return 0 end
  local length = redis.call('HLEN', counts)
  for first = 1, #rows, 4 do
    local account, tool, kind, number = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
    local field = account .. '\0' .. tool .. '\0' .. kind
    if length >= most and redis.call('HEXISTS', counts, field) == 0 then
      field = account .. '\0other\0' .. kind
      if length >= most + ROOM and redis.call('HEXISTS', counts, field) == 0 then field = 'other\0other\0' .. kind end
    end
    if redis.call('HINCRBY', counts, field, number) == number then length = length + 1 end
  end
  redis.call('EXPIREAT', counts, (day + kept + 1) * DAY)
  redis.call('SET', writer, sequence, 'EX', KNOWN)
  return 1
end

function operations.read(keys)
  return { 'rows', redis.call('HGETALL', keys()) }
end

local used = 0
local function keys()
  used = used + 1
  return KEYS[used]
end

local replies = {}
for number, operation in ipairs(cmsgpack.unpack(ARGV[2])) do
  replies[number] = operations[operation[1]](keys, unpack(operation, 2))
end
return replies
