-- Creates a batch in an open run, or tells what it was created with.
-- KEYS  1 run  2 batch  3 batches of the run
-- ARGV  1 batch id  2 now (ms)  3 settings (JSON)
-- Reply {'created', settings} | {'exists', settings} | {'unknown'} | {'closed'} | {'ended'}
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'unknown' }
end
local r = redis.call('HMGET', KEYS[1], 'closed_at', 'ended')
if r[1] then
  return { 'closed' }
end
if r[2] then
  return { 'ended' }
end
if redis.call('HSETNX', KEYS[2], 'settings', ARGV[3]) == 1 then
  redis.call('HSET', KEYS[2], 'created_at', ARGV[2])
  redis.call('SADD', KEYS[3], ARGV[1])
  return { 'created', ARGV[3] }
end
return { 'exists', redis.call('HGET', KEYS[2], 'settings') }
