//! A store of records in two balanced trees, by name and by number: put, get, delete and scan. The
//! trees compare and visit records through functions that they are given.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};
use std::cmp::Ordering::{self, Equal, Greater, Less};

const SCAN: usize = 20;

struct Record {
    name: String,
    number: u64,
    value: u64,
    stored: bool,
}

/// Which record, by its place.
type Id = usize;
type Link = Option<Box<Node>>;

struct Node {
    left: Link,
    right: Link,
    level: i32,
    record: Id,
}

/// An AA tree (Andersson 1993): a red-black tree whose red children are all right ones.
struct Tree {
    root: Link,
    count: usize,
    compare: fn(&Record, &Record) -> Ordering,
}

fn level(link: &Link) -> i32 {
    link.as_ref().map_or(0, |node| node.level)
}

fn skew(mut n: Box<Node>) -> Box<Node> {
    match n.left.take() {
        Some(mut left) if left.level == n.level => {
            n.left = left.right.take();
            left.right = Some(n);
            left
        }
        left => {
            n.left = left;
            n
        }
    }
}

fn split(mut n: Box<Node>) -> Box<Node> {
    match n.right.take() {
        Some(mut right) if level(&right.right) == n.level => {
            n.right = right.left.take();
            right.left = Some(n);
            right.level += 1;
            right
        }
        right => {
            n.right = right;
            n
        }
    }
}

impl Tree {
    fn insert(&mut self, records: &[Record], id: Id) {
        let root = self.root.take();
        self.root = Some(self.insert_at(root, records, id));
    }

    fn insert_at(&mut self, link: Link, records: &[Record], id: Id) -> Box<Node> {
        let Some(mut n) = link else {
            self.count += 1;
            return Box::new(Node { left: None, right: None, level: 1, record: id });
        };
        match (self.compare)(&records[id], &records[n.record]) {
            Equal => return n,
            Less => n.left = Some(self.insert_at(n.left.take(), records, id)),
            Greater => n.right = Some(self.insert_at(n.right.take(), records, id)),
        }
        split(skew(n))
    }

    fn erase(&mut self, records: &[Record], id: Id) {
        let root = self.root.take();
        self.root = self.erase_at(root, records, id);
    }

    fn erase_at(&mut self, link: Link, records: &[Record], id: Id) -> Link {
        let mut n = link?;
        match (self.compare)(&records[id], &records[n.record]) {
            Less => n.left = self.erase_at(n.left.take(), records, id),
            Greater => n.right = self.erase_at(n.right.take(), records, id),
            // The next or the last record takes its place.
            Equal => match (n.left.take(), n.right.take()) {
                (None, None) => {
                    self.count -= 1;
                    return None;
                }
                (Some(left), right) => {
                    n.right = right;
                    n.record = outermost(&left, |node| &node.right);
                    n.left = self.erase_at(Some(left), records, n.record);
                }
                (None, Some(right)) => {
                    n.record = outermost(&right, |node| &node.left);
                    n.right = self.erase_at(Some(right), records, n.record);
                }
            },
        }
        let least = level(&n.left).min(level(&n.right)) + 1;
        if least < n.level {
            n.level = least;
            if let Some(right) = n.right.as_mut().filter(|right| right.level > least) {
                right.level = least;
            }
            n = skew(n);
            n.right = n.right.take().map(|right| {
                let mut right = skew(right);
                right.right = right.right.take().map(skew);
                right
            });
            n = split(n);
            n.right = n.right.take().map(split);
        }
        Some(n)
    }

    fn find(&self, records: &[Record], id: Id) -> Option<Id> {
        let mut link = &self.root;
        while let Some(n) = link {
            match (self.compare)(&records[id], &records[n.record]) {
                Equal => return Some(n.record),
                Less => link = &n.left,
                Greater => link = &n.right,
            }
        }
        None
    }

