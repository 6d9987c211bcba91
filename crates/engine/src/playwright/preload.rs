//! Scripts that Node loads before the engine, since one Node process may serve many sessions: `regexp_limit.cjs` bounds the
//! time of regular expressions, `keep_alive.cjs` keeps connections open over a stall. This module writes them where Node
//! finds them.

use std::{io, path::Path};

use crate::launcher::ProcessSpec;

const SCRIPTS: [(&str, &str); 2] = [
    ("regexp_limit.cjs", include_str!("preload/regexp_limit.cjs")),
    ("keep_alive.cjs", include_str!("preload/keep_alive.cjs")),
];

/// Writes the scripts into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    SCRIPTS.iter().try_for_each(|(name, source)| std::fs::write(instance.join(name), source))
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
