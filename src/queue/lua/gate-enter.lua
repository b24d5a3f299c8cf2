-- Asks to try a creation. No gate: free passage. Until its pause is over: nobody. Then one at a time, until enough have
-- passed, or for a while none was refused of those that ended. A lease that is not given back ends by itself.
-- KEYS  1 gate
-- ARGV  1 token of this asking  2 lease (ms)  3 quiet time that opens (ms)  4 longest wait behind a lease (ms)
-- Reply {'open', now (ms)} | {'lease', now (ms)} the token holds the one place | {'wait', ms until asking again}
-- @include redis-now
local now = redis_now()
local g = redis.call('HMGET', KEYS[1], 'until', 'ended', 'lease', 'lease_until')
if not g[1] then
  return { 'open', now }
end
local paused_until = tonumber(g[1])
if now < paused_until then
  return { 'wait', paused_until - now }
end
if tonumber(g[2]) > 0 and now >= paused_until + tonumber(ARGV[3]) then
  redis.call('DEL', KEYS[1])
  return { 'open', now }
end
if g[3] and g[3] ~= ARGV[1] and now < tonumber(g[4]) then
  return { 'wait', math.min(tonumber(g[4]) - now, tonumber(ARGV[4])) }
end
redis.call('HSET', KEYS[1], 'lease', ARGV[1], 'lease_until', now + ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2] + ARGV[3])
return { 'lease', now }
