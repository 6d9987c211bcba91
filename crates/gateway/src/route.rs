//! Takes a `tools/call` apart: which tool, which session, and the parameters for the engine, with greenroom's own
//! selectors removed and everything else untouched.

use greenroom_core::{Fields, InvalidSessionId, Raw, SessionId};
use serde_json::value::RawValue;

/// A call as the front received it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) tool: String,
    params: Fields,
    arguments: Option<Raw>,
}

/// Why a `tools/call` cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unroutable {
    #[error("`params` must be an object with the `name` of a tool")]
    NoName,
    #[error("`arguments` must be an object")]
    Arguments,
    #[error("`sessionId` must be text")]
    SessionIdType,
    #[error(transparent)]
    SessionId(#[from] InvalidSessionId),
}

impl Request {
    pub(crate) fn parse(params: Option<&RawValue>) -> Result<Self, Unroutable> {
        let params = params.and_then(|params| Fields::open(params).ok()).ok_or(Unroutable::NoName)?;
        let tool = params.read("name").ok().flatten().ok_or(Unroutable::NoName)?;
        let arguments = params.get("arguments").filter(|raw| raw.get() != "null").map(ToOwned::to_owned);
        if arguments.as_deref().is_some_and(|arguments| !arguments.get().starts_with('{')) {
            return Err(Unroutable::Arguments);
        }
        Ok(Self { tool, params, arguments })
    }

    /// Takes `sessionId` out of the arguments.
    pub(crate) fn take_session(&mut self) -> Result<Option<SessionId>, Unroutable> {
        // Most calls name none: do not take apart what stays whole.
        let Some(raw) = self.arguments.as_deref().filter(|raw| raw.get().contains("sessionId")) else {
            return Ok(None);
        };
        let mut arguments = Fields::open(raw).map_err(|_| Unroutable::Arguments)?;
        let Some(id) = arguments.remove("sessionId") else { return Ok(None) };
        self.arguments = Some(arguments.to_raw());
        match serde_json::from_str::<Option<String>>(id.get()) {
            Ok(Some(id)) => Ok(Some(SessionId::new(&id)?)),
            Ok(None) => Ok(None),
            Err(_) => Err(Unroutable::SessionIdType),
        }
    }

    pub(crate) fn arguments(&self) -> Option<&RawValue> {
        self.arguments.as_deref()
    }

    /// The parameters for the engine.
    pub(crate) fn into_params(mut self) -> Raw {
        if let Some(arguments) = self.arguments {
            self.params.set("arguments", arguments);
        }
        self.params.to_raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(params: &str) -> Result<Request, Unroutable> {
        Request::parse(Some(&greenroom_core::raw::parse(params.to_owned()).unwrap()))
    }

    /// Only the selector is taken out; unknown fields, order and number formats stay.
    #[test]
    fn selectors_are_taken_out() {
        let mut request = request(r#"{"x-new":1.50,"name":"t","arguments":{"a":1e2,"sessionId":"s","b":[ ]},"_meta":{"progressToken":7}}"#).unwrap();
        assert_eq!(request.take_session().unwrap().unwrap().as_str(), "s");
        assert_eq!(
            request.into_params().get(),
            r#"{"x-new":1.50,"name":"t","arguments":{"a":1e2,"b":[ ]},"_meta":{"progressToken":7}}"#
        );
    }

    /// What cannot be routed says why.
    #[test]
    fn unroutable_calls() {
        assert_eq!(Request::parse(None).unwrap_err(), Unroutable::NoName);
        assert_eq!(request(r#"{"name":1}"#).unwrap_err(), Unroutable::NoName);
        let id = |json: &str| {
            request(&format!(r#"{{"name":"t","arguments":{{"sessionId":{json}}}}}"#)).unwrap().take_session()
        };
        assert_eq!(id("1").unwrap_err(), Unroutable::SessionIdType);
        assert_eq!(id(r#""""#).unwrap_err(), Unroutable::SessionId(InvalidSessionId::Empty));
        assert_eq!(id("null").unwrap(), None);
        for odd in [r#"["sessionId"]"#, "7", r#""{""#] {
            let odd = request(&format!(r#"{{"name":"t","arguments":{odd}}}"#));
            assert_eq!(odd.unwrap_err(), Unroutable::Arguments);
        }
    }
}
