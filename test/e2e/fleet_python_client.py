"""The vendor's own SDK as a process: a request a line on standard input, its answer a line on standard output."""

import json
import os
import sys
import tempfile

from fleet.exceptions import FleetError
from fleet.tasks import Task
from fleet.verifiers import execute_verifier_local

import fleet
from fleet import Fleet


def refusal(call):
    try:
        call()
    except FleetError as error:
        return type(error).__name__
    return None


def attempted(call):
    """A score, or the class of what it raised."""
    try:
        return {"score": call()}
    except Exception as error:
        return {"raised": type(error).__name__}


class Session:
    def __init__(self, url, key):
        self.url = url
        self.client = Fleet(api_key=key, base_url=url, max_retries=0)
        self.envs = {}

    def make(self, env_key, data_key, env_variables, run_id):
        env = self.client.make(
            env_key=env_key, data_key=data_key, env_variables=env_variables, ttl_seconds=900, run_id=run_id
        )
        env.instance.load()
        self.envs[env.instance_id] = env
        return {"id": env.instance_id, "mcp": env.mcp.url, "data": [env.data_key, env.data_version]}

    def exec(self, id, sql):
        done = self.envs[id].db("current").exec(sql)
        return {"success": done.success, "error": done.error}

    def grade(self, id, key, code, final_answer):
        """Executed by the service, twice: told in full, and as a score."""
        env, task = self.envs[id], Task(key=key, prompt="-", env_id=self.envs[id].env_key, verifier_func=code)
        told = task.verify_detailed(env, final_answer=final_answer)
        return {
            "success": told.success,
            "result": told.result,
            "error": told.error and told.error["type"],
            "stdout": told.stdout,
            **attempted(lambda: task.verify(env, final_answer=final_answer)),
        }

    def grade_here(self, id, key, code, final_answer):
        """By the SDK itself, asking the instance for rows over HTTP."""
        env, task = self.envs[id], Task(key=key, prompt="-", env_id=self.envs[id].env_key, verifier_func=code)
        task._rebuild_verifier()
        return attempted(lambda: task.verifier.func(env, final_answer=final_answer))

    def close(self, id):
        return self.envs.pop(id).close().status

    def tour(self, env_key, data_key, run_id):
        """What else the SDK asks of the wire."""
        client = self.client
        env = client.make(env_key=env_key, data_key=data_key, run_id=run_id, ttl_seconds=900, heartbeat_interval=60)
        env.instance.load()
        current, seed = env.db("current"), env.db("seed")
        rows = current.query("SELECT id, name FROM staff WHERE id = ?", [1])
        assert current.exec(
            "UPDATE shifts SET minutes = minutes + 1 WHERE staff_id = 3 AND work_date = '2026-03-16'"
        ).success
        changes = seed.diff(current).changes["shifts"]
        return {
            "version": fleet.__version__,
            "environments": [found.env_key for found in client.list_envs()],
            "environment": client.environment("bike-workshop").default_version,
            "team": client.account().instance_limit > 0,
            "env": [env.env_key, env.version, env.data_key, env.status],
            "resources": sorted([found.name, found.type.value] for found in env.resources()),
            "tables": sorted(table.name for table in current.describe().tables),
            "rows": [rows.columns, rows.rows],
            "builder": [current.table("staff").eq("id", 1).select("name").first(), current.table("staff").count()],
            "refused": [current.query("SELECT * FROM nowhere").success, seed.exec("DELETE FROM messages").success],
            "heartbeat": env.heartbeat().success,
            "listed": [found.instance_id for found in client.instances(run_id=run_id)] == [env.instance_id],
            "found": client.instance(env.instance_id).status,
            "changed": [changes["primary_key"], [row["row_id"] for row in changes["modified_rows"]]],
            "reset": [env.reset().success, len(seed.diff(current).changes["shifts"]["modified_rows"])],
            "closed": env.close().status,
            "left": len(client.instances(run_id=run_id, status="running")),
            "wrong_key": refusal(lambda: Fleet(api_key="sk_wrong", base_url=self.url, max_retries=0).list_envs()),
            "wrong_env": refusal(lambda: client.make(env_key="no-such-thing")),
        }

    def local(self, source, seed, current, final_answer):
        """The SDK's own run of a verifier over SQLite files."""
        run = execute_verifier_local(source, seed, current, final_answer)
        error = (run["error"] or "").split(":")[0] or None
        return {"success": run["success"], "result": run["result"], "error": error, "stdout": run["stdout"]}


def main():
    out, sys.stdout = sys.stdout, sys.stderr
    os.chdir(tempfile.gettempdir())
    session = Session(*sys.argv[1:])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"answer": getattr(session, request.pop("do"))(**request)}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


main()
