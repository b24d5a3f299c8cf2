-- Closes an open group with the results there are; every other member is named as missing.
-- KEYS  1 run  2 group  3 open groups  4 closed groups  5 deliveries stream  6 groups stream
-- ARGV  1 group id  2 now (ms)  3 deliveries kept  4 base of episode keys  5 deadline of the batch (ms) or ''
-- Reply {'closed', id of the group's entry} | {'unknown'} | {'dup'} it was closed before
-- @include fill-slot
-- @include append-group
local g = redis.call('HMGET', KEYS[2], 'state', 'ids', 'ended')
if not g[2] then
  return { 'unknown' }
end
if g[1] == 'closed' then
  return { 'dup' }
end
local ended = g[3] or redis.call('HGET', KEYS[1], 'ended')
local missing, i = {}, 0
for id in string.gmatch(g[2], '[^,]+') do
  if redis.call('HEXISTS', KEYS[2], 'r' .. i) == 0 then
    local e = redis.call('HMGET', ARGV[4] .. id, 'state', 'attempts', 'ended')
    if e[1] == 'published' then
      fill_slot(KEYS[1], KEYS[2], ARGV[4] .. id, KEYS[5], ARGV[3])
    else
      if e[1] == 'running' then
        redis.call('HINCRBY', KEYS[1], 'running', -1)
      end
      if tonumber(e[2] or 0) == 0 and (e[3] or ended) then
        missing[i] = 'cancelled_before_start'
      elseif tonumber(e[2] or 0) == 0 and ARGV[5] ~= '' and tonumber(ARGV[2]) > tonumber(ARGV[5]) then
        missing[i] = 'expired'
      else
        missing[i] = 'late'
      end
    end
  end
  i = i + 1
end
return { 'closed', append_group(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6], ARGV[1], ARGV[4], ARGV[2], missing) }
