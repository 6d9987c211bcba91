//! Gives every context that an engine makes its own port of the egress proxy: adds `proxyServer` to the engine's
//! `Target.createBrowserContext`, and notes which context uses which port.
//!
//! A context that gets no port is not made: without one it would use the browser's own port, and its connections would
//! belong to no session.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
};

use serde_json::Value;

use super::rules::Params;
use crate::context_ports::{ContextPorts, HeldPort};

/// Chromium goes around a proxy for loopback unless this entry of the bypass list forbids it.
const NO_BYPASS: &str = "<-loopback>";

/// The contexts of one connection. The browser drops them when the connection ends, and their ports close then.
pub(super) struct ContextProxies {
    ports: Arc<ContextPorts>,
    /// Ports of contexts that the browser has not made yet, by the engine's call.
    opening: HashMap<u32, HeldPort>,
    contexts: HashSet<String>,
}

impl ContextProxies {
    pub(super) fn new(ports: Arc<ContextPorts>) -> Self {
        Self { ports, opening: HashMap::new(), contexts: HashSet::new() }
    }

    /// The engine makes a context: opens its port, and adds it to the call.
    pub(super) fn creating(&mut self, call: u32, params: &mut Params) -> io::Result<()> {
        let port = self.ports.open()?;
        params.insert("proxyServer".to_owned(), Value::from(format!("http://{}", port.address())));
        // The ports of this connection close with it, so its contexts must end with it too.
        params.insert("disposeOnDetach".to_owned(), Value::from(true));
        params.insert("proxyBypassList".to_owned(), Value::from(NO_BYPASS));
        self.opening.insert(call, port);
        Ok(())
    }

    /// The browser has answered a call: with the context that it made, or without one.
    pub(super) fn answered(&mut self, call: u32, made: Option<&str>) {
        if let (Some(port), Some(context)) = (self.opening.remove(&call), made) {
            self.ports.made(context, port);
            self.contexts.insert(context.to_owned());
        }
    }

    /// The engine disposes of a context.
    pub(super) fn forget(&mut self, context: &str) {
        if self.contexts.remove(context) {
            self.ports.forget(context);
        }
    }
}

