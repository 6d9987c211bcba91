//! The steps of the order: twenty calls in the shop of the test site, from its table of 500 wares to an order that is placed.
//!
//! They cover what agents meet: a long table with buttons in every row, filters, details that open and close, tabs, a form
//! that refuses wrong input. Elements are named as a person would, by role and name; the agent has to find them.

/// What one call does.
#[derive(Debug, Clone, Copy)]
pub enum ShoppingAction {
    Navigate,
    Click(Element),
    Type(Element, &'static str),
    /// The same, and then Enter.
    Submit(Element, &'static str),
    Select(Element, &'static str),
    FillForm(&'static [(Element, &'static str)]),
    Snapshot,
    Evaluate(&'static str),
    ListTabs,
}

/// An element, by its role and its name.
#[derive(Debug, Clone, Copy)]
pub struct Element(pub &'static str, pub &'static str);

/// A call, and the text that must be on the page after it, or in its answer. Empty for calls whose answers do not show the
/// page.
pub struct ShoppingStep(pub ShoppingAction, pub &'static str);

use ShoppingAction::{Click, Evaluate, FillForm, ListTabs, Navigate, Select, Snapshot, Submit, Type};

const fn button(name: &'static str) -> Element {
    Element("button", name)
}

const fn textbox(name: &'static str) -> Element {
    Element("textbox", name)
}

pub const STEPS: [ShoppingStep; 20] = [
    ShoppingStep(Navigate, "500 of 500 wares shown"),
    ShoppingStep(Click(button("Add Lamp 216")), "Cart has 1 item"),
    ShoppingStep(Click(button("Details of Kettle 342")), "Kettle 342 costs 9.67 and is in stock."),
    ShoppingStep(Click(button("Close details")), "500 of 500 wares shown"),
    ShoppingStep(Submit(Element("searchbox", "Filter"), "kettle 3"), "22 of 500 wares shown"),
    ShoppingStep(Click(button("Add Kettle 342")), "Cart has 2 items"),
    ShoppingStep(Click(button("Clear filters")), "500 of 500 wares shown"),
    ShoppingStep(Select(Element("combobox", "Category"), "Garden"), "100 of 500 wares shown"),
    ShoppingStep(Click(button("Add Rake 123")), "Cart has 3 items"),
    ShoppingStep(Click(Element("tab", "Cart")), "Total: "),
    ShoppingStep(Click(button("More of Rake 123")), "2 x Rake 123"),
    ShoppingStep(Snapshot, "Total: "),
    ShoppingStep(Click(Element("tab", "Delivery")), "Delivery"),
    ShoppingStep(
        FillForm(&[
            (textbox("Name"), "Ada Lovelace"),
            (textbox("Email"), "ada"),
            (textbox("Street"), "12 St James's Square"),
            (textbox("City"), "London"),
            (Element("combobox", "Shipping"), "Express"),
            (Element("checkbox", "Accept the terms"), "true"),
        ]),
        "",
    ),
    ShoppingStep(Click(button("Review order")), "Enter a valid email address"),
    ShoppingStep(Type(textbox("Email"), "ada@example.com"), ""),
    ShoppingStep(Click(button("Review order")), "Review your order"),
    ShoppingStep(Evaluate("() => document.querySelector('#total').textContent"), "Total: "),
    ShoppingStep(Click(button("Place order")), "Thank you, Ada Lovelace"),
    ShoppingStep(ListTabs, "order placed"),
];

/// The query of the final order.
pub const ORDER: &str = "name=Ada+Lovelace&email=ada%40example.com&street=12+St+James%27s+Square&city=London\
    &shipping=Express&item=1+x+Lamp+216&item=1+x+Kettle+342&item=2+x+Rake+123";
