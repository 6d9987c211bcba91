// An MCP server over HTTP that has every tool, prompt and resource that the conformance suite asks a server for, by the names
// that the suite looks for: the suite's package brings no server. It speaks revision 2025-11-25, or with --stateless revision
// 2026-07-28 and no other. Either way a tool that asks its client something awaits the answer, so the state of a call is in
// its function. It prints its address when it listens, and ends when its stdin does.

import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { text as read } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';

const STATELESS = process.argv.includes('--stateless');
const REVISION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';

const PICTURE = Buffer.from('a picture').toString('base64');
const SOUND = Buffer.from('a sound').toString('base64');

const text = (words) => ({ type: 'text', text: words });
const says = (...content) => ({ content });

class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    Object.assign(this, { code, data });
  }
}

// A request's surroundings: `send` writes to its stream, `client` has its client's capabilities, `ask` asks that client.
const context = new AsyncLocalStorage();
const now = () => context.getStore();
const notify = (method, params = {}) => now().send({ method, params });
const ask = (method, params = {}) => new Promise((resolve, reject) => now().ask({ method, params, resolve, reject }));

// Sends a notification of a change: in the stream of the call that makes it, or to those who listen.
function changed(kind) {
  const method = `notifications/${kind}/list_changed`;
  if (!STATELESS) {
    notify(method);
  }
  for (const { id, send, wanted } of listeners) {
    if (wanted[`${kind}ListChanged`]) {
      send({ method, params: { _meta: { [SUBSCRIPTION]: id } } });
    }
  }
}

const log = (meta, data) => {
  if (!STATELESS || meta[LOG_LEVEL]) {
    notify('notifications/message', { level: 'info', data });
  }
};

const form = (properties, required = Object.keys(properties)) => ({
  message: 'Please answer',
  requestedSchema: { type: 'object', properties, required },
});
const elicit = (properties, required) => ask('elicitation/create', form(properties, required));
const sample = (words) =>
  ask('sampling/createMessage', { messages: [{ role: 'user', content: text(words) }], maxTokens: 50 });
const answered = async (question) => says(text(JSON.stringify(await question)));

const name = { name: { type: 'string' } };
const confirmed = { ok: { type: 'boolean' } };

const defaults = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
};

const titled = [
  { const: 'a', title: 'The first' },
  { const: 'b', title: 'The second' },
];
const choices = {
  untitledSingle: { type: 'string', enum: ['a', 'b'] },
  titledSingle: { type: 'string', oneOf: titled },
  legacyEnum: { type: 'string', enum: ['a', 'b'], enumNames: ['The first', 'The second'] },
  untitledMulti: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
  titledMulti: { type: 'array', items: { anyOf: titled } },
};

// Keywords that a gateway could lose, as it adds parameters of its own.
const person = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { $anchor: 'place', type: 'object', properties: { city: { type: 'string' } } } },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    reach: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { reach: { const: 'phone' } }, required: ['reach'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

const embedded = (uri) => ({
  type: 'resource',
  resource: { uri, mimeType: 'text/plain', text: 'embedded' },
});

const tools = {
  test_simple_text: () => says(text('simple')),
  test_image_content: () => says({ type: 'image', data: PICTURE, mimeType: 'image/png' }),
  test_audio_content: () => says({ type: 'audio', data: SOUND, mimeType: 'audio/wav' }),
  test_embedded_resource: () => says(embedded('test://embedded')),
  test_multiple_content_types: () =>
    says(text('mixed'), { type: 'image', data: PICTURE, mimeType: 'image/png' }, embedded('test://mixed')),
  test_tool_with_logging: (_, meta) => {
    ['begun', 'under way', 'done'].forEach((step) => log(meta, step));
    return says(text('logged'));
  },
  test_tool_with_progress: (_, meta) => {
    for (const progress of [0, 50, 100]) {
      notify('notifications/progress', { progressToken: meta.progressToken, progress, total: 100 });
    }
    return says(text('there'));
  },
  test_error_handling: () => ({ ...says(text('it failed on purpose')), isError: true }),
  // Long enough for the answer to become an event stream.
  test_reconnection: () => new Promise((resolve) => setTimeout(() => resolve(says(text('late'))), 1000)),
  test_sampling: ({ prompt }) => answered(sample(prompt)),
  test_elicitation: () => answered(elicit({ response: { type: 'string' } })),
  test_elicitation_sep1034_defaults: () => answered(elicit(defaults, [])),
  test_elicitation_sep1330_enums: () => answered(elicit(choices, [])),
  json_schema_2020_12_tool: () => says(text('taken')),
  test_custom_header: ({ region }) => says(text(`${region}`)),
  test_missing_capability: () => {
    if (now().client.sampling) {
      return says(text('not needed'));
    }
    throw new RpcError(-32021, 'this tool needs sampling', { requiredCapabilities: { sampling: {} } });
  },
  test_streaming_elicitation: (_, meta) => {
    notify('notifications/progress', { progressToken: meta.progressToken ?? 0, progress: 1, total: 2 });
    return answered(elicit(name));
  },
  test_logging_tool: (_, meta) => {
    log(meta, 'a log line');
    return says(text('logged'));
  },
  test_trigger_tool_change: () => {
    list.push({ name: `test_new_${list.length}`, description: 'A new tool', inputSchema: { type: 'object' } });
    changed('tools');
    return says(text('changed'));
  },
  test_trigger_prompt_change: () => {
    changed('prompts');
    return says(text('changed'));
  },
  test_input_required_result_elicitation: () => answered(elicit(name)),
  test_input_required_result_sampling: () => answered(sample('Which city?')),
  test_input_required_result_list_roots: () => answered(ask('roots/list')),
  test_input_required_result_request_state: () => answered(elicit(confirmed)),
  test_input_required_result_multiple_inputs: () =>
    answered(Promise.all([elicit(name), sample('Say hello'), ask('roots/list')])),
  test_input_required_result_multi_round: async () => {
    await elicit(name);
    return answered(elicit({ color: { type: 'string' } }));
  },
  test_input_required_result_tampered_state: () => answered(elicit(confirmed)),
  test_input_required_result_capabilities: () =>
    answered(now().client.elicitation ? elicit(name) : sample('Anything')),
};

const inputs = {
  test_sampling: { type: 'object', properties: { prompt: { type: 'string' } } },
  test_elicitation: { type: 'object', properties: { message: { type: 'string' } } },
  json_schema_2020_12_tool: person,
  test_custom_header: {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
  },
};

const list = Object.keys(tools).map((name) => ({
  name,
  description: `Of the conformance suite: ${name}`,
  inputSchema: inputs[name] ?? { type: 'object', properties: {} },
}));

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'static' },
  'test://static-binary': { mimeType: 'image/png', blob: PICTURE },
  'test://watched-resource': { mimeType: 'text/plain', text: 'watched' },
};

