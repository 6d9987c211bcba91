use greenroom_mcp::link::http::HttpEndpoint;

use super::{super::catalog::roles, *};

fn new_printer(columns: Option<usize>, colour: bool) -> DemoPrinter {
    DemoPrinter::new(&roles(4), false, Terminal { colour, columns, rows: None })
}

fn agents() -> Vec<DemoAgent> {
    let front = HttpEndpoint::new("http://127.0.0.1:1/mcp".parse().unwrap()).unwrap();
    let agent = |role: Role| {
        let mut agent = DemoAgent::new(role, &front);
        agent.pages = 3;
        agent.calls = 6;
        agent.busy = Duration::from_millis(1_230);
        agent.last_page = ShopPage { customer: role.name.to_owned(), basket: role.basket() };
        agent
    };
    roles(4).into_iter().map(agent).collect()
}

const TOTALS: DemoTotals =
    DemoTotals { chromiums: 1, start: Duration::from_millis(950), took: Duration::from_millis(2_140) };

/// The output of a whole demo, without a terminal.
#[test]
fn demo_output_without_a_terminal_has_no_colours() {
    let printer = new_printer(None, false);
    let [ada, ben, ..] = roles(4)[..] else { unreachable!() };
    let at = Duration::from_millis(812);
    let page = printer.page_text(&ShopPage { customer: "nobody".to_owned(), basket: String::new() });
    let lines = [
        printer.opening_text(4, "http://127.0.0.1:1", "http://127.0.0.1:2/mcp"),
        printer.step_title_text("All open the same shop"),
        printer.line(&ada, at, "opens the shop", &page, TextStyle::Plain),
        printer.line(&ben, at, "FAILED", "no browser\x1b[2J free", TextStyle::Red),
        printer.ending_text(&agents(), &TOTALS),
    ];
    insta::assert_snapshot!(lines.concat());
}

/// After a failure the summary does not claim success.
#[test]
fn summary_after_a_failure_claims_no_success() {
    let mut agents = agents();
    agents[1].error = Some(StepError::new("gone"));
    let text = new_printer(None, false).ending_text(&agents, &TOTALS);
    assert!(text.contains("SIGNED IN AS"), "{text}");
    assert!(!text.contains("every agent") && !text.contains("next:"), "{text}");
}

/// No line is wider than the terminal, and colours do not change the text.
#[test]
fn demo_lines_fit_the_terminal() {
    let [ada, ..] = roles(4)[..] else { unreachable!() };
    let line = |printer: &DemoPrinter| {
        printer.line(&ada, Duration::from_secs(12), "looks again", &"Sencha, ".repeat(20), TextStyle::Plain)
    };
    for columns in [40, 60, 80, 100] {
        let plain = line(&new_printer(Some(columns), false));
        assert!(width(plain.trim_end()) <= columns, "{plain}");
        let coloured = line(&new_printer(Some(columns), true));
        assert!(coloured.contains("\x1b[32mAda"), "{coloured}");
        let bare = coloured.replace("\x1b[32m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
        assert_eq!(bare, plain);
    }
}
