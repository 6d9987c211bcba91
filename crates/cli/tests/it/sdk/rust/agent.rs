//! The client behind the script: it connects, keeps every message, and answers every question with `blue`.

use std::process::Stdio;

use greenroom_testkit::{TEST_TIMEOUT, within};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, Implementation, LoggingMessageNotificationParam, ProgressNotificationParam,
        ProtocolVersion,
    },
    service::{NotificationContext, RequestContext, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::sdk::script_run::ScriptRun;

pub type RmcpClient = RunningService<RoleClient, RmcpAgent>;

/// Notifications and questions that the client receives.
pub enum ClientEvent {
    Progress(f64),
    Log(Value),
    Question(String),
    ToolsChanged,
}

pub struct RmcpAgent {
    revision: ProtocolVersion,
    elicits: bool,
    events: mpsc::UnboundedSender<ClientEvent>,
}

/// Connects by the revision and the transport of this run.
pub async fn connect(run: &ScriptRun) -> (RmcpClient, mpsc::UnboundedReceiver<ClientEvent>) {
    let (events, receiver) = mpsc::unbounded_channel();
    let revision: ProtocolVersion = serde_json::from_value(json!(run.revision)).unwrap();
    let lifecycle = if run.probes {
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(revision.clone()),
        }
    } else {
        ClientLifecycleMode::Initialize
    };
    let agent = RmcpAgent { revision, elicits: run.elicits(), events };
    let connected = match run.url() {
        Some(url) => {
            let transport = StreamableHttpClientTransport::from_uri(url);
            within(TEST_TIMEOUT, agent.serve_with_lifecycle(transport, lifecycle)).await
        }
        None => {
            let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_greenroom"));
            command
                .args(run.args())
                .env_clear()
                .envs(run.setup.environment())
                .current_dir(run.setup.path("home"))
                .stderr(Stdio::null());
            let transport = TokioChildProcess::new(command).unwrap();
            within(TEST_TIMEOUT, agent.serve_with_lifecycle(transport, lifecycle)).await
        }
    };
    (connected.unwrap(), receiver)
}

impl ClientHandler for RmcpAgent {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.elicits.then(ElicitationCapability::new);
        let config = ClientConfig::new(capabilities, Implementation::new("script", "1"));
        config.with_protocol_version(self.revision.clone())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.events.send(ClientEvent::Progress(params.progress)).unwrap();
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let LoggingMessageNotificationParam { level, logger, data, .. } = params;
        self.events.send(ClientEvent::Log(json!({"level": level, "logger": logger, "data": data}))).unwrap();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.send(ClientEvent::ToolsChanged).unwrap();
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            self.events.send(ClientEvent::Question(message)).unwrap();
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": "blue"})))
    }
}
