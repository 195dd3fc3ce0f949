//! Choice of one term for each class that the outputs need, by the cost of the whole: shared terms count once.
//!
//! The terms of the region as it stood are one start, a bottom-up choice with the set of classes behind each term another. From the
//! cheaper one, single classes and groups of classes that could share a term change their choice while that lowers the cost.

use egg::Id;
use rustc_hash::FxHashMap;

use crate::egraph::cost::Model;
use crate::egraph::language::Term;
use crate::egraph::search::Search;

/// Costs of choices that are looked at in one region, in classes visited.
const EFFORT: usize = 400_000;

/// Rounds of the bottom-up choice.
const ROUNDS: usize = 12;

/// A cost must fall by this share to count.
const LEAST_GAIN: f64 = 1e-6;

/// The e-graph as arrays: classes and their terms by number.
struct Table {
    ids: Vec<Id>,
    terms: Vec<Vec<Entry>>,
}

/// A term, with its own cost and the numbers of its children's classes.
struct Entry {
    term: Term,
    cost: f64,
    children: Vec<u32>,
}

/// The chosen program.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Terms in topological order, each with its class.
    pub terms: Vec<(Id, Term)>,
    /// Its cost.
    pub cost: f64,
    /// The cost of the region as it stood.
    pub cost_before: f64,
}

/// Chooses terms for `roots`. `original` holds the region's own terms in topological order.
pub(crate) fn extract(search: &Search<'_>, original: &[Id], roots: &[Id], model: &Model) -> Choice {
    let table = table(search, model);
    let number: FxHashMap<Id, u32> = table.ids.iter().enumerate().map(|(i, &id)| (id, i as u32)).collect();
    let at = |id: Id| number[&search.terms.find(id)];
    let roots: Vec<u32> = roots.iter().map(|&r| at(r)).collect();
    let before = own_choice(search, &table, original, at);
    let mut walk = Walk { table: &table, roots: &roots, state: vec![0; table.ids.len()], order: Vec::new(), spent: 0 };
    let cost_before = walk.cost(&before, f64::INFINITY).unwrap_or(f64::INFINITY);
    let greedy = greedy(&table);
    let (mut best, mut cost) = match walk.cost(&greedy, f64::INFINITY) {
        Some(cost) if cost < cost_before * (1.0 - LEAST_GAIN) => (greedy.clone(), cost),
        _ => (before, cost_before),
    };
    improve(&mut walk, &mut best, &mut cost, &greedy);
    walk.cost(&best, f64::INFINITY);
    let terms =
        walk.order.iter().map(|&c| (table.ids[c as usize], table.terms[c as usize][best[c as usize] as usize].term.clone())).collect();
    Choice { terms, cost, cost_before }
}

fn table(search: &Search<'_>, model: &Model) -> Table {
    let mut ids: Vec<Id> = search.terms.classes().map(|c| c.id).collect();
    ids.sort_unstable();
    let number: FxHashMap<Id, u32> = ids.iter().enumerate().map(|(i, &id)| (id, i as u32)).collect();
    let entry = |id: Id, term: &Term| {
        let children: Vec<u32> = term.children.iter().map(|&c| number[&search.terms.find(c)]).collect();
        Entry { term: term.clone(), cost: model.term(search, id, term), children }
    };
    let terms = ids.iter().map(|&id| search.terms[id].nodes.iter().map(|t| entry(id, t)).collect()).collect();
    Table { ids, terms }
}

/// For each class the first of the region's own terms in it, which makes no circle: a term's operands stand before it. Other classes have none.
fn own_choice(search: &Search<'_>, table: &Table, original: &[Id], at: impl Fn(Id) -> u32) -> Vec<u32> {
    let mut choice = vec![NONE; table.ids.len()];
    for &id in original {
        let class = at(id) as usize;
        if choice[class] != NONE {
            continue;
        }
        let mut term = search.terms.id_to_node(id).clone();
        term.children.iter_mut().for_each(|c| *c = search.terms.find(*c));
        if let Some(place) = table.terms[class].iter().position(|e| e.term == term) {
            choice[class] = place as u32;
        }
    }
    choice
}

const NONE: u32 = u32::MAX;

/// For each class the term with the cheapest set of classes behind it.
fn greedy(table: &Table) -> Vec<u32> {
    let n = table.ids.len();
    let words = n.div_ceil(64);
    let mut choice = vec![NONE; n];
    let mut best = vec![f64::INFINITY; n];
    let mut sets: Vec<Vec<u64>> = vec![Vec::new(); n];
    for _ in 0..ROUNDS {
        let mut changed = false;
        for class in 0..n {
            for (place, entry) in table.terms[class].iter().enumerate() {
                if entry.children.iter().any(|&c| choice[c as usize] == NONE) {
                    continue;
                }
                let mut set = vec![0u64; words];
                for &c in &entry.children {
                    set.iter_mut().zip(&sets[c as usize]).for_each(|(a, b)| *a |= b);
                }
                if set[class / 64] >> (class % 64) & 1 == 1 {
                    continue;
                }
                let behind: f64 = members(&set).map(|c| table.terms[c][choice[c] as usize].cost).sum();
                let cost = entry.cost + behind;
                if cost < best[class] * (1.0 - LEAST_GAIN) {
                    set[class / 64] |= 1 << (class % 64);
                    (best[class], choice[class], sets[class]) = (cost, place as u32, set);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    choice
}

fn members(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(i, &word)| {
        std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)))
            .take_while(|&w| w != 0)
            .map(move |w| 64 * i + w.trailing_zeros() as usize)
    })
}

