-- Decides what a worker does with an episode job it took, and counts the attempt when it is to run.
-- KEYS  1 run  2 group  3 episode  4 parked jobs of the run
-- ARGV  1 now (ms)  2 nonce of this attempt  3 worker  4 deadline (ms) or ''  5 most attempts  6 member for `parked`
-- Reply {'run', attempt} | {'published', attempts} | {'end', attempts} | {'paused', attempts}
--       | {'ended', attempts, reason: cancelled, stale or expired} | {'exhausted', attempts, last failure (JSON) or ''}
if redis.call('EXISTS', KEYS[3]) == 0 then
  return { 'end', 0 }
end
local e = redis.call('HMGET', KEYS[3], 'state', 'attempts', 'nonce', 'ended', 'last_failure')
local attempts = tonumber(e[2] or 0)
if e[1] == 'delivered' then
  return { 'end', attempts }
end
if e[1] == 'published' then
  return { 'published', attempts }
end
local g = redis.call('HMGET', KEYS[2], 'state', 'ended')
if g[1] == 'closed' then
  return { 'end', attempts }
end
if e[1] == 'running' and e[3] == ARGV[2] then
  return { 'run', attempts } -- the connection broke and the call was sent again
end
local r = redis.call('HMGET', KEYS[1], 'ended', 'paused_at')
local ended = e[4] or g[2] or r[1]
if ended then
  return { 'ended', attempts, ended }
end
if ARGV[4] ~= '' and tonumber(ARGV[1]) > tonumber(ARGV[4]) then
  return { 'ended', attempts, 'expired' }
end
if r[2] then
  redis.call('SADD', KEYS[4], ARGV[6])
  return { 'paused', attempts }
end
if attempts >= tonumber(ARGV[5]) then
  return { 'exhausted', attempts, e[5] or '' }
end
redis.call('SREM', KEYS[4], ARGV[6])
if e[1] ~= 'running' then
  redis.call('HINCRBY', KEYS[1], 'running', 1)
end
redis.call('HSET', KEYS[3], 'state', 'running', 'attempts', attempts + 1, 'nonce', ARGV[2], 'worker', ARGV[3], 'started_at',
  ARGV[1])
return { 'run', attempts + 1 }
