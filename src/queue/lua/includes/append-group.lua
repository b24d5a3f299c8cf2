-- Appends a group to its run's stream, with every slot filled or named in `missing` (index -> reason), and leaves a
-- tombstone: the episodes' hashes go, a late publish finds them gone.
local function append_group(run_key, group_key, open_key, closed_key, groups_key, group_id, episode_base, now, missing)
  local g = redis.call('HMGET', group_key, 'run', 'batch', 'task_key', 'generation', 'size', 'ids', 'superseded')
  local size = tonumber(g[5])
  local ids = {}
  for id in string.gmatch(g[6], '[^,]+') do
    ids[#ids + 1] = id
  end
  local results, lost, slots, gone, scored = {}, {}, {}, {}, 0
  for i = 0, size - 1 do
    local slot = redis.call('HMGET', group_key, 'r' .. i, 's' .. i)
    if slot[1] then
      results[#results + 1] = slot[1]
      slots[#slots + 1] = slot[2]
      if #slot[2] > 1 then
        scored = scored + 1
      end
      gone[#gone + 1] = 'r' .. i
      gone[#gone + 1] = 's' .. i
    else
      lost[#lost + 1] = '{"episode_id":"' .. ids[i + 1] .. '","sample_index":' .. i .. ',"reason":"' .. missing[i] .. '"}'
      slots[#slots + 1] = 'M'
      redis.call('HINCRBY', run_key, 'n:M', 1)
    end
    redis.call('DEL', episode_base .. ids[i + 1])
  end
  local entry = '{"schema":"rollpool.group/1","run_id":' .. cjson.encode(g[1])
    .. ',"batch_id":' .. cjson.encode(g[2])
    .. ',"group_id":' .. cjson.encode(group_id)
    .. ',"task_key":' .. cjson.encode(g[3])
    .. ',"generation":' .. g[4]
    .. ',"group_size":' .. size
    .. ',"results":[' .. table.concat(results, ',')
    .. '],"missing":[' .. table.concat(lost, ',')
    .. '],"superseded":' .. (g[7] or '[]')
    .. ',"delivered":' .. #results
    .. ',"scored":' .. scored
    .. ',"closed_at":' .. now .. '}'
  local at = redis.call('XADD', groups_key, '*', 'group', entry)
  if #gone > 0 then
    redis.call('HDEL', group_key, unpack(gone))
  end
  redis.call('HSET', group_key, 'state', 'closed', 'entry', at, 'slots', table.concat(slots, ','))
  redis.call('HINCRBY', run_key, 'closed_groups', 1)
  redis.call('SREM', open_key, group_id)
  redis.call('ZADD', closed_key, now, group_id)
  return at
end
