-- Changes what the pool knows of the policy, and tells every listener. A version set while the policy is not paused is
-- counted, so that calls in flight can be marked as uncertain.
-- KEYS  1 policy
-- ARGV  1 now (ms)  2 version or ''  3 '1' paused, '0' not, '' as it was  4 replica the version is of, or '' for all
--       5 control channel
-- Reply the state (JSON)
local text = redis.call('GET', KEYS[1])
local s = text and cjson.decode(text)
  or { schema = 1, revision = 0, version = cjson.null, replicas = {}, paused = false, unpaused_changes = 0 }
s.revision = s.revision + 1
s.updated_at = tonumber(ARGV[1])
if ARGV[2] ~= '' then
  local version = tonumber(ARGV[2])
  local changed
  if ARGV[4] == '' then
    changed = s.version ~= version or next(s.replicas) ~= nil
    s.version = version
    s.replicas = {}
  else
    changed = (s.replicas[ARGV[4]] or s.version) ~= version
    s.replicas[ARGV[4]] = version
  end
  if changed and not s.paused then
    s.unpaused_changes = s.unpaused_changes + 1
  end
end
if ARGV[3] ~= '' then
  s.paused = ARGV[3] == '1'
end
text = cjson.encode(s)
redis.call('SET', KEYS[1], text)
redis.call('PUBLISH', ARGV[5], '{"type":"policy","state":' .. text .. '}')
return text
