"""The script that every SDK plays against greenroom, as a Python client plays it.

../typescript/script.mjs and the Rust tests do the same steps; ../expected.jsonl says what each of them must see.

The one argument is the part to play, as JSON: `revision` (what must be negotiated), `probe` (whether to ask
`server/discover` first), `gate` (where files can be made that hold calls), and `url`, or `command`, `args`, `env`,
`cwd`. Which SDK plays is decided by PYTHONPATH. It prints one line of JSON for each step and ends with 0; anything
unexpected is an exception.
"""

import inspect
import json
import os
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from warnings import simplefilter

import anyio
import mcp
from mcp import StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl

PART = json.loads(sys.argv[1])
REVISION = PART["revision"]
MODERN = REVISION >= "2026-07-28"
ELICITS = REVISION >= "2025-06-18"

Refused = getattr(mcp, "McpError", None) or mcp.MCPError

log = []  # received `notifications/message`
questions = []  # questions of the server to the user
changes = []  # one entry for each `notifications/tools/list_changed`
told = []  # received `notifications/progress`, where a call cannot listen itself


async def on_log(params):
    log.append({"level": params.level, "logger": params.logger, "data": params.data})


async def on_elicit(_, params):
    questions.append(params.message)
    return types.ElicitResult(action="accept", content={"answer": "blue"})


async def on_progress(progress, *_):
    told.append(progress)


def server():
    return StdioServerParameters(**{name: PART[name] for name in ("command", "args", "env", "cwd")})


class One:
    """A client of the 1.x generations: `initialize`, transport and session put together by hand."""

    def __init__(self, session, greeting):
        self.session = session
        self.revision = greeting.protocolVersion
        self.server = greeting.serverInfo.name
        self.list_tools = session.list_tools
        self.set_logging_level = session.set_logging_level
        self.ping = session.send_ping
        self.list_resources = session.list_resources
        self.list_resource_templates = session.list_resource_templates
        self.read_resource = lambda uri: session.read_resource(AnyUrl(uri))

    @classmethod
    @asynccontextmanager
    async def connect(cls):
        elicitation = {"elicitation_callback": on_elicit} if ELICITS else {}
        if "url" in PART:
            from mcp.client import streamable_http

            # The newer of the two names, where there is one.
            connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
            transport = connect(PART["url"])
        else:
            transport = stdio_client(server())
        async with transport as (read, write, *_):
            callbacks = {"logging_callback": on_log, "message_handler": cls.on_message, **elicitation}
            async with mcp.ClientSession(read, write, **callbacks) as session:
                yield cls(session, await session.initialize())

    @staticmethod
    async def on_message(message):
        said = getattr(message, "root", None)
        if isinstance(said, types.ProgressNotification) and said.params.progressToken == "script":
            told.append(said.params.progress)
        elif isinstance(said, types.ToolListChangedNotification):
            changes.append(said)

    @asynccontextmanager
    async def listening(self):
        yield

    async def call(self, name, arguments, progress=False, meta=None):
        assert meta is None
        if not progress:
            return await self.session.call_tool(name, arguments)
        if "progress_callback" in inspect.signature(self.session.call_tool).parameters:
            return await self.session.call_tool(name, arguments, progress_callback=on_progress)
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "script"}}
        request = types.CallToolRequest(method="tools/call", params=types.CallToolRequestParams(**params))
        return await self.session.send_request(types.ClientRequest(request), types.CallToolResult)

    async def cancel(self, number):
        # These generations forget a call when its task is cancelled, but do not tell the server.
        params = types.CancelledNotificationParams(requestId=number, reason="changed my mind")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(notification))

    def next_number(self):
        return self.session._request_id


class Held:
    """A call that is given up before it is answered."""

    def __init__(self, client):
        self.client, self.scope, self.number, self.outcome = client, anyio.CancelScope(), None, "answered"

    async def call(self, name, arguments):
        with self.scope:
            self.number = self.client.next_number()
            await self.client.call(name, arguments)
        if self.scope.cancelled_caught:
            self.outcome = "gave up"

    async def give_up(self):
        await self.client.cancel(self.number)
        self.scope.cancel()


