-- Publishes one attempt's result: the first one of an episode wins, whoever it comes from. The loser's payload goes at
-- once, but never one without a TTL: that was published, perhaps by this same call before its reply was lost.
-- KEYS  1 run  2 group  3 episode  4 payload
-- ARGV  1 nonce of the attempt  2 summary (JSON)  3 status  4 reward or ''  5 sampled tokens  6 '1' when there is a payload
--       7 '1' lets a flag that ends the episode win over this result
-- Reply {'published'} (also when this attempt did it before) | {'dup'} another attempt was first | {'late'} the group is
--       closed | {'ended', reason} | {'no_payload'} the payload is not there
local ttl = ARGV[6] == '1' and redis.call('PTTL', KEYS[4]) or -2
local function lose(verdict, reason)
  if ttl >= 0 then
    redis.call('UNLINK', KEYS[4])
  end
  return { verdict, reason }
end
local state = redis.call('HMGET', KEYS[3], 'state', 'by', 'ended', 'group')
if not state[4] or redis.call('HGET', KEYS[2], 'state') == 'closed' then
  return ttl == -1 and { 'published' } or lose('late')
end
if state[1] == 'published' or state[1] == 'delivered' then
  return state[2] == ARGV[1] and { 'published' } or lose('dup')
end
if ARGV[7] == '1' then
  local ended = state[3] or redis.call('HGET', KEYS[2], 'ended') or redis.call('HGET', KEYS[1], 'ended')
  if ended then
    return lose('ended', ended)
  end
end
local payload = ''
if ARGV[6] == '1' then
  if ttl == -2 then
    return { 'no_payload' }
  end
  redis.call('PERSIST', KEYS[4])
  payload = KEYS[4]
end
if state[1] == 'running' then
  redis.call('HINCRBY', KEYS[1], 'running', -1)
end
redis.call('HINCRBY', KEYS[1], 'published', 1)
redis.call('HSET', KEYS[3], 'state', 'published', 'by', ARGV[1], 'summary', ARGV[2], 'status', ARGV[3], 'reward', ARGV[4],
  'tokens', ARGV[5], 'payload', payload)
return { 'published' }
