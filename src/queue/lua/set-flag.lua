-- Sets or clears one flag of a run, a group or an episode that exists and is not over.
-- KEYS  1 run, group or episode
-- ARGV  1 field  2 value, or '' to clear it
-- Reply 1 | 0 there is no such thing, or it is closed, or has its result
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local state = redis.call('HGET', KEYS[1], 'state')
if state == 'closed' or state == 'published' or state == 'delivered' then
  return 0
end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
end
return 1
