-- Who has waited longest of those that are heard of, or nil.
local function place_head(line, seen, now)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now)) do
    redis.call('ZREM', line, gone)
  end
  redis.call('ZREMRANGEBYSCORE', seen, '-inf', now)
  return redis.call('ZRANGE', line, 0, 0)[1]
end
