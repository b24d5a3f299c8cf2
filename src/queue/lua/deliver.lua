-- published -> delivered: fills the slot, tells followers, and closes the group with its last slot.
-- KEYS  1 run  2 group  3 episode  4 open groups  5 closed groups  6 deliveries stream  7 groups stream
-- ARGV  1 group id  2 now (ms)  3 deliveries kept  4 base of episode keys
-- Reply {'delivered'} | {'closed', id of the group's entry} | {'dup'} it was delivered before | {'unpublished'}
-- @include fill-slot
-- @include append-group
local e = redis.call('HMGET', KEYS[3], 'state', 'group')
if not e[2] or e[1] == 'delivered' then
  return { 'dup' }
end
if e[1] ~= 'published' then
  return { 'unpublished' }
end
fill_slot(KEYS[1], KEYS[2], KEYS[3], KEYS[6], ARGV[3])
local g = redis.call('HMGET', KEYS[2], 'filled', 'size')
if tonumber(g[1]) < tonumber(g[2]) then
  return { 'delivered' }
end
return { 'closed', append_group(KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[7], ARGV[1], ARGV[4], ARGV[2], {}) }
