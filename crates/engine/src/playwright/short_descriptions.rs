//! The engine's descriptions in fewer words. Every conversation begins with the tool list, so an agent pays
//! for its tokens in each conversation.
//!
//! A text that is not listed stays as the engine wrote it, also in a later version of the engine. An empty text stands for a
//! description that says no more than the parameter's name and type.

/// The engine's text, and the shorter one.
const SHORT_DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "Exact target element reference from the page snapshot, or a unique element selector",
        "Ref from the snapshot, or a selector",
    ),
    ("Human-readable element description used to obtain permission to interact with the element", ""),
    (
        "Human-readable source element description used to obtain the permission to interact with the element",
        "",
    ),
    (
        "Human-readable target element description used to obtain the permission to interact with the element",
        "",
    ),
    (
        "Search the accessibility snapshot of the current page for text or a regular expression. Returns matching snapshot nodes with a few lines of surrounding context (like search snippets), each shown under its path from the root of the tree, which is cheaper than capturing the whole snapshot when you only need to locate an element and its ref.",
        "Find text or a regex in the page's snapshot: matches with refs and context, cheaper than the whole snapshot",
    ),
    (
        "Plain text to search for in the page snapshot (case-insensitive substring match). Provide either text or regex, not both.",
        "Either text, in any case,",
    ),
    (
        "Regular expression to search for in the page snapshot. Matching is case-sensitive by default; wrap the pattern in slashes to add flags, e.g. \"/error/i\" for case-insensitive. Provide either text or regex, not both.",
        "or a regex; /error/i ignores case",
    ),
    (
        "Image resolution scale. \"css\" produces a screenshot sized in CSS pixels (smaller, consistent across devices). \"device\" produces a high-resolution screenshot using device pixels (larger, accounts for the device pixel ratio). Default is css.",
        "Size in CSS or device pixels",
    ),
    (
        "File name to save the screenshot to. Relative file names are resolved against the workspace root. If not specified, the screenshot is saved into the output directory as `page-{timestamp}.{png|jpeg|webp}`.",
        "File to save to, in the workspace",
    ),
    (
        "Image format for the screenshot. If unset, inferred from the filename extension, otherwise png.",
        "Default: by filename, else png",
    ),
    (
        "When true, takes a screenshot of the full scrollable page, instead of the currently visible viewport. Cannot be used with element screenshots.",
        "The whole page instead of the viewport",
    ),
    (
        "Take a screenshot of the current page. You can't perform actions based on the screenshot, use browser_snapshot for actions.",
        "Take a picture of the page; to act on it use browser_snapshot",
    ),
    (
        "Capture accessibility snapshot of the current page, this is better than screenshot",
        "Read the page: its elements with refs",
    ),
    (
        "Include each element's bounding box as [box=x,y,width,height] in the snapshot. Coordinates are viewport-relative, in CSS pixels (Element.getBoundingClientRect)",
        "With [box=x,y,width,height] in CSS pixels",
    ),
    ("Limit the depth of the snapshot tree", ""),
    (
        "Save snapshot to a file instead of returning it in the response. Relative file names are resolved against the workspace root.",
        SAVE_TO_FILE,
    ),
    (
        "Save results to a file instead of returning them in the response. Relative file names are resolved against the workspace root.",
        SAVE_TO_FILE,
    ),
    (
        "File name to save the console messages to. Relative file names are resolved against the workspace root. If not provided, messages are returned as text.",
        SAVE_TO_FILE,
    ),
    (
        "File name to save the network requests to. Relative file names are resolved against the workspace root. If not provided, requests are returned as text.",
        SAVE_TO_FILE,
    ),
    (
        "File name to save the result to. Relative file names are resolved against the workspace root. If not provided, result is returned as text.",
        SAVE_TO_FILE,
    ),
    (
        "File name to save the result to. Relative file names are resolved against the workspace root. If not provided, output is returned as text.",
        SAVE_TO_FILE,
    ),
    (
        "Value to fill in the field. If the field is a checkbox, the value should be `true` or `false`. If the field is a combobox, the value should be the text of the option.",
        "`true` or `false` for a checkbox, the option's text for a combobox",
    ),
    ("Human-readable field name", ""),
    ("Type of the field", ""),
    ("Fields to fill in", ""),
    (
        "Emulate CSS media features for the page, for example switch between the light and dark color scheme. Omitted parameters are left unchanged; null clears an override.",
        "Emulate CSS media features, such as dark mode; null ends one",
    ),
    ("Emulates the prefers-color-scheme media feature", ""),
    ("Emulates the prefers-reduced-motion media feature", ""),
    ("Emulates the forced-colors media feature", ""),
    ("Emulates the prefers-contrast media feature", ""),
    ("Changes the CSS media type of the page", ""),
    (
        "Drop files or MIME-typed data onto an element, as if dragged from outside the page. At least one of \"paths\" or \"data\" must be provided.",
        "Drop files or data onto an element, as if dragged from outside: paths or data",
    ),
    (
        "Data to drop, as a map of MIME type to string value (e.g. {\"text/plain\": \"hello\", \"text/uri-list\": \"https://example.com\"}).",
        "By MIME type: {\"text/plain\": \"hello\"}",
    ),
    ("Absolute paths to files to drop onto the element.", "Absolute"),
    (
        "The absolute paths to the files to upload. Can be single file or multiple files. If omitted, file chooser is cancelled.",
        "Absolute; without, the file chooser is cancelled",
    ),
    (
        "Returns a numbered list of network requests since loading the page. Use browser_network_request with the number to get full details.",
        "List the page's network requests, numbered for browser_network_request",
    ),
    (
        "Whether to include successful static resources like images, fonts, scripts, etc. Defaults to false.",
        "Also images, fonts, scripts",
    ),
    ("Only return requests whose URL matches this regexp (e.g. \"/api/.*user\").", "Regex on the URL"),
    (
        "Returns full details (headers and body) of a single network request, or a single part if `part` is set. Use the number from browser_network_requests.",
        "Headers and body of a request, or one part",
    ),
    (
        "1-based index of the request, as printed by browser_network_requests.",
        "From browser_network_requests",
    ),
    ("Return only this part of the request. Omit to return full details.", ""),
    (
        "Return all console messages since the beginning of the session, not just since the last navigation. Defaults to false.",
        "Not just since the last navigation",
    ),
    (
        "Level of the console messages to return. Each level includes the messages of more severe levels. Defaults to \"info\".",
        "With more severe ones",
    ),
    ("Returns all console messages", "Read the page's console"),
    (
        "Whether to type one character at a time. Useful for triggering key handlers in the page. By default entire text is filled in at once.",
        "Key by key, for pages that handle keys",
    ),
    ("Whether to submit entered text (press Enter after)", "Press Enter after"),
    ("Text to type into the element", ""),
    ("Array of values to select in the dropdown. This can be a single value or multiple values.", ""),
    ("Name of the key to press or a character to generate, such as `ArrowLeft` or `a`", "`ArrowLeft`, `a`"),
    (
        "Tab index, used for close/select. If omitted for close, current tab is closed.",
        "For close (default: current) and select",
    ),
    ("URL to navigate to in the new tab, used for new.", "For new"),
    ("Operation to perform", ""),
    (
        "() => { /* code */ } or (element) => { /* code */ } when element is provided",
        "() => {…}, or (element) => {…} with target",
    ),
    ("Evaluate JavaScript expression on page or element", "Run JavaScript in the page"),
    ("Wait for text to appear or disappear or a specified time to pass", "Wait for text, its end, or a time"),
    ("The time to wait in seconds, at most 30", "Seconds, at most 30"),
    ("The text to wait for to disappear", ""),
    ("The text to wait for", ""),
    ("Whether to perform a double click instead of a single click", ""),
    ("Button to click, defaults to left", ""),
    ("Modifier keys to press", ""),
    ("The text of the prompt in case of a prompt dialog.", ""),
    ("Whether to accept the dialog.", ""),
    ("Width of the browser window", ""),
    ("Height of the browser window", ""),
    ("The URL to navigate to", ""),
    ("Perform click on a web page", "Click an element"),
    ("Perform drag and drop between two elements", "Drag one element to another"),
    ("Go back to the previous page in the history", "Go back in the history"),
];

/// For results that the engine can write to a file.
const SAVE_TO_FILE: &str = "File to save to instead";

/// The shorter text for one of the engine's; an empty one for none.
pub(super) fn short_description(text: &str) -> Option<&'static str> {
    SHORT_DESCRIPTIONS.iter().find(|(engine, _)| *engine == text).map(|(_, short)| *short)
}

/// The tools that most tasks need.
pub(super) const CORE_TOOLS: &[&str] = &[
    "browser_navigate",
    "browser_snapshot",
    "browser_click",
    "browser_type",
    "browser_fill_form",
    "browser_select_option",
    "browser_press_key",
    "browser_find",
    "browser_take_screenshot",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text is listed once, and the shorter one is shorter.
    #[test]
    fn short_descriptions_are_shorter() {
        for (number, (engine, short)) in SHORT_DESCRIPTIONS.iter().enumerate() {
            assert!(short.len() < engine.len(), "{engine}");
            assert!(
                !SHORT_DESCRIPTIONS.iter().skip(number + 1).any(|(other, _)| other == engine),
                "{engine}"
            );
        }
    }
}
