//! Scripts that Node loads before the engine, since one Node process may serve many sessions: `regexp_limit.cjs` bounds the
//! time of regular expressions, `keep_alive.cjs` keeps connections open over a stall, `require_secret.cjs` closes the
//! engine's server to other programs. This module writes them where Node finds them.

use std::{io, path::Path};

use crate::launcher::ProcessSpec;

const SCRIPTS: [(&str, &str); 3] = [
    ("regexp_limit.cjs", include_str!("preload/regexp_limit.cjs")),
    ("keep_alive.cjs", include_str!("preload/keep_alive.cjs")),
    ("require_secret.cjs", include_str!("preload/require_secret.cjs")),
];

/// Writes the scripts into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    SCRIPTS.iter().try_for_each(|(name, source)| std::fs::write(instance.join(name), source))
}

/// The header with which greenroom shows its secret to the engine's server.
pub(super) const SECRET_HEADER: &str = "x-greenroom-secret";

/// Makes the engine's server refuse requests without this secret.
pub(super) fn require_secret(spec: ProcessSpec, secret: &str) -> ProcessSpec {
    spec.env("GREENROOM_ENGINE_SECRET", secret)
}

/// Makes Node load the scripts. Node takes its own options only before the program.
pub(super) fn configure(mut spec: ProcessSpec, instance: &Path) -> ProcessSpec {
    let options = SCRIPTS.iter().flat_map(|(name, _)| ["--require".into(), instance.join(name).into()]);
    spec.args.splice(0..0, options.collect::<Vec<_>>());
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with a secret answers requests that carry it, and refuses all others, upgrades too. Programs that
    /// the engine starts do not inherit it.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of what Node does with the scripts")]
    fn server_refuses_requests_without_the_secret() {
        const SERVE: &str = "const http = require('http');
            const server = http.createServer((_, answer) => answer.end('x'));
            server.on('upgrade', (_, socket) => socket.end('HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n'));
            const ask = (headers) => new Promise((done) => {
                const request = http.request({ port: server.address().port, host: '127.0.0.1', headers });
                request.on('response', (answer) => { answer.resume(); done(answer.statusCode); });
                request.on('upgrade', () => done('upgraded'));
                request.on('error', (error) => done(error.code));
                request.end();
            });
            server.listen(0, '127.0.0.1', async () => {
                const upgrade = { connection: 'upgrade', upgrade: 'x' };
                const right = { 'x-greenroom-secret': 's3cret' };
                const wrong = { 'x-greenroom-secret': 's3creT' };
                console.log([await ask(right), await ask({}), await ask(wrong), await ask({ 'x-greenroom-secret': '' }),
                    await ask({ expect: '100-continue' }), await ask({ ...upgrade, ...right }), await ask(upgrade),
                    process.env.GREENROOM_ENGINE_SECRET].join());
                process.exit();
            });";
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let spec = require_secret(ProcessSpec::new("node").args(["-e", SERVE]), "s3cret");
        let spec = configure(spec, folder.path());
        let run = std::process::Command::new("node").args(&spec.args).envs(spec.env).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert_eq!(said.trim(), "200,401,401,401,401,101,ECONNRESET,", "{run:?}");
    }

    /// A server started with the scripts never closes a connection by itself: it announces no timeout.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of what Node does with the scripts")]
    fn server_announces_no_keep_alive_timeout() {
        const SERVE: &str = "const http = require('http');
            const server = http.createServer((_, answer) => answer.end('x')).listen(0, '127.0.0.1', () =>
                http.get({ port: server.address().port, host: '127.0.0.1', agent: new http.Agent({ keepAlive: true }) },
                    (answer) => { console.log(answer.headers['keep-alive'] ?? 'none'); process.exit(); }));";
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let keep_alive_header = |spec: ProcessSpec| {
            let run = std::process::Command::new("node").args(&spec.args).output().unwrap();
            String::from_utf8(run.stdout).unwrap().trim().to_owned()
        };
        let plain = ProcessSpec::new("node").args(["-e", SERVE]);
        assert_eq!(keep_alive_header(plain.clone()), "timeout=5", "this is what the script changes");
        assert_eq!(keep_alive_header(configure(plain, folder.path())), "none");
    }
}
