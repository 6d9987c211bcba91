//! Which tools the engine offers only with an entry of `caps`. A test compares this with the engine.

/// The entries, with their tools.
const CAPS: [(&str, &[&str]); 7] = [
    ("config", &["browser_get_config"]),
    ("network", &["browser_network_state_set", "browser_route", "browser_route_list", "browser_unroute"]),
    ("pdf", &["browser_pdf_save"]),
    (
        "storage",
        &[
            "browser_cookie_clear",
            "browser_cookie_delete",
            "browser_cookie_get",
            "browser_cookie_list",
            "browser_cookie_set",
            "browser_localstorage_clear",
            "browser_localstorage_delete",
            "browser_localstorage_get",
            "browser_localstorage_list",
            "browser_localstorage_set",
            "browser_sessionstorage_clear",
            "browser_sessionstorage_delete",
            "browser_sessionstorage_get",
            "browser_sessionstorage_list",
            "browser_sessionstorage_set",
            "browser_set_storage_state",
            "browser_storage_state",
        ],
    ),
    (
        "testing",
        &[
            "browser_generate_locator",
            "browser_verify_element_visible",
            "browser_verify_list_visible",
            "browser_verify_text_visible",
            "browser_verify_value",
        ],
    ),
    (
        "vision",
        &[
            "browser_mouse_click_xy",
            "browser_mouse_down",
            "browser_mouse_drag_xy",
            "browser_mouse_move_xy",
            "browser_mouse_up",
            "browser_mouse_wheel",
        ],
    ),
    (
        "devtools",
        &[
            "browser_annotate",
            "browser_hide_highlight",
            "browser_highlight",
            "browser_resume",
            "browser_start_recording",
            "browser_start_tracing",
            "browser_start_video",
            "browser_stop_recording",
            "browser_stop_tracing",
            "browser_stop_video",
            "browser_video_chapter",
            "browser_video_hide_actions",
            "browser_video_show_actions",
        ],
    ),
];

/// The entry to which a tool belongs; `None` for tools that are always available, and for tools that the engine lacks.
pub(super) fn cap_of_tool(tool: &str) -> Option<&'static str> {
    CAPS.iter().find(|(_, tools)| tools.contains(&tool)).map(|(cap, _)| *cap)
}
