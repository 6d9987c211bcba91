//! A page's tree as a list, so that a query can look at every node without knowing how deep it is.
//!
//! Nodes keep the order of the page, each without its `children` and with `_depth`, `_parent_role` (null at
//! the top, and if the role is not a short text) and `_index`, its index in the list. A text between nodes
//! becomes a node with the role `text`. There is no recursion, so a tree may have any depth.

use serde_json::{Map, Value, json};

/// How many nodes a list may have: each takes up to a kilobyte. A page of 1 MB has some 20,000 nodes.
pub(super) const NODES_MAX: usize = 250_000;

/// How long a role may be that is repeated in each child. Roles in snapshots are single words; other data may
/// have any text there.
const ROLE_BYTES_MAX: usize = 64;

/// The list of all nodes of `tree`, which is a list of nodes or a single one. Another value is left as it is. `None` if there
/// are more nodes than [`NODES_MAX`].
pub(super) fn flatten(tree: Value) -> Option<Value> {
    let top = match tree {
        Value::Array(nodes) => nodes,
        Value::Object(_) => Vec::from([tree]),
        other => return Some(other),
    };
    let mut list = Vec::new();
    let mut open = Vec::from([(top.into_iter(), Value::Null)]);
    while let Some((siblings, parent_role)) = open.last_mut() {
        let Some(node) = siblings.next() else {
            open.pop();
            continue;
        };
        let mut node = fields(node);
        // Not `remove`, which would move the last field into its place.
        let children = node.shift_remove("children");
        let parent_role = parent_role.clone();
        let role = node.get("role").filter(|role| is_short(role)).cloned().unwrap_or_default();
        node.insert("_depth".to_owned(), json!(open.len() - 1));
        node.insert("_parent_role".to_owned(), parent_role);
        node.insert("_index".to_owned(), json!(list.len()));
        match children {
            Some(Value::Array(children)) => open.push((children.into_iter(), role)),
            // A `children` that is no list of nodes is a field like any other.
            Some(other) => drop(node.insert("children".to_owned(), other)),
            None => {}
        }
        if list.len() >= NODES_MAX {
            return None;
        }
        list.push(Value::Object(node));
    }
    Some(Value::Array(list))
}

fn is_short(role: &Value) -> bool {
    role.as_str().is_some_and(|role| role.len() <= ROLE_BYTES_MAX)
}

fn fields(node: Value) -> Map<String, Value> {
    let (name, value) = match node {
        Value::Object(fields) => return fields,
        Value::String(text) => {
            return Map::from_iter([("role".to_owned(), json!("text")), ("text".to_owned(), json!(text))]);
        }
        other => ("value", other),
    };
    Map::from_iter([(name.to_owned(), value)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tree: Value, expected: &Value) {
        assert_eq!(flatten(tree).as_ref(), Some(expected));
    }

    /// Nodes keep the page's order and get their position; texts and foreign values are not lost.
    #[test]
    fn flattened_nodes_keep_order_and_position() {
        check(
            json!([
                {"role": "list", "children": [{"role": "item", "ref": "e2", "children": ["a", 7]}, {"role": "item"}]},
                {"role": "button", "name": "Send"},
            ]),
            &json!([
                {"role": "list", "_depth": 0, "_parent_role": null, "_index": 0},
                {"role": "item", "ref": "e2", "_depth": 1, "_parent_role": "list", "_index": 1},
                {"role": "text", "text": "a", "_depth": 2, "_parent_role": "item", "_index": 2},
                {"value": 7, "_depth": 2, "_parent_role": "item", "_index": 3},
                {"role": "item", "_depth": 1, "_parent_role": "list", "_index": 4},
                {"role": "button", "name": "Send", "_depth": 0, "_parent_role": null, "_index": 5},
            ]),
        );
        check(
            json!({"a": 1, "children": 2}),
            &json!([{"a": 1, "_depth": 0, "_parent_role": null, "_index": 0, "children": 2}]),
        );
        check(json!("text"), &json!("text"));
        check(json!([]), &json!([]));
    }

    /// Data that is no page: a long role, or one that is no text, is not repeated in each child, and too many nodes are refused.
    #[test]
    fn data_that_is_no_page_is_bounded() {
        for role in [json!("r".repeat(1_000)), json!([1, 2, 3]), json!({ "a": 1 }), json!(null)] {
            let list = flatten(json!({ "role": role, "children": [0, 0] })).expect("it has few nodes");
            assert_eq!((&list[0]["role"], &list[1]["_parent_role"]), (&role, &Value::Null));
        }
        let most = Value::Array(vec![json!(0); NODES_MAX]);
        assert!(flatten(most.clone()).is_some());
        assert_eq!(flatten(json!([{ "children": most }])), None);
    }

    /// A recorded page keeps every node and every text.
    #[test]
    fn recorded_page_keeps_every_node() {
        let page: Value = serde_json::from_str(include_str!("../recorded/board.json")).expect("it is JSON");
        let list = flatten(page["snapshot"].clone()).expect("it has few nodes");
        let list = list.as_array().expect("it is a list");
        let text = include_str!("../recorded/board.json");
        assert_eq!(
            list.iter().filter(|node| node.get("ref").is_some()).count(),
            text.matches("\"ref\":").count()
        );
        assert!(list.iter().all(|node| node.get("children").is_none()));
        assert_eq!(list.last().expect("it has nodes")["_index"], list.len() - 1);
    }
}
