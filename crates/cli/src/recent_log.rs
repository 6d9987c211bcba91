//! Writes events of level info and above into [`RecentLog`], which `greenroom logs` reads, whatever stderr shows.
//!
//! Debug events stay out: they hold the output of browsers and engines, which may contain their pages' data. Only the
//! last output of a process that ended unexpectedly gets in, as part of an event of a higher level.

use std::{fmt, sync::Arc, time::SystemTime};

use greenroom_core::printable::printable;
use greenroom_gateway::control::{LogEntry, RecentLog};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// The tracing layer that writes to this log.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(recent_log: Arc<RecentLog>) -> impl Layer<S> {
    RecentLogLayer(recent_log).with_filter(LevelFilter::INFO)
}

struct RecentLogLayer(Arc<RecentLog>);

impl<S: Subscriber> Layer<S> for RecentLogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let metadata = event.metadata();
        self.0.write(LogEntry {
            time: SystemTime::now(),
            level: metadata.level().as_str(),
            target: metadata.target().to_owned(),
            message: text.message,
            fields: text.fields,
        });
    }
}

/// An event's message and fields, as text.
#[derive(Default)]
struct EventText {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl EventText {
    /// Escapes the text as on stderr, since `greenroom logs` prints it to a terminal.
    fn add(&mut self, field: &Field, text: &str) {
        let text = printable(text).into_owned();
        match field.name() {
            "message" => self.message = text,
            name => self.fields.push((name, text)),
        }
    }
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}
