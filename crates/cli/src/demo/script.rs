//! What the agents of the demo do, step by step. All agents take a step at the same time; the next begins when all are
//! done. So all have signed in before any of them shops, and all have shopped before any of them looks at its basket
//! again.

use serde_json::json;

use super::{
    agent::{DemoAgent, StepError},
    catalog::{BISCUITS, Role, ShoppingTask, TEAS, gift},
    view::DemoPrinter,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoStep {
    Open,
    Arrive,
    SignIn,
    Shop,
    RecheckBasket,
}

impl DemoStep {
    /// The headline of the step.
    pub fn title(self) -> &'static str {
        match self {
            Self::Open => "A browser each",
            Self::Arrive => "All open the same shop",
            Self::SignIn => "All sign in at once, each under a name of its own",
            Self::Shop => "Each agent does its own task",
            Self::RecheckBasket => "All open the same page again: who am I, and what have I taken?",
        }
    }
}

pub const STEPS: [DemoStep; 5] =
    [DemoStep::Open, DemoStep::Arrive, DemoStep::SignIn, DemoStep::Shop, DemoStep::RecheckBasket];

/// Picks the cheapest tea off the price list.
const CHEAPEST: &str = "() => [...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.textContent))\
     .sort((a, b) => a[1] - b[1])[0].join(' at ')";

/// Runs one step of an agent. It prints and stores an error, and the agent skips all later steps.
pub async fn run_step(
    step: DemoStep,
    agent: &mut DemoAgent,
    shop: &str,
    printer: &DemoPrinter,
) -> anyhow::Result<()> {
    if agent.error.is_some() {
        return Ok(());
    }
    let mut current = AgentStep { agent, shop, printer };
    let done = match step {
        DemoStep::Open => current.open().await,
        DemoStep::Arrive => current.arrive().await,
        DemoStep::SignIn => current.sign_in().await,
        DemoStep::Shop => current.shop().await,
        DemoStep::RecheckBasket => current.recheck_basket().await,
    };
    match done {
        Ok(()) => Ok(()),
        Err(Stop::StepError(error)) => {
            current.printer.failed(&current.agent.role, &error)?;
            current.agent.error = Some(error);
            Ok(())
        }
        Err(Stop::Output(error)) => Err(error.into()),
    }
}

/// Why an agent stops: its step failed, or stdout is closed.
enum Stop {
    StepError(StepError),
    Output(std::io::Error),
}

