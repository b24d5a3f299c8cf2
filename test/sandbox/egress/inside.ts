import { expect } from 'vitest';
import type { Sandbox, SandboxUser } from '../../../src/sandbox/index.ts';

/** Runs a script of python's and gives what it printed. */
export async function python(
  sandbox: Sandbox,
  script: string,
  args: readonly string[] = [],
  user: SandboxUser = 'agent',
): Promise<string> {
  const found = await sandbox.exec(['python3', '-c', script, ...args], { user, timeout_ms: 60_000 });
  expect(found.stderr).toBe('');
  return found.stdout.trim();
}

const getUrls = `
import ssl, sys, urllib.request, urllib.error
try:
    context = ssl.create_default_context(cafile="trusted.pem")
except FileNotFoundError:
    context = None
for url in sys.argv[1:]:
    try:
        with urllib.request.urlopen(url, timeout=20, context=context) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print("failed", error)
`;

/**
 * What python's own library gets of URLs: status and body, or the words of the error, in one line each. It trusts the
 * certificate in trusted.pem, where there is one.
 */
export async function get(
  sandbox: Sandbox,
  urls: readonly string[],
  user: SandboxUser = 'agent',
): Promise<string[]> {
  return (await python(sandbox, getUrls, urls, user)).split('\n');
}

const direct = `
import socket, sys
port = int(sys.argv[1])
words = {101: "no-network", 99: "no-network", 1: "not-permitted"}
def attempt(host, name, kind, work):
    try:
        with socket.socket(*kind) as s:
            s.settimeout(3)
            work(s)
        print(host, name, "reached")
    except OSError as error:
        print(host, name, words.get(error.errno, error))
for host in sys.argv[2:]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    proto = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    attempt(host, "tcp", (family, socket.SOCK_STREAM), lambda s: s.connect((host, port)))
    attempt(host, "udp", (family, socket.SOCK_DGRAM), lambda s: s.sendto(b"x", (host, port)))
    attempt(host, "icmp", (family, socket.SOCK_RAW, proto), lambda s: s.sendto(b"\\x08" + bytes(7), (host, 0)))
    attempt(host, "packet", (socket.AF_PACKET, socket.SOCK_RAW), lambda s: s.bind(("lo", 0)))
`;

/** Tries to reach hosts by every way but a proxy; one line for each host and way, with what came of it. */
export async function waysOut(sandbox: Sandbox, hosts: readonly string[], port: number): Promise<string[]> {
  return (await python(sandbox, direct, [String(port), ...hosts])).split('\n');
}

/** What `waysOut` gives where there is none. */
export function noWayOut(hosts: readonly string[]): string[] {
  return hosts.flatMap((host) => [
    `${host} tcp no-network`,
    `${host} udp no-network`,
    `${host} icmp not-permitted`,
    `${host} packet not-permitted`,
  ]);
}

/** A public address, those of clouds' metadata services, the machine by Docker's bridge; both families. */
export const farHosts = ['1.1.1.1', '169.254.169.254', '172.17.0.1', '2606:4700::1111', 'fd00:ec2::254'];

/** Names of the network interfaces. */
export const interfaces = `
import os
print(" ".join(sorted(os.listdir("/sys/class/net"))))`;

/** Whether a name can be looked up. */
export const lookUp = `
import socket, sys
try:
    socket.getaddrinfo(sys.argv[1], 443)
    print("found")
except socket.gaierror:
    print("not-found")
`;

/** Whether a Unix socket with a name and no file can be connected to. */
export const abstractSocket = `
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
    try:
        s.connect("\\0" + sys.argv[1])
        print("reached")
    except OSError as error:
        print(type(error).__name__)
`;
