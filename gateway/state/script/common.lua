-- Every operation on the state, each atomic, many in one round trip. This is the first of the four parts of one script:
-- what the other parts use.
--
-- ARGV[1]: the settings of the replica that asks; ARGV[2]: a list of {operation, argument...}; both in MessagePack.
-- Returns a list with one reply for each operation: a word, or {word, value...}. States are the numbers of CallState.

local config = cmsgpack.unpack(ARGV[1])
local me, prefix = config.replica, config.prefix
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function milliseconds(seconds) return math.floor(seconds * 1000 + 0.5) end
local pending_ms, result_ms = milliseconds(config.pending_ttl_s), milliseconds(config.result_ttl_s)
local seen_ms, tombstone_ms = milliseconds(config.seen_ttl_s), milliseconds(config.tombstone_ttl_s)
local lease_ms, settle_in_ms = milliseconds(config.lease_s), milliseconds(config.settle_in_s)

local REGISTERED, DISPATCHING, AWAITING_USER, UNKNOWN, DONE = 1, 2, 4, 5, 6
-- A reply that is a word costs a third of a list to read.
local YES, NO, ABSENT, RESTORING = { ok = 'yes' }, { ok = 'no' }, { ok = 'absent' }, { ok = 'restoring' }
local CONFLICT, EXPIRED, TOO_LARGE = { ok = 'conflict' }, { ok = 'expired' }, { ok = 'too_large' }

local BIRTH = prefix .. 'birth' -- when the data here began; gone with the data when a server starts empty
local EPOCH = prefix .. 'epoch' -- the same, or when a server last started with these data
local SERVER = prefix .. 'server' -- the id of the run of the server that wrote these data
local REPLICAS = prefix .. 'replicas' -- replica -> when its lease ends
local RESTORERS = prefix .. 'restorers' -- replica -> until when it may be restoring what it owns
local FIELDS = { 'fingerprint', 'principal', 'backend', 'state', 'note', 'replica', 'idempotent', 'question', 'created', 'outcome' }
local CLAIM_REPLICAS = 16 -- dead replicas looked at in one claim; the rest next time
local TOTAL = '' -- the field of a principal's sizes that has their sum; no call has this key
local SWEEP = 1000 -- members in one command; a script may hand over some 8000 values
local LARGE = 65536 -- bytes of an outcome for which the server is asked what it has left, which costs some 30 us
local PATIENCE = 10 -- how much longer than foreseen replicas may take to restore what they own

local function call_key(key) return prefix .. '{' .. key .. '}:call' end
local function seen_key(key) return prefix .. '{' .. key .. '}:seen' end
local function tombstone_key(key) return prefix .. '{' .. key .. '}:remnant' end
local function question_key(question) return prefix .. 'question:' .. question end
local function pending_key(principal) return prefix .. 'pending:' .. principal end
local function records_key(principal) return prefix .. 'records:' .. principal end
local function sizes_key(principal) return prefix .. 'sizes:' .. principal end
local function tombstones_key(principal) return prefix .. 'remnants:' .. principal end
local function held_key(replica) return prefix .. 'held:' .. replica end

local epoch = false
local function read_epoch()
  epoch = epoch or tonumber(redis.call('GET', EPOCH) or '')
  if not epoch then
    redis.call('SET', EPOCH, now)
    epoch = now
  end
  return epoch
end

local operations = {}

-- Whether replicas may still be restoring the calls they own: they have some time to begin, and then to finish. Until
-- then a call that is not here may be running all the same.
local function restoring()
  local age = now - read_epoch()
  if age < settle_in_ms then return true end
  return age < PATIENCE * settle_in_ms and redis.call('ZCOUNT', RESTORERS, now, '+inf') > 0
end

local function absent()
  if restoring() then return RESTORING end
  return ABSENT
end

local function lease(replica) return tonumber(redis.call('ZSCORE', REPLICAS, replica) or 0) end

-- Only a replica that renewed its own lease a moment ago may say that another is dead: a server that was frozen, and now
-- carries out what it was asked before that, finds that all leases have run out.
local function is_judge() return lease(me) - now > lease_ms / 2 end
local function dead(replica) return replica ~= me and lease(replica) <= now and is_judge() end

local function row(key) return redis.call('HMGET', call_key(key), unpack(FIELDS)) end

local function notify(replica, key)
  if replica ~= me then redis.call(config.publish, prefix .. 'wake:' .. replica, key) end