function contents({ uri }) {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  const found = resources[uri] ?? (id && { mimeType: 'application/json', text: JSON.stringify({ id }) });
  if (!found) {
    throw new RpcError(-32002, `no such resource: ${uri}`, { uri });
  }
  return { contents: [{ uri, ...found }] };
}

const told = (...content) => ({ messages: content.map((content) => ({ role: 'user', content })) });
const argument = (name) => ({ name, description: name, required: true });
const prompts = {
  test_simple_prompt: { get: () => told(text('simple')) },
  test_prompt_with_arguments: {
    arguments: [argument('arg1'), argument('arg2')],
    get: ({ arg1, arg2 }) => told(text(`${arg1} and ${arg2}`)),
  },
  test_prompt_with_embedded_resource: {
    arguments: [argument('resourceUri')],
    get: ({ resourceUri }) => told(embedded(resourceUri), text('look at it')),
  },
  test_prompt_with_image: {
    get: () => told({ type: 'image', data: PICTURE, mimeType: 'image/png' }, text('look at it')),
  },
  test_input_required_result_prompt: {
    get: async () => told(text(JSON.stringify(await elicit({ context: { type: 'string' } })))),
  },
};

const serverInfo = { name: 'conformance', version: '1.0.0' };
const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: !STATELESS, listChanged: true },
  logging: {},
  completions: {},
};

const handshake = {
  initialize: ({ capabilities: theirs, protocolVersion }) => {
    now().client = theirs;
    return { protocolVersion, serverInfo, capabilities };
  },
  ping: () => ({}),
  'logging/setLevel': () => ({}),
  'resources/subscribe': () => ({}),
  'resources/unsubscribe': () => ({}),
};

const stateless = {
  'server/discover': () => ({
    supportedVersions: ['2026-07-28'],
    capabilities,
    _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
  }),
};

const methods = {
  ...(STATELESS ? stateless : handshake),
  'completion/complete': () => ({ completion: { values: ['complete'], total: 1, hasMore: false } }),
  'tools/list': () => ({ tools: list }),
  'tools/call': ({ name, arguments: given = {}, _meta = {} }) => known(tools, name)(given, _meta),
  'resources/list': () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, mimeType })),
  }),
  'resources/templates/list': () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template' }],
  }),
  'resources/read': contents,
  'prompts/list': () => ({
    prompts: Object.entries(prompts).map(([name, { arguments: takes }]) => ({
      name,
      description: `Of the conformance suite: ${name}`,
      arguments: takes,
    })),
  }),
  'prompts/get': ({ name, arguments: given = {} }) => known(prompts, name).get(given),
};

const known = (things, name) => {
  if (!Object.hasOwn(things, name)) {
    throw new RpcError(-32602, `unknown: ${name}`);
  }
  return things[name];
};

