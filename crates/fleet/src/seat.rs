//! Opens and closes seats within time limits, and waits for their loss ([`died`]), for sessions, spares and idle seats
//! alike.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Agent, Instance, Lost, OpenError, Seat, StartError, port::human};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

/// How long a seat may take to open. Connecting and making a context take well under a second; a browser that
/// needs longer than this will not get better.
const OPEN: Duration = Duration::from_secs(30);

/// How long a seat may take to close. Closing a context takes milliseconds; a page that hangs may hold it up
/// for ever, and neither the slot's next caller nor a shutdown may wait for that.
const CLOSE: Duration = Duration::from_secs(5);

/// Why there is no seat.
pub(crate) enum NoSeat {
    /// The instance is gone; another instance may open a seat.
    Instance(StartError),
    /// The instance did not open the seat in time. It may be alive; another instance may be faster.
    Late(StartError),
    /// The instance is alive, but could not open the seat.
    Failed(StartError),
    /// greenroom is shutting down.
    Closing,
}

impl From<NoSeat> for StartError {
    fn from(why: NoSeat) -> Self {
        match why {
            NoSeat::Instance(error) | NoSeat::Late(error) | NoSeat::Failed(error) => error,
            NoSeat::Closing => Self::new("greenroom is shutting down"),
        }
    }
}

/// Opens a seat. Gives up when `closing` is cancelled: a shutdown ends the browser, and a half-open seat with it.
pub(crate) async fn open(
    instance: &dyn Instance,
    agent: Arc<dyn Agent>,
    closing: &CancellationToken,
) -> Result<Box<dyn Seat>, NoSeat> {
    let opened = tokio::select! {
        opened = timeout(OPEN, instance.open(agent)) => opened,
        () = closing.cancelled() => return Err(NoSeat::Closing),
    };
    match opened {
        Ok(Ok(seat)) => Ok(seat),
        Ok(Err(OpenError::Lost(lost))) => Err(NoSeat::Instance(StartError::new(lost.to_string()))),
        Ok(Err(OpenError::Late(error))) => Err(NoSeat::Late(error)),
        Ok(Err(OpenError::Failed(error))) => Err(NoSeat::Failed(error)),
        Err(_) => Err(NoSeat::Late(StartError::new(format!("no seat within {}", human(OPEN))))),
    }
}

/// Closes a seat, and returns whether it closed in time.
pub(crate) async fn close(seat: Box<dyn Seat>) -> bool {
    timeout(CLOSE, seat.close()).await.is_ok()
}

/// Resolves when the seat is lost; never, if the sender was dropped without a reason.
pub(crate) async fn died(lost: &mut watch::Receiver<Option<Lost>>) -> Lost {
    match lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) {
        Ok(Some(lost)) => lost,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}
