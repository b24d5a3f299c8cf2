-- Gives a lease back, for a creation that ended in another way than passed or refused.
-- KEYS  1 gate
-- ARGV  1 token of the asking
-- Reply 1 | 0 it had none, or not any more
if redis.call('HGET', KEYS[1], 'lease') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'lease', 'lease_until')
  redis.call('HINCRBY', KEYS[1], 'ended', 1)
  return 1
end
return 0
