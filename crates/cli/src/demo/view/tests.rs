use greenroom_mcp::link::http::Endpoint;

use super::{super::catalog::roles, *};

fn printer(columns: Option<usize>, colour: bool) -> DemoPrinter {
    DemoPrinter::new(&roles(4), false, Terminal { colour, columns, rows: None })
}

fn agents() -> Vec<DemoAgent> {
    let front = Endpoint::new("http://127.0.0.1:1/mcp".parse().unwrap()).unwrap();
    let agent = |role: Role| {
        let mut agent = DemoAgent::new(role, &front);
        agent.pages = 3;
        agent.calls = 6;
        agent.busy = Duration::from_millis(1_230);
        agent.seen = SeenPage { customer: role.name.to_owned(), basket: role.basket() };
        agent
    };
    roles(4).into_iter().map(agent).collect()
}

const TOTALS: DemoTotals =
    DemoTotals { chromiums: 1, start: Duration::from_millis(950), took: Duration::from_millis(2_140) };

/// The whole demo, as a log shows it.
#[test]
fn the_whole_demo_without_colours() {
    let show = printer(None, false);
    let [ada, ben, ..] = roles(4)[..] else { unreachable!() };
    let at = Duration::from_millis(812);
    let seen = show.seen(&SeenPage { customer: "nobody".to_owned(), basket: String::new() });
    let lines = [
        show.opening_text(4, "http://127.0.0.1:1", "http://127.0.0.1:2/mcp"),
        show.act_text("All open the same shop"),
        show.line(&ada, at, "opens the shop", &seen, Paint::Plain),
        show.line(&ben, at, "FAILED", "no browser\x1b[2J free", Paint::Red),
        show.ending_text(&agents(), &TOTALS),
    ];
    insta::assert_snapshot!(lines.concat());
}

/// After a failure the summary does not praise.
#[test]
fn a_failure_leaves_the_praise_out() {
    let mut agents = agents();
    agents[1].error = Some(StepError::new("gone"));
    let text = printer(None, false).ending_text(&agents, &TOTALS);
    assert!(text.contains("SIGNED IN AS"), "{text}");
    assert!(!text.contains("every agent") && !text.contains("next:"), "{text}");
}

/// No line is wider than the terminal, and colours change nothing but colours.
#[test]
fn lines_fit_the_terminal() {
    let [ada, ..] = roles(4)[..] else { unreachable!() };
    let line = |show: &DemoPrinter| {
        show.line(&ada, Duration::from_secs(12), "looks again", &"Sencha, ".repeat(20), Paint::Plain)
    };
    for columns in [40, 60, 80, 100] {
        let plain = line(&printer(Some(columns), false));
        assert!(width(plain.trim_end()) <= columns, "{plain}");
        let coloured = line(&printer(Some(columns), true));
        assert!(coloured.contains("\x1b[32mAda"), "{coloured}");
        let bare = coloured.replace("\x1b[32m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
        assert_eq!(bare, plain);
    }
}