/// Visits what the roots need under a choice.
struct Walk<'t> {
    table: &'t Table,
    roots: &'t [u32],
    state: Vec<u8>,
    order: Vec<u32>,
    spent: usize,
}

impl Walk<'_> {
    /// The cost of a choice, leaving its classes in `order`; `None` where it is circular, incomplete, or not below `limit`.
    fn cost(&mut self, choice: &[u32], limit: f64) -> Option<f64> {
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        self.state.fill(0);
        self.order.clear();
        let mut cost = 0.0;
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for &root in self.roots {
            if self.state[root as usize] == 0 {
                stack.push((root, 0));
            }
            while let Some((class, next)) = stack.pop() {
                let c = class as usize;
                if choice[c] == NONE {
                    return None;
                }
                let entry = &self.table.terms[c][choice[c] as usize];
                if next == 0 {
                    if self.state[c] == DONE {
                        continue;
                    }
                    self.state[c] = OPEN;
                }
                let mut child = next;
                while child < entry.children.len() && self.state[entry.children[child] as usize] == DONE {
                    child += 1;
                }
                if child < entry.children.len() {
                    if self.state[entry.children[child] as usize] == OPEN {
                        return None;
                    }
                    stack.push((class, child + 1));
                    stack.push((entry.children[child], 0));
                    continue;
                }
                self.state[c] = DONE;
                self.order.push(class);
                self.spent += 1;
                cost += entry.cost;
                if cost >= limit {
                    return None;
                }
            }
        }
        Some(cost)
    }
}

/// Changes single classes, and groups of classes that can read one more class, while that lowers the cost.
fn improve(walk: &mut Walk<'_>, choice: &mut Vec<u32>, cost: &mut f64, greedy: &[u32]) {
    let table = walk.table;
    let n = table.ids.len();
    let readers = readers(table);
    loop {
        let before = *cost;
        for class in 0..n {
            // A group: all chosen classes with a term that reads `class`, which none reads yet.
            if readers[class].len() > 1 {
                let mut trial = choice.clone();
                if fill(table, &mut trial, greedy, class as u32) {
                    readers[class].iter().for_each(|&(reader, place)| trial[reader as usize] = place);
                    accept(walk, choice, cost, trial);
                }
            }
            for place in 0..table.terms[class].len() as u32 {
                if place == choice[class] || choice[class] == NONE || walk.spent > EFFORT {
                    continue;
                }
                let mut trial = choice.clone();
                trial[class] = place;
                if table.terms[class][place as usize].children.iter().all(|&c| fill(table, &mut trial, greedy, c)) {
                    accept(walk, choice, cost, trial);
                }
            }
            if walk.spent > EFFORT {
                return;
            }
        }
        if *cost >= before * (1.0 - LEAST_GAIN) {
            return;
        }
    }
}

fn accept(walk: &mut Walk<'_>, choice: &mut Vec<u32>, cost: &mut f64, trial: Vec<u32>) {
    if let Some(lower) = walk.cost(&trial, *cost * (1.0 - LEAST_GAIN)) {
        (*choice, *cost) = (trial, lower);
    }
}

/// For each class, the classes that have a term reading it, each with its first such term.
fn readers(table: &Table) -> Vec<Vec<(u32, u32)>> {
    let mut out: Vec<Vec<(u32, u32)>> = vec![Vec::new(); table.ids.len()];
    for (class, entries) in table.terms.iter().enumerate() {
        for (place, entry) in entries.iter().enumerate() {
            for &c in &entry.children {
                if out[c as usize].last().is_none_or(|&(last, _)| last != class as u32) {
                    out[c as usize].push((class as u32, place as u32));
                }
            }
        }
    }
    out
}

/// Gives `class` and all behind it, where they have none, the term of the bottom-up choice.
fn fill(table: &Table, choice: &mut [u32], greedy: &[u32], class: u32) -> bool {
    let mut stack = vec![class];
    while let Some(top) = stack.pop() {
        let c = top as usize;
        if choice[c] == NONE {
            if greedy[c] == NONE {
                return false;
            }
            choice[c] = greedy[c];
            stack.extend(&table.terms[c][greedy[c] as usize].children);
        }
    }
    true
}
