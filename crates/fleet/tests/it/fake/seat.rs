//! A fake seat, and the calls that it is busy with.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, Call, Crash, Fields, Lost, Raw, Reply, Seat, View,
    port::{PortUser, StoppedDownloads},
    raw::{encode, parse},
};
use tokio::sync::{oneshot, watch};

use super::World;

/// A call that a seat is busy with. If it is dropped, the call never ends.
pub struct Held {
    pub seat: u64,
    pub tool: String,
    answer: oneshot::Sender<Result<Reply, Lost>>,
}

impl Held {
    pub fn answer(self) {
        let reply = reply(self.seat, &self.tool);
        let _ = self.answer.send(Ok(reply));
    }

    pub fn answer_with(self, body: Result<Raw, Raw>) {
        let _ = self.answer.send(Ok(Reply::from(body)));
    }

    /// Whether the fleet still waits for this answer.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }
}

fn answer(body: Result<&str, &str>) -> Reply {
    let raw = |text: &str| parse(text.to_owned()).unwrap();
    body.map(raw).map_err(raw).into()
}

fn reply(seat: u64, tool: &str) -> Reply {
    let mut fields = Fields::default();
    fields.set("seat", encode(&seat));
    fields.set("tool", encode(tool));
    Ok(fields.to_raw()).into()
}

pub(super) struct FakeSeat {
    world: Arc<World>,
    number: u64,
    lost: watch::Sender<Option<Lost>>,
    view: watch::Sender<View>,
    closed: bool,
}

impl FakeSeat {
    pub(super) fn new(
        world: Arc<World>,
        number: u64,
        lost: watch::Sender<Option<Lost>>,
        view: watch::Sender<View>,
    ) -> Self {
        Self { world, number, lost, view, closed: false }
    }
}

impl Seat for FakeSeat {
    fn call<'a>(&'a mut self, call: Call, _agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(async move {
            self.world.state().log.push((self.number, call.tool.to_string()));
            let known_lost = self.lost.borrow().is_some();
            self.world.count(|counts| {
                counts.calls += 1;
                counts.calls_on_lost += usize::from(known_lost);
            });
            assert_ne!(&*call.tool, "panic", "as the test wanted");
            if call.tool.starts_with("fail") {
                return Ok(answer(Ok(
                    r#"{"content":[{"type":"text","text":"no such ref"}],"isError":true}"#,
                )));
            }
            if call.tool.starts_with("refuse") {
                return Ok(answer(Err(r#"{"code":-32602,"message":"no such tool"}"#)));
            }
            if !call.tool.starts_with("hold") {
                return Ok(reply(self.number, &call.tool));
            }
            let (answer, answered) = oneshot::channel();
            let held = Held { seat: self.number, tool: call.tool.to_string(), answer };
            self.world.held.send(held).unwrap();
            match answered.await {
                Ok(outcome) => outcome,
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn assign(&mut self, user: PortUser) {
        self.world.state().users.push(user);
    }

    /// The parameter `wait`, in seconds.
    fn own_wait(&self, call: &Call) -> Duration {
        let wait = Fields::open(&call.params).unwrap().read("wait").unwrap();
        Duration::from_secs(wait.unwrap_or_default())
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        if self.world.state().lose_when_looked_at.take_if(|seat| *seat == self.number).is_some() {
            self.lost.send_replace(Some(Lost::Page("crashed".into())));
        }
        self.lost.subscribe()
    }

    fn take_crashes(&mut self) -> Vec<Crash> {
        self.world.state().crashes.remove(&self.number).unwrap_or_default()
    }

    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        self.world.state().stopped_downloads.remove(&self.number)
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        self.closed = true;
        self.world.count(|counts| counts.closes += 1);
        Box::pin(async move {
            self.world.closing.pass().await;
        })
    }
}

impl Drop for FakeSeat {
    fn drop(&mut self) {
        self.world.state().seats.remove(&self.number);
        self.world.count(|counts| counts.dropped += usize::from(!self.closed));
    }
}
