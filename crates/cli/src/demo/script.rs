//! What the agents of the demo do, act by act. All of them play an act at the same time; the next begins when all are done,
//! so that all are signed in before any shops, and all have shopped before any looks back.

use serde_json::json;

use super::{
    agent::{DemoAgent, Trouble},
    catalog::{BISCUITS, Errand, Role, TEAS, gift},
    view::Show,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Open,
    Arrive,
    SignIn,
    Shop,
    LookBack,
}

impl Act {
    /// The headline of the act.
    pub fn title(self) -> &'static str {
        match self {
            Self::Open => "A browser each",
            Self::Arrive => "All open the same shop",
            Self::SignIn => "All sign in at once, each under a name of its own",
            Self::Shop => "Each goes about its own errand",
            Self::LookBack => "All open the same page again: who am I, and what have I taken?",
        }
    }
}

pub const ACTS: [Act; 5] = [Act::Open, Act::Arrive, Act::SignIn, Act::Shop, Act::LookBack];

/// Picks the cheapest tea off the price list.
const CHEAPEST: &str = "() => [...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.textContent))\
     .sort((a, b) => a[1] - b[1])[0].join(' at ')";

/// Plays one act. A problem is shown, kept, and ends this agent's part.
pub async fn play(act: Act, agent: &mut DemoAgent, shop: &str, show: &Show) -> anyhow::Result<()> {
    if agent.trouble.is_some() {
        return Ok(());
    }
    let mut scene = Scene { agent, shop, show };
    let played = match act {
        Act::Open => scene.open().await,
        Act::Arrive => scene.arrive().await,
        Act::SignIn => scene.sign_in().await,
        Act::Shop => scene.shop().await,
        Act::LookBack => scene.look_back().await,
    };
    match played {
        Ok(()) => Ok(()),
        Err(Stop::Trouble(trouble)) => {
            scene.show.failed(&scene.agent.role, &trouble)?;
            scene.agent.trouble = Some(trouble);
            Ok(())
        }
        Err(Stop::Output(error)) => Err(error.into()),
    }
}

/// Why an agent stops: a problem, or stdout is closed.
enum Stop {
    Trouble(Trouble),
    Output(std::io::Error),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

struct Scene<'a> {
    agent: &'a mut DemoAgent,
    shop: &'a str,
    show: &'a Show,
}

impl Scene<'_> {
    async fn open(&mut self) -> Result<(), Stop> {
        self.agent.introduce().await?;
        self.agent.call("create_new_session", json!({})).await?;
        let session = self.agent.role.session();
        self.tell("create_new_session", "gets a browser", &format!("session \"{session}\""))
    }

    async fn arrive(&mut self) -> Result<(), Stop> {
        self.visit("/").await?;
        self.expect("nobody", "")?;
        self.tell_seen("browser_navigate", "opens the shop")
    }

    async fn sign_in(&mut self) -> Result<(), Stop> {
        let Role { name, .. } = self.agent.role;
        let arguments =
            json!({ "element": "Name", "target": "getByLabel(\"Name\")", "text": name, "submit": true });
        self.agent.call("browser_type", arguments).await?;
        self.agent.pages += 1;
        self.expect(name, "")?;
        self.tell_seen("browser_type", &format!("signs in as {name}"))
    }

    async fn shop(&mut self) -> Result<(), Stop> {
        let role = self.agent.role;
        match role.errand {
            Errand::Snack => {
                self.take(role.tea).await?;
                self.take(BISCUITS).await
            }
            Errand::Compare => {
                self.compare().await?;
                self.visit("/").await?;
                self.take(role.tea).await
            }
            Errand::Gift => self.gift().await,
            Errand::Picture => {
                self.take(role.tea).await?;
                self.picture().await
            }
        }
    }

    /// Looks at the same page again, after all agents have changed it.
    async fn look_back(&mut self) -> Result<(), Stop> {
        self.visit("/").await?;
        let role = self.agent.role;
        self.expect(role.name, &role.basket())?;
        self.tell_seen("browser_navigate", "looks again")
    }

    async fn take(&mut self, ware: &str) -> Result<(), Stop> {
        let button = format!("Take {ware}");
        let target = format!("getByRole(\"button\", {{ name: \"{button}\", exact: true }})");
        self.agent.call("browser_click", json!({ "element": button, "target": target })).await?;
        if !self.agent.seen.basket.contains(ware) {
            return Err(self.unexpected(&format!("{ware} in the basket")));
        }
        self.tell_basket(&format!("takes {ware}"))
    }

    async fn compare(&mut self) -> Result<(), Stop> {
        self.visit("/prices").await?;
        let answer = self.agent.call("browser_evaluate", json!({ "function": CHEAPEST })).await?;
        let found = answer.after("### Result\n\"").unwrap_or_default();
        let cheapest = TEAS.iter().min_by_key(|(_, cents)| *cents).map_or("", |(tea, _)| *tea);
        if !found.starts_with(cheapest) {
            return Err(self.unexpected(&format!("{cheapest} as the cheapest tea, not \"{found}\"")));
        }
        self.tell("browser_evaluate", "reads the prices", &format!("the cheapest is {found}"))
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
        self.tell(
            "browser_fill_form",
            "fills in a form",
            &format!("{}, please", gift(tea, "Grandma", true)),
        )?;
        let send = json!({ "element": "Send the gift", "target": "text=Send the gift" });
        self.agent.call("browser_click", send).await?;
        self.agent.pages += 1;
        self.tell_basket("sends it")
    }

    async fn picture(&mut self) -> Result<(), Stop> {
        let answer =
            self.agent.call("browser_take_screenshot", json!({ "scale": "css", "type": "jpeg" })).await?;
        // Four characters of base64 are three bytes.
        let Some(chars) = answer.picture_chars else { return Err(self.unexpected("a picture")) };
        let size = (chars * 3 / 4).div_ceil(1_000);
        self.tell("browser_take_screenshot", "takes a picture", &format!("a JPEG of {size} kB"))
    }

    async fn visit(&mut self, path: &str) -> Result<(), Stop> {
        self.agent.call("browser_navigate", json!({ "url": format!("{}{path}", self.shop) })).await?;
        self.agent.pages += 1;
        Ok(())
    }

    /// The page must say that it is this customer's, and show this basket.
    fn expect(&self, customer: &str, basket: &str) -> Result<(), Stop> {
        let seen = &self.agent.seen;
        if seen.customer == customer && seen.basket == basket {
            return Ok(());
        }
        Err(self.unexpected(&format!("customer \"{customer}\" with the basket \"{basket}\"")))
    }

    fn unexpected(&self, wanted: &str) -> Stop {
        let seen = &self.agent.seen;
        let message =
            format!("expected {wanted}; sees customer \"{}\" with \"{}\"", seen.customer, seen.basket);
        Stop::Trouble(Trouble { message, hint: None })
    }

    fn tell(&self, tool: &str, does: &str, sees: &str) -> Result<(), Stop> {
        Ok(self.show.step(&self.agent.role, tool, does, sees)?)
    }

    fn tell_basket(&self, does: &str) -> Result<(), Stop> {
        self.tell("browser_click", does, &format!("basket: {}", self.agent.seen.basket))
    }

    fn tell_seen(&self, tool: &str, does: &str) -> Result<(), Stop> {
        self.tell(tool, does, &self.show.seen(&self.agent.seen))
    }
}
