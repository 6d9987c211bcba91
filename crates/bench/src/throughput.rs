//! How many calls a second greenroom carries on one core, with 64 in flight.

use std::time::{Duration, Instant};

use greenroom_testkit::process::children;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

use crate::{
    agent::{BenchAgent, Caller, response_id},
    machine::{cores, cpu_seconds, pin},
    programs::Programs,
    report::{Goal, Row, Section},
    stats::{greatest, median},
};

pub const IN_FLIGHT: usize = 64;
pub const GOAL: f64 = 10_000.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let (rounds, length) = if quick { (2, Duration::from_millis(300)) } else { (12, Duration::from_secs(1)) };
    let all = cores();
    let greenroom_cores = &all[..1];
    let other_cores = if all.len() > 1 { &all[1..2] } else { &all[..1] };

    // A child inherits its parent's cores, so greenroom runs on its own core from its first thread on.
    pin(None, greenroom_cores);
    let greenroom = BenchAgent::start(programs.greenroom_fake(IN_FLIGHT));
    pin(None, other_cores);
    let pid = greenroom.pid();
    let mut through = Load::new(vec![greenroom], IN_FLIGHT);
    children(pid).into_iter().for_each(|engine| pin(Some(engine), other_cores));
    let alone = (0..IN_FLIGHT).map(|_| BenchAgent::start(programs.fake_alone())).collect();
    let mut direct = Load::new(alone, 1);

    let mut through_rates = Vec::new();
    let mut direct_rates = Vec::new();
    let mut cpu = Vec::new();
    for _ in 0..rounds {
        let before = cpu_seconds(pid);
        let (calls, rate) = through.run(length);
        cpu.push((cpu_seconds(pid) - before) / calls as f64 * 1e6);
        through_rates.push(rate);
        direct_rates.push(direct.run(length).1);
    }
    drop((through, direct));
    pin(None, &all);

    let rate = median(&through_rates);
    let row = Row::new(
        format!("calls a second, {IN_FLIGHT} in flight, greenroom on one core"),
        format!("{rate:.0}"),
        format!("{:.0}", median(&direct_rates)),
    );
    let how = format!(
        "{IN_FLIGHT} sessions, each with one call of `echo` in flight and a fake engine of its own; compared with the same \
         client with {IN_FLIGHT} fake engines and nothing between. greenroom is pinned to one core; client and \
         engines share another, in both cases. {rounds} rounds of {} ms each in turns, medians; the best round of \
         greenroom had {:.0}/s. greenroom used {:.0} µs of processor time per call.",
        length.as_millis(),
        greatest(&through_rates),
        median(&cpu),
    );
    let row = row.ratio(rate / median(&direct_rates)).goal(Goal::check("≥ 10,000", rate >= GOAL));
    Section { title: "Many calls", rows: vec![row], how }
}

/// One client thread that keeps a call in flight on every session of every agent.
pub struct Load {
    agents: Vec<BenchAgent>,
    /// Sessions of each agent. Request ids say which session they belong to.
    sessions: usize,
    calls: Vec<String>,
}

impl Load {
    pub fn new(mut agents: Vec<BenchAgent>, sessions: usize) -> Self {
        let named = |session: usize| match sessions {
            1 => json!({ "text": "hello" }),
            _ => json!({ "text": "hello", "sessionId": format!("s{session}") }),
        };
        for agent in &mut agents {
            (0..sessions).for_each(|session| drop(agent.call("echo", &named(session))));
        }
        let params = |session| json!({ "name": "echo", "arguments": named(session) }).to_string();
        let calls = (0..sessions).map(params).collect();
        Self { agents, sessions, calls }
    }

    /// Keeps calls in flight for this long, then waits for the last answers. Returns the number of calls, and
    /// calls per second.
    pub fn run(&mut self, length: Duration) -> (usize, f64) {
        let mut buffers = vec![Vec::new(); self.agents.len()];
        let mut out = Vec::new();
        // Ids begin far above those of the handshake and hold the session in their remainder.
        let mut turn = 1_000;
        let begun = Instant::now();
        let mut waiting = 0;
        for agent in &mut self.agents {
            out.clear();
            for (session, call) in self.calls.iter().enumerate() {
                push(&mut out, turn * self.sessions + session, call);
            }
            agent.write(&out);
            waiting += self.sessions;
        }
        let mut done = 0;
        while waiting > 0 {
            turn += 1;
            let mut fds: Vec<PollFd<'_>> = self
                .agents
                .iter()
                .map(|agent| PollFd::from_borrowed_fd(agent.readable(), PollFlags::IN))
                .collect();
            poll(&mut fds, None).expect("pipes can be polled");
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let go_on = begun.elapsed() < length;
            let at = self.agents.iter_mut().zip(&mut buffers).zip(ready).filter(|(_, ready)| *ready);
            for ((agent, buffer), _) in at {
                agent.read(buffer);
                out.clear();
                let whole = buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                for line in buffer[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let Some(id) = response_id(line).and_then(|id| usize::try_from(id).ok()) else {
                        continue;
                    };
                    done += 1;
                    waiting -= 1;
                    if go_on {
                        let session = id % self.sessions;
                        push(&mut out, turn * self.sessions + session, &self.calls[session]);
                        waiting += 1;
                    }
                }
                buffer.drain(..whole);
                if !out.is_empty() {
                    agent.write(&out);
                }
            }
        }
        (done, done as f64 / begun.elapsed().as_secs_f64())
    }
}

fn push(out: &mut Vec<u8>, id: usize, params: &str) {
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}\n");
    out.extend_from_slice(line.as_bytes());
}
