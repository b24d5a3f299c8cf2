-- Adds (sign 1) or takes back (sign -1) one result in a run's counters. reward '' is null.
local function count_result(run_key, letter, reward, tokens, sign)
  redis.call('HINCRBY', run_key, 'n:' .. letter, sign)
  if letter == 'M' then
    return
  end
  redis.call('HINCRBY', run_key, 'delivered', sign)
  if reward ~= '' then
    redis.call('HINCRBY', run_key, 'scored', sign)
    redis.call('HINCRBYFLOAT', run_key, 'reward_sum', sign == 1 and reward or string.format('%.17g', -tonumber(reward)))
  end
  redis.call('HINCRBY', run_key, 'sampled_tokens', string.format('%d', sign * tonumber(tokens)))
end
