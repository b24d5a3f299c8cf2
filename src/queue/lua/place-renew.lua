-- Renews places. One that ran out, or that Redis lost, is there again: its holder has what it stands for.
-- KEYS  1 leases
-- ARGV  1 lease (ms)  2... tokens
-- Reply how many were not there
-- @include redis-now
local now = redis_now()
local back = 0
for i = 2, #ARGV do
  back = back + redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
return back
