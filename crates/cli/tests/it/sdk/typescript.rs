//! The TypeScript SDKs. All know streamable HTTP, and 2.4 speaks both eras of the protocol.

use std::path::Path;

use serde_json::json;

use super::script_run::{ClientTransport, ScriptRun, installed};

async fn play(package: &str, run: ScriptRun) {
    let sdk = json!({"sdk": installed().join("typescript"), "package": package});
    run.run_program(Path::new("node"), "typescript/script.mjs", sdk, &[]).await;
}

mod stdio {
    use super::{ClientTransport::Stdio, ScriptRun, play};

    /// An SDK of the time of 2024-11-05.
    #[tokio::test]
    async fn sdk_1_10() {
        play("sdk-1.10", ScriptRun::new("2024-11-05", Stdio).await).await;
    }

    /// An SDK of the time of 2025-03-26.
    #[tokio::test]
    async fn sdk_1_12() {
        play("sdk-1.12", ScriptRun::new("2025-03-26", Stdio).await).await;
    }

    /// An SDK of the time of 2025-06-18.
    #[tokio::test]
    async fn sdk_1_23() {
        play("sdk-1.23", ScriptRun::new("2025-06-18", Stdio).await).await;
    }

    /// The newest SDK of the first generation asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_1_32() {
        play("sdk-1.32", ScriptRun::new("2025-11-25", Stdio).await).await;
    }

    /// The second generation by default: it asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_2_4() {
        play("sdk-2.4", ScriptRun::new("2025-11-25", Stdio).await).await;
    }

    /// The second generation configured to discover the server's revision: 2026-07-28, and the process is the connection.
    #[tokio::test]
    async fn sdk_2_4_negotiated() {
        play("sdk-2.4", ScriptRun::probing("2026-07-28", Stdio).await).await;
    }
}

mod http {
    use super::{ClientTransport::Http, ScriptRun, play};

    /// An SDK of the time of 2024-11-05, which had no streamable HTTP yet: this SDK already does.
    #[tokio::test]
    async fn sdk_1_10() {
        play("sdk-1.10", ScriptRun::new("2024-11-05", Http).await).await;
    }

    /// An SDK of the time of 2025-03-26.
    #[tokio::test]
    async fn sdk_1_12() {
        play("sdk-1.12", ScriptRun::new("2025-03-26", Http).await).await;
    }

    /// An SDK of the time of 2025-06-18.
    #[tokio::test]
    async fn sdk_1_23() {
        play("sdk-1.23", ScriptRun::new("2025-06-18", Http).await).await;
    }

    /// The newest SDK of the first generation asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_1_32() {
        play("sdk-1.32", ScriptRun::new("2025-11-25", Http).await).await;
    }

    /// The second generation by default: it asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_2_4() {
        play("sdk-2.4", ScriptRun::new("2025-11-25", Http).await).await;
    }

    /// The second generation configured to discover the server's revision: 2026-07-28, without any session.
    #[tokio::test]
    async fn sdk_2_4_negotiated() {
        play("sdk-2.4", ScriptRun::probing("2026-07-28", Http).await).await;
    }
}

mod joined {
    use super::{ClientTransport::Joined, ScriptRun, play};

    /// The newest SDK of the first generation, through a front that has joined a server.
    #[tokio::test]
    async fn sdk_1_32() {
        play("sdk-1.32", ScriptRun::new("2025-11-25", Joined).await).await;
    }

    /// The second generation configured to discover the server's revision, through a front that has joined one.
    #[tokio::test]
    async fn sdk_2_4_negotiated() {
        play("sdk-2.4", ScriptRun::probing("2026-07-28", Joined).await).await;
    }
}
