-- Operations on calls.

local NO_ROOM = { 'full', 5000, 'room' } -- an operator has to look

-- The call with this question, if there is one. If it has ended, this delivers its result: it is not joined again.
local function join(key)
  local found = row(key)
  if not found[1] then return nil end
  if tonumber(found[4]) == DONE then close(found[8], key) end
  return { 'exists', key, found }
end

-- A quota of which more than the share `scarce` is used, if there is one.
local function scarce(pending, records, held)
  if pending > config.scarce * config.max_pending then return 'pending' end
  if records > config.scarce * config.max_records then return 'records' end
  if held > config.scarce * config.max_bytes_per_caller then return 'bytes' end
end

-- Why a principal may not begin a call of `cost` bytes, and when to come again; nil: it may, and then the quota that is
-- scarce. It may take no more than `allowed`, which is what its replica last saw to be free.
local function full_for(principal, cost, allowed)
  local held = held_bytes(principal) + cost
  local pending = redis.call('ZCARD', pending_key(principal))
  if pending >= config.max_pending then return { 'full', 1000, 'pending' } end
  local quota = nil
  local records = redis.call('ZCARD', records_key(principal))
  if records >= config.max_records then
    quota = 'records'
  elseif held > config.max_bytes_per_caller then
    quota = 'bytes'
  elseif allowed and held > allowed then
    return NO_ROOM
  end
  if not quota then return nil, scarce(pending + 1, records, held) end
  local first = redis.call('ZRANGE', records_key(principal), 0, 0, 'WITHSCORES')
  return { 'full', math.max(1000, tonumber(first[2] or now) - now), quota }
end

-- Whether this replica may dispatch a call that it found: the one that held it is dead, and it was not sent or may be sent
-- again.
local function may_take(state, replica, idempotent)
  return dead(replica) and (state == REGISTERED or (state == DISPATCHING and idempotent == '1'))
end

-- What is left of a call with this key and fingerprint.
local function tombstone(key, fingerprint)
  local found = redis.call('HMGET', tombstone_key(key), unpack(FIELDS))
  if found[1] ~= fingerprint then return nil end
  return { 'exists', key, found }
end

