-- Creates a run, or tells what it was created with.
-- KEYS  1 run  2 runs
-- ARGV  1 run id  2 now (ms)  3 settings (JSON)  4 '1' opens a closed or cancelled run again
-- Reply {'created'} | {'exists', settings, '1' when closed, '1' when ended}; the flags are those before reopening
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'schema', 1, 'settings', ARGV[3], 'created_at', ARGV[2])
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
  return { 'created' }
end
local r = redis.call('HMGET', KEYS[1], 'settings', 'closed_at', 'ended')
if ARGV[4] == '1' and r[1] == ARGV[3] then
  redis.call('HDEL', KEYS[1], 'closed_at', 'ended')
end
return { 'exists', r[1], r[2] and '1' or '', r[3] and '1' or '' }