end

-- Wakes the replica that owns a call, and those that watch it, because it has changed.
local function wake(key, owner, watchers)
  notify(owner, key)
  for replica in string.gmatch(watchers or '', '[^,]+') do
    if replica ~= owner then notify(replica, key) end
  end
end

local lasting = {} -- names that several calls of a batch write to -> the time to live that each gets when all is done

local function own(key)
  redis.call('SADD', held_key(me), key)
  lasting[held_key(me)] = 2 * pending_ms -- outlives every call in it
end

-- Lets the operation write although the server has no memory left: a server looks at that before the first write of a
-- script only, and lets pass what frees memory. For what keeps calls from getting lost, and takes little.
local function insist() redis.call('DEL', prefix .. 'nothing') end

-- The bytes that the server has left, that it uses, and that it may use. The first is nil and the last 0 if it has no limit,
-- makes room by itself, or does not say.
local function room()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return nil, 0, 0 end
  local function number(name) return tonumber(string.match(info, name .. ':(%d+)') or 0) end
  local most = number('\nmaxmemory')
  local keeps = string.find(info, 'maxmemory_policy:noeviction', 1, true)
  if most == 0 or not keeps then return nil, number('used_memory'), 0 end
  local used = number('used_memory') - number('mem_not_counted_for_evict')
  return math.max(0, most - used), used, most
end

local function count(zset, key, expires)
  redis.call('ZADD', zset, expires, key)
  lasting[zset] = pending_ms + result_ms
end

-- Counts bytes that a call takes more than before.
local function grow(principal, key, bytes)
  local sizes = sizes_key(principal)
  redis.call('HINCRBY', sizes, key, bytes)
  redis.call('HINCRBY', sizes, TOTAL, bytes)
  lasting[sizes] = pending_ms + result_ms
end

-- Replaces the note of a call.
local function write_note(key, principal, note)
  grow(principal, key, #note - redis.call('HSTRLEN', call_key(key), 'note'))
  redis.call('HSET', call_key(key), 'note', note)
end

-- Gives back all bytes of these calls.
local function release(principal, keys)
  local sizes, freed = sizes_key(principal), 0
  for _, size in ipairs(redis.call('HMGET', sizes, unpack(keys))) do freed = freed + (tonumber(size) or 0) end
  redis.call('HDEL', sizes, unpack(keys))
  if freed > 0 and redis.call('HINCRBY', sizes, TOTAL, -freed) <= 0 then redis.call('HDEL', sizes, TOTAL) end
end

-- Counts no more what has expired of a principal's calls.
local swept = {}
local function sweep(principal)
  if swept[principal] then return end
  swept[principal] = true
  for _, zset in ipairs({ pending_key(principal), records_key(principal) }) do
    repeat
      local over = redis.call('ZRANGEBYSCORE', zset, '-inf', now, 'LIMIT', 0, SWEEP)
      if #over > 0 then
        release(principal, over)
        redis.call('ZREM', zset, unpack(over))
      end
    until #over < SWEEP
  end
end

-- The bytes of a principal's calls that have not expired.
local function held_bytes(principal)
  sweep(principal)
  return tonumber(redis.call('HGET', sizes_key(principal), TOTAL) or 0)
end

-- Stores a call of this replica's that has `left_ms` to live. A server out of memory refuses the first write already, and
-- so the operation as a whole.
local function store(key, fingerprint, principal, backend, state, note, idempotent, question, created, left_ms)
  redis.call('HSET', call_key(key), 'fingerprint', fingerprint, 'principal', principal, 'backend', backend, 'state', state,
    'note', note, 'replica', me, 'idempotent', idempotent, 'question', question, 'created', created)
  redis.call('PEXPIRE', call_key(key), left_ms)
  redis.call('SET', seen_key(key), principal, 'PX', left_ms + seen_ms)
  count(pending_key(principal), key, now + left_ms)
  grow(principal, key, config.record_bytes + #note)
  own(key)
end

-- Has identical calls join one that waits for its user: of two with the same question, the later one.
local function open(question, key)
  if question and question ~= '' then
    redis.call('SET', question_key(question), key, 'PX', redis.call('PTTL', call_key(key)))
  end
end

local function is_open(question, key)
  return question and question ~= '' and redis.call('GET', question_key(question)) == key
end

local function close(question, key)
  if is_open(question, key) then redis.call('DEL', question_key(question)) end
end
