-- Operations on replicas, and on the calls of those that died.

-- The first operation over each connection. A server that was restarted, or that has just become the primary, may lack what
-- was written last, so it is treated as one without data. One that does not say the id of its run is trusted.
function operations.greet()
  local info = redis.pcall('INFO', 'server')
  local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  local known = redis.call('GET', SERVER)
  if not run or run == known then return YES end
  insist()
  redis.call('SET', SERVER, run)
  if known then
    redis.call('SET', EPOCH, now)
    epoch = now
  end
  return YES
end

-- Notes that this replica is restoring its calls; to be repeated while it does.
function operations.restoring()
  redis.call('ZADD', RESTORERS, now + settle_in_ms, me)
  redis.call('PEXPIRE', RESTORERS, PATIENCE * settle_in_ms)
  return YES
end

function operations.restored()
  redis.call('ZREM', RESTORERS, me)
  return restoring() and RESTORING or YES
end

-- Extends this replica's lease and releases calls that have expired. If the epoch is not the one the replica knows, it is
-- counted among those that are restoring their calls. The last two values say which data these are, and how many
-- replicas have died and may have left calls.
function operations.beat(outlived, known)
  insist()
  redis.call('SET', BIRTH, now, 'NX')
  redis.call('ZADD', REPLICAS, now + lease_ms, me)
  if #outlived > 0 then redis.call('SREM', held_key(me), unpack(outlived)) end
  if read_epoch() ~= known then operations.restoring() end
  local _, used, most = room()
  local died = redis.call('ZCOUNT', REPLICAS, '-inf', now)
  return { 'beat', read_epoch(), restoring() and 1 or 0, now, used, most, redis.call('GET', BIRTH), died }
end

-- At most so many replicas, each with the milliseconds since its last heartbeat; none that has left.
function operations.replicas(most)
  local found = {}
  local leases = redis.call('ZREVRANGEBYSCORE', REPLICAS, '+inf', '(0', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #leases, 2 do table.insert(found, { leases[i], math.max(0, now - (tonumber(leases[i + 1]) - lease_ms)) }) end
  return { 'replicas', found }
end

function operations.mine() return { 'mine', redis.call('SMEMBERS', held_key(me)) } end

function operations.leave()
  redis.call('ZADD', REPLICAS, 0, me)
  return YES
end

local function lose(key, principal, replica, watchers)
  insist()
  redis.call('HSET', call_key(key), 'state', UNKNOWN)
  local expires = redis.call('ZSCORE', pending_key(principal), key)
  redis.call('ZREM', pending_key(principal), key)
  if expires then count(records_key(principal), key, expires) end
  wake(key, replica, watchers)
end

-- Marks UNKNOWN a call of this replica's whose outcome no replica re-reported.
function operations.lose(key)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'replica', 'question', 'watchers')
  if tonumber(got[1] or DONE) >= UNKNOWN or got[3] ~= me then return NO end
  close(got[4], key)
  redis.call('SREM', held_key(me), key)
  lose(key, got[2], me, got[5])
  return YES
end

-- Takes over one call of a dead replica; nil if it is over or gone.
local function inherit(key)
  local got = redis.call('HMGET', call_key(key), 'state', 'principal', 'idempotent', 'watchers', 'replica')
  local state = tonumber(got[1] or DONE)
  if state >= UNKNOWN then return nil end
  if state == DISPATCHING and got[3] ~= '1' then
    lose(key, got[2], got[5], got[4])
  else
    redis.call('HSET', call_key(key), 'replica', me, 'state', state == DISPATCHING and REGISTERED or state)
    own(key)
    notify(got[5], key) -- it may have been frozen only
  end
  return { key, row(key) }
end

-- `suspects`: calls that are this replica's here, and of which it knows nothing: the reply to an earlier claim was lost.
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
