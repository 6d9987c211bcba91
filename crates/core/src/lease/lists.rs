//! Doubly linked lists over numbered nodes: a node is in one list at most, and joins the end, leaves and is found first
//! in the same time however long the lists are.

/// No node, or no list.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Lists {
    nodes: Vec<Node>,
    /// First and last node of each list.
    ends: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    list: u32,
    before: u32,
    after: u32,
}

impl Lists {
    pub(super) fn push(&mut self, list: usize, node: usize) {
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, Node { list: NONE, before: NONE, after: NONE });
        }
        if self.ends.len() <= list {
            self.ends.resize(list + 1, (NONE, NONE));
        }
        self.remove(node);
        let (_, last) = self.ends[list];
        self.nodes[node] = Node { list: short(list), before: last, after: NONE };
        match last {
            NONE => self.ends[list].0 = short(node),
            last => self.nodes[last as usize].after = short(node),
        }
        self.ends[list].1 = short(node);
    }

    pub(super) fn remove(&mut self, node: usize) {
        let Some(Node { list, before, after }) = self.nodes.get(node).copied() else { return };
        if list == NONE {
            return;
        }
        let ends = &mut self.ends[list as usize];
        match before {
            NONE => ends.0 = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => ends.1 = before,
            after => self.nodes[after as usize].before = before,
        }
        self.nodes[node].list = NONE;
    }

    pub(super) fn contains(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.list != NONE)
    }

    pub(super) fn first(&self, list: usize) -> Option<usize> {
        self.ends.get(list).and_then(|(first, _)| some(*first))
    }

    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.first(list), |node| some(self.nodes[*node].after))
    }
}

fn some(node: u32) -> Option<usize> {
    (node != NONE).then_some(node as usize)
}

/// Nodes and lists are counted in thousands.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NONE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes come out in the order in which they joined, also after some left from the middle or joined anew.
    #[test]
    fn order_of_joining() {
        let mut lists = Lists::default();
        for node in [3, 1, 4, 5] {
            lists.push(0, node);
        }
        lists.push(1, 9);
        lists.remove(1);
        lists.remove(1);
        lists.push(0, 3);
        assert_eq!(lists.iter(0).collect::<Vec<_>>(), [4, 5, 3]);
        lists.push(1, 5);
        assert_eq!((lists.iter(0).collect(), lists.iter(1).collect()), (vec![4, 3], vec![9, 5]));
        lists.remove(4);
        lists.remove(3);
        assert_eq!(
            (lists.first(0), lists.first(7), lists.contains(3), lists.contains(5)),
            (None, None, false, true)
        );
    }
}
