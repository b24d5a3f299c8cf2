import { execFileSync } from 'node:child_process';

/** Runs a Python script with the value as JSON on its standard input; what it prints is JSON too. */
export function askPython(script: string, input: unknown): unknown {
  const out = execFileSync('python3', ['-c', script], {
    input: JSON.stringify(input),
    maxBuffer: 2 ** 28,
    timeout: 60_000,
    env: { PATH: process.env['PATH'] ?? '', PYTHONIOENCODING: 'utf-8' },
  });
  return JSON.parse(out.toString('utf8')) as unknown;
}

/** A Python function `told(value)`: any value as JSON that keeps types, exact numbers and single surrogates apart. */
export const pythonTold = `
import struct, sys
sys.setrecursionlimit(10_000)
def told(value):
    if value is None: return ["none"]
    if value is True or value is False: return ["bool", value]
    if type(value) is int: return ["int", str(value)]
    if type(value) is float: return ["float", struct.pack(">d", value).hex()]
    if type(value) is str: return ["str", value.encode("utf-16-be", "surrogatepass").hex()]
    if type(value) is list: return ["list", [told(item) for item in value]]
    if type(value) is tuple: return ["tuple", [told(item) for item in value]]
    if type(value) is dict: return ["dict", sorted([told(key)[1], told(item)] for key, item in value.items())]
    return ["other", str(type(value))]
`;

/** A Python function `signature(source)`: the first function at the top level, as `ast` sees it. */
export const pythonSignature = `
import ast
def signature(source):
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            a = node.args
            names = [p.arg for p in a.posonlyargs + a.args + a.kwonlyargs]
            return {"name": node.name, "parameters": names, "any_keyword": a.kwarg is not None}
    return None
`;
