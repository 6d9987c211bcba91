//! Asks every greenroom of a data folder at once.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use futures_util::future::join_all;
use greenroom_gateway::control::{OpenSession, OpenSessions, ProcessStatus};

use super::{ControlClient, ControlEndpoint, ControlError, find_endpoints};
use crate::report;

/// The answers of a greenroom.
#[derive(Debug, Clone)]
pub struct GreenroomReport {
    pub endpoint: ControlEndpoint,
    pub status: ProcessStatus,
    pub sessions: Vec<OpenSession>,
    /// How many more sessions the greenroom has: its list is bounded.
    pub sessions_left_out: usize,
}

/// The outcome of asking a greenroom.
#[derive(Debug, Clone)]
pub enum QueryOutcome {
    Answered(Box<GreenroomReport>),
    /// The process runs and does not answer, or its answer cannot be read.
    Unanswered {
        endpoint: ControlEndpoint,
        why: String,
    },
}

/// Asks all greenrooms at once. Leaves out processes that ended meanwhile, and sockets without a process.
pub async fn query_all(data_folder: &Path) -> Vec<QueryOutcome> {
    join_all(find_endpoints(data_folder).into_iter().map(query)).await.into_iter().flatten().collect()
}

async fn query(endpoint: ControlEndpoint) -> Option<QueryOutcome> {
    let queried = async {
        let mut client = ControlClient::open(&endpoint.socket).await?;
        let status: ProcessStatus = client.get("/control/status").await?;
        let OpenSessions { sessions, left_out } = client.get("/control/sessions").await?;
        if left_out > 0 {
            tracing::warn!(left_out, "a list of sessions is cut: it is too long");
        }
        Ok((status, sessions, left_out))
    };
    match queried.await {
        Ok((mut status, sessions, sessions_left_out)) => {
            status.listen = status.listen.or_else(|| endpoint.server.clone());
            let report = GreenroomReport { endpoint, status, sessions, sessions_left_out };
            Some(QueryOutcome::Answered(Box::new(report)))
        }
        Err(ControlError::NotRunning) => None,
        Err(ControlError::Silent(_)) => {
            Some(QueryOutcome::Unanswered { endpoint, why: "does not answer".to_owned() })
        }
        Err(error) => Some(QueryOutcome::Unanswered { endpoint, why: format!("cannot be asked: {error}") }),
    }
}

/// The message where no greenroom runs.
pub fn none_running_message(data_folder: &Path) -> String {
    format!(
        "no greenroom is running with the data folder `{}`\n\nhint: `greenroom serve`, a command such as `greenroom open URL`, \
         or an agent's client starts one; `--data-dir` looks into another folder\n",
        data_folder.display()
    )
}

/// Prints `text`, and on stderr each process that did not answer: then the list is incomplete, and the exit code a
/// failure.
pub fn print(text: &str, outcomes: &[QueryOutcome]) -> anyhow::Result<ExitCode> {
    io::stdout().lock().write_all(text.as_bytes())?;
    let unanswered_messages = unanswered_messages(outcomes);
    for problem in &unanswered_messages {
        report::problem(problem, None);
    }
    Ok(if unanswered_messages.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The reports of the processes that answered.
pub fn reports(outcomes: &[QueryOutcome]) -> impl Iterator<Item = &GreenroomReport> {
    outcomes.iter().filter_map(|outcome| match outcome {
        QueryOutcome::Answered(report) => Some(&**report),
        QueryOutcome::Unanswered { .. } => None,
    })
}

/// A message for each process that did not answer.
pub fn unanswered_messages(outcomes: &[QueryOutcome]) -> Vec<String> {
    let unanswered_messages = |outcome: &QueryOutcome| match outcome {
        QueryOutcome::Answered(_) => None,
        QueryOutcome::Unanswered { endpoint, why } => Some(format!("pid {} {why}", endpoint.pid)),
    };
    outcomes.iter().filter_map(unanswered_messages).collect()
}
