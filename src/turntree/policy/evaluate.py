"""Evaluates a policy for a call, in Monty or as a process in the sandbox.

Every failure is a denial that says so: a policy that raises, takes too long or answers with
something else allows nothing. Needs no database.
"""

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import anyio.to_thread

from turntree.core.canonical import Json
from turntree.core.errors import CodeError, InvalidOperation, SandboxUnavailable
from turntree.core.value import value
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision, read_decision
from turntree.policy.policy import Policy, mark_returns
from turntree.sandbox.code import Code, CodeLimits
from turntree.sandbox.monty import MontyError, MontyLane
from turntree.sandbox.sandbox import Sandbox

PROCESS_LIMITS: Final = CodeLimits(wall_s=2.0, cpu_s=1, output_bytes=262_144)
_RUN_PYTHON: Final = """
import io, sys
from _json import encode_basestring_ascii as quoted
out, sys.stdout = sys.stdout, io.StringIO()
members = {"__name__": "policy"}
try:
    exec(compile(SOURCE, "policy.py", "exec"), members)
    text = '{"answer": ' + quoted(repr(members["decide"](REQUEST))) + "}"
except BaseException as error:
    line, at = "null", error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == "policy.py":
            line = str(at.tb_lineno)
        at = at.tb_next
    said = f"{type(error).__name__}: {error}"[:300]
    text = '{"error": ' + quoted(said) + ', "line": ' + line + "}"
out.write(text)
"""
"""The same source runs in both lanes: here it is a text of another program, so its lines keep their
numbers and what it prints is dropped. That program does without the module ``json``, whose import
takes as long as the start of the interpreter."""
_RUN_SCRIPT: Final = """
;(() => {
  const document = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  let text;
  try {
    text = JSON.stringify({ answer: decide(document.request) });
  } catch (error) {
    text = JSON.stringify({ error: String(error).slice(0, 300) });
  }
  process.stdout.write(text + "\\n");
})();
"""


@value
class Evaluator:
    """Evaluates policies."""

    monty: MontyLane
    find_sandbox: Callable[[], Sandbox]
    """Finds the sandbox of the process lane at its first use."""

    async def decide(self, policy: Policy, call: JudgedCall) -> PolicyDecision:
        """Return what a policy decides about a call; it never raises for the policy's sake."""
        return await self.decide_request(policy, call.to_json())

    async def decide_request(self, policy: Policy, request: Mapping[str, Json]) -> PolicyDecision:
        """Return what a policy decides about a request's document."""
        try:
            answer = await self._answer(policy, request)
            line, answer = _take_line(answer) if policy.language == "python" else (None, answer)
            return replace(read_decision(answer, policy=policy.digest), line=line)
        except SandboxUnavailable as error:
            reason, line = f"the policy could not run: {error}", None
        except CodeError as error:
            line = error.line if isinstance(error, MontyError) else None
            reason = f"the policy failed: {error}"
        except InvalidOperation as error:
            reason, line = f"the policy gave no decision: {error}", None
        return PolicyDecision("deny", reason, policy.digest, line=line, has_failed=True)

    async def _answer(self, policy: Policy, request: Mapping[str, Json]) -> Json:
        if policy.language != "python":
            code = Code(policy.language, policy.source + _RUN_SCRIPT)
            return _read_output(await self._run(code, {"request": request}))
        source = mark_returns(policy.source)
        if policy.lane == "monty":
            return await anyio.to_thread.run_sync(
                self.monty.call, source, "decide", dict(request), abandon_on_cancel=False
            )
        texts = f"SOURCE = {source!r}\nREQUEST = {dict(request)!r}\n"
        answer = _read_output(await self._run(Code("python", texts + _RUN_PYTHON), {}))
        try:
            # As Monty's answers are read: what JSON cannot say is no answer.
            plain: Json = json.loads(json.dumps(ast.literal_eval(str(answer)), allow_nan=False))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise InvalidOperation(f"{str(answer)[:60]} is not a decision") from error
        return plain

    async def _run(self, code: Code, document: Json) -> Json:
        return await self.find_sandbox().run(code, document, PROCESS_LIMITS)


def _read_output(output: Json) -> Json:
    match output:
        case {"error": str(message), "line": int() | None as line}:
            raise MontyError(message, line)
        case {"error": str(message)}:
            raise CodeError(message)
        case {"answer": answer}:
            return answer
        case _:
            raise InvalidOperation("it wrote no answer")


def _take_line(answer: Json) -> tuple[int | None, Json]:
    match answer:
        case [int(line), decision]:
            return line, decision
        case _:
            # The end of the function without a return.
            return None, answer


def defaults_of(request: Mapping[str, Json]) -> dict[str, Json]:
    """Return a request in which every member that is not given has its default.

    Tests of a policy name only what matters to them.
    """
    given = dict(request)
    tool = given.get("tool")
    effects = given.get("effects")
    usual = JudgedCall(str(tool) if tool is not None else "tool", given.get("args", {})).to_json()
    if effects is not None:
        usual["effects_declared"] = True
    return {**usual, **given}
