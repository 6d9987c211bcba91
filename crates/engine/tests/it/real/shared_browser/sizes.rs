//! No size that a page or an agent asks for costs another session its browser.
