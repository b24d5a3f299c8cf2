-- Gives a place back, and takes an asker that waits no more out of the line. Names who is next.
-- KEYS  1 leases  2 line  3 seen
-- ARGV  1 channel  2 asker that leaves, or empty  3... tokens
-- Reply how many of the tokens held a place
-- @include redis-now
-- @include place-head
local freed = 0
for i = 3, #ARGV do
  freed = freed + redis.call('ZREM', KEYS[1], ARGV[i])
end
if ARGV[2] ~= '' then
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
end
local head = place_head(KEYS[2], KEYS[3], redis_now())
if head then
  redis.call('PUBLISH', ARGV[1], head)
end
return freed
