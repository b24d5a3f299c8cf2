-- The fence that makes adding a group idempotent: creates the group and its episodes as queued, or tells what is there.
-- The jobs follow in a second step; whoever finds a queued episode without a job adds it.
-- KEYS  1 run  2 group  3 open groups of the run  4 group of generation 0  5 group of the generation before
-- ARGV  1 now (ms)  2 base of episode keys  3 group id  4 episode ids, by sample, separated by commas  5 run id
--       6 batch id  7 task key  8 task ref  9 lane  10 generation  11 superseded episode ids (JSON)
--       12.. carried members, five each: sample, status letter, reward or '', sampled tokens, member (JSON)
-- Reply {'new'} | {'known', task ref, group size, newest generation, 'closed' or '', entry of the newest, slots}
-- @include fill-slot
if redis.call('EXISTS', KEYS[2]) == 1 then
  local g = redis.call('HMGET', KEYS[2], 'task_ref', 'size', 'latest', 'state', 'entry', 'slots')
  return { 'known', g[1], g[2], g[3] or ARGV[10], g[4] or '', g[5] or '', g[6] or '' }
end
local ids = {}
for id in string.gmatch(ARGV[4], '[^,]+') do
  ids[#ids + 1] = id
end
redis.call('HSET', KEYS[2], 'run', ARGV[5], 'batch', ARGV[6], 'task_key', ARGV[7], 'task_ref', ARGV[8], 'lane', ARGV[9],
  'generation', ARGV[10], 'size', #ids, 'ids', ARGV[4], 'queued_at', ARGV[1])
redis.call('SADD', KEYS[3], ARGV[3])
if ARGV[10] == '0' then
  redis.call('HINCRBY', KEYS[1], 'groups', 1)
  redis.call('HINCRBY', KEYS[1], 'episodes', #ids)
else
  -- The counters of a run speak of the newest generation only: what the old group gave is taken back.
  redis.call('HSET', KEYS[4], 'latest', ARGV[10])
  redis.call('HSET', KEYS[2], 'superseded', ARGV[11])
  local old = redis.call('HMGET', KEYS[5], 'slots', 'tokens')
  for slot in string.gmatch(old[1], '[^,]+') do
    count_result(KEYS[1], string.sub(slot, 1, 1), string.sub(slot, 2), 0, -1)
  end
  redis.call('HINCRBY', KEYS[1], 'sampled_tokens', string.format('%d', -tonumber(old[2] or 0)))
  redis.call('HINCRBY', KEYS[1], 'closed_groups', -1)
end
local carried = {}
for a = 12, #ARGV, 5 do
  carried[tonumber(ARGV[a])] = true
  put_member(KEYS[1], KEYS[2], ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
end
for i, id in ipairs(ids) do
  if not carried[i - 1] then
    redis.call('HSET', ARGV[2] .. id, 'group', ARGV[3], 'sample', i - 1)
  end
end
return { 'new' }
