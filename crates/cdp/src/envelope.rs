//! The envelope around every message. Out: an id and a method. In: an id with a result or an error, or a method with
//! parameters. The payload stays raw.

use std::borrow::Cow;

use greenroom_core::raw::Raw;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Event;

/// A call, as the client sends it to the browser.
#[derive(Serialize)]
pub(crate) struct OutgoingCall<'a> {
    pub(crate) id: u32,
    pub(crate) method: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    /// Absent for `()`: the browser wants an object or nothing, not `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) params: Option<&'a RawValue>,
}

/// A message, as the browser sends it.
pub(crate) enum Incoming {
    Reply {
        id: u32,
        body: Result<Raw, CdpError>,
    },
    Event(Event),
    /// An error that belongs to no call, for example one about a message that the browser could not read.
    UnmatchedError(CdpError),
}

/// An error object of the protocol.
#[derive(Debug, Deserialize)]
pub(crate) struct CdpError {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// Details, where the browser gives them; a string so far.
    data: Option<serde_json::Value>,
}

impl CdpError {
    pub(crate) fn new(code: i64, message: String) -> Self {
        Self { code, message, data: None }
    }

    pub(crate) fn message_with_data(&self) -> String {
        match &self.data {
            None => self.message.clone(),
            Some(serde_json::Value::String(data)) => format!("{}: {data}", self.message),
            Some(data) => format!("{}: {data}", self.message),
        }
    }
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    id: Option<u32>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<CdpError>,
}

/// Parses one message, or says why the text is not one.
pub(crate) fn parse(text: &str) -> Result<Incoming, String> {
    let wire: WireMessage<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match wire {
        WireMessage { id: Some(id), error: Some(error), .. } => Ok(Incoming::Reply { id, body: Err(error) }),
        WireMessage { id: Some(id), result: Some(result), .. } => {
            Ok(Incoming::Reply { id, body: Ok(result.to_owned()) })
        }
        WireMessage { id: None, method: Some(method), session, params, .. } => Ok(Incoming::Event(Event {
            method: method.into_owned(),
            session,
            params: params.map_or_else(empty, RawValue::to_owned),
            // The queue numbers events.
            number: 0,
        })),
        WireMessage { id: None, error: Some(error), .. } => Ok(Incoming::UnmatchedError(error)),
        WireMessage { .. } => Err("a message that is neither a reply nor an event".to_owned()),
    }
}

fn empty() -> Raw {
    greenroom_core::raw::encode(&serde_json::Map::new())
}
