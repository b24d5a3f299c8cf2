import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Role } from '../../contracts/index.ts';
import type { ChatRequest } from '../chat.ts';

export interface Client {
  readonly agent_id: string;
  readonly role: Role;
  readonly foreign: boolean;
  /** An agent of the CLI: it sends the same body twice only as a retry. Its side calls (a web search) may repeat. */
  readonly isCli: boolean;
}

function header(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}

const digest = (value: unknown): string =>
  createHash('sha256')
    .update(JSON.stringify(value) ?? '')
    .digest('base64');

interface Face {
  readonly path: string;
  readonly userAgent: string;
  readonly hasSession: boolean;
}

/**
 * Tells a session's clients apart (facts: claude-code 1). The agent's own client is the one that called first. What
 * comes later with other headers, or, claiming to be the CLI's main agent, with another system prompt and other tools,
 * is something the agent started: it is served and kept apart.
 */
export class Clients {
  #first: Face | null = null;
  #main: { readonly system: string | null; readonly tools: string } | null = null;

  identify(headers: IncomingHttpHeaders, path: string, request: ChatRequest): Client {
    const face: Face = {
      path,
      userAgent: header(headers, 'user-agent'),
      hasSession: header(headers, 'x-claude-code-session-id') !== '',
    };
    const isCli = face.userAgent.startsWith('claude-cli/') && face.hasSession;
    const first = (this.#first ??= face);
    const role = roleOf(headers);
    const foreign =
      face.path !== first.path ||
      face.userAgent !== first.userAgent ||
      face.hasSession !== first.hasSession ||
      (isCli && role === 'main' && !this.#looksLikeMain(request));
    if (foreign) return { agent_id: 'foreign', role: 'auxiliary', foreign: true, isCli: false };
    return {
      agent_id: header(headers, 'x-claude-code-agent-id') || 'main',
      role,
      foreign: false,
      isCli: isCli && role !== 'auxiliary',
    };
  }

  #looksLikeMain(request: ChatRequest): boolean {
    const lead = request.messages[0];
    const system = lead?.role === 'system' ? lead.content : null;
    this.#main ??= { system, tools: digest(request.tools ?? null) };
    // The text stands in the session's history anyway; tools are looked at only where it differs.
    return this.#main.system === system || this.#main.tools === digest(request.tools ?? null);
  }
}

/** The CLI's hint headers; without them a call with an agent id is a subagent's. */
function roleOf(headers: IncomingHttpHeaders): Role {
  const hint = header(headers, 'x-claude-code-request-class');
  if (hint === 'main' || hint === 'subagent' || hint === 'auxiliary') return hint;
  return header(headers, 'x-claude-code-agent-id') === '' ? 'main' : 'subagent';
}
