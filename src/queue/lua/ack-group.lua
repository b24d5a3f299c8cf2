-- Acknowledges one closed group for one reader. When that was the last registered reader, frees the group's payloads.
-- Readers are the consumer groups of the stream. Of a group that a newer generation took over, only the payloads of
-- superseded results are freed: the others are in the newer group as well, and go with it.
-- KEYS  1 groups stream  2 group of generation 0  3 group of the next generation
-- ARGV  1 reader  2 entry id  3 generation  4.. results, two each: episode id, name of its payload
-- Reply {entries acknowledged now, payloads freed}
local acked = redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local ms, seq = parts(ARGV[2])
for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local reader = {}
  for i = 1, #info, 2 do
    reader[info[i]] = info[i + 1]
  end
  local last_ms, last_seq = parts(reader['last-delivered-id'])
  if last_ms < ms or (last_ms == ms and last_seq < seq) then
    return { acked, 0 }
  end
  if #redis.call('XPENDING', KEYS[1], reader['name'], ARGV[2], ARGV[2], 1) > 0 then
    return { acked, 0 }
  end
end
local superseded
if tonumber(redis.call('HGET', KEYS[2], 'latest') or 0) > tonumber(ARGV[3]) then
  superseded = {}
  for _, id in ipairs(cjson.decode(redis.call('HGET', KEYS[3], 'superseded') or '[]')) do
    superseded[id] = true
  end
end
local freed = 0
for i = 4, #ARGV, 2 do
  if not superseded or superseded[ARGV[i]] then
    freed = freed + redis.call('UNLINK', ARGV[i + 1])
  end
end
return { acked, freed }