    /// Visits the records from the given one on, in order, until the visitor returns false.
    fn scan(
        &self,
        link: &Link,
        records: &[Record],
        from: Option<Id>,
        visit: &mut dyn FnMut(Id) -> bool,
    ) -> bool {
        let Some(n) = link else { return true };
        let compare = |from: Id| (self.compare)(&records[from], &records[n.record]);
        let order = from.map_or(Less, compare);
        if order == Less && !self.scan(&n.left, records, from, visit) {
            return false;
        }
        if order != Greater && !visit(n.record) {
            return false;
        }
        self.scan(&n.right, records, from.filter(|_| order == Greater), visit)
    }
}

fn outermost(node: &Node, next: fn(&Node) -> &Link) -> Id {
    let mut node = node;
    while let Some(further) = next(node) {
        node = further;
    }
    node.record
}

/// The height in levels, which must fall by one or, to the right, stay.
fn check_levels(link: &Link) {
    let Some(n) = link else { return };
    let (left, right) = (level(&n.left), level(&n.right));
    let three = n.right.as_ref().is_some_and(|right| level(&right.right) == n.level);
    if left != n.level - 1 || (right != n.level && right != n.level - 1) || three {
        fail!("a node of level {} has children of {left} and {right}", n.level);
    }
    check_levels(&n.left);
    check_levels(&n.right);
}

fn main() {
    let scale = start();
    let (count, operations) = (at_least(100, 10000.0 * scale), at_least(1000, 4000000.0 * scale));
    let (mut rng, mut sum, mut stored) = (Rng(25), 0, 0);
    let named = |i: usize| {
        let number = rng.next();
        let unique = (i as u32).wrapping_mul(2654435761);
        let name = format!("user/{:03}/{unique:x}", rng.below(500));
        Record { name, number, value: 0, stored: false }
    };
    let mut records: Vec<Record> = (0..count).map(named).collect();
    let tree = |compare| Tree { root: None, count: 0, compare };
    let mut trees = [
        tree(|a: &Record, b: &Record| a.name.cmp(&b.name)),
        tree(|a: &Record, b: &Record| a.number.cmp(&b.number)),
    ];
    for op in 0..operations {
        let id = rng.below(count as u32) as usize;
        let t = rng.below(2) as usize;
        let kind = rng.below(100);
        let is_stored = records[id].stored;
        if kind < 30 && !is_stored {
            records[id].value = op as u64;
            trees.iter_mut().for_each(|tree| tree.insert(&records, id));
            records[id].stored = true;
            stored += 1;
        } else if (30..45).contains(&kind) && is_stored {
            trees.iter_mut().for_each(|tree| tree.erase(&records, id));
            records[id].stored = false;
            stored -= 1;
        } else if (45..55).contains(&kind) {
            let (mut first, mut left) = (None, SCAN);
            trees[t].scan(&trees[t].root, &records, Some(id), &mut |found| {
                first.get_or_insert(found);
                sum = mix(sum, records[found].value);
                left -= 1;
                left > 0
            });
            if is_stored && first != Some(id) {
                fail!("a scan from {} starts elsewhere", records[id].name);
            }
        } else {
            let found = trees[t].find(&records, id);
            if found != is_stored.then_some(id) {
                fail!("{} is missing, or there but deleted", records[id].name);
            }
            sum = mix(sum, found.map_or(0, |id| records[id].value));
        }
    }
    for tree in &trees {
        let (mut last, mut seen): (Option<Id>, usize) = (None, 0);
        tree.scan(&tree.root, &records, None, &mut |id| {
            if last.is_some_and(|last| (tree.compare)(&records[last], &records[id]) != Less) {
                fail!("{} comes too late", records[id].name);
            }
            last = Some(id);
            seen += 1;
            sum = mix(sum, records[id].value);
            true
        });
        check_levels(&tree.root);
        if (seen, tree.count) != (stored, stored) {
            fail!("{seen} of {stored} records in a tree that counts {}", tree.count);
        }
    }
    finish("kvstore", sum);
}
