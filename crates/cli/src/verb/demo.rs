//! `greenroom demo`: shows what greenroom is for, with its own site and agents.
//!
//! Exit code 0 when every agent saw its own data only, 1 when anything went wrong.

use std::{process::ExitCode, time::Duration};

use greenroom_core::{plural::count_of, port::human, settings::Resolved};
use tokio::time::timeout;

use crate::{
    config::ProcessEnv,
    demo::{self, DemoOutcome, catalog::AGENTS_MAX},
    report::CliError,
    signals::Signals,
};

/// How long the demo may take. It usually takes a few seconds; on a machine this slow it shows nothing useful.
const DEMO_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// How many agents shop
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=i64::from(AGENTS_MAX)))]
    pub agents: u8,

    /// Print a JSON object per event
    #[arg(long)]
    pub json: bool,
}

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let settings = &resolved.settings;
    demo::check(settings, env)?;
    let stop = Signals::listen(false)?.stop;
    // A signal or the timeout cancels this token; `demo::run` then ends everything in order.
    let ending = stop.child_token();
    let playing = demo::run(settings, env, args.agents, args.json, ending.clone());
    let mut playing = std::pin::pin!(playing);
    let (in_time, outcome) = match timeout(DEMO_TIMEOUT, &mut playing).await {
        Ok(outcome) => (true, outcome?),
        Err(_) => {
            ending.cancel();
            (false, playing.await?)
        }
    };
    match outcome {
        Some(DemoOutcome::Fine) => Ok(ExitCode::SUCCESS),
        Some(DemoOutcome::Failed { agents, message, hint }) => {
            let failure = CliError::failure(failed(agents, args.agents, &message));
            Err(failure.hint(hint.unwrap_or_else(|| "run `greenroom doctor`".to_owned())).into())
        }
        None if !in_time => {
            let message = format!("the demo did not end within {}", human(DEMO_TIMEOUT));
            Err(CliError::failure(message).hint("run `greenroom doctor`").into())
        }
        None => Err(CliError::failure("the demo was interrupted").into()),
    }
}

fn failed(agents: usize, of: u8, message: &str) -> String {
    format!("{} failed; {message}", count_of(agents, usize::from(of), "agent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count is in the singular for one agent.
    #[test]
    fn the_message_counts_failed_agents() {
        assert_eq!(failed(1, 1, "no browser"), "1 of 1 agent failed; no browser");
        assert_eq!(failed(1, 4, "no browser"), "1 of 4 agents failed; no browser");
    }
}
