//! Parses a `tools/call`: which tool, which session, which pool and instance, and the parameters for the engine, with
//! greenroom's own selectors removed and everything else untouched.

use std::sync::Arc;

use greenroom_core::{
    Fields, InvalidSessionId, Raw, RefId, SessionId, UnreadableArgument, raw::encode, settings::Pictures,
};
use greenroom_fleet::CallTarget;
use serde_json::value::RawValue;

use crate::{
    catalog::{BROWSER, INSTANCE, InjectedParameters, POOL, SESSION_ID},
    recall::{
        ResponseMode,
        response_options::{InvalidOption, ResponseOptions},
    },
};

/// A call as the front received it, with the session and the pool, instance or browser that its client names.
#[derive(Debug)]
pub(crate) struct CallRequest {
    pub(crate) tool: Arc<str>,
    pub(crate) session: Option<SessionId>,
    pub(crate) target: CallTarget,
    pub(crate) response_options: ResponseOptions,
    /// The `ref_id` that the client chose, so that the call runs once however often the client sends it.
    pub(crate) ref_id: Option<RefId>,
    params: Fields,
    arguments: Option<Raw>,
}

/// Why a `tools/call` cannot be parsed.
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
    #[error("`browser_pool` must be the name of a pool, as text")]
    PoolType,
    #[error("`browser_instance` must be the number or the alias of an instance")]
    InstanceType,
    #[error("`browserIndex` must be the index or the label of a browser")]
    BrowserType,
    #[error(
        "`more_tools` cannot run itself: name the other tool in `tool`, and give its parameters in `arguments`"
    )]
    MoreToolsInItself,
    #[error(transparent)]
    Wants(#[from] InvalidOption),
}

impl CallRequest {
    pub(crate) fn parse(params: Option<&RawValue>) -> Result<Self, Unroutable> {
        let params = params.and_then(|params| Fields::open(params).ok()).ok_or(Unroutable::NoName)?;
        let tool: String = params.read("name").ok().flatten().ok_or(Unroutable::NoName)?;
        let arguments = params.get("arguments").filter(|raw| raw.get() != "null").map(ToOwned::to_owned);
        if arguments.as_deref().is_some_and(|arguments| !arguments.get().starts_with('{')) {
            return Err(Unroutable::Arguments);
        }
        Ok(Self {
            tool: tool.into(),
            session: None,
            target: CallTarget::default(),
            response_options: ResponseOptions::default(),
            ref_id: None,
            params,
            arguments,
        })
    }

    /// Makes a call of this tool with these arguments: for a client that does not speak MCP, or on behalf of another
    /// call.
    pub(crate) fn from_parts(
        tool: &str,
        arguments: Option<Raw>,
        meta: Option<Raw>,
    ) -> Result<Self, Unroutable> {
        let mut params = Fields::default();
        params.set("name", encode(tool));
        if let Some(arguments) = arguments {
            params.set("arguments", arguments);
        }
        if let Some(meta) = meta {
            params.set("_meta", meta);
        }
        Self::parse(Some(&params.to_raw()))
    }

    /// The same call, in the session, mode and picture form that the client chose for `outer` outside its arguments.
    pub(crate) fn on_behalf_of(self, outer: &Self) -> Self {
        let ResponseOptions { mode, pictures, .. } = outer.response_options;
        let response_options = ResponseOptions { mode, pictures, ..self.response_options };
        Self { session: outer.session.clone(), response_options, ..self }
    }

    /// The same call in this session, answered in this mode, or without one as the settings say; unless its arguments name
    /// others.
    pub(crate) fn in_session(self, session: SessionId, mode: Option<ResponseMode>) -> Self {
        let response_options = ResponseOptions { mode, ..self.response_options };
        Self { session: Some(session), response_options, ..self }
    }

    /// The same call, answered with pictures of this form, unless its arguments name another.
    pub(crate) fn with_pictures(self, pictures: Pictures) -> Self {
        let response_options = ResponseOptions { pictures: Some(pictures), ..self.response_options };
        Self { response_options, ..self }
    }