class Two:
    """A client of the 2.x generation: one object, both eras of the protocol."""

    def __init__(self, client):
        self.client = client
        self.revision = client.protocol_version
        self.server = client.server_info.name if client.server_info else None
        self.list_tools = client.list_tools
        self.set_logging_level = client.set_logging_level
        self.ping = client.send_ping
        self.list_resources = client.list_resources
        self.list_resource_templates = client.list_resource_templates
        self.read_resource = client.read_resource

    @classmethod
    @asynccontextmanager
    async def connect(cls):
        mode = "auto" if PART["probe"] else "legacy"
        target = PART.get("url") or server()
        callbacks = {"logging_callback": on_log, "elicitation_callback": on_elicit, "message_handler": cls.on_message}
        async with mcp.Client(target, mode=mode, **callbacks) as client:
            yield cls(client)

    @staticmethod
    async def on_message(message):
        if isinstance(message, types.ToolListChangedNotification):
            changes.append(message)

    @asynccontextmanager
    async def listening(self):
        if MODERN:
            async with self.client.listen(tools_list_changed=True):
                yield
        else:
            yield

    async def call(self, name, arguments, progress=False, meta=None):
        listening = {"progress_callback": on_progress} if progress else {}
        return await self.client.call_tool(name, arguments, meta=meta, **listening)

    async def cancel(self, _):
        pass  # the end of the call's task is enough

    def next_number(self):
        return None


