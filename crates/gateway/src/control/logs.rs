//! `GET /control/logs`: the process's recent log, one JSON object a line; with `?follow=true` the stream stays open
//! and brings new lines as they are written, until the process ends.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::{Control, ControlProblem, LogEntry};
use greenroom_core::time::timestamp_ms;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogsQuery {
    #[serde(default)]
    follow: bool,
}

/// A line of the stream. A field that another version does not send is empty here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LogLine {
    Entry {
        time: String,
        level: String,
        target: String,
        message: String,
        #[serde(default)]
        fields: Map<String, Value>,
    },
    /// The reader was too slow: this many lines were overwritten before it read them.
    Lost { lost: u64 },
}

impl From<&LogEntry> for LogLine {
    fn from(entry: &LogEntry) -> Self {
        Self::Entry {
            time: timestamp_ms(entry.time),
            level: entry.level.to_owned(),
            target: entry.target.clone(),
            message: entry.message.clone(),
            fields: entry
                .fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
                .collect(),
        }
    }
}

/// A reader's position.
struct LogReader {
    control: Arc<Control>,
    follow: bool,
    next: Option<u64>,
    written: watch::Receiver<u64>,
}

pub(super) async fn read(
    State(control): State<Arc<Control>>,
    wish: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Response, ControlProblem> {
    let Query(LogsQuery { follow }) = wish.map_err(|error| ControlProblem::bad_query(&error.body_text()))?;
    let written = control.recent_log.written();
    let reader = LogReader { control, follow, next: None, written };
    let body = Body::from_stream(stream::unfold(reader, |mut reader| async {
        let chunk = reader.chunk().await?;
        Some((Ok::<_, Infallible>(chunk), reader))
    }));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

impl LogReader {
    /// The lines written since the last chunk; a follower waits for the first one. `None` at the end.
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            // Read this before the lines, so that lines written before the end are still read after it.
            let closing = self.control.closing.is_cancelled();
            self.written.mark_unchanged();
            let read = self.control.recent_log.read(self.next);
            self.next = Some(read.next);
            let lost = (read.lost > 0).then_some(LogLine::Lost { lost: read.lost });
            let lines = lost.into_iter().chain(read.entries.iter().map(|entry| LogLine::from(&**entry)));
            let mut text = Vec::new();
            for line in lines {
                if serde_json::to_writer(&mut text, &line).is_ok() {
                    text.push(b'\n');
                }
            }
            if !text.is_empty() {
                return Some(text.into());
            }
            if !self.follow || closing {
                return None;
            }
            tokio::select! {
                _ = self.written.changed() => {}
                () = self.control.closing.cancelled() => {}
            }
        }
    }
}
