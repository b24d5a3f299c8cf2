import { Command, Option } from 'commander';
import { createLogger } from '../observe/index.ts';
import { loadScripts, startScriptedPolicy, type CallFormat, type TemplateName } from '../policy/index.ts';
import { integer, settingsOf, wholeNumber, withSettings } from './options.ts';
import { aborted, listenForShutdown } from './shutdown.ts';

interface PolicyFlags extends Record<string, unknown> {
  readonly scripts: string;
  readonly port: number;
  readonly host: string;
  readonly engine: 'vllm' | 'sglang';
  readonly template: TemplateName;
  readonly callFormat: CallFormat;
  readonly seed?: number;
  readonly latencyMs: number;
  readonly tokenMs: number;
  readonly maxModelLen: number;
  readonly logprobsMode: 'processed' | 'raw';
  readonly samplesLog?: string;
  readonly json?: boolean;
}

export function policyCommand(): Command {
  return withSettings(new Command('policy'), 'logLevel')
    .description(
      "serve a scripted policy over vLLM's or SGLang's wire, for demos and tests without a GPU (docs/policy.md)",
    )
    .requiredOption('--scripts <file>', 'JSON file of the scripts it plays (docs/policy.md)')
    .option('--model <name>', 'model name it serves (default: ROLLPOOL_MODEL, else scripted)')
    .option('--port <n>', '0 takes a free one', wholeNumber(0, 65_535), 0)
    .option('--host <address>', 'where it listens', '127.0.0.1')
    .addOption(
      new Option('--engine <name>', 'whose wire it speaks').choices(['vllm', 'sglang']).default('vllm'),
    )
    .addOption(
      new Option('--template <name>', 'chat template').choices(['plain', 'hostile']).default('plain'),
    )
    .addOption(
      new Option('--call-format <name>', 'how it writes tool calls')
        .choices(['line', 'hermes'])
        .default('line'),
    )
    .option('--seed <n>', 'makes what it samples repeatable', integer)
    .option('--latency-ms <n>', 'before an answer begins', wholeNumber(0), 0)
    .option('--token-ms <n>', 'for each sampled token', wholeNumber(0), 0)
    .option('--max-model-len <n>', 'tokens of prompt and answer together', wholeNumber(1), 32_768)
    .addOption(
      new Option('--logprobs-mode <mode>', 'which logprobs it reports')
        .choices(['processed', 'raw'])
        .default('processed'),
    )
    .option('--samples-log <file>', 'append every sampled call as a JSON line')
    .option('--json', 'say where it listens as one JSON object')
    .action(async (flags: PolicyFlags) => {
      const settings = settingsOf(flags);
      using shutdown = listenForShutdown();
      const scripts = await loadScripts(flags.scripts);
      await using policy = await startScriptedPolicy({
        scripts,
        port: flags.port,
        host: flags.host,
        engine: flags.engine,
        template: flags.template,
        callFormat: flags.callFormat,
        latencyMs: flags.latencyMs,
        tokenMs: flags.tokenMs,
        maxModelLen: flags.maxModelLen,
        logprobsMode: flags.logprobsMode,
        log: createLogger({ level: settings.logLevel }),
        ...(settings.policy.model === null ? {} : { model: settings.policy.model }),
        ...(settings.policy.apiKey === null ? {} : { apiKey: settings.policy.apiKey }),
        ...(flags.seed === undefined ? {} : { seed: flags.seed }),
        ...(flags.samplesLog === undefined ? {} : { samplesLog: flags.samplesLog }),
      });
      process.stdout.write(
        flags.json === true
          ? `${JSON.stringify({ url: policy.url, model: policy.model })}\n`
          : `${policy.url}\n`,
      );
      await aborted(shutdown.graceful);
    });
}