def say(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


def skip(step, feature):
    say(step, skipped=f"{REVISION} has no {feature}")


async def until(what, look, wanted=True):
    """Polls for a fact that comes without an event."""
    for _ in range(6000):
        seen = look()
        if (await seen if inspect.isawaitable(seen) else seen) == wanted:
            return
        await anyio.sleep(0.005)
    raise TimeoutError(f"never saw {what}")


def touch(path):
    with open(path, "w"):
        pass


async def play(client):
    async def call(name, arguments, **options):
        """A tool's answer, as it was on the wire."""
        answer = await client.call(name, arguments, **options)
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def text(name, arguments, **options):
        return (await call(name, arguments, **options))["content"][0]["text"]

    async def sent_json(name, arguments):
        return json.loads(await text(name, arguments))

    say("connect", revision=client.revision, server=client.server)

    tools = [tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools]
    parameters = {tool["name"]: sorted(tool["inputSchema"].get("properties", {})) for tool in tools}
    say(
        "tools",
        echo=parameters["echo"],
        own=sorted(name for name in parameters if "session" in name),
        without_session_id=[name for name, known in parameters.items() if "sessionId" not in known],
    )

    await call("set", {"key": "k", "value": "of a", "sessionId": "a"})
    await call("set", {"key": "k", "value": "of b", "sessionId": "b"})
    a, b = [await text("get", {"key": "k", "sessionId": session}) for session in "ab"]
    say("two sessions", a=a, b=b)

    unnamed = await call("get", {"key": "k"})
    words = unnamed["content"][0]["text"]
    code = unnamed.get("_meta", {}).get("greenroom/error", {}).get("code")
    say("no session id", code=code, advice="create_new_session" in words, **({} if unnamed["isError"] else {"text": words}))

    chosen = (await sent_json("create_new_session", {"sessionId": "c"}))["sessionId"]
    given = (await sent_json("create_new_session", {}))["sessionId"]

    async def named():
        sessions = (await sent_json("session_list", {}))["sessions"]
        return sorted("(given)" if session["id"] == given else session["id"] for session in sessions if session["id"])

    say("create", chosen=chosen, given=len(given), sessions=await named())

    closed = [await text("session_close", {"sessionId": session}) for session in (chosen, given)]
    gone = await call("session_close", {"sessionId": chosen})
    say("close", closed=closed, again=gone["_meta"]["greenroom/error"]["code"], sessions=await named())

    # All of the progress is here before the engine may answer.
    gate, answers = PART["gate"] + ".progress", []

    async def going():
        answers.append(await text("wait", {"file": gate, "steps": 3, "sessionId": "a"}, progress=True))

    async with anyio.create_task_group() as group:
        group.start_soon(going)
        await until("three steps", lambda: len(told) >= 3)
        steps = list(told)
        touch(gate)
    say("progress", steps=steps, answer=answers[0])

    if not MODERN:
        await client.set_logging_level("warning")
    level = {"io.modelcontextprotocol/logLevel": "warning"} if MODERN else None
    await call("log", {"level": "info", "data": "too low", "sessionId": "a"}, meta=level)
    await call("log", {"level": "error", "data": {"deep": [1, "two"]}, "sessionId": "a"}, meta=level)
    await until("a log message", lambda: len(log) > 0)
    say("logging", messages=log)

    if ELICITS:
        say("elicitation", answer=await sent_json("elicit", {"message": "colour?", "sessionId": "a"}), questions=questions)
    else:
        skip("elicitation", "elicitation")

    structured = await call("structured", {"n": 1.5, "sessionId": "a"})
    if REVISION >= "2025-06-18":
        say("structured content", content=structured["structuredContent"], text=structured["content"][0]["text"])
    else:
        skip("structured content", "structured content")
    say("_meta", n=structured["_meta"]["fake/n"])

    failed = await call("fail", {"message": "no luck", "sessionId": "a"})
    say("failed tool", isError=failed["isError"], text=failed["content"][0]["text"])

    try:
        await call("ecoh", {"sessionId": "a"})
        say("unknown tool", answered=True)
    except Refused as refused:
        error = refused.error
        say("unknown tool", code=error.code, named='unknown tool: "ecoh"; did you mean "echo"?' in error.message)

    bad = await call("echo", {"text": 7, "sessionId": "a"})
    say("bad arguments", isError=bad["isError"], code=bad["_meta"]["greenroom/error"]["code"])

    # The content of an answer is kept, and can be read again.
    await call("picture", {"sessionId": "a"})
    listed = [one.model_dump(mode="json", by_alias=True) for one in (await client.list_resources()).resources]
    templates = (await client.list_resource_templates()).model_dump(mode="json", by_alias=True)["resourceTemplates"]
    picture = next(one["uri"] for one in listed if one["mimeType"] == "image/png")
    read = (await client.read_resource(picture)).model_dump(mode="json", by_alias=True)["contents"][0]
    # The code differs between revisions, and some SDKs report the newer one for both.
    try:
        await client.read_resource("greenroom://blobs/none")
        absent = False
    except Refused as refused:
        absent = refused.error.code in (-32002, -32602)
    say(
        "resources",
        listed=sorted(one["mimeType"] for one in listed),
        templates=[one["uriTemplate"] for one in templates],
        read=read["blob"][:11],
        absent=absent,
    )

    say("big answer", characters=len(await text("big", {"bytes": 1_000_000, "sessionId": "a"})))

    echoes = {}

    async def echo(n):
        echoes[n] = await text("echo", {"text": str(n), "sessionId": f"p{n % 4}"})

    async with anyio.create_task_group() as group:
        for n in range(20):
            group.start_soon(echo, n)
    say("side by side", right=sum(echoes[n] == str(n) for n in range(20)))

    # One call runs, one waits behind it, and both are given up: the one that waited must never run.
    slow = PART["gate"] + ".cancel"
    running, queued = Held(client), Held(client)

    async def in_flight():
        sessions = (await sent_json("session_list", {}))["sessions"]
        return next(session["callsInFlight"] for session in sessions if session["id"] == "a")

    async with anyio.create_task_group() as group:
        group.start_soon(running.call, "wait", {"file": slow, "sessionId": "a"})
        await until("the call at the gate", lambda: os.path.exists(slow + ".waiting"))
        group.start_soon(queued.call, "set", {"key": "k", "value": "never", "sessionId": "a"})
        await until("two calls in flight", in_flight, 2)
        await running.give_up()
        await queued.give_up()
    # No event shows that greenroom has received it. After some further browsers it has: a spare would be there at once.
    for n in range(6):
        await call("create_new_session", {"sessionId": f"later{n}"})
    touch(slow)
    say("cancel", calls=[running.outcome, queued.outcome], after=await text("get", {"key": "k", "sessionId": "a"}))

    # The engine of one session gets a new tool: every client that listens receives the change, and can use the tool.
    async with client.listening():
        before = len(changes)
        added = await text("change_tools", {"sessionId": "a"})
        await until("that the list has changed", lambda: len(changes) > before)
        listed = any(tool.name == added for tool in (await client.list_tools()).tools)
        say("changed tools", added=added, listed=listed, answer=await text(added, {"sessionId": "a"}))

    if MODERN:
        skip("ping", "ping")
    else:
        say("ping", answer=(await client.ping()).model_dump(by_alias=True, exclude_none=True))


async def main():
    simplefilter("ignore")  # 2.x warns of the older revisions' features, which greenroom must still serve
    generation = One if version("mcp").startswith("1.") else Two
    with anyio.fail_after(60):
        async with generation.connect() as client:
            await play(client)
    say("end")


anyio.run(main)
