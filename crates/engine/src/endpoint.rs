//! An attached browser: where its debugger is, which headers its connections get, and which command starts it again.
//!
//! An endpoint makes short connections only: the code that attaches to the browser has a connection of its own. Only
//! [`Endpoint::revive`] starts anything, by the operator's command, and what it starts is not a child that ends with
//! greenroom. While that process runs, no second one is started. Addresses are shown without the secrets in them, headers
//! not at all.

use std::{fmt, net::IpAddr, time::Duration};

use greenroom_cdp::{CdpClient, Unreachable};
use greenroom_core::{
    Backoff, StartError,
    port::{human, stderr_suffix},
    raw::encode,
    web_address,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    exit::Exit,
    launcher::Launcher,
    run_folder::RunFolder,
    start_command::{StartCommand, StartedProcess},
};

/// How long a browser may take from its start command until its debugger answers. A cold start with a big profile on
/// a busy machine takes ten seconds, a container that has to come up first twenty.
const REVIVED_WITHIN: Duration = Duration::from_secs(30);

/// How long to wait before the debugger is asked again. Chromium listens within half a second.
const ASK_AGAIN: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_millis(800) };

/// How to reach a running browser.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `http://host:port`, or the WebSocket address of its debugger.
    pub url: String,
    /// Sent with every connection to the debugger; their values are secrets.
    pub headers: Vec<(String, String)>,
    /// The command that starts the browser, if there is one.
    pub start_command: StartCommand,
}

impl Endpoint {
    /// The WebSocket address of the browser's debugger, if it can be found, for a connection with
    /// [`Endpoint::sent_headers`]. A WebSocket address is returned as it is, without a connection.
    pub async fn reach(&self) -> Result<String, StartError> {
        greenroom_cdp::discover(&self.url, &self.headers)
            .await
            .map_err(|error| self.unreachable_error(&error))
    }