function operations.begin(
  key, fingerprint, principal, backend, state, note, idempotent, question, older, asks, allowed, rejoins
)
  if restoring() then return RESTORING end
  table.insert(older, 1, { key, fingerprint, note })
  for _, name in ipairs(older) do
    local there = redis.call('MGET', seen_key(name[1]), question_key(asks))
    if there[1] then
      local got = redis.call('HMGET', call_key(name[1]), 'fingerprint', 'state', 'replica', 'idempotent', 'principal')
      if not got[1] then return EXPIRED end
      if got[1] ~= name[2] then return CONFLICT end
      if not may_take(tonumber(got[2]), got[3], got[4]) then return { 'exists', name[1], row(name[1]) } end
      redis.call('HSET', call_key(name[1]), 'state', state, 'replica', me)
      write_note(name[1], got[5], name[3])
      redis.call('SREM', held_key(got[3]), name[1])
      notify(got[3], name[1])
      own(name[1])
      return { 'created', name[1], row(name[1]) }
    end
    local joined = there[2] and join(there[2])
    if joined then return joined end
  end
  local left = rejoins and tombstone(key, fingerprint)
  if left then return left end
  local full, nearly = full_for(principal, config.record_bytes + #note, allowed)
  if full then return full end
  store(key, fingerprint, principal, backend, state, note, idempotent, question, now, pending_ms)
  return { 'new', now, nearly }
end

-- Begins a call of this replica's that is not running, because the reply to an earlier `begin` was lost. `found` is the note
-- that `begin` found; it does not take the call by itself, for a server may carry out a `begin` so late that the call runs.
function operations.take(key, found, note, state)
  local got = redis.call('HMGET', call_key(key), 'state', 'replica', 'note', 'principal')
  if not got[1] then return absent() end
  if got[2] ~= me or got[3] ~= found or (tonumber(got[1]) or DONE) > DISPATCHING then return { 'exists', key, row(key) } end
  insist()
  redis.call('HSET', call_key(key), 'state', state)
  write_note(key, got[4], note)
  return { 'created', key, row(key) }
end

function operations.restore(key, fingerprint, principal, backend, state, note, idempotent, question, created)
  local left = created + pending_ms - now
  if left <= 0 or redis.call('EXISTS', call_key(key), seen_key(key)) > 0 then return NO end
  insist()
  store(key, fingerprint, principal, backend, state, note, idempotent, question, created, left)
  if state == AWAITING_USER then open(question, key) end
  if state == UNKNOWN then -- it is over: nobody runs it, and it counts among those that are
    redis.call('ZREM', pending_key(principal), key)
    redis.call('SREM', held_key(me), key)
    count(records_key(principal), key, now + left)
  end
  return YES
end

function operations.advance(key, from, to, note)
  local got = redis.call('HMGET', call_key(key), 'state', 'replica', 'question', 'watchers', 'principal')
  if not got[1] then return absent() end
  local allowed = to > DISPATCHING or got[2] == me
  local state, found = tonumber(got[1]), false
  for _, one in ipairs(from) do found = found or one == state end
  if not (found and allowed) then return NO end
  insist()
  redis.call('HSET', call_key(key), 'state', to)
  if note then write_note(key, got[5], note) end
  if to == AWAITING_USER then
    open(got[3], key)
    wake(key, got[2], got[4])
  end
  return YES
end

-- Whether an outcome of so many bytes does not fit: its principal would have more than its quota, or than is left.
local function has_no_room(principal, bytes)
  local held, left = held_bytes(principal) + bytes, nil
  if bytes >= LARGE then left = room() end
  return held > config.max_bytes_per_caller or (left and held > left)
end

-- `again`: the outcome was here before the server lost it.
function operations.settle(key, outcome, again)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'replica', 'question', 'watchers')
  local state = tonumber(got[1])
  if not state then return absent() end
  if state == DONE then return NO end
  if #outcome > config.small_outcome_bytes and not again and has_no_room(got[2], #outcome) then return TOO_LARGE end
  insist()
  redis.call('HSET', call_key(key), 'outcome', outcome, 'state', DONE)
  redis.call('PEXPIRE', call_key(key), result_ms)
  redis.call('PEXPIRE', seen_key(key), result_ms + seen_ms)
  if state == AWAITING_USER and is_open(got[4], key) then
    redis.call('PEXPIRE', question_key(got[4]), result_ms)
  end
  redis.call('ZREM', pending_key(got[2]), key)
  count(records_key(got[2]), key, now + result_ms)
  grow(got[2], key, #outcome)
  redis.call('SREM', held_key(got[3]), key)
  wake(key, got[3], got[5])
  return YES
end

-- A call as it stands, or what is left of one that may be begun anew.
function operations.get(key)
  local found = row(key)
  if not found[1] and redis.call('EXISTS', seen_key(key)) == 0 then
    found = redis.call('HMGET', tombstone_key(key), unpack(FIELDS))
  end
  if not found[1] then return absent() end
  return { 'record', key, found }
end

function operations.has_expired(key, principals)
  local principal = redis.call('GET', seen_key(key))
  if not principal or redis.call('EXISTS', call_key(key)) > 0 then return NO end
  for _, one in ipairs(principals) do
    if one == principal then return YES end
  end
  return NO
end

-- The result was delivered: identical calls no longer join it.
function operations.delivered(key)
  close(redis.call('HGET', call_key(key), 'question'), key)
  return YES
end

-- As `get`; this replica is woken when the call is over, waits for its user, or is gone.
function operations.watch(key)
  local got = redis.call('HMGET', call_key(key), 'state', 'watchers')
  local watchers = got[2] or ''
  if got[1] and tonumber(got[1]) < UNKNOWN and not string.find(',' .. watchers .. ',', ',' .. me .. ',', 1, true) then
    insist()
    redis.call('HSET', call_key(key), 'watchers', watchers .. ',' .. me)
  end
  return operations.get(key)
end

-- The states of many calls, 0 for each that is gone, and the epoch.
function operations.states(keys)
  if restoring() then return RESTORING end
  local states = {}
  for i, key in ipairs(keys) do states[i] = tonumber(redis.call('HGET', call_key(key), 'state') or 0) end
  return { 'states', states, read_epoch() }
end

-- Keeps the outcome of a call of which nothing else is kept, as one of the latest of its principal.
local function keep_tombstone(key, principal, outcome)
  local name = tombstones_key(principal)
  insist()
  redis.call('HSET', call_key(key), 'outcome', outcome, 'state', DONE)
  redis.call('RENAME', call_key(key), tombstone_key(key))
  redis.call('PEXPIRE', tombstone_key(key), tombstone_ms)
  redis.call('ZADD', name, now + tombstone_ms, key)
  redis.call('PEXPIRE', name, tombstone_ms)
  redis.call('ZREMRANGEBYSCORE', name, '-inf', now)
  for _, old in ipairs(redis.call('ZRANGE', name, 0, -config.max_tombstones - 1)) do
    redis.call('DEL', tombstone_key(old))
    redis.call('ZREM', name, old)
  end
end

-- Removes a call, also from its quotas; an outcome is kept for a while.
local function drop(key, principal, outcome)
  if outcome then keep_tombstone(key, principal, outcome) end
  redis.call('DEL', call_key(key), seen_key(key))
  redis.call('ZREM', pending_key(principal), key)
  redis.call('ZREM', records_key(principal), key)
  release(principal, { key })
end

-- Keeps no more of a call that is DONE than this outcome, unless identical calls still join it.
function operations.reduce(key, outcome)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'question')
  if not got[1] then return absent() end
  if tonumber(got[1]) ~= DONE or is_open(got[3], key) then return NO end
  drop(key, got[2], outcome)
  return YES
end

function operations.forget(key, outcome)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'replica', 'question', 'watchers')
  if not got[1] then return absent() end
  if got[3] ~= me or tonumber(got[1]) >= UNKNOWN then return NO end
  drop(key, got[2], outcome)
  close(got[4], key)
  redis.call('SREM', held_key(me), key)
  wake(key, me, got[5])
  return YES
end