const json = (response, status, message) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(message));
const failed = (id, { code = -32603, message, data }) => ({ jsonrpc: '2.0', id, error: { code, message, data } });

// Begins the event stream of a request.
function stream(response, headers = {}) {
  response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
  response.flushHeaders();
  return (message) => response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
}

// Answers a request in its stream, which ends with the answer.
async function answer(id, send, result) {
  try {
    send({ id, result: await result });
  } catch (error) {
    send(failed(id, error));
  }
}

// With a handshake: a question is a request in the stream, and its answer comes in a request of its own.
const sessions = new Map();

async function inSession(request, response, { id, method, params = {}, result, error }) {
  const name = method === 'initialize' ? randomUUID() : request.headers['mcp-session-id'];
  if (method === 'initialize') {
    sessions.set(name, { questions: new Map(), client: {} });
  }
  const session = sessions.get(name);
  if (!session) {
    return response.writeHead(404).end();
  }
  const question = session.questions.get(id);
  if (method === undefined && question) {
    session.questions.delete(id);
    error ? question.reject(error) : question.resolve(result);
  }
  if (method === undefined || id === undefined) {
    return response.writeHead(202).end();
  }
  if (!Object.hasOwn(methods, method)) {
    return json(response, 200, failed(id, { code: -32601, message: `method not found: ${method}` }));
  }
  session.send = stream(response, { 'mcp-session-id': name });
  session.ask = ({ method, params, ...question }) => {
    const id = randomUUID();
    session.questions.set(id, question);
    session.send({ id, method, params });
  };
  await context.run(session, () => answer(id, session.send, (async () => methods[method](params))()));
  response.end();
}

// Without a handshake: a question is a result, and the call waits here until the client makes it again.
const waiting = new Map();
const listeners = new Set();

async function alone(request, response, { id, method, params = {} }) {
  const { _meta: meta = {}, name, uri, requestState, inputResponses = {} } = params;
  const refuse = (status, code, message) => json(response, status, failed(id, { code, message }));
  if (!Object.hasOwn(methods, method) && method !== 'subscriptions/listen') {
    return refuse(404, -32601, `method not found: ${method}`);
  }
  if (meta[REVISION] !== '2026-07-28' || typeof meta[CAPABILITIES] !== 'object') {
    return refuse(400, -32602, '`_meta` does not say who asks');
  }
  const region = name === 'test_custom_header' ? params.arguments?.region : undefined;
  const expected = {
    'mcp-protocol-version': meta[REVISION],
    'mcp-method': method,
    'mcp-name': uri ?? name,
    'mcp-param-region': region,
  };
  for (const [header, value] of Object.entries(expected)) {
    if (request.headers[header] !== value) {
      return refuse(400, -32020, `the header ${header} says ${request.headers[header]}, not ${value}`);
    }
  }
  if (method === 'subscriptions/listen') {
    const listener = { id, send: stream(response), wanted: params.notifications };
    const _meta = { [SUBSCRIPTION]: id };
    listener.send({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: listener.wanted, _meta },
    });
    listeners.add(listener);
    return response.on('close', () => listeners.delete(listener));
  }
  let call = waiting.get(requestState);
  if (requestState !== undefined && !call) {
    return refuse(400, -32602, `unknown state: ${requestState}`);
  }
  waiting.delete(requestState);
  call ??= { client: meta[CAPABILITIES], questions: new Map(), ask: (question) => call.asked(question) };
  call.send = stream(response);
  const asks = new Promise((resolve) => {
    call.asked = (question) => {
      call.questions.set(`question ${call.questions.size + 1}`, question);
      resolve();
    };
  });
  call.done ??= context.run(call, async () => ({ resultType: 'complete', ...(await methods[method](params)) }));
  for (const [id, response] of Object.entries(inputResponses)) {
    call.questions.get(id)?.resolve(response);
    call.questions.delete(id);
  }
  // Questions that are asked at the same time go into one result.
  const asked = asks.then(async () => {
    await setImmediate();
    const state = randomUUID();
    waiting.set(state, call);
    const requests = [...call.questions].map(([id, { method, params }]) => [id, { method, params }]);
    return { resultType: 'input_required', inputRequests: Object.fromEntries(requests), requestState: state };
  });
  await answer(id, call.send, Promise.race([call.done, asked]));
  response.end();
}

const server = createServer(async (request, response) => {
  if (request.method === 'DELETE') {
    sessions.delete(request.headers['mcp-session-id']);
    return response.writeHead(204).end();
  }
  if (request.method !== 'POST') {
    return response.writeHead(405).end();
  }
  const message = JSON.parse(await read(request));
  return STATELESS ? alone(request, response, message) : inSession(request, response, message);
});

server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
process.stdin.on('end', () => process.exit()).resume();
