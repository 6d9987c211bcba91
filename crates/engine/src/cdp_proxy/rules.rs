//! What an engine may ask a browser for. The proxy judges every call of an engine here before the browser gets it: the call
//! passes, passes with other parameters, or is refused, and then the proxy answers the engine with an error.
//!
//! A call whose method has a rule passes only as it was parsed here: its parameters are written anew, so that the browser
//! cannot read another value out of them, and unreadable parameters are refused. Calls without a rule pass unchanged.

use serde_json::{Map, Value, value::RawValue};

use super::{
    message::Envelope,
    own_contexts::{OwnContexts, TABS_MAX},
    sizes,
};
use crate::page_url;

/// What happens to a call.
#[derive(Debug, PartialEq)]
pub(super) enum CallVerdict {
    /// It passes as it is.
    Pass,
    /// It passes with these parameters.
    Replace(Params),
    /// The engine gets this error.
    Refuse(String),
}

/// The parameters of a call.
pub(super) type Params = Map<String, Value>;

/// Changes parameters where necessary, or says why the call is refused.
type Rule = fn(&mut Params) -> Result<(), String>;

/// Methods that no engine needs. They end the browser for all of its sessions, give a page control of it, carry other
/// calls past the rules, or connect the browser with other programs.
const FORBIDDEN: [&str; 10] = [
    "Browser.close",
    "Browser.crash",
    "Browser.crashGpuProcess",
    "Page.crash",
    "Target.exposeDevToolsProtocol",
    "Target.openDevTools",
    "Target.sendMessageToTarget",
    "Target.setRemoteLocations",
    "Tethering.bind",
    "Tethering.unbind",
];

/// Judges one call of an engine. `shares_browser` says that other sessions have contexts in the same browser.
pub(super) fn judge(method: &str, params: Option<&RawValue>, shares_browser: bool) -> CallVerdict {
    let rule: Rule = match method {
        "Page.navigate" | "Target.createTarget" => address,
        "Target.createBrowserContext" => context_network,
        "Browser.setWindowBounds" => sizes::window_bounds,
        "Browser.setContentsSize" | "Emulation.setVisibleSize" => sizes::contents_size,
        "Emulation.setDeviceMetricsOverride" => sizes::device_metrics,
        "Page.captureScreenshot" => sizes::screenshot,
        "Page.printToPDF" => sizes::paper,
        "Browser.grantPermissions" if shares_browser => granted_permissions,
        "Browser.setPermission" if shares_browser => set_permission,
        _ if FORBIDDEN.contains(&method) => {
            return CallVerdict::Refuse(format!("engines may not call `{method}`"));
        }
        _ => return CallVerdict::Pass,
    };
    let params = params.map_or(Ok(Params::new()), |raw| serde_json::from_str(raw.get()));
    let judged = params
        .map_err(|error| format!("cannot read its parameters: {error}"))
        .and_then(|mut params| rule(&mut params).map(|()| params));
    match judged {
        Ok(params) => CallVerdict::Replace(params),
        Err(why) => CallVerdict::Refuse(why),
    }
}

/// Judges one call of an engine that has contexts of its own in a shared browser: also by the number of its tabs.
pub(super) fn judge_in(method: &str, call: &Envelope<'_>, contexts: &OwnContexts) -> CallVerdict {
    let verdict = judge(method, call.params, true);
    match (method, verdict) {
        ("Target.createTarget", CallVerdict::Replace(params))
            if params
                .get("browserContextId")
                .and_then(Value::as_str)
                .is_some_and(|context| contexts.is_full(context)) =>
        {
            CallVerdict::Refuse(format!("a session has at most {TABS_MAX} tabs: close some first"))
        }
        (
            "Browser.setWindowBounds" | "Emulation.setDeviceMetricsOverride",
            CallVerdict::Replace(mut params),
        ) if call.session.as_deref().is_some_and(|session| contexts.is_popup(session)) => {
            match sizes::reduce_popup(&mut params) {
                Ok(()) => CallVerdict::Replace(params),
                Err(why) => CallVerdict::Refuse(why),
            }
        }
        (_, verdict) => verdict,
    }
}

/// The address to which a page navigates, or at which it begins. The browser itself refuses an incomplete address.
fn address(params: &mut Params) -> Result<(), String> {
    match params.get("url") {
        None => Ok(()),
        Some(Value::String(url)) => page_url::judge(url)
            .map_err(|refused| format!("no page may be opened at `{}` addresses", refused.0)),
        Some(_) => Err("`url` is not a text".to_owned()),
    }
}

/// How a new context reaches the network is greenroom's to say: through the egress proxy, and under the same rules as every
/// other context.
fn context_network(params: &mut Params) -> Result<(), String> {
    for name in ["proxyServer", "proxyBypassList", "originsWithUniversalNetworkAccess"] {
        params.remove(name);
    }
    Ok(())
}

