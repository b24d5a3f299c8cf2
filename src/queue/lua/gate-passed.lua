-- A creation succeeded: gives its lease back, takes one doubling off the next pause, and opens the gate when enough have
-- passed in a row. One that entered before the last refusal says nothing of what came after it.
-- KEYS  1 gate
-- ARGV  1 token of the asking  2 when it entered (ms)  3 passes in a row that open
-- Reply 'open' | 'half_open' | 'old'
local g = redis.call('HMGET', KEYS[1], 'refused_at', 'lease', 'passes', 'streak')
if not g[1] then
  return 'open'
end
if g[2] == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'lease', 'lease_until')
end
if tonumber(ARGV[2]) <= tonumber(g[1]) then
  return 'old'
end
local passes = tonumber(g[3]) + 1
if passes >= tonumber(ARGV[3]) then
  redis.call('DEL', KEYS[1])
  return 'open'
end
redis.call('HINCRBY', KEYS[1], 'ended', 1)
redis.call('HSET', KEYS[1], 'passes', passes, 'streak', math.max(0, tonumber(g[4]) - 1))
return 'half_open'
