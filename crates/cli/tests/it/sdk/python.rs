//! The Python SDKs. All know streamable HTTP, and 2.3 speaks both eras of the protocol.

use serde_json::json;

use super::script_run::{ClientTransport, ScriptRun, installed};

async fn play(version: &str, run: ScriptRun) {
    let folder = installed().join("python");
    let program = folder.join("venv/bin/python");
    let sdk = folder.join(version);
    run.run_program(&program, "python/script.py", json!({}), &[("PYTHONPATH", &sdk)]).await;
}

mod stdio {
    use super::{ClientTransport::Stdio, ScriptRun, play};

    /// An SDK of the time of 2024-11-05.
    #[tokio::test]
    async fn sdk_1_8() {
        play("1.8", ScriptRun::new("2024-11-05", Stdio).await).await;
    }

    /// An SDK of the time of 2025-03-26.
    #[tokio::test]
    async fn sdk_1_9() {
        play("1.9", ScriptRun::new("2025-03-26", Stdio).await).await;
    }

    /// An SDK of the time of 2025-06-18.
    #[tokio::test]
    async fn sdk_1_22() {
        play("1.22", ScriptRun::new("2025-06-18", Stdio).await).await;
    }

    /// The newest SDK of the first generation asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_1_30() {
        play("1.30", ScriptRun::new("2025-11-25", Stdio).await).await;
    }

    /// The second generation configured for a handshake: it asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_2_3_with_a_handshake() {
        play("2.3", ScriptRun::new("2025-11-25", Stdio).await).await;
    }

    /// The second generation by default: it finds 2026-07-28, and the process is the connection.
    #[tokio::test]
    async fn sdk_2_3() {
        play("2.3", ScriptRun::probing("2026-07-28", Stdio).await).await;
    }
}

mod http {
    use super::{ClientTransport::Http, ScriptRun, play};

    /// An SDK of the time of 2024-11-05, which had no streamable HTTP yet: this SDK already does.
    #[tokio::test]
    async fn sdk_1_8() {
        play("1.8", ScriptRun::new("2024-11-05", Http).await).await;
    }

    /// An SDK of the time of 2025-03-26.
    #[tokio::test]
    async fn sdk_1_9() {
        play("1.9", ScriptRun::new("2025-03-26", Http).await).await;
    }

    /// An SDK of the time of 2025-06-18.
    #[tokio::test]
    async fn sdk_1_22() {
        play("1.22", ScriptRun::new("2025-06-18", Http).await).await;
    }

    /// The newest SDK of the first generation asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_1_30() {
        play("1.30", ScriptRun::new("2025-11-25", Http).await).await;
    }

    /// The second generation configured for a handshake: it asks for 2025-11-25.
    #[tokio::test]
    async fn sdk_2_3_with_a_handshake() {
        play("2.3", ScriptRun::new("2025-11-25", Http).await).await;
    }

    /// The second generation by default: it finds 2026-07-28, and uses no session.
    #[tokio::test]
    async fn sdk_2_3() {
        play("2.3", ScriptRun::probing("2026-07-28", Http).await).await;
    }
}

mod joined {
    use super::{ClientTransport::Joined, ScriptRun, play};

    /// The newest SDK of the first generation, through a front that has joined a server.
    #[tokio::test]
    async fn sdk_1_30() {
        play("1.30", ScriptRun::new("2025-11-25", Joined).await).await;
    }

    /// The second generation by default, through a front that has joined a server.
    #[tokio::test]
    async fn sdk_2_3() {
        play("2.3", ScriptRun::probing("2026-07-28", Joined).await).await;
    }
}
