-- A place has become free: ends the gate's own pause, so that the next one tries now. What the provider asked for stands.
-- A refusal that is told only afterwards may be older than the place: it closes nothing then.
-- KEYS  1 gate
-- Reply 1 the pause was ended | 0
-- @include redis-now
local now = redis_now()
local g = redis.call('HMGET', KEYS[1], 'until', 'asked')
if not g[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'freed_at', now)
if g[2] == '1' or now >= tonumber(g[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'until', now)
return 1
