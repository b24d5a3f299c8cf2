-- Gives a claimed episode back to the queue: after an infra failure below the cap, or at hand-off.
-- KEYS  1 run  2 episode
-- ARGV  1 nonce of the attempt  2 '1' counts the attempt, '0' takes it back  3 failure (JSON) or ''
-- Reply 'released' | 'settled' it has a result | 'not_mine' another attempt has claimed it, or it was released before
local e = redis.call('HMGET', KEYS[2], 'state', 'nonce')
if e[1] == 'published' or e[1] == 'delivered' then
  return 'settled'
end
if e[1] ~= 'running' or e[2] ~= ARGV[1] then
  return 'not_mine'
end
redis.call('HSET', KEYS[2], 'state', 'queued')
redis.call('HINCRBY', KEYS[1], 'running', -1)
if ARGV[2] == '1' then
  redis.call('HINCRBY', KEYS[1], 'retries', 1)
  if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[2], 'last_failure', ARGV[3])
  end
else
  redis.call('HINCRBY', KEYS[2], 'attempts', -1)
end
return 'released'
