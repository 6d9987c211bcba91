//! The fake engine's tool list. Written as raw JSON, so that spellings such as `1.50` reach the
//! client as they are and a test can see whether they survive.

use std::fmt::Write;

use super::tools::{self, Tool, quote};

/// One page of `tools/list`: built-in tools, then the extra ones.
pub(crate) fn page(extra: &[String], start: usize, size: usize) -> String {
    let built_in = tools::all().map(describe);
    let extra = extra.iter().map(|name| describe_extra(name));
    let all: Vec<String> = built_in.chain(extra).collect();
    let end = start.saturating_add(size).min(all.len());
    let tools = all.get(start..end).unwrap_or_default().join(",");
    let next = if end < all.len() { format!(r#","nextCursor":"{end}""#) } else { String::new() };
    format!(r#"{{"tools":[{tools}]{next}}}"#)
}

fn describe(tool: &Tool) -> String {
    let mut text = format!(
        r#"{{"name":"{}","description":{},"inputSchema":{{"type":"object","properties":{{{}}}"#,
        tool.name,
        quote(tool.description),
        tool.properties
    );
    if !tool.required.is_empty() {
        let names: Vec<String> = tool.required.iter().map(|name| quote(name)).collect();
        write!(text, r#","required":[{}]"#, names.join(",")).unwrap();
    }
    text.push_str(r#","additionalProperties":false}"#);
    text.push_str(tool.more);
    text.push('}');
    text
}

fn describe_extra(name: &str) -> String {
    format!(
        r#"{{"name":{},"description":"Answers its own name.","inputSchema":{{"type":"object","properties":{{}},"additionalProperties":false}}}}"#,
        quote(name)
    )
}
