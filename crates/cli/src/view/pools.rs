//! Pools, as a table and one by one, and the results of changing one.

use greenroom_gateway::{
    control::{InstanceReport, PoolReport},
    rest::{CommandedInstances, ScaleResult},
};

use super::{
    table::{Cell, table},
    terminal::{Terminal, TextStyle},
    text::{count, escape, span},
};

/// A table of pools, with the process of each where several are shown.
pub fn pools(rows: &[(u32, &PoolReport)], indent: &str, terminal: Terminal) -> String {
    let several = rows.iter().any(|(pid, _)| Some(*pid) != rows.first().map(|(first, _)| *first));
    let mut heads = vec!["POOL", "HEALTHY", "AVAILABLE", "LEASED", "WAITING", "RESTARTS", "DESCRIPTION"];
    if several {
        heads.insert(0, "PID");
    }
    let cells = |(pid, pool): &(u32, &PoolReport)| {
        let mut cells = row(pool);
        if several {
            cells.insert(0, Cell::plain(pid.to_string()));
        }
        cells
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table(&heads, &rows, indent, terminal)
}

fn row(pool: &PoolReport) -> Vec<Cell> {
    vec![
        Cell::Text(TextStyle::Bold, name(pool)),
        Cell::Number(format!("{} of {}", pool.healthy, pool.instances)),
        Cell::Number(pool.available.to_string()),
        Cell::Number(format!("{} of {}", pool.leased, pool.slots)),
        Cell::Number(pool.waiting.to_string()),
        Cell::Number(pool.restarts.to_string()),
        Cell::plain(escape(&pool.description)),
    ]
}

/// The name of a pool, whether it is the default one, and whether all of it was drained.
pub fn name(pool: &PoolReport) -> String {
    let drained = if pool.drained { " (drained)" } else { "" };
    format!("{}{}{drained}", escape(&pool.name), if pool.is_default { " (default)" } else { "" })
}

/// All fields of a pool, a line for each, and its instances.
pub fn pool(pid: u32, kind: &str, pool: &PoolReport, terminal: Terminal) -> String {
    let size = if pool.elastic { "; greenroom starts and stops them as needed" } else { "" };
    let details = [
        ("pool", name(pool)),
        ("description", escape(&pool.description)),
        ("process", format!("pid {pid}, {}", escape(kind))),
        (
            "instances",
            format!("{}, {} healthy, {} available{size}", pool.instances, pool.healthy, pool.available),
        ),
        (
            "slots",
            format!(
                "{} of {} leased, {} spare, {} waiting",
                pool.leased, pool.slots, pool.spares, pool.waiting
            ),
        ),
        ("restarts", pool.restarts.to_string()),
    ];
    let details = details.into_iter().map(|(name, value)| {
        let value = if value.is_empty() { "-" } else { &value };
        format!("{name:11}  {value}\n")
    });
    let mut text: String = details.collect();
    if !pool.members.is_empty() {
        text += "\n";
        text += &instances(&pool.members, "", terminal);
    }
    text
}

/// A table of a pool's instances.
fn instances(members: &[InstanceReport], indent: &str, terminal: Terminal) -> String {
    let heads = ["ID", "ALIAS", "STATUS", "LEASED", "FOR", "BROWSER", "PROCESS", "RESTARTS", "NOTE"];
    let rows: Vec<_> = members
        .iter()
        .map(|instance| {
            let state = state(instance);
            let style = match state {
                "healthy" => TextStyle::Green,
                "failed" => TextStyle::Red,
                _ => TextStyle::Dim,
            };
            let dash = || "-".to_owned();
            let browser =
                format!("{}{}", escape(&instance.browser), if instance.headless { "" } else { " (window)" });
            vec![
                Cell::Text(TextStyle::Bold, instance.id.to_string()),
                Cell::plain(instance.alias.as_deref().map_or_else(dash, escape)),
                Cell::Text(style, escape(state)),
                Cell::Number(format!("{} of {}", instance.leased, instance.slots)),
                Cell::Number(instance.leased_seconds.map_or_else(dash, span)),
                Cell::plain(browser),
                Cell::Number(instance.process_id.map_or_else(dash, |pid| pid.to_string())),
                Cell::Number(instance.restarts.to_string()),
                Cell::plain(problem(instance)),
            ]
        })
        .collect();
    table(&heads, &rows, indent, terminal)
}

/// The state of an instance: its status, or that it was drained.
fn state(instance: &InstanceReport) -> &str {
    match (instance.draining, instance.status.as_str()) {
        (true, "failed") => "drained",
        (true, _) => "draining",
        (false, status) => status,
    }
}

/// The problem of an instance; usually none.
fn problem(instance: &InstanceReport) -> String {
    match (&instance.error, instance.responsive) {
        (Some(error), _) => escape(error),
        (None, Some(false)) if instance.status == "healthy" => "does not respond".to_owned(),
        (None, _) => String::new(),
    }
}

/// A line for each instance that has a problem.
pub fn instance_problems(pool: &PoolReport, indent: &str) -> String {
    let affected = pool.members.iter().filter(|instance| instance.status == "failed" || instance.draining);
    affected
        .map(|instance| {
            let alias =
                instance.alias.as_deref().map(|alias| format!(" ({})", escape(alias))).unwrap_or_default();
            let note = Some(problem(instance)).filter(|note| !note.is_empty());
            let note = note.map(|note| format!(": {note}")).unwrap_or_default();
            format!(
                "{indent}{} instance {}{alias} {}{note}\n",
                escape(&pool.name),
                instance.id,
                escape(state(instance))
            )
        })
        .collect()
}

pub fn scaled(pid: u32, ScaleResult { pool, from, to, draining }: &ScaleResult) -> String {
    let leaving = match draining.as_slice() {
        [] => String::new(),
        leaving => format!("; {} when their sessions have ended", leaving_text(leaving)),
    };
    let pool = escape(pool);
    format!("pool \"{pool}\" (pid {pid}): {} now, {from} before{leaving}\n", count(*to, "instance"))
}

fn leaving_text(ids: &[String]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| escape(id)).collect();
    format!("{} stop", ids.join(", "))
}

