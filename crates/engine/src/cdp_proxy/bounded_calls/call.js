(api, ...args) => { try { var value = api.evaluate(...args) } catch (error) { throw short(error) }
  // `value` is what Playwright has made of a function's result: lists, objects and texts, if the second argument says so. It
  // uses no functions that a page could have replaced.
  if (args[1] !== true) return value;
  if (typeof value === 'object' && value && typeof value.then === 'function')
    return value.then(bounded, error => { throw short(error) });
  return bounded(value);

  function bounded(value) {
    let room = BYTES_MAX;
    take(value);
    return value;

    function take(value) {
      room -= 2;
      if (typeof value === 'string') room -= value.length;
      if (room < 0) throw tooLong('value', HINT);
      if (typeof value !== 'object' || !value) return;
      if (typeof value.length === 'number') for (let i = 0; i < value.length; i++) take(value[i]);
      else for (const key in value) take(value[key]);
    }
  }

  // The browser sends the text of an error: its stack, or its name and message.
  function short(error) {
    const texts = typeof error === 'object' && error ? [error.name, error.message, error.stack] : [`${String(error)}`];
    let length = 0;
    for (let i = 0; i < texts.length; i++) if (typeof texts[i] === 'string') length += texts[i].length;
    return length > BYTES_MAX ? tooLong('error', '') : error;
  }

  function tooLong(what, hint) {
    const error = new Error(`the page's ${what} is too long: more than BYTES_MAX bytes${hint}`);
    error.stack = `Error: ${error.message}`;
    return error;
  }
}