/// All sessions of a browser share its clipboard. With a permission for it a page reads and writes it without a user's copy
/// or paste.
fn is_clipboard(permission: &Value) -> bool {
    let name = permission.as_str().or_else(|| permission.get("name")?.as_str());
    name.is_none_or(|name| name.to_ascii_lowercase().starts_with("clipboard"))
}

fn granted_permissions(params: &mut Params) -> Result<(), String> {
    let Some(Value::Array(permissions)) = params.get_mut("permissions") else {
        return Err("`permissions` is not a list".to_owned());
    };
    permissions.retain(|permission| !is_clipboard(permission));
    Ok(())
}

fn set_permission(params: &mut Params) -> Result<(), String> {
    let denies = params.get("setting").is_some_and(|setting| setting == "denied");
    match params.get("permission") {
        Some(permission) if denies || !is_clipboard(permission) => Ok(()),
        _ => Err("no page may use the browser's clipboard, because all sessions of the browser share it"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(method: &str, params: &str) -> CallVerdict {
        let params: Box<RawValue> = serde_json::from_str(params).unwrap();
        judge(method, Some(&params), true)
    }

    fn is_refused(method: &str, params: &str) -> bool {
        matches!(judged(method, params), CallVerdict::Refuse(_))
    }

    fn replaced(params: Value) -> CallVerdict {
        CallVerdict::Replace(serde_json::from_value(params).unwrap())
    }

    /// An engine opens pages of the web and empty ones. Everything else is refused, and so is an unreadable address.
    #[test]
    fn only_web_addresses_pass() {
        for method in ["Page.navigate", "Target.createTarget"] {
            for url in ["https://example.com/", "about:blank", ""] {
                let params = json!({ "url": url });
                assert_eq!(judged(method, &params.to_string()), replaced(params), "{method} {url}");
            }
            for params in [
                r#"{"url":"view-source:file:///etc/passwd"}"#,
                r#"{"url":"view-source:file:///etc/passwd#\ud800"}"#,
                r#"{"url":"https://a/","url":"file:///etc/passwd"}"#,
                r#"{"url":"chrome://crash"}"#,
                r#"{"url":["file:///etc/passwd"]}"#,
                r#"["file:///etc/passwd"]"#,
            ] {
                assert!(is_refused(method, params), "{method} {params}");
            }
        }
        // Of two values the browser may take the other one, so it gets only the judged one.
        let twice = judged("Page.navigate", r#"{"url":"file:///etc/passwd","url":"https://a/"}"#);
        assert_eq!(twice, replaced(json!({ "url": "https://a/" })));
    }

    /// No call ends the browser or goes around the rules; a call without a rule passes.
    #[test]
    fn forbidden_methods_are_refused() {
        for method in FORBIDDEN {
            assert!(is_refused(method, "{}"), "{method}");
        }
        assert_eq!(judged("Runtime.evaluate", r#"{"expression":"1"}"#), CallVerdict::Pass);
    }

    /// An engine cannot say how a new context reaches the network; its other parameters pass.
    #[test]
    fn engines_choose_no_proxy() {
        let hostile = r#"{"disposeOnDetach":true,"proxyServer":"direct://","proxyBypassList":"*","originsWithUniversalNetworkAccess":["https://a"]}"#;
        let left = replaced(json!({ "disposeOnDetach": true }));
        assert_eq!(judged("Target.createBrowserContext", hostile), left);
        assert!(is_refused("Target.createBrowserContext", r#"["direct://"]"#));
    }

    /// Where sessions share a browser no page is granted the clipboard, under any of its names. Other permissions are.
    #[test]
    fn clipboard_permissions_are_withheld() {
        let granted = r#"{"permissions":["geolocation","clipboardReadWrite","clipboardSanitizedWrite"]}"#;
        let left = replaced(json!({ "permissions": ["geolocation"] }));
        assert_eq!(judged("Browser.grantPermissions", granted), left);
        for name in ["clipboard-read", "Clipboard-Write"] {
            let set =
                |setting: &str| json!({ "permission": { "name": name }, "setting": setting }).to_string();
            assert!(is_refused("Browser.setPermission", &set("granted")), "{name}");
            assert!(!is_refused("Browser.setPermission", &set("denied")), "{name}");
        }
        assert!(!is_refused(
            "Browser.setPermission",
            r#"{"permission":{"name":"geolocation"},"setting":"granted"}"#
        ));
        assert!(is_refused("Browser.setPermission", r#"{"setting":"granted"}"#));
        let alone: Box<RawValue> = serde_json::from_str(granted).unwrap();
        assert_eq!(judge("Browser.grantPermissions", Some(&alone), false), CallVerdict::Pass);
    }
}
