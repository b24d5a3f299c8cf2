-- Asks for a place, for one process of those that wait. Who has waited longest gets it; one that could have it and does not
-- come for it within the grace time goes to the end of the line. The same token again is the same place. Ages are
-- durations, so that no clock but that of Redis matters.
-- KEYS  1 leases: ZSET token -> end  2 line: ZSET asker -> since when it waits  3 seen: ZSET asker -> believed to wait until
--       4 pace: HASH
-- ARGV  1 token  2 asker  3 how long its oldest waits (ms)  4 how long its next waits (ms), -1: there is none
--       5 lease (ms)  6 places, 0: any number  7 time between two (ms), 0: none  8 how long an asker is believed (ms)
--       9 grace (ms)  10 longest wait (ms)  11 channel
-- Reply {1, 0} the token holds a place | {0, ms until asking again}
-- @include redis-now
-- @include place-head
local now = redis_now()
local asker, lease_ms, places = ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6])
local longest = tonumber(ARGV[10])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return { 1, 0 }
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[2], now - ARGV[3], asker)
redis.call('ZADD', KEYS[3], now + ARGV[8], asker)
for _, key in ipairs({ KEYS[2], KEYS[3] }) do
  redis.call('PEXPIRE', key, ARGV[8] * 2)
end

local function is_free()
  return places == 0 or redis.call('ZCARD', KEYS[1]) < places
end
if not is_free() then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return { 0, math.max(1, math.min(tonumber(first[2]) - now, longest)) }
end
local time = redis.call('TIME')
local exact = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local next_at = tonumber(redis.call('HGET', KEYS[4], 'next_at') or 0)
local pause = math.max(0, next_at - exact)

local head = place_head(KEYS[2], KEYS[3], now)
if head ~= asker then
  local offer = redis.call('HMGET', KEYS[4], 'offered', 'offered_until')
  if offer[1] == head and now >= tonumber(offer[2]) then
    redis.call('ZADD', KEYS[2], now, head)
    redis.call('HDEL', KEYS[4], 'offered', 'offered_until')
    head = place_head(KEYS[2], KEYS[3], now)
  elseif offer[1] ~= head then
    redis.call('HSET', KEYS[4], 'offered', head, 'offered_until', now + math.ceil(pause) + ARGV[9])
    redis.call('PEXPIRE', KEYS[4], lease_ms * 2)
    redis.call('PUBLISH', ARGV[11], head)
  end
end
if head ~= asker then
  return { 0, math.min(tonumber(ARGV[9]) + math.ceil(pause), longest) }
end
if pause > 0 then
  return { 0, math.min(math.ceil(pause), longest) }
end

redis.call('ZADD', KEYS[1], now + lease_ms, ARGV[1])
redis.call('PEXPIRE', KEYS[1], lease_ms * 2)
redis.call('HDEL', KEYS[4], 'offered', 'offered_until')
if tonumber(ARGV[7]) > 0 then
  redis.call('HSET', KEYS[4], 'next_at', string.format('%.3f', exact + ARGV[7]))
  redis.call('PEXPIRE', KEYS[4], lease_ms * 2)
end
if tonumber(ARGV[4]) >= 0 then
  redis.call('ZADD', KEYS[2], now - ARGV[4], asker)
else
  redis.call('ZREM', KEYS[2], asker)
  redis.call('ZREM', KEYS[3], asker)
end
local after = place_head(KEYS[2], KEYS[3], now)
if after and after ~= asker and is_free() then
  redis.call('PUBLISH', ARGV[11], after)
end
return { 1, 0 }