impl Drop for ContextProxies {
    fn drop(&mut self) {
        for context in &self.contexts {
            self.ports.forget(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::SocketAddr,
        sync::atomic::{AtomicU16, Ordering},
    };

    use greenroom_core::{
        network::{Blocked, OwnPorts},
        port::{Egress, EgressPort, PortUser, Refusals},
    };
    use serde_json::json;
    use tempfile::TempDir;
    use tokio::time::Instant;

    use super::{
        super::{EngineRules, ProxyMessage, Targets, filter::Filter},
        *,
    };
    use crate::{ports::Ports, run_folder::RunFolder};

    /// A proxy whose ports are numbers, each used once, up to the last that is left.
    struct NumberedEgress {
        next: AtomicU16,
        last: u16,
    }

    impl Egress for NumberedEgress {
        fn open_port(&self) -> io::Result<Arc<dyn EgressPort>> {
            let port = self.next.fetch_add(1, Ordering::Relaxed);
            if port > self.last {
                return Err(io::Error::other("no descriptor is left"));
            }
            Ok(Arc::new(NumberedPort(port)))
        }
    }

    struct NumberedPort(u16);

    impl EgressPort for NumberedPort {
        fn address(&self) -> SocketAddr {
            ([127, 0, 0, 1], self.0).into()
        }

        fn assign(&self, _: PortUser) {}

        fn take_refusals(&self) -> Refusals {
            Refusals::default()
        }

        fn refusal_of(&self, _: &str, _: u16) -> Option<Blocked> {
            None
        }
    }

    /// An engine's connection to a browser whose own port is 5000. Contexts get the ports from 5001 on.
    struct EngineFixture {
        filter: Filter,
        context_ports: Arc<ContextPorts>,
        ports: Ports,
        _run: RunFolder,
        _data: TempDir,
    }

    impl EngineFixture {
        fn new(last_port: u16) -> Self {
            let data = tempfile::tempdir().unwrap();
            let run = RunFolder::claim(data.path()).unwrap();
            let ports = Ports::new(&run);
            let egress = Arc::new(NumberedEgress { next: AtomicU16::new(5_000), last: last_port });
            let context_ports = Arc::new(ContextPorts::new(egress, &ports).unwrap());
            let rules = EngineRules {
                targets: Targets::OwnContexts,
                downloads: None,
                context_ports: Some(context_ports.clone()),
                forgets_crashed_pages: false,
                send_within: crate::cdp_proxy::SEND_WITHIN,
            };
            Self { filter: Filter::new(&rules), context_ports, ports, _run: run, _data: data }
        }

        /// The first message that follows a call of the engine.
        fn engine(&mut self, call: &Value) -> ProxyMessage {
            self.filter.on_engine_call(&call.to_string().into(), Instant::now()).unwrap().remove(0)
        }

        fn browser(&mut self, message: &Value) {
            self.filter.on_browser_message(message.to_string().into(), Instant::now());
        }

        /// The engine makes a context, and the browser answers.
        fn make_context(&mut self, call: u32, context: &str) {
            self.engine(&json!({ "id": call, "method": "Target.createBrowserContext" }));
            self.browser(&json!({ "id": call, "result": { "browserContextId": context } }));
        }

        /// The port of a context, which is held as long as the context is there.
        fn port(&self, context: &str) -> Option<u16> {
            self.context_ports.port(&Some(context.to_owned())).map(|port| port.address().port())
        }
    }

    /// The engine cannot choose a proxy: each context gets a port of its own, also for loopback, and no browser may connect
    /// to that port as to a site.
    #[test]
    fn contexts_get_ports_of_their_own() {
        let mut fixture = EngineFixture::new(6_000);
        let hostile = json!({ "proxyServer": "direct://", "proxyBypassList": "*", "disposeOnDetach": true });
        for (call, port) in [(1, 5_001), (2, 5_002)] {
            let sent = fixture
                .engine(&json!({ "id": call, "method": "Target.createBrowserContext", "params": hostile }));
            let ProxyMessage::ToBrowser(text) = sent else { panic!("{sent:?}") };
            let expected = json!({
                "proxyServer": format!("http://127.0.0.1:{port}"),
                "proxyBypassList": "<-loopback>",
                "disposeOnDetach": true,
            });
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["params"], expected);
            assert!(fixture.ports.contains(port));
        }
        // The browser answers in another order.
        fixture.browser(&json!({ "id": 2, "result": { "browserContextId": "B" } }));
        fixture.browser(&json!({ "id": 1, "result": { "browserContextId": "A" } }));
        assert_eq!((fixture.port("A"), fixture.port("B")), (Some(5_001), Some(5_002)));
    }

    /// Without a free port there is no context: the engine gets an error that says why, and the browser gets nothing.
    #[test]
    fn context_without_a_port_is_not_made() {
        let mut fixture = EngineFixture::new(5_001);
        fixture.make_context(1, "A");
        let answer = fixture.engine(&json!({ "id": 2, "method": "Target.createBrowserContext" }));
        let ProxyMessage::ToEngine(text) = answer else { panic!("{answer:?}") };
        let error = &serde_json::from_str::<Value>(&text).unwrap()["error"]["message"];
        assert_eq!(error, "cannot open a port of the egress proxy: no descriptor is left");
        assert_eq!(fixture.port("A"), Some(5_001), "the first context goes on");
    }

    /// A port closes when its context is disposed of, when the browser made no context, and when the engine is gone.
    #[test]
    fn ports_close_with_their_contexts() {
        let mut fixture = EngineFixture::new(6_000);
        for (call, context) in [(1, "A"), (2, "B")] {
            fixture.make_context(call, context);
        }
        fixture.engine(&json!({ "id": 3, "method": "Target.createBrowserContext" }));
        fixture.browser(&json!({ "id": 3, "error": { "code": -32000, "message": "no" } }));
        let params = json!({ "browserContextId": "A" });
        fixture.engine(&json!({ "id": 4, "method": "Target.disposeBrowserContext", "params": params }));
        let held = |ports: &Ports| [5_000, 5_001, 5_002, 5_003].map(|port| ports.contains(port));
        assert_eq!(held(&fixture.ports), [true, false, true, false]);
        assert_eq!((fixture.port("A"), fixture.port("B")), (None, Some(5_002)));
        let EngineFixture { filter, context_ports, ports, _run, _data } = fixture;
        drop(filter);
        assert_eq!(held(&ports), [true, false, false, false]);
        drop(context_ports);
        assert_eq!(held(&ports), [false; 4]);
    }
}
