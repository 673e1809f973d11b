-- Every operation on the state, each atomic, many in one round trip.
--
-- ARGV[1]: the settings of the replica that asks, ARGV[2]: a list of {operation, argument...}, both MessagePack.
-- Answers a list with one reply for each: a word or {word, value...}. Numbers of states are those of CallState.

local config = cmsgpack.unpack(ARGV[1])
local me = config.replica
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local REGISTERED, DISPATCHING, AWAITING_USER, UNKNOWN, DONE = 1, 2, 4, 5, 6
-- Replies of one word cost their reader a third of a list.
local YES, NO, ABSENT, RESTORING = { ok = 'yes' }, { ok = 'no' }, { ok = 'absent' }, { ok = 'restoring' }
local CONFLICT, EXPIRED = { ok = 'conflict' }, { ok = 'expired' }

local EPOCH = 'toolgate:epoch' -- since when there is data here; gone with the data when a server starts empty
local SERVER = 'toolgate:server' -- the run of the server that these data were written by
local REPLICAS = 'toolgate:replicas' -- replica -> when its lease ends
local RESTORERS = 'toolgate:restorers' -- replica -> until when it may be putting back what it holds
local FIELDS = { 'fingerprint', 'principal', 'backend', 'state', 'note', 'replica', 'idempotent', 'question', 'created', 'outcome' }
local CLAIM_REPLICAS = 16 -- dead replicas looked at in one claim; the rest next time
local PATIENCE = 10 -- how much longer than foreseen replicas may take to put back what they hold

local function call_key(key) return 'toolgate:{' .. key .. '}:call' end
local function seen_key(key) return 'toolgate:{' .. key .. '}:seen' end
local function parted_key(key) return 'toolgate:{' .. key .. '}:parted' end
local function question_key(question) return 'toolgate:question:' .. question end
local function pending_key(principal) return 'toolgate:pending:' .. principal end
local function records_key(principal) return 'toolgate:records:' .. principal end
local function parted_from(principal) return 'toolgate:parted:' .. principal end
local function held_key(replica) return 'toolgate:held:' .. replica end

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

-- The first thing said over each connection. A server that was started anew, or that has just become the primary, may lack
-- what was written last: it is treated as one without data. Where it does not tell which run it is, nobody can know.
function operations.greet()
  local told = redis.pcall('INFO', 'server')
  local run = type(told) == 'string' and string.match(told, 'run_id:(%x+)')
  local known = redis.call('GET', SERVER)
  if not run or run == known then return YES end
  redis.call('SET', SERVER, run)
  if known then
    redis.call('SET', EPOCH, now)
    epoch = now
  end
  return YES
end

-- Replicas put back the calls they hold; until they have had the time to begin, and are through, a call that is not here
-- may yet be running.
local function restoring()
  local age = now - read_epoch()
  if age < config.settle_in_ms then return true end
  return age < PATIENCE * config.settle_in_ms and redis.call('ZCOUNT', RESTORERS, now, '+inf') > 0
end

local function absent()
  if restoring() then return RESTORING end
  return ABSENT
end

local function lease(replica) return tonumber(redis.call('ZSCORE', REPLICAS, replica) or 0) end

-- Only who could renew its own lease a moment ago may call another's a death: a server that was frozen, and carries out
-- what it was asked before, finds that all of them have run out.
local function is_judge() return lease(me) - now > config.lease_ms / 2 end
local function dead(replica) return replica ~= me and lease(replica) <= now and is_judge() end

local function row(key) return redis.call('HMGET', call_key(key), unpack(FIELDS)) end

local function tell(replica, key)
  if replica ~= me then redis.call('PUBLISH', 'toolgate:wake:' .. replica, key) end
end

-- Tells who holds a call, and who watches it, that something became of it.
local function wake(key, holder, watchers)
  tell(holder, key)
  for replica in string.gmatch(watchers or '', '[^,]+') do
    if replica ~= holder then tell(replica, key) end
  end
end

local lasting = {} -- names that many calls of a batch write to -> the time to live each gets once, when all is done