/// `before` is the pool's state before the order.
pub fn restarted(pid: u32, changed: &CommandedInstances, before: &PoolReport) -> String {
    let nothing = match (before.elastic, before.drained) {
        (true, true) => "the pool takes calls again; an instance starts with the first call that needs one",
        (true, false) => "no instance runs, so there is none to restart",
        (false, _) => "nothing to do",
    };
    command_result(pid, changed, "restarting", "those in use when their sessions have ended", nothing)
}

pub fn drained(pid: u32, changed: &CommandedInstances, before: &PoolReport) -> String {
    let nothing = match before.elastic {
        true => "no instance runs, and none starts until `greenroom pool restart`",
        false => "nothing to do",
    };
    command_result(pid, changed, "draining", "`greenroom pool restart` brings them back", nothing)
}

fn command_result(
    pid: u32,
    CommandedInstances { pool, instances }: &CommandedInstances,
    what: &str,
    after: &str,
    nothing: &str,
) -> String {
    let pool = escape(pool);
    if instances.is_empty() {
        return format!("pool \"{pool}\" (pid {pid}): {nothing}\n");
    }
    let ids: Vec<_> = instances.iter().map(|id| escape(id)).collect();
    format!("pool \"{pool}\" (pid {pid}): {what} {}; {after}\n", ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chromium() -> PoolReport {
        let instance = |id, alias: Option<&str>, status: &str, leased| InstanceReport {
            id,
            alias: alias.map(ToOwned::to_owned),
            status: status.to_owned(),
            slots: 1,
            leased,
            leased_seconds: (leased > 0).then_some(75),
            browser: "chromium".to_owned(),
            headless: true,
            process_id: (status != "failed").then_some(12_345 + id),
            responsive: Some(status == "healthy"),
            ..InstanceReport::default()
        };
        let failed = InstanceReport {
            error: Some("Process exited unexpectedly (code 1)\x1b[2J".to_owned()),
            restarts: 3,
            ..instance(2, None, "failed", 0)
        };
        let draining = InstanceReport { draining: true, ..instance(1, Some("debug_browser"), "healthy", 1) };
        PoolReport {
            name: "CHROMIUM".to_owned(),
            description: "General-purpose web scraping and navigation".to_owned(),
            is_default: true,
            instances: 3,
            healthy: 2,
            available: 1,
            leased: 1,
            slots: 3,
            waiting: 4,
            restarts: 3,
            members: vec![instance(0, None, "healthy", 0), draining, failed],
            ..PoolReport::default()
        }
    }

    fn firefox() -> PoolReport {
        PoolReport {
            name: "FIREFOX".to_owned(),
            instances: 2,
            healthy: 2,
            available: 2,
            slots: 2,
            ..PoolReport::default()
        }
    }

    const WIDE: Terminal = Terminal { colour: false, columns: Some(110), rows: None };

    /// Pools are listed one per line, with their processes where there are several.
    #[test]
    fn pools_of_several_processes_have_a_pid_column() {
        let instance = chromium();
        let other = firefox();
        let same = pools(&[(7, &instance), (7, &other)], "", WIDE);
        let apart = pools(&[(7, &instance), (8, &other)], "", WIDE);
        insta::assert_snapshot!(format!("{same}\n{apart}\n{}", instance_problems(&instance, "  ")));
    }

    /// One pool is shown in full; texts from the configuration and from errors cannot control the terminal.
    #[test]
    fn pool_details_list_every_field() {
        insta::assert_snapshot!(pool(7, "server", &chromium(), WIDE));
    }

    /// The text names what was done, and what is still to come.
    #[test]
    fn command_results_name_the_instances() {
        let scaled = |draining: &[&str]| {
            let draining = draining.iter().map(|id| (*id).to_owned()).collect();
            super::scaled(7, &ScaleResult { pool: "A".to_owned(), from: 3, to: 1, draining })
        };
        assert_eq!(scaled(&[]), "pool \"A\" (pid 7): 1 instance now, 3 before\n");
        assert_eq!(
            scaled(&["1", "2"]),
            "pool \"A\" (pid 7): 1 instance now, 3 before; 1, 2 stop when their sessions have ended\n"
        );
        let changed = |ids: &[&str]| CommandedInstances {
            pool: "A".to_owned(),
            instances: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        assert_eq!(
            restarted(7, &changed(&["0", "1"]), &chromium()),
            "pool \"A\" (pid 7): restarting 0, 1; those in use when their sessions have ended\n"
        );
        assert_eq!(drained(7, &changed(&[]), &chromium()), "pool \"A\" (pid 7): nothing to do\n");
        let built_in = PoolReport { elastic: true, ..PoolReport::default() };
        assert_eq!(
            drained(7, &changed(&[]), &built_in),
            "pool \"A\" (pid 7): no instance runs, and none starts until `greenroom pool restart`\n"
        );
        let taken_out = PoolReport { drained: true, ..built_in };
        assert_eq!(
            restarted(7, &changed(&[]), &taken_out),
            "pool \"A\" (pid 7): the pool takes calls again; an instance starts with the first call that needs one\n"
        );
    }
}
