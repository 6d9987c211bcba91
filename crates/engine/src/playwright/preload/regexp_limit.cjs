// Node loads this before the engine. It limits the time that an agent's regular expression may take.
//
// The engine runs expressions that agents write (`browser_find`, `browser_network_requests`, the patterns of routes) in the
// process that serves all sessions, on text that pages write. An expression that backtracks without end would stop every
// session.
//
// A match whose worst case is small runs unchanged. Any other match runs in a script with a time limit, which V8 enforces
// even in the middle of a match. Starting such a script takes some 100 µs, so not every match runs that way.
'use strict';

const { Script } = require('node:vm');

/** Steps up to which a match runs without a time limit: a few milliseconds. */
const STEPS_MAX = 1_000_000;
/** How long the matches of one expression may take in one turn of Node's event loop. A page of 10 MB takes a tenth of it. */
const TURN_MS = 1_000;

const nativeExec = RegExp.prototype.exec;

/** The match that the script with the time limit runs. */
let match;
const RUN = '__greenroomMatch';
Object.defineProperty(globalThis, RUN, { value: () => match() });
const script = new Script(`${RUN}()`);

/** Counts turns of the event loop in which expressions were used: a search takes one. */
let turn = 0;
let counted = false;
function thisTurn() {
  if (!counted) {
    counted = true;
    setImmediate(() => {
      turn++;
      counted = false;
    });
  }
  return turn;
}

/**
 * How many steps a match can take at most, as `(length) => steps`.
 *
 * Every quantifier may end, and the match may begin, at any position of the text: with q quantifiers there are some
 * length^(q+1) / (q+1)! ways. Each `?` and each `|` doubles them. A quantified group or a back reference has no such bound.
 */
function worstCase(source) {
  let [quantifiers, ways, inClass] = [0, 1, false];
  for (let i = 0; i < source.length; i++) {
    const [c, next] = [source[i], source[i + 1] ?? ''];
    if (c === '\\') {
      if (!inClass && /[1-9k]/.test(next)) return () => Infinity;
      i++;
    } else if (inClass) {
      inClass = c !== ']';
    } else if (c === '[') {
      inClass = true;
    } else if (c === '(') {
      if (next === '?') i++;
    } else if (c === ')') {
      if (/[*+?{]/.test(next)) return () => Infinity;
    } else if (c === '*' || c === '+' || c === '{') {
      quantifiers++;
    } else if (c === '?' || c === '|') {
      ways *= 2;
    }
  }
  return (length) => {
    let steps = ways;
    for (let i = 1; i <= quantifiers + 1; i++) steps *= (length + 1) / i;
    return steps;
  };
}

/** Replaces the `exec` of an expression, by which all of its methods match, with one that has a time limit. */
function limit(expression) {
  const steps = worstCase(expression.source);
  let [spent, spentIn] = [0, turn];
  const timed = (text) => {
    const began = performance.now();
    try {
      return nativeExec.call(expression, text);
    } finally {
      spent += performance.now() - began;
    }
  };
  const exec = (text) => {
    const string = String(text);
    if (spentIn !== thisTurn()) [spent, spentIn] = [0, turn];
    const left = Math.ceil(TURN_MS - spent);
    if (left <= 0) return tooLong(expression);
    if (steps(string.length) <= STEPS_MAX) return timed(string);
    match = () => timed(string);
    try {
      return script.runInThisContext({ timeout: left });
    } catch (error) {
      if (error.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      spent = TURN_MS;
      return tooLong(expression);
    }
  };
  Object.defineProperty(expression, 'exec', { value: exec, configurable: true });
  return expression;
}

/** Fails the tool call. When the engine compares a request with a route it would not catch the error, so there it is no match. */
function tooLong(expression) {
  const shown = String(expression).slice(0, 100);
  const error = new Error(`the regular expression takes too long on this page: more than ${TURN_MS} ms: ${shown}\nhint: use a simpler one, with fewer quantifiers and none on a group`);
  if (!error.stack.includes('urlMatches')) throw error;
  console.error(error.message);
  return null;
}

/**
 * The engine's functions that compile agents' expressions: for `browser_find`, `browser_network_requests` and
 * routes. The engine's own expressions are left alone; it uses some of them all the time.
 */
const MAKERS = /^\s*at (?:async )?(?:\w+\.)?(?:compileRegex|handle|urlMatches)\b/;
/** The function that makes an expression is among the first lines of a stack, after the functions here. */
const LINES = 5;

const isAgents = () => new Error().stack.split('\n', LINES).some((line) => MAKERS.test(line));
const make = (expression) => (isAgents() ? limit(expression) : expression);

globalThis.RegExp = new Proxy(RegExp, {
  construct: (target, given, made) => make(Reflect.construct(target, given, made)),
  apply: (target, self, given) => make(Reflect.construct(target, given)),
});