local function hold(key)
  redis.call('SADD', held_key(me), key)
  lasting[held_key(me)] = 2 * config.pending_ms -- outlives every call in it
end

local function count(zset, key, expires, ttl)
  if not lasting[zset] then redis.call('ZREMRANGEBYSCORE', zset, '-inf', now) end
  redis.call('ZADD', zset, expires, key)
  lasting[zset] = ttl
end

-- The first write is one that a server out of memory refuses, so that it refuses the operation as a whole.
local function store(key, principal, fields, left_ms)
  redis.call('HSET', call_key(key), unpack(fields))
  redis.call('PEXPIRE', call_key(key), left_ms)
  redis.call('SET', seen_key(key), '', 'PX', left_ms + config.seen_ms)
  count(pending_key(principal), key, now + left_ms, config.pending_ms)
  count(records_key(principal), key, now + left_ms, config.pending_ms + config.result_ms)
  hold(key)
end

-- A call waits for its user: whoever asks the same joins it. Of two that were asked the same the later one is joined.
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

-- The open call that asks the same, if there is one. Its end is told once.
local function join(key)
  local found = row(key)
  if not found[1] then return nil end
  if tonumber(found[4]) == DONE then close(found[8], key) end
  return { 'exists', key, found }
end

-- How many ms until a principal may begin a call again; nil: at once.
local function full_for(principal)
  if redis.call('ZCOUNT', pending_key(principal), now, '+inf') >= config.max_pending then return 1000 end
  local records = records_key(principal)
  if redis.call('ZCOUNT', records, now, '+inf') < config.max_records then return nil end
  local first = redis.call('ZRANGEBYSCORE', records, now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return math.max(1000, tonumber(first[2]) - now)
end

-- Whether a call found in the store may be dispatched by this replica: its own is gone and it was not sent, or may be
-- sent again; or it is this replica's and `unheld`: the reply to an earlier `begin` was lost.
local function may_take(state, replica, idempotent, unheld)
  if replica == me then return state == REGISTERED and unheld end
  return dead(replica) and (state == REGISTERED or (state == DISPATCHING and idempotent == '1'))
end

function operations.begin(key, fingerprint, principal, backend, note, question, idempotent, unheld, older, state, asks)
  if restoring() then return RESTORING end
  table.insert(older, 1, { key, fingerprint, note })
  for _, name in ipairs(older) do
    local there = redis.call('MGET', seen_key(name[1]), question_key(asks))
    if there[1] then
      local got = redis.call('HMGET', call_key(name[1]), 'fingerprint', 'state', 'replica', 'idempotent')
      if not got[1] then return EXPIRED end
      if got[1] ~= name[2] then return CONFLICT end
      if not may_take(tonumber(got[2]), got[3], got[4], unheld) then return { 'exists', name[1], row(name[1]) } end
      redis.call('HSET', call_key(name[1]), 'state', state, 'replica', me, 'note', name[3])
      redis.call('SREM', held_key(got[3]), name[1])
      tell(got[3], name[1])
      hold(name[1])
      return { 'created', name[1], row(name[1]) }
    end
    local joined = there[2] and join(there[2])
    if joined then return joined end
  end
  local full = full_for(principal)
  if full then return { 'full', full } end
  store(key, principal, {
    'fingerprint', fingerprint, 'principal', principal, 'backend', backend, 'state', state, 'note', note,
    'replica', me, 'idempotent', idempotent, 'question', question, 'created', now,
  }, config.pending_ms)
  return { 'new', now }
end

function operations.restore(key, fingerprint, principal, backend, state, note, idempotent, question, created)
  local left = created + config.pending_ms - now
  if left <= 0 or redis.call('EXISTS', call_key(key), seen_key(key)) > 0 then return NO end
  store(key, principal, {
    'fingerprint', fingerprint, 'principal', principal, 'backend', backend, 'state', state, 'note', note,
    'replica', me, 'idempotent', idempotent, 'question', question, 'created', created,
  }, left)
  if state == AWAITING_USER then open(question, key) end
  return YES
end

function operations.advance(key, from, to, note)
  local got = redis.call('HMGET', call_key(key), 'state', 'replica', 'question', 'watchers')
  if not got[1] then return absent() end
  local allowed = to > DISPATCHING or got[2] == me
  local state, found = tonumber(got[1]), false
  for _, one in ipairs(from) do found = found or one == state end
  if not (found and allowed) then return NO end
  redis.call('HSET', call_key(key), 'state', to)
  if note then redis.call('HSET', call_key(key), 'note', note) end
  if to == AWAITING_USER then
    open(got[3], key)
    wake(key, got[2], got[4])
  end
  return YES
end

function operations.settle(key, outcome)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'replica', 'question', 'watchers')
  local state = tonumber(got[1])
  if not state then return absent() end
  if state == DONE then return NO end
  redis.call('HSET', call_key(key), 'outcome', outcome, 'state', DONE)
  redis.call('PEXPIRE', call_key(key), config.result_ms)
  redis.call('PEXPIRE', seen_key(key), config.result_ms + config.seen_ms)
  if state == AWAITING_USER and is_open(got[4], key) then
    redis.call('PEXPIRE', question_key(got[4]), config.result_ms)
  end
  redis.call('ZREM', pending_key(got[2]), key)
  redis.call('ZADD', records_key(got[2]), now + config.result_ms, key)
  redis.call('SREM', held_key(got[3]), key)
  wake(key, got[3], got[5])
  return YES
