-- A creation was refused: closes the gate for everybody, for as long as the provider asked or else for a pause that
-- doubles. Creations that were under way together are refused together: only the first of them doubles the pause.
-- KEYS  1 gate
-- ARGV  1 token of the asking  2 when it entered (ms)  3 pause that was asked for (ms) or ''  4 first pause (ms)
--       5 longest pause (ms)  6 factor that spreads the pause  7 how long the gate is remembered after the pause (ms)
-- Reply ms until it may be tried again; 0: at once
-- @include redis-now
local now = redis_now()
local g = redis.call('HMGET', KEYS[1], 'until', 'refused_at', 'streak', 'lease', 'freed_at')
if g[4] and g[4] == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'lease', 'lease_until')
end
local asked = tonumber(ARGV[3])
local paused_until = tonumber(g[1] or 0)
if g[2] and tonumber(ARGV[2]) <= tonumber(g[2]) then
  if asked and now + asked > paused_until then
    paused_until = now + asked
    redis.call('HSET', KEYS[1], 'until', paused_until, 'asked', 1)
    redis.call('PEXPIRE', KEYS[1], asked + ARGV[7])
  end
  return math.max(0, paused_until - now)
end
local streak = tonumber(g[3] or 0) + 1
local pause = asked or math.floor(math.min(tonumber(ARGV[5]), ARGV[4] * 2 ^ math.min(streak - 1, 30) * ARGV[6]))
if not asked and g[5] and tonumber(ARGV[2]) <= tonumber(g[5]) then
  pause = 0
end
paused_until = math.max(paused_until, now + pause)
redis.call('HSET', KEYS[1], 'until', paused_until, 'refused_at', now, 'streak', streak, 'passes', 0, 'ended', 0, 'asked', asked and 1 or 0)
redis.call('PEXPIRE', KEYS[1], paused_until - now + ARGV[7])
return paused_until - now
