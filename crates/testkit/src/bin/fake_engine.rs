//! `greenroom-fake-engine`: an MCP server over stdio that is fast, stateful and faulty on demand.
//! Its logic is in the library's `fake_engine`; tests find this file by `testkit::fake_engine_path()`.

use std::process::ExitCode;

fn main() -> ExitCode {
    greenroom_testkit::fake_engine::main(std::env::args().skip(1))
}