end

-- A call as it stands or, if it may be begun anew, as it ended.
function operations.get(key)
  local found = row(key)
  if not found[1] and redis.call('EXISTS', seen_key(key)) == 0 then
    found = redis.call('HMGET', parted_key(key), unpack(FIELDS))
  end
  if not found[1] then return absent() end
  return { 'record', key, found }
end

function operations.told(key)
  close(redis.call('HGET', call_key(key), 'question'), key)
  return YES
end

-- As `get`; this replica is woken when the call is over, waits for its user, or is gone.
function operations.watch(key)
  local got = redis.call('HMGET', call_key(key), 'state', 'watchers')
  local watchers = got[2] or ''
  if got[1] and tonumber(got[1]) < UNKNOWN and not string.find(',' .. watchers .. ',', ',' .. me .. ',', 1, true) then
    redis.call('HSET', call_key(key), 'watchers', watchers .. ',' .. me)
  end
  return operations.get(key)
end

-- The states of many calls, 0 for one that is gone, and whether the data are still the same.
function operations.states(keys)
  if restoring() then return RESTORING end
  local states = {}
  for i, key in ipairs(keys) do states[i] = tonumber(redis.call('HGET', call_key(key), 'state') or 0) end
  return { 'states', states, read_epoch() }
end

-- Keeps how a call ended that may be begun anew, as one of the latest of its principal.
local function part(key, principal, outcome)
  local name = parted_from(principal)
  redis.call('HSET', call_key(key), 'outcome', outcome, 'state', DONE)
  redis.call('RENAME', call_key(key), parted_key(key))
  redis.call('PEXPIRE', parted_key(key), config.parted_ms)
  redis.call('ZADD', name, now + config.parted_ms, key)
  redis.call('PEXPIRE', name, config.parted_ms)
  redis.call('ZREMRANGEBYSCORE', name, '-inf', now)
  for _, old in ipairs(redis.call('ZRANGE', name, 0, -config.max_parted - 1)) do
    redis.call('DEL', parted_key(old))
    redis.call('ZREM', name, old)
  end
end

function operations.forget(key, outcome)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'replica', 'question', 'watchers')
  if not got[1] then return absent() end
  if got[3] ~= me or tonumber(got[1]) >= UNKNOWN then return NO end
  if outcome then part(key, got[2], outcome) end
  close(got[4], key)
  redis.call('DEL', call_key(key), seen_key(key))
  redis.call('ZREM', pending_key(got[2]), key)
  redis.call('ZREM', records_key(got[2]), key)
  redis.call('SREM', held_key(me), key)
  wake(key, me, got[5])
  return YES