    /// Removes the selectors from the arguments, as far as they are greenroom's. A session that they name replaces the
    /// one that the request was made for.
    pub(crate) fn take_selectors(&mut self, injected: InjectedParameters) -> Result<(), Unroutable> {
        // Most calls have no selector: do not parse those. A name may be spelt with escapes (`session\u0049d`), which
        // the text does not show.
        let names = [
            (SESSION_ID, injected.session),
            (POOL, injected.pool),
            (INSTANCE, injected.instance),
            (BROWSER, injected.browser),
        ];
        let any = |raw: &&RawValue| {
            let selects = names.iter().any(|(name, own)| *own && raw.get().contains(name));
            selects || injected.response_options.any_in(raw.get()) || raw.get().contains("\\u")
        };
        let Some(raw) = self.arguments.as_deref().filter(any) else { return Ok(()) };
        let mut arguments = Fields::open(raw).map_err(|_| Unroutable::Arguments)?;
        let text = |name: &str, own: bool| if own { arguments.guarded(name) } else { Ok(None) };
        let session: Option<String> =
            text(SESSION_ID, injected.session).map_err(|_| Unroutable::SessionIdType)?;
        let pool = text(POOL, injected.pool).map_err(|_| Unroutable::PoolType)?;
        let instance = text_or_number(&arguments, INSTANCE, injected.instance);
        let instance = instance.map_err(|_| Unroutable::InstanceType)?;
        let browser = text_or_number(&arguments, BROWSER, injected.browser);
        let browser = browser.map_err(|_| Unroutable::BrowserType)?;
        for (name, _) in names.iter().filter(|(_, own)| *own) {
            arguments.remove(name);
        }
        let options = injected.response_options.take_from(&mut arguments)?;
        self.response_options = ResponseOptions {
            mode: options.mode.or(self.response_options.mode),
            pictures: options.pictures.or(self.response_options.pictures),
            ..options
        };
        self.arguments = Some(arguments.to_raw());
        if let Some(id) = session {
            self.session = Some(SessionId::new(&id)?);
        }
        self.target = CallTarget { pool, instance, browser };
        Ok(())
    }

