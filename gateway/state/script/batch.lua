-- Carries out the operations, in order.

local replies = {}
for i, asked in ipairs(cmsgpack.unpack(ARGV[2])) do
  local ok, reply = pcall(operations[asked[1]], unpack(asked, 2))
  if not ok then
    reply = { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
    -- A primary that became a replica, or a server that refuses writes. Nothing of the batch has been written. To a
    -- replica without a lease it is as good as away.
    local refused = asked[1] == 'beat' or asked[1] == 'greet' or string.find(reply[2], 'READONLY', 1, true)
    if refused then return redis.error_reply(reply[2]) end
    if asked[1] == 'begin' and string.find(reply[2], 'OOM', 1, true) then reply = NO_ROOM end
  end
  replies[i] = reply
end
for name, ttl in pairs(lasting) do redis.call('PEXPIRE', name, ttl) end
return replies
