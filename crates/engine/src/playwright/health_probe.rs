//! Checks that engine and browser answer, independently of running calls.
//!
//! The probe pings the engine over an MCP session of its own, which stays open and never makes a context; if each seat
//! has a Node process of its own, over the seats' sessions. It pings the browser over the observer's connection. This
//! module notes which of them has not answered, so that an error after a timeout can name it.

use std::{
    path::Path,
    sync::{Arc, Weak},
};

use greenroom_core::{HealthCheckFailed, NoAgent};
use greenroom_mcp::link::http::HttpEndpoint;
use parking_lot::Mutex as Plain;
use tokio::sync::Mutex;

use crate::{observed_browser::ObservedBrowser, ping_state::PingState, upstream::Upstream};

const ENGINE: &str = "the engine";
const BROWSER: &str = "the browser";

#[derive(Default)]
pub(super) struct HealthProbe {
    /// The MCP session for pings. A ping holds the lock; a second one waits for it.
    session: Mutex<Option<Upstream>>,
    /// Sessions of seats that have a Node of their own, with its process id.
    seats: Plain<Vec<(u32, Weak<Upstream>)>>,
    engine: PingState,
}

impl HealthProbe {
    /// Adds a seat with a Node of its own.
    pub(super) fn add(&self, pid: u32, upstream: &Arc<Upstream>) {
        let mut seats = self.seats.lock();
        seats.retain(|(_, seat)| seat.strong_count() > 0);
        seats.push((pid, Arc::downgrade(upstream)));
    }

    /// The Node processes of the seats.
    pub(super) fn nodes(&self) -> Vec<u32> {
        self.seat_sessions().into_iter().map(|(pid, _)| pid).collect()
    }

    fn seat_sessions(&self) -> Vec<(u32, Arc<Upstream>)> {
        let seats = self.seats.lock();
        seats.iter().filter_map(|(pid, seat)| Some((*pid, seat.upgrade()?))).collect()
    }

    /// Names what left the last ping unanswered: the engine, the browser or both.
    pub(super) fn silent(&self, browser: &ObservedBrowser) -> Option<Arc<str>> {
        let probed = [(ENGINE, self.engine.is_unanswered()), (BROWSER, browser.is_silent())];
        let silent: Vec<_> =
            probed.into_iter().filter_map(|(who, is_silent)| is_silent.then_some(who)).collect();
        (!silent.is_empty()).then(|| format!("{} did not answer", silent.join(" and ")).into())
    }

    /// Pings engine and browser at once; both must answer.
    pub(super) async fn check(
        &self,
        node: Option<&HttpEndpoint>,
        browser: &ObservedBrowser,
        folder: &Path,
    ) -> Result<(), HealthCheckFailed> {
        let engine = self.engine.track(async {
            match node {
                Some(endpoint) => self.ping_shared_engine(endpoint, folder).await,
                None => self.ping_seat_engines().await,
            }
        });
        let browser = async {
            browser
                .ping_plain()
                .await
                .map_err(|error| HealthCheckFailed(format!("{BROWSER} is unwell: {error}").into()))
        };
        tokio::try_join!(engine, browser).map(|_| ())
    }

    async fn ping_shared_engine(
        &self,
        endpoint: &HttpEndpoint,
        folder: &Path,
    ) -> Result<(), HealthCheckFailed> {
        let check_failed =
            |error: &dyn std::fmt::Display| HealthCheckFailed(format!("{ENGINE} is unwell: {error}").into());
        let mut session = self.session.lock().await;
        let upstream = match session.take() {
            Some(upstream) => session.insert(upstream),
            None => {
                let (peer, inbound) = endpoint.connect();
                let opened = Upstream::open(peer, inbound, folder, Arc::new(NoAgent), None);
                let opened = opened.await.map_err(greenroom_core::StartError::from);
                session.insert(opened.map_err(|error| check_failed(&error))?)
            }
        };
        if let Err(gone) = upstream.ping().await {
            // The next check opens another session, which may work.
            *session = None;
            return Err(check_failed(&gone));
        }
        Ok(())
    }

    async fn ping_seat_engines(&self) -> Result<(), HealthCheckFailed> {
        for (pid, upstream) in self.seat_sessions() {
            upstream.ping().await.map_err(|gone| {
                HealthCheckFailed(format!("{ENGINE} is unwell: {gone}: process {pid}").into())
            })?;
        }
        Ok(())
    }
}
