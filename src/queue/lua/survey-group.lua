-- What is known of a group's members and of their jobs, for repair. Changes nothing.
-- KEYS  1 group  2 run
-- ARGV  1 base of episode keys  2 base of a lane's job keys with * for the lane  3 base of result job keys
-- Reply {} when the group is unknown or closed, else {run, batch, task_key, task_ref, lane, size, generation, reason that
--       ended group or run or '', then one a member: 'id sample state attempts ended job result'}, where job and result are
--       0 (no such job), 1 (there is one) or 2 (one that finished), and '-' stands for nothing. Filled slots are left out.
local g = redis.call('HMGET', KEYS[1], 'run', 'batch', 'task_key', 'task_ref', 'lane', 'size', 'generation', 'ids', 'state',
  'ended')
if not g[1] or g[9] == 'closed' then
  return {}
end
local lane = string.gsub(ARGV[2], '%*', (string.gsub(g[5], '%%', '%%%%')))
local function job(key)
  if redis.call('EXISTS', key) == 0 then
    return 0
  end
  return redis.call('HEXISTS', key, 'finishedOn') == 1 and 2 or 1
end
local reply = { g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[10] or redis.call('HGET', KEYS[2], 'ended') or '' }
local i = 0
for id in string.gmatch(g[8], '[^,]+') do
  if redis.call('HEXISTS', KEYS[1], 'r' .. i) == 0 then
    local e = redis.call('HMGET', ARGV[1] .. id, 'state', 'attempts', 'ended')
    reply[#reply + 1] = table.concat({ id, i, e[1] or 'queued', e[2] or 0, e[3] or '-', job(lane .. id), job(ARGV[3] .. id) }, ' ')
  end
  i = i + 1
end
return reply