impl From<StepError> for Stop {
    fn from(error: StepError) -> Self {
        Self::StepError(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

struct AgentStep<'a> {
    agent: &'a mut DemoAgent,
    shop: &'a str,
    printer: &'a DemoPrinter,
}

impl AgentStep<'_> {
    async fn open(&mut self) -> Result<(), Stop> {
        self.agent.initialize().await?;
        self.agent.call("create_new_session", json!({})).await?;
        let session = self.agent.role.session();
        self.print_step("create_new_session", "gets a browser", &format!("session \"{session}\""))
    }

    async fn arrive(&mut self) -> Result<(), Stop> {
        self.visit("/").await?;
        self.expect("nobody", "")?;
        self.print_page("browser_navigate", "opens the shop")
    }

    async fn sign_in(&mut self) -> Result<(), Stop> {
        let Role { name, .. } = self.agent.role;
        let arguments =
            json!({ "element": "Name", "target": "getByLabel(\"Name\")", "text": name, "submit": true });
        self.agent.call("browser_type", arguments).await?;
        self.agent.pages += 1;
        self.expect(name, "")?;
        self.print_page("browser_type", &format!("signs in as {name}"))
    }

    async fn shop(&mut self) -> Result<(), Stop> {
        let role = self.agent.role;
        match role.task {
            ShoppingTask::Snack => {
                self.take(role.tea).await?;
                self.take(BISCUITS).await
            }
            ShoppingTask::Compare => {
                self.compare().await?;
                self.visit("/").await?;
                self.take(role.tea).await
            }
            ShoppingTask::Gift => self.gift().await,
            ShoppingTask::Picture => {
                self.take(role.tea).await?;
                self.picture().await
            }
        }
    }

    /// Loads the basket's page again, after all agents have filled their baskets.
    async fn recheck_basket(&mut self) -> Result<(), Stop> {
        self.visit("/").await?;
        let role = self.agent.role;
        self.expect(role.name, &role.basket())?;
        self.print_page("browser_navigate", "looks again")
    }

    async fn take(&mut self, item: &str) -> Result<(), Stop> {
        let button = format!("Take {item}");
        let target = format!("getByRole(\"button\", {{ name: \"{button}\", exact: true }})");
        self.agent.call("browser_click", json!({ "element": button, "target": target })).await?;
        if !self.agent.last_page.basket.contains(item) {
            return Err(self.unexpected(&format!("{item} in the basket")));
        }
        self.print_basket(&format!("takes {item}"))
    }

    async fn compare(&mut self) -> Result<(), Stop> {
        self.visit("/prices").await?;
        let answer = self.agent.call("browser_evaluate", json!({ "function": CHEAPEST })).await?;
        let found = answer.rest_of_line("### Result\n\"").unwrap_or_default();
        let cheapest = TEAS.iter().min_by_key(|(_, cents)| *cents).map_or("", |(tea, _)| *tea);
        if !found.starts_with(cheapest) {
            return Err(self.unexpected(&format!("{cheapest} as the cheapest tea, not \"{found}\"")));
        }
        self.print_step("browser_evaluate", "reads the prices", &format!("the cheapest is {found}"))
    }

    async fn gift(&mut self) -> Result<(), Stop> {
        self.visit("/gift").await?;
        let field = |name: &str, kind: &str, value: &str| json!({ "name": name, "type": kind, "target": format!("getByLabel(\"{name}\")"), "value": value });
        let tea = self.agent.role.tea;
        let fields = [
            field("For", "textbox", "Grandma"),
            field("Tea", "textbox", tea),
            field("Wrapped", "checkbox", "true"),
        ];
        self.agent.call("browser_fill_form", json!({ "fields": fields })).await?;
        self.print_step(
            "browser_fill_form",
            "fills in a form",
            &format!("{}, please", gift(tea, "Grandma", true)),
        )?;
        let send = json!({ "element": "Send the gift", "target": "text=Send the gift" });
        self.agent.call("browser_click", send).await?;
        self.agent.pages += 1;
        self.print_basket("sends it")
    }

    async fn picture(&mut self) -> Result<(), Stop> {
        let answer =
            self.agent.call("browser_take_screenshot", json!({ "scale": "css", "type": "jpeg" })).await?;
        // Four characters of base64 are three bytes.
        let Some(chars) = answer.picture_chars else { return Err(self.unexpected("a picture")) };
        let size = (chars * 3 / 4).div_ceil(1_000);
        self.print_step("browser_take_screenshot", "takes a picture", &format!("a JPEG of {size} kB"))
    }

    async fn visit(&mut self, path: &str) -> Result<(), Stop> {
        self.agent.call("browser_navigate", json!({ "url": format!("{}{path}", self.shop) })).await?;
        self.agent.pages += 1;
        Ok(())
    }

    /// The page must say that it is this customer's, and show this basket.
    fn expect(&self, customer: &str, basket: &str) -> Result<(), Stop> {
        let page = &self.agent.last_page;
        if page.customer == customer && page.basket == basket {
            return Ok(());
        }
        Err(self.unexpected(&format!("customer \"{customer}\" with the basket \"{basket}\"")))
    }

    fn unexpected(&self, wanted: &str) -> Stop {
        let page = &self.agent.last_page;
        let message =
            format!("expected {wanted}; sees customer \"{}\" with \"{}\"", page.customer, page.basket);
        Stop::StepError(StepError { message, hint: None })
    }

    fn print_step(&self, tool: &str, does: &str, sees: &str) -> Result<(), Stop> {
        Ok(self.printer.step(&self.agent.role, tool, does, sees)?)
    }

    fn print_basket(&self, does: &str) -> Result<(), Stop> {
        self.print_step("browser_click", does, &format!("basket: {}", self.agent.last_page.basket))
    }

    fn print_page(&self, tool: &str, does: &str) -> Result<(), Stop> {
        self.print_step(tool, does, &self.printer.page_text(&self.agent.last_page))
    }
}
