//! The Rust SDK, rmcp, one version for all revisions: it asks for the configured one. [`script`] has the steps.

#[allow(deprecated, reason = "logging goes out of the protocol, and older revisions have it")]
mod agent;
#[allow(deprecated, reason = "as above")]
mod script;

use super::script_run::{ClientTransport, ScriptRun};

async fn play(run: ScriptRun) {
    let lines = script::play(&run).await;
    run.check(&lines);
    run.end().await;
}

mod stdio {
    use super::{ClientTransport::Stdio, ScriptRun, play};

    /// rmcp that asks for 2024-11-05.
    #[tokio::test]
    async fn rmcp_2024_11_05() {
        play(ScriptRun::new("2024-11-05", Stdio).await).await;
    }

    /// rmcp that asks for 2025-03-26.
    #[tokio::test]
    async fn rmcp_2025_03_26() {
        play(ScriptRun::new("2025-03-26", Stdio).await).await;
    }

    /// rmcp that asks for 2025-06-18.
    #[tokio::test]
    async fn rmcp_2025_06_18() {
        play(ScriptRun::new("2025-06-18", Stdio).await).await;
    }

    /// rmcp that asks for 2025-11-25.
    #[tokio::test]
    async fn rmcp_2025_11_25() {
        play(ScriptRun::new("2025-11-25", Stdio).await).await;
    }

    /// rmcp configured to discover the server's revision: 2026-07-28, and the process is the connection.
    #[tokio::test]
    async fn rmcp_negotiated() {
        play(ScriptRun::probing("2026-07-28", Stdio).await).await;
    }
}

mod http {
    use super::{ClientTransport::Http, ScriptRun, play};

    /// rmcp that asks for 2024-11-05, which had no streamable HTTP yet.
    #[tokio::test]
    async fn rmcp_2024_11_05() {
        play(ScriptRun::new("2024-11-05", Http).await).await;
    }

    /// rmcp that asks for 2025-03-26.
    #[tokio::test]
    async fn rmcp_2025_03_26() {
        play(ScriptRun::new("2025-03-26", Http).await).await;
    }

    /// rmcp that asks for 2025-06-18.
    #[tokio::test]
    async fn rmcp_2025_06_18() {
        play(ScriptRun::new("2025-06-18", Http).await).await;
    }

    /// rmcp that asks for 2025-11-25.
    #[tokio::test]
    async fn rmcp_2025_11_25() {
        play(ScriptRun::new("2025-11-25", Http).await).await;
    }

    /// rmcp configured to discover the server's revision: 2026-07-28, without any session.
    #[tokio::test]
    async fn rmcp_negotiated() {
        play(ScriptRun::probing("2026-07-28", Http).await).await;
    }
}

mod joined {
    use super::{ClientTransport::Joined, ScriptRun, play};

    /// rmcp that asks for 2025-11-25, through a front that has joined a server.
    #[tokio::test]
    async fn rmcp_2025_11_25() {
        play(ScriptRun::new("2025-11-25", Joined).await).await;
    }

    /// rmcp configured to discover the server's revision, through a front that has joined one.
    #[tokio::test]
    async fn rmcp_negotiated() {
        play(ScriptRun::probing("2026-07-28", Joined).await).await;
    }
}
