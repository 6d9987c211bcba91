//! Asks every greenroom of a data folder at once.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use futures_util::future::join_all;
use greenroom_gateway::control::{OpenSession, OpenSessions, ProcessStatus};

use super::{AskError, Asker, Neighbour, find};
use crate::report;

/// The answers of a greenroom.
#[derive(Debug, Clone)]
pub struct Answered {
    pub neighbour: Neighbour,
    pub status: ProcessStatus,
    pub sessions: Vec<OpenSession>,
}

/// The outcome of asking a greenroom.
#[derive(Debug, Clone)]
pub enum Look {
    Answered(Box<Answered>),
    /// It runs and does not answer, or its answer cannot be read.
    Unanswered {
        neighbour: Neighbour,
        why: String,
    },
}

/// Asks all of them at once. Those that ended meanwhile, and sockets without a process, are left out.
pub async fn look(data_folder: &Path) -> Vec<Look> {
    join_all(find(data_folder).into_iter().map(one)).await.into_iter().flatten().collect()
}

async fn one(neighbour: Neighbour) -> Option<Look> {
    let asked = async {
        let mut asker = Asker::open(&neighbour.socket).await?;
        let status: ProcessStatus = asker.get("/control/status").await?;
        let OpenSessions { sessions } = asker.get("/control/sessions").await?;
        Ok((status, sessions))
    };
    match asked.await {
        Ok((mut status, sessions)) => {
            status.listen = status.listen.or_else(|| neighbour.server.clone());
            Some(Look::Answered(Box::new(Answered { neighbour, status, sessions })))
        }
        Err(AskError::NotRunning) => None,
        Err(AskError::Silent(_)) => Some(Look::Unanswered { neighbour, why: "does not answer".to_owned() }),
        Err(error) => Some(Look::Unanswered { neighbour, why: format!("cannot be asked: {error}") }),
    }
}

/// The message where no greenroom runs.
pub fn nobody(data_folder: &Path) -> String {
    format!(
        "no greenroom is running with the data folder `{}`\n\nhint: an agent's client starts one, with `greenroom mcp`; \
         `--data-dir` looks into another folder\n",
        data_folder.display()
    )
}

/// Prints what was found, and on stderr who did not answer: then the list is incomplete, and the exit code a failure.
pub fn print(text: &str, looks: &[Look]) -> anyhow::Result<ExitCode> {
    io::stdout().lock().write_all(text.as_bytes())?;
    let silent = silent(looks);
    for problem in &silent {
        report::problem(problem, None);
    }
    Ok(if silent.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Those that answered.
pub fn answers(looks: &[Look]) -> impl Iterator<Item = &Answered> {
    looks.iter().filter_map(|look| match look {
        Look::Answered(answered) => Some(&**answered),
        Look::Unanswered { .. } => None,
    })
}

/// The messages about those that did not answer.
pub fn silent(looks: &[Look]) -> Vec<String> {
    let silent = |look: &Look| match look {
        Look::Answered(_) => None,
        Look::Unanswered { neighbour, why } => Some(format!("pid {} {why}", neighbour.pid)),
    };
    looks.iter().filter_map(silent).collect()
}
