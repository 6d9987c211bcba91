//! Finds the setting that a user probably meant with an unknown name.

/// The nearest of `names` to `wrong`, ignoring separators and case: a name that ends with it, else the one with the
/// fewest typing mistakes, if those are few.
pub(super) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    closest(wrong, names).map(|(_, name)| name)
}

/// The same, with the number of typing mistakes between them.
pub(super) fn closest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let plain = |name: &str| name.to_lowercase().replace(['.', '-'], "_");
    let wrong = plain(wrong);
    // Allow mistakes in a third of the letters: two mistakes make a short name another name, but not a long one.
    let mistakes_max = (wrong.len() / 3).clamp(1, 4);
    names
        .into_iter()
        .map(|name| {
            let whole = plain(name);
            let last = name.rsplit_once('.').map(|(_, last)| plain(last));
            let mistakes = |other: &str| strsim::damerau_levenshtein(&wrong, other);
            (last.map_or(mistakes(&whole), |last| mistakes(&last).min(mistakes(&whole))), name)
        })
        .filter(|(mistakes, _)| *mistakes <= mistakes_max)
        .min_by_key(|(mistakes, _)| *mistakes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    /// Typing mistakes and forgotten sections find their setting; an unrelated name finds none.
    #[test]
    fn misspelt_setting_finds_the_nearest() {
        for (wrong, meant) in [
            ("sessions.idle_timout", Some("sessions.idle_timeout")),
            ("idle_timeout", Some("sessions.idle_timeout")),
            ("POOL_SLOT", Some("pool.slots")),
            ("HEADLES", Some("pool.headless")),
            ("pool.time_out", Some("pool.timeout")),
            ("datadir", Some("data_dir")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(wrong, SETTINGS.iter().map(|setting| setting.key)), meant, "{wrong}");
        }
    }
}
