-- @include count-result
local letters = { completed = 'C', truncated = 'T', failed = 'F', cancelled = 'X' }

-- Puts one member into its slot of an open group.
local function put_member(run_key, group_key, index, letter, reward, tokens, member)
  redis.call('HSET', group_key, 'r' .. index, member, 's' .. index, letter .. reward)
  redis.call('HINCRBY', group_key, 'filled', 1)
  redis.call('HINCRBY', group_key, 'tokens', tonumber(tokens))
  count_result(run_key, letter, reward, tokens, 1)
end

-- published -> delivered: the slot is filled and followers are told.
local function fill_slot(run_key, group_key, episode_key, deliveries_key, kept)
  local e = redis.call('HMGET', episode_key, 'sample', 'summary', 'payload', 'status', 'reward', 'tokens')
  local payload = e[3] and e[3] ~= '' and cjson.encode(e[3]) or 'null'
  local member = '{"summary":' .. e[2] .. ',"payload":' .. payload .. '}'
  put_member(run_key, group_key, e[1], letters[e[4]], e[5], e[6], member)
  redis.call('HSET', episode_key, 'state', 'delivered')
  redis.call('HDEL', episode_key, 'summary')
  redis.call('HINCRBY', run_key, 'published', -1)
  redis.call('XADD', deliveries_key, 'MAXLEN', '~', kept, '*', 'result', member)
end