    /// The name of a selector that the request has: of a session, or of where to run.
    pub(crate) fn selector(&self) -> Option<&'static str> {
        let CallTarget { pool, instance, browser } = &self.target;
        let given = [
            (SESSION_ID, self.session.is_some()),
            (BROWSER, browser.is_some()),
            (POOL, pool.is_some()),
            (INSTANCE, instance.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The client's progress token for this call, if it wants progress.
    pub(crate) fn progress_token(&self) -> Option<Raw> {
        progress_token(&self.params)
    }

    /// The client's `_meta` for calls on behalf of this one, without the progress token: their progress is not this
    /// call's.
    pub(crate) fn meta(&self) -> Option<Raw> {
        let mut meta = self.params.read::<Fields>("_meta").ok()??;
        meta.remove(PROGRESS_TOKEN);
        meta.names().next().is_some().then(|| meta.to_raw())
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

const PROGRESS_TOKEN: &str = "progressToken";

/// The progress token in a call's parameters, if its client wants progress.
pub(crate) fn progress_token(params: &Fields) -> Option<Raw> {
    let meta = params.read::<Fields>("_meta").ok()??;
    meta.get(PROGRESS_TOKEN).filter(|token| token.get() != "null").map(ToOwned::to_owned)
}

/// A text, or a whole number as its text: instances have numbers, and agents write them as numbers.
fn text_or_number(arguments: &Fields, name: &str, own: bool) -> Result<Option<String>, UnreadableArgument> {
    if !own {
        return Ok(None);
    }
    match arguments.read::<u32>(name) {
        Ok(Some(number)) => Ok(Some(number.to_string())),
        Ok(None) | Err(_) => arguments.guarded(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(params: &str) -> Result<CallRequest, Unroutable> {
        CallRequest::parse(Some(&greenroom_core::raw::parse(params.to_owned()).unwrap()))
    }

    /// Only the selectors are removed; unknown fields, order and number formats stay, and so does a tool's own
    /// parameter with a selector's name.
    #[test]
    fn selectors_are_taken_out() {
        let params = r#"{"x-new":1.50,"name":"t","arguments":{"a":1e2,"sessionId":"s","browser_pool":"P","b":[ ],"browser_instance":"main"},"_meta":{"progressToken":7}}"#;
        let mut whole = request(params).unwrap();
        whole.take_selectors(InjectedParameters::ALL).unwrap();
        assert_eq!(whole.session.as_ref().unwrap().as_str(), "s");
        let target =
            CallTarget { pool: Some("P".to_owned()), instance: Some("main".to_owned()), browser: None };
        assert_eq!(whole.target, target);
        assert_eq!(whole.progress_token().unwrap().get(), "7");
        assert_eq!(
            whole.into_params().get(),
            r#"{"x-new":1.50,"name":"t","arguments":{"a":1e2,"b":[ ]},"_meta":{"progressToken":7}}"#
        );
        let mut own = request(params).unwrap();
        own.take_selectors(InjectedParameters { pool: false, ..InjectedParameters::ALL }).unwrap();
        assert_eq!(own.target.pool, None);
        assert!(own.arguments().unwrap().get().contains(r#""browser_pool":"P""#));
    }

    /// A session and a mode next to the arguments stay, unless the arguments name others.
    #[test]
    fn session_and_mode_next_to_the_arguments_are_read() {
        let refs = ResponseMode::As(greenroom_core::settings::Responses::Refs);
        for (arguments, session, mode) in [
            (r#"{"a":1}"#, "s", refs),
            (r#"{"browser_pool":"P"}"#, "s", refs),
            (r#"{"mode":"diff","sessionId":"t"}"#, "t", ResponseMode::Diff),
        ] {
            let given = request(&format!(r#"{{"name":"t","arguments":{arguments}}}"#)).unwrap();
            let mut given = given.in_session(SessionId::new("s").unwrap(), Some(refs));
            given.take_selectors(InjectedParameters::ALL).unwrap();
            assert_eq!(given.session.unwrap().as_str(), session, "{arguments}");
            assert_eq!(given.response_options.mode, Some(mode), "{arguments}");
        }
    }

    /// A selector is found however its name is spelt: a selector that is missed would send the call to another session.
    #[test]
    fn selectors_with_escaped_names_are_found() {
        for name in [r"session\u0049d", r"\u0073essionId", "sessionId"] {
            let mut request = request(&format!(r#"{{"name":"t","arguments":{{"{name}":"s"}}}}"#)).unwrap();
            request.take_selectors(InjectedParameters::ALL).unwrap();
            assert_eq!(request.session.as_ref().map(|id| id.to_string()).as_deref(), Some("s"), "{name}");
            assert_eq!(request.arguments().unwrap().get(), "{}");
        }
    }

    /// Odd arguments of every kind: an accepted call selects what a program with Node's JSON parser would read, and no
    /// selector stays in the arguments.
    #[test]
    fn selectors_agree_with_node_json() {
        use greenroom_testkit::{HostileJson, NodeValue};
        const SEED: u64 = 13;
        let mut passed = 0;
        let mut selecting = 0;
        for seed in SEED..SEED + 20_000 {
            let mut odd = HostileJson::new(seed);
            let texts = ["s", "0", "main", "DEFAULT", "another session", ""];
            let mut members = Vec::new();
            for name in [SESSION_ID, POOL, INSTANCE, BROWSER, "key"] {
                if odd.below(2) == 0 {
                    members.push((name, odd.value(&texts)));
                }
            }
            let params = format!(r#"{{"name":"t","arguments":{}}}"#, odd.object(&members));
            let raw = greenroom_core::raw::parse(params.clone()).unwrap();
            if greenroom_core::json_check::check(&raw).is_err() {
                continue;
            }
            let mut request = CallRequest::parse(Some(&raw)).unwrap();
            if request.take_selectors(InjectedParameters::ALL).is_err() {
                continue;
            }
            let session = request.session.take();
            let target = std::mem::take(&mut request.target);
            passed += 1;
            let read = NodeValue::parse(&params);
            let sent_on = NodeValue::parse(request.into_params().get());
            for (name, selected) in [
                (SESSION_ID, session.map(|id| id.to_string())),
                (POOL, target.pool),
                (INSTANCE, target.instance),
                (BROWSER, target.browser),
            ] {
                let given = match read.get("arguments").unwrap().get(name) {
                    None | Some(NodeValue::Null) => None,
                    Some(NodeValue::Number(number)) => Some(number.to_string()),
                    Some(value) => Some(value.text().unwrap_or_else(|| panic!("seed {seed}: {params}"))),
                };
                selecting += usize::from(given.is_some());
                assert_eq!(selected, given, "`{name}`, seed {seed}: {params}");
                assert_eq!(sent_on.get("arguments").unwrap().get(name), None, "seed {seed}: {params}");
            }
        }
        assert!(passed > 2_000 && selecting > 2_000, "{passed} passed, {selecting} selectors");
    }

    /// A selector that cannot be read is an error, and never counts as missing.
    #[test]
    fn unreadable_selectors_are_errors() {
        for (name, error) in [
            ("sessionId", Unroutable::SessionIdType),
            ("browser_pool", Unroutable::PoolType),
            ("browser_instance", Unroutable::InstanceType),
            ("browserIndex", Unroutable::BrowserType),
        ] {
            for odd in [r#""\ud800""#, "[]", "{}", "true", "1.5", r#"["s"]"#, "-1", "1e400"] {
                let mut request =
                    request(&format!(r#"{{"name":"t","arguments":{{"{name}":{odd}}}}}"#)).unwrap();
                let refused = request.take_selectors(InjectedParameters::ALL).unwrap_err();
                assert_eq!(refused.to_string(), error.to_string(), "{name}: {odd}");
            }
        }
    }

    /// An instance may be a number, `null` counts as missing, and any other type is refused by name.
    #[test]
    fn instance_selector_is_number_text_or_null() {
        let place = |name: &str, json: &str| {
            let params = format!(r#"{{"name":"t","arguments":{{"{name}":{json}}}}}"#);
            let mut request = request(&params).unwrap();
            request.take_selectors(InjectedParameters::ALL).map(|()| request.target)
        };
        let instance = |json| place("browser_instance", json).map(|target| target.instance);
        assert_eq!(instance("0").unwrap().as_deref(), Some("0"));
        assert_eq!(instance(r#""0""#).unwrap().as_deref(), Some("0"));
        assert_eq!(instance("null").unwrap(), None);
        for odd in ["-1", "1.5", "[]", "true"] {
            assert_eq!(instance(odd).unwrap_err(), Unroutable::InstanceType, "{odd}");
        }
        assert_eq!(place("browser_pool", "null").unwrap(), CallTarget::default());
        assert_eq!(place("browser_pool", "1").unwrap_err(), Unroutable::PoolType);
    }

    /// The error for a call that cannot be routed says why.
    #[test]
    fn unroutable_call_errors_say_why() {
        assert_eq!(CallRequest::parse(None).unwrap_err(), Unroutable::NoName);
        assert_eq!(request(r#"{"name":1}"#).unwrap_err(), Unroutable::NoName);
        let id = |json: &str| {
            let mut request =
                request(&format!(r#"{{"name":"t","arguments":{{"sessionId":{json}}}}}"#)).unwrap();
            request.take_selectors(InjectedParameters::ALL).map(|()| request.session)
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
