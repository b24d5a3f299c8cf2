import { AllowEntryError, parseAllowEntry, type SandboxSpec } from '../../../src/contracts/index.ts';
import type { HarborConfig } from './config.ts';
import type { Notes } from './notes.ts';
import { parts } from './task-files.ts';

type Network = SandboxSpec['network'];
type Policy = Pick<HarborConfig['agent'], 'network_mode' | 'allowed_hosts'>;

function policyNetwork({ network_mode, allowed_hosts = [] }: Policy): Network {
  if (network_mode === 'no-network') return 'none';
  if (network_mode !== 'allowlist') return 'open';
  return allowed_hosts.length === 0 ? 'none' : { allow: [...new Set(allowed_hosts)] };
}

/** Whether all that `inner` lets through `outer` lets through. */
function covers(outer: Network, inner: Network): boolean {
  if (outer === 'open' || inner === 'none') return true;
  if (outer === 'none' || inner === 'open') return false;
  return inner.allow.every((host) => outer.allow.includes(host));
}

/**
 * What a sandbox may reach: what the agent may, since one sandbox has one network from its start to its end. Harbor's
 * default is the open one.
 */
export function networkOf({ environment, agent, verifier }: HarborConfig, notes: Notes): Network {
  for (const [name, policy] of Object.entries({ environment, agent, verifier })) {
    if (policy.allowed_hosts !== undefined && policy.network_mode !== 'allowlist') {
      notes.fault(parts.config, `${name}.allowed_hosts`, 'stands beside no network_mode = "allowlist"');
    }
    for (const [index, host] of (policy.allowed_hosts ?? []).entries()) {
      try {
        parseAllowEntry(host);
      } catch (error) {
        if (!(error instanceof AllowEntryError)) throw error;
        notes.fault(
          parts.config,
          `${name}.allowed_hosts.${index}`,
          `${JSON.stringify(host)} ${error.message}`,
        );
      }
    }
  }
  const baseline =
    environment.network_mode === undefined && environment.allow_internet !== undefined
      ? environment.allow_internet
        ? 'open'
        : 'none'
      : policyNetwork(environment);
  const forAgent = agent.network_mode === undefined ? baseline : policyNetwork(agent);
  const forVerifier = verifier.network_mode === undefined ? baseline : policyNetwork(verifier);
  if (!covers(forAgent, forVerifier)) {
    notes.fault(
      parts.config,
      verifier.network_mode === undefined ? 'agent.network_mode' : 'verifier.network_mode',
      'gives the verifier more of the network than the agent: a sandbox has one network from its start to its end',
    );
  } else if (!covers(forVerifier, forAgent)) {
    notes.warn(
      parts.config,
      verifier.network_mode === undefined ? 'agent.network_mode' : 'verifier.network_mode',
      'gives the verifier less of the network than the agent; it has the same here',
    );
  }
  return forAgent;
}