end

-- Says that this replica is at it; to be said again every now and then.
function operations.restoring()
  redis.call('ZADD', RESTORERS, now + config.settle_in_ms, me)
  redis.call('PEXPIRE', RESTORERS, PATIENCE * config.settle_in_ms)
  return YES
end

local function standing() return { 'epoch', read_epoch(), restoring() and 1 or 0 } end

function operations.restored()
  redis.call('ZREM', RESTORERS, me)
  return standing()
end

-- Extends this replica's lease, lets go of calls that ran out of time, and tells whether the data are still the same;
-- if they are not those it knows, it is taken to put back what it holds.
function operations.beat(outlived, known)
  redis.call('ZADD', REPLICAS, now + config.lease_ms, me)
  if #outlived > 0 then redis.call('SREM', held_key(me), unpack(outlived)) end
  if read_epoch() ~= known then operations.restoring() end
  return standing()
end

function operations.mine() return { 'mine', redis.call('SMEMBERS', held_key(me)) } end

function operations.leave()
  redis.call('ZADD', REPLICAS, 0, me)
  return YES
end

local function lose(key, principal, replica, watchers)
  redis.call('HSET', call_key(key), 'state', UNKNOWN)
  redis.call('ZREM', pending_key(principal), key)
  wake(key, replica, watchers)
end

-- A call that has ended where nobody can tell how any more.
function operations.lose(key)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'replica', 'question', 'watchers')
  if tonumber(got[1] or DONE) >= UNKNOWN or got[3] ~= me then return NO end
  close(got[4], key)
  redis.call('SREM', held_key(me), key)
  lose(key, got[2], me, got[5])
  return YES
end

-- One call of a dead replica: what becomes of it, or nil if it is over or gone.
local function inherit(key)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'idempotent', 'watchers', 'replica')
  local state = tonumber(got[1] or DONE)
  if state >= UNKNOWN then return nil end
  if state == DISPATCHING and got[3] ~= '1' then
    lose(key, got[2], got[5], got[4])
  else
    redis.call('HSET', call_key(key), 'replica', me, 'state', state == DISPATCHING and REGISTERED or state)
    hold(key)
    tell(got[5], key) -- it may have been frozen only
  end
  return { key, row(key) }
end

-- `suspects`: calls this replica is said to hold and knows nothing of: the reply to an earlier claim was lost.
function operations.claim(limit, suspects)
  local claimed = {}
  if not is_judge() then return { 'claimed', claimed } end
  for _, key in ipairs(suspects) do
    redis.call('SREM', held_key(me), key)
    table.insert(claimed, inherit(key))
  end
  for _, replica in ipairs(redis.call('ZRANGEBYSCORE', REPLICAS, '-inf', now, 'LIMIT', 0, CLAIM_REPLICAS)) do
    for _, key in ipairs(redis.call('SPOP', held_key(replica), math.max(0, limit - #claimed))) do
      table.insert(claimed, inherit(key))
    end
    if redis.call('EXISTS', held_key(replica)) == 0 then redis.call('ZREM', REPLICAS, replica) end
    if #claimed >= limit then break end
  end
  return { 'claimed', claimed }
end

local replies = {}
for i, asked in ipairs(cmsgpack.unpack(ARGV[2])) do
  local ok, reply = pcall(operations[asked[1]], unpack(asked, 2))
  if not ok then
    reply = { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
    -- A primary that became a replica, or a server that refuses writes: nothing of the batch has been written, for else a
    -- server short of memory would have taken the heartbeat too. To who cannot extend its lease it is as good as away.
    local refused = asked[1] == 'beat' or asked[1] == 'greet' or string.find(reply[2], 'READONLY', 1, true)
    if refused then return redis.error_reply(reply[2]) end
  end
  replies[i] = reply
end
for name, ttl in pairs(lasting) do redis.call('PEXPIRE', name, ttl) end
return replies
