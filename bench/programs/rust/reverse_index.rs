//! From the links in generated HTML pages to an index: for each address the pages that link to it,
//! in order.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};

const LINKS: usize = 25;
const FILLERS: [&[u8]; 6] = [
    b"<p class=\"text\">Some words, 3 &lt; 4,\nand more of them.</p>",
    b"<img src='a.png' href=\"not-this\">",
    b"<a name=\"here\">href=\"nor-this\"</a>",
    b"<br/>",
    b"<h2>A title with a few words</h2>\n",
    b"<td align=left>1</td>",
];

struct Entry {
    url: Vec<u8>,
    hash: u64,
    pages: Vec<u32>,
}

/// Open addressing; the number of slots is a power of two.
struct Index {
    slots: Vec<Option<Box<Entry>>>,
    used: usize,
}

/// FNV-1a.
fn hash_of(text: &[u8]) -> u64 {
    let mut h = 0xcbf29ce484222325u64;
    for &byte in text {
        h = (h ^ u64::from(byte)).wrapping_mul(0x100000001b3);
    }
    h ^ h >> 32
}

fn slot_of(slots: &[Option<Box<Entry>>], url: &[u8], hash: u64) -> usize {
    let mut i = hash as usize & (slots.len() - 1);
    while slots[i].as_ref().is_some_and(|entry| entry.hash != hash || entry.url != url) {
        i = (i + 1) & (slots.len() - 1);
    }
    i
}

fn space(c: u8) -> bool {
    matches!(c, b' ' | b'\n' | b'\t')
}

/// Takes the bytes at the front of `rest` that are `wanted`.
fn take<'a>(rest: &mut &'a [u8], wanted: impl Fn(u8) -> bool) -> &'a [u8] {
    let length = rest.iter().position(|&c| !wanted(c)).unwrap_or(rest.len());
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

impl Index {
    fn grow(&mut self) {
        let mut slots: Vec<Option<Box<Entry>>> = Vec::new();
        slots.resize_with(2 * self.slots.len(), || None);
        for entry in self.slots.drain(..).flatten() {
            let slot = slot_of(&slots, &entry.url, entry.hash);
            slots[slot] = Some(entry);
        }
        self.slots = slots;
    }

    fn add_link(&mut self, url: &[u8], page: u32) {
        let hash = hash_of(url);
        let slot = slot_of(&self.slots, url, hash);
        if let Some(entry) = &mut self.slots[slot] {
            entry.pages.push(page);
            return;
        }
        self.slots[slot] = Some(Box::new(Entry { url: url.to_vec(), hash, pages: vec![page] }));
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            self.grow();
        }
    }

    /// Adds the links of one page: the href of each `<a>`, quoted either way.
    fn parse(&mut self, html: &[u8], page: u32) {
        let mut rest = html;
        while let Some(tag) = rest.iter().position(|&c| c == b'<') {
            rest = &rest[tag + 1..];
            let anchor = matches!(rest, [b'a' | b'A', after, ..] if space(*after));
            while !matches!(rest, [] | [b'>', ..]) {
                // Over the tag's name, or the value before.
                take(&mut rest, |c| !space(c) && c != b'>');
                take(&mut rest, space);
                let name = take(&mut rest, |c| c != b'=' && c != b'>' && !space(c));
                let Some(after) = rest.strip_prefix(b"=") else { continue };
                rest = after;
                let [quote @ (b'"' | b'\''), after @ ..] = rest else { continue };
                rest = after;
                let value = take(&mut rest, |c| c != *quote);
                if anchor && name == b"href" {
                    self.add_link(value, page);
                }
            }
        }
    }
}

/// Appends a number's digits.
fn put_number(out: &mut Vec<u8>, number: u32) {
    if number >= 10 {
        put_number(out, number / 10);
    }
    out.push(b'0' + (number % 10) as u8);
}

fn put_url(out: &mut Vec<u8>, number: u32) {
    out.extend(b"http://www.site");
    put_number(out, number % 97);
    let archived = number % 3 == 0;
    out.extend(if archived { &b".example/archive/page"[..] } else { b".example/news/page" });
    put_number(out, number);
    out.extend(b".html");
}

/// Writes a page of links to random addresses among other tags, and counts them.
fn write_page(html: &mut Vec<u8>, rng: &mut Rng, expected: &mut [usize]) {
    html.clear();
    html.extend(b"<html><body>\n");
    for i in 0..LINKS {
        let u = rng.between(0.0, 1.0);
        let number = (u * u * expected.len() as f64) as u32;
        expected[number as usize] += 1;
        html.extend(FILLERS[rng.below(FILLERS.len() as u32) as usize]);
        let (before, after) = if i % 3 > 0 {
            (&b"<a href=\""[..], &b"\">link</a>"[..])
        } else {
            (&b"<A class='x' href='"[..], &b"'>link</a>"[..])
        };
        html.extend(before);
        put_url(html, number);
        html.extend(after);
    }
}

fn main() {
    let scale = start();
    let (pages, urls) = (at_least(4, 150000.0 * scale), at_least(20, 10000.0 * scale));
    let mut expected = vec![0; urls];
    let (mut rng, mut sum) = (Rng(18), 0);
    let mut html = Vec::new();
    let mut index = Index { slots: Vec::new(), used: 0 };
    index.slots.resize_with(1024, || None);
    // In no order.
    for i in 0..pages {
        write_page(&mut html, &mut rng, &mut expected);
        index.parse(&html, ((i * 7919 + 13) % pages) as u32);
    }
    let mut all: Vec<&mut Entry> = index.slots.iter_mut().flatten().map(AsMut::as_mut).collect();
    all.sort_by(|a, b| a.url.cmp(&b.url));
    let mut found = 0;
    for entry in &mut all {
        entry.pages.sort_unstable();
        found += entry.pages.len();
        if !entry.pages.is_sorted() {
            fail!("the pages of {} are not in order", String::from_utf8_lossy(&entry.url));
        }
        sum = mix(mix(sum, entry.hash), entry.pages.len() as u64);
        sum = mix(sum, u64::from(entry.pages[entry.pages.len() / 2]));
    }
    if !all.is_sorted_by(|a, b| a.url < b.url) {
        fail!("the addresses are not in order");
    }
    if found != pages * LINKS {
        fail!("{found} links instead of {}", pages * LINKS);
    }
    let mut url = Vec::new();
    for (n, &expected) in expected.iter().enumerate() {
        url.clear();
        put_url(&mut url, n as u32);
        let entry = &index.slots[slot_of(&index.slots, &url, hash_of(&url))];
        if entry.as_ref().map_or(0, |entry| entry.pages.len()) != expected {
            fail!("{} has not {expected} links", String::from_utf8_lossy(&url));
        }
    }
    finish("reverse_index", sum);
}
