// Node loads this before the engine. It keeps the engine's server from closing idle connections.
//
// By default it closes them after 5 s. After a stall of some seconds Node checks its timers before it reads incoming data,
// and closes connections on which the next request already waits: that call would be lost, and its session with it.
// greenroom closes its connections itself, after 2 s.
'use strict';

const { Server } = require('node:http');

const { listen } = Server.prototype;
Server.prototype.listen = function (...args) {
  this.keepAliveTimeout = 0;
  return listen.apply(this, args);
};
