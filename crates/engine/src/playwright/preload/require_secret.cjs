// Node loads this before the engine. It makes the engine's server refuse every request without greenroom's secret.
//
// The server listens on loopback, where every program and every user of the machine can connect, and it drives the browsers
// of all sessions. The secret is in the environment, which only this user can read. It is removed there, so that programs
// which the engine starts do not inherit it.
'use strict';

const { timingSafeEqual } = require('node:crypto');
const { Server } = require('node:http');

const secret = Buffer.from(process.env.GREENROOM_ENGINE_SECRET ?? '');
delete process.env.GREENROOM_ENGINE_SECRET;

const HEADER = 'x-greenroom-secret';
/** The events with which a server hands over a request that it can answer. */
const ANSWERABLE = new Set(['request', 'checkContinue', 'checkExpectation']);
/** The events with which it hands over the connection itself. */
const TAKEN_OVER = new Set(['upgrade', 'connect']);

const isAllowed = (request) => {
  const given = Buffer.from(String(request.headers[HEADER] ?? ''));
  return given.length === secret.length && timingSafeEqual(given, secret);
};

// A Node without a server for seats has no secret.
if (secret.length > 0) {
  const { emit } = Server.prototype;
  Server.prototype.emit = function (event, request, response, ...rest) {
    if (ANSWERABLE.has(event) && !isAllowed(request)) {
      response.writeHead(401, { connection: 'close' }).end();
      return true;
    }
    if (TAKEN_OVER.has(event) && !isAllowed(request)) {
      response.destroy();
      return true;
    }
    return emit.call(this, event, request, response, ...rest);
  };
}
