-- Changes what the pool knows of the policy, and tells every listener. A version set while the policy is not paused is
-- counted, for all replicas or for the one it is of, so that their calls in flight can be marked as uncertain. A request
-- to end calls in flight is counted too, so that a listener that missed the pause ends them all the same.
-- KEYS  1 policy
-- ARGV  1 now (ms)  2 version or ''  3 '1' paused, '0' not, '' as it was  4 replica the version is of, or '' for all
--       5 control channel  6 '1' to end calls in flight
-- Reply the state (JSON)
local text = redis.call('GET', KEYS[1])
local s = text and cjson.decode(text)
  or { schema = 1, revision = 0, version = cjson.null, replicas = {}, paused = false, unpaused_changes = 0 }
-- What a record of an earlier release lacks.
s.unpaused_by_replica = s.unpaused_by_replica or {}
s.cuts = s.cuts or 0
s.revision = s.revision + 1
s.updated_at = tonumber(ARGV[1])
if ARGV[2] ~= '' then
  local version = tonumber(ARGV[2])
  local replica = ARGV[4]
  if replica == '' then
    if not s.paused and (s.version ~= version or next(s.replicas) ~= nil) then
      s.unpaused_changes = s.unpaused_changes + 1
    end
    s.version = version
    s.replicas = {}
  else
    if not s.paused and (s.replicas[replica] or s.version) ~= version then
      s.unpaused_by_replica[replica] = (s.unpaused_by_replica[replica] or 0) + 1
    end
    s.replicas[replica] = version
  end
end
if ARGV[3] ~= '' then
  s.paused = ARGV[3] == '1'
end
if ARGV[6] == '1' then
  s.cuts = s.cuts + 1
end
text = cjson.encode(s)
redis.call('SET', KEYS[1], text)
redis.call('PUBLISH', ARGV[5], '{"type":"policy","state":' .. text .. '}')
return text
