//! Looks at every greenroom of a data folder at once.

use std::path::Path;

use futures_util::future::join_all;
use greenroom_gateway::control::{Session, Sessions, Status};

use super::{AskError, Asker, Neighbour, find};

/// What a greenroom said.
#[derive(Debug, Clone)]
pub struct Answered {
    pub neighbour: Neighbour,
    pub status: Status,
    pub sessions: Vec<Session>,
}

/// What came of looking at a greenroom.
#[derive(Debug, Clone)]
pub enum Look {
    Answered(Box<Answered>),
    /// It runs and says nothing, or nothing that can be understood.
    Unanswered {
        neighbour: Neighbour,
        why: String,
    },
}

/// Asks all of them, at the same time. Those that ended meanwhile, and sockets that nobody serves, are left out.
pub async fn look(data_folder: &Path) -> Vec<Look> {
    join_all(find(data_folder).into_iter().map(one)).await.into_iter().flatten().collect()
}

async fn one(neighbour: Neighbour) -> Option<Look> {
    let asked = async {
        let mut asker = Asker::open(&neighbour.socket).await?;
        let status: Status = asker.get("/control/status").await?;
        let Sessions { sessions } = asker.get("/control/sessions").await?;
        Ok((status, sessions))
    };
    match asked.await {
        Ok((mut status, sessions)) => {
            status.listen = status.listen.or_else(|| neighbour.server.clone());
            Some(Look::Answered(Box::new(Answered { neighbour, status, sessions })))
        }
        Err(AskError::Nobody) => None,
        Err(AskError::Silent(_)) => Some(Look::Unanswered { neighbour, why: "does not answer".to_owned() }),
        Err(error) => Some(Look::Unanswered { neighbour, why: format!("cannot be asked: {error}") }),
    }
}

/// What to say where no greenroom runs.
pub fn nobody(data_folder: &Path) -> String {
    format!(
        "no greenroom is running with the data folder `{}`\n\nhint: an agent's client starts one, with `greenroom mcp`; \
         `--data-dir` looks into another folder\n",
        data_folder.display()
    )
}