    /// The headers of every connection: the configured ones, and one for the password of the address.
    pub fn sent_headers(&self) -> Vec<(String, String)> {
        let given = |(name, _): &(String, String)| {
            self.headers.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name))
        };
        let password = greenroom_cdp::authorization(&self.url).filter(given);
        password.into_iter().chain(self.headers.iter().cloned()).collect()
    }

    fn secrets(&self) -> impl Iterator<Item = String> + '_ {
        greenroom_cdp::secrets(&self.url)
            .into_iter()
            .chain(self.headers.iter().map(|(_, value)| value.clone()))
    }

    /// Another program's text without the secrets of this endpoint, also in their JSON form.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        self.secrets().fold(text.to_owned(), |text, secret| {
            let escaped = encode(&secret);
            // The quotes are not part of the secret.
            let inner = escaped.get().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            text.replace(inner.unwrap_or(&secret), "…").replace(&secret, "…")
        })
    }

    /// The address without its secrets, for messages.
    pub fn url_without_secrets(&self) -> String {
        web_address::shown(&self.url)
    }

    /// Host and port, as far as the address says.
    pub fn host_and_port(&self) -> Option<(String, u16)> {
        greenroom_cdp::host_and_port(&self.url)
    }

    /// The same browser with its host name replaced by this address, whatever the name resolves to later.
    pub fn pinned(self, ip: IpAddr) -> Self {
        let url = greenroom_cdp::pinned(&self.url, ip).unwrap_or_else(|| self.url.clone());
        Self { url, ..self }
    }

    /// The debugger's port on this machine, as far as the address says. None of greenroom's browsers may reach it.
    pub fn local_port(&self) -> Option<u16> {
        greenroom_cdp::local_port(&self.url)
    }

    /// Starts the browser if it does not answer and there is a command for that, and waits until it answers.
    /// If a process of an earlier start still runs, this waits for that process just as long, and does not
    /// start a second one. Returns whether anything was started. The caller makes one call at a time: two would
    /// start two browsers.
    pub async fn revive(&self, launcher: &Launcher, run: &RunFolder) -> Result<bool, StartError> {
        if self.start_command.is_empty() || self.probe().await.is_ok() {
            return Ok(false);
        }
        let browser = self.url_without_secrets();
        let mut is_new = false;
        loop {
            // Each started process gets the whole time.
            let deadline = Instant::now() + REVIVED_WITHIN;
            let program = self.start_command.program();
            let running = self.start_command.running();
            let started = if let Some(running) = running {
                tracing::info!(
                    program,
                    browser,
                    pid = running.pid(),
                    "waiting for a browser that was started before"
                );
                running
            } else {
                is_new = true;
                let started = self.start_command.start(launcher, run, &self.url).await?;
                tracing::info!(
                    program,
                    browser,
                    pid = started.pid(),
                    "started a browser that did not answer"
                );
                started
            };
            tokio::select! {
                biased;
                answered = timeout_at(deadline, self.wait_until_it_answers()) => {
                    return answered.map(|()| is_new).map_err(|_| self.not_revived_error(&started));
                }
                exit = started.failed() => {
                    if is_new {
                        return Err(self.start_failed_error(&started, &exit));
                    }
                    tracing::info!(program, browser, %exit, "the process of an earlier start has ended");
                }
            }
        }
    }

    /// Whether greenroom can connect to the browser now, and if not, why. Starts nothing, and leaves no connection open.
    pub async fn check(&self) -> Result<(), StartError> {
        self.probe().await.map_err(|error| self.unreachable_error(&error))
    }

    async fn wait_until_it_answers(&self) {
        let mut attempts = 0;
        while self.probe().await.is_err() {
            sleep(ASK_AGAIN.pause(attempts)).await;
            attempts += 1;
        }
    }

    /// Whether a browser that accepts connections answers.
    async fn probe(&self) -> Result<(), greenroom_cdp::Error> {
        let address = greenroom_cdp::discover(&self.url, &self.headers).await?;
        CdpClient::connect_with(&address, &self.sent_headers()).await.map(drop)
    }

    fn start_failed_error(&self, started: &StartedProcess, exit: &Exit) -> StartError {
        let program = self.start_command.program();
        let stderr = self.stderr_suffix(started);
        StartError::new(format!("the start command ended ({exit}): `{program}`{stderr}")).hint(
            "run it by hand to see why; a browser that runs on the same profile already is a common cause",
        )
    }

    fn not_revived_error(&self, started: &StartedProcess) -> StartError {
        let program = self.start_command.program();
        let stderr = self.stderr_suffix(started);
        let url = self.url_without_secrets();
        let limit = human(REVIVED_WITHIN);
        let flag = self.flag();
        let hint = format!("the command has to start a browser with {flag}");
        let (state, hint) = match started.ended() {
            Some(exit) => (format!("the start command ended ({exit})"), hint),
            None => {
                let pid = started.pid();
                let state = format!("process {pid}, which the start command started, still runs");
                (state, format!("{hint}; it is not run again while process {pid} runs"))
            }
        };
        StartError::new(format!(
            "{state}, and the browser at {url} did not answer within {limit}: `{program}`{stderr}"
        ))
        .hint(hint)
    }

    /// The process's last output, for the end of a message. The process may print the address with its secrets.
    fn stderr_suffix(&self, started: &StartedProcess) -> String {
        stderr_suffix(&started.stderr_tail(|stderr| self.without_secrets(stderr)))
    }

    /// The error for a browser that cannot be reached, with a hint.
    pub(crate) fn unreachable_error(&self, error: &greenroom_cdp::Error) -> StartError {
        let greenroom_cdp::Error::Connect { why, .. } = error else {
            return StartError::new(error.to_string());
        };
        let flag = self.flag();
        let hint = match why {
            Unreachable::Address(_) => "give `http://host:port`, or the WebSocket address of a browser's debugger".to_owned(),
            Unreachable::Header { .. } => "correct `headers` of this browser".to_owned(),
            Unreachable::Name(_) => "check the name of the host".to_owned(),
            Unreachable::Io(_) => format!("start it with {flag}; one that runs without it has to be ended first"),
            Unreachable::Tls(_) => "is its certificate one that this machine trusts?".to_owned(),
            Unreachable::Silent(_) => "something listens there and says nothing: does the browser hang, or ask its user for permission?".to_owned(),
            Unreachable::Status(401 | 403) => "it requires other `headers` of this browser, or refuses every connection".to_owned(),
            Unreachable::Status(500) => "a browser answers only to `localhost` or an IP address: use one of these as host".to_owned(),
            Unreachable::Status(404) => format!("the browser may have been restarted, which changes its WebSocket address; `http://host:port` stays. Start it with {flag}"),
            Unreachable::Status(_) | Unreachable::InvalidResponse(_) => format!("is this the debugger's address? The browser has to run with {flag}"),
        };
        StartError::new(error.to_string()).hint(hint)
    }

    fn flag(&self) -> String {
        greenroom_cdp::port(&self.url).map_or_else(
            || "--remote-debugging-port".to_owned(),
            |port| format!("--remote-debugging-port={port}"),
        )
    }
}

/// Without the values of its headers, and without the address's secrets.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Endpoint")
            .field("url", &self.url_without_secrets())
            .field("headers", &headers)
            .field("start_command", &self.start_command.program())
            .finish()
    }
}
