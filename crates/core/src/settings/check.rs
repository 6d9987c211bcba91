//! Rules between settings: in the built-in pool, in each declared one, or in a browser that greenroom attaches to.
//! Called by `resolve` when every source is read.

mod rules;
mod subject;

pub(super) use rules::of_other_engines;

use std::collections::BTreeSet;

use self::subject::{ConflictSubject, SubjectKind};
use super::{problem::Problem, resolve::Resolved, source::Origin, table::Pool};

/// Settings that do not go together. A setting in `wrong` has no valid value to compare.
pub(super) fn conflicts(resolved: &Resolved, wrong: &BTreeSet<&'static str>) -> Vec<Problem> {
    let settings = &resolved.settings;
    let subject = |of, pool| ConflictSubject { resolved, wrong, of, pool }.conflicts();
    if let Some(pool) = settings.built_in() {
        return subject(SubjectKind::BuiltIn, pool);
    }
    let mut problems = if settings.pools.is_empty() { Vec::new() } else { built_in_only(resolved) };
    for pool in &settings.pools {
        problems.extend(subject(SubjectKind::Pool(&pool.name), &pool.common));
        for (id, instance) in pool.instances.iter().enumerate() {
            problems.extend(subject(SubjectKind::Instance(&pool.name, id), &instance.pool));
        }
    }
    for (at, browser) in settings.browsers.iter().enumerate() {
        problems.extend(subject(SubjectKind::Browser(at), &browser.pool));
    }
    problems
}

/// Whether these values suit a browser that is attached while greenroom runs; if not, why.
pub(super) fn at_run_time(resolved: &Resolved, pool: Pool) -> Result<Pool, String> {
    let wrong = BTreeSet::new();
    let problems =
        ConflictSubject { resolved, wrong: &wrong, of: SubjectKind::AtRunTime, pool: &pool }.conflicts();
    match problems.first() {
        None => Ok(pool),
        Some(problem) => Err(problem.to_string()),
    }
}

/// Reports settings of the built-in pool where there is none.
fn built_in_only(resolved: &Resolved) -> Vec<Problem> {
    let names: Vec<_> = resolved.settings.pools.iter().map(|pool| format!("`{}`", pool.name)).collect();
    ["pool.instances_max", "pool.instance_idle"]
        .into_iter()
        .filter(|key| *resolved.origin(key) != Origin::Default)
        .map(|key| Problem::Conflict {
            message: format!(
                "`{key}` (from {}) is for the built-in pool, but pools are declared: {}",
                resolved.origin(key),
                names.join(", ")
            ),
            hint: format!(
                "leave `{key}` out: a declared pool has as many instances as its `INSTANCES`, all the time"
            ),
        })
        .collect()
}
