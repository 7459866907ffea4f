//! Network cards: packets come at random into the rings of `l3fwd.c`, and each interrupts, as in
//! the artifact's simulator (`uintrPost` in its `i8254xGBe.cc`). And what the router says of its
//! time.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use quaver_uarch::core::{Device, Port};

/// As in `l3fwd.c`.
const SLOTS: u64 = 256;
const ROUTES: u64 = 16_000;
/// Words of `quaver_door`.
const BEGIN: u64 = 0;
const ENTER: u64 = 1;
const NOTHING: u64 = 2;
const PACKETS: u64 = 3;
const END: u64 = 4;

/// What a core has done from the begin to the end, in cycles.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spent {
    /// All.
    pub all: u64,
    /// Looks at rings that brought packets, and what was done with these.
    pub packets: u64,
    /// Looks that found nothing.
    pub nothing: u64,
}

/// The cards of one core.
pub struct Cards {
    /// What the program stores to.
    pub door: u64,
    /// The rings.
    pub rings: u64,
    /// The word that ends the program.
    pub end: u64,
    /// Mean cycles between the packets of all cards; none come if it is 0.
    pub apart: f64,
    /// Cycles from the begin to the end.
    pub window: u64,
    cards: Vec<Card>,
    random: u64,
    ends: u64,
    /// When it began, and when the last store to the door retired.
    began: u64,
    last: u64,
    spent: Arc<Mutex<Spent>>,
}

struct Card {
    /// When the next packet comes.
    next: u64,
    /// Packets so far.
    count: u64,
}

impl Cards {
    /// So many cards at these addresses of the program, and what will be known after the run.
    pub fn new(
        count: u32,
        [door, rings, end]: [u64; 3],
        apart: f64,
        window: u64,
    ) -> (Cards, Arc<Mutex<Spent>>) {
        let card = || Card { next: u64::MAX, count: 0 };
        let spent = Arc::<Mutex<Spent>>::default();
        let cards = Cards {
            door,
            rings,
            end,
            apart,
            window,
            cards: (0..count).map(|_| card()).collect(),
            random: 0x2545_f491_4f6c_dd1d,
            ends: u64::MAX,
            began: 0,
            last: 0,
            spent: Arc::clone(&spent),
        };
        (cards, spent)
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Cycles until a card's next packet: exponential.
    fn gap(&mut self) -> u64 {
        if self.apart == 0.0 {
            return u64::MAX / 2;
        }
        let share = (self.random() >> 11) as f64 / (1u64 << 53) as f64;
        let mean = self.apart * self.cards.len() as f64;
        (-mean * (1.0 - share).ln()).max(1.0) as u64
    }

    fn slot(&self, card: usize, packet: u64) -> u64 {
        self.rings + 16 * (card as u64 * SLOTS + packet % SLOTS)
    }

    /// A packet comes, if there is room for it.
    fn receive(&mut self, card: usize, port: &mut Port<'_>) {
        let slot = self.slot(card, self.cards[card].count);
        if port.read(slot + 8) & 1 == 1 {
            return;
        }
        let route = self.random() % ROUTES;
        let to = (route as u32).wrapping_mul(2_654_435_761) & !0xff | 1;
        let mut packet = [0; 64];
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[17] = 46;
        packet[22] = 64;
        packet[23] = 17;
        packet[30..34].copy_from_slice(&to.to_be_bytes());
        let room = port.read(slot);
        port.write(room, &packet);
        port.write(slot + 8, &(1u64 | 64 << 32).to_le_bytes());
        self.cards[card].count += 1;
        port.interrupt(card as u8);
    }
}

impl Device for Cards {
    fn next(&self) -> u64 {
        self.cards.iter().map(|card| card.next).min().unwrap_or(u64::MAX).min(self.ends)
    }

    fn act(&mut self, cycle: u64, port: &mut Port<'_>) {
        if self.ends <= cycle {
            port.write_elsewhere(self.end, 1);
            self.ends = u64::MAX;
            self.cards.iter_mut().for_each(|card| card.next = u64::MAX);
            return;
        }
        for card in 0..self.cards.len() {
            while self.cards[card].next <= cycle {
                self.receive(card, port);
                let gap = self.gap();
                self.cards[card].next += gap;
            }
        }
    }

    fn doorbell(&self) -> Range<u64> {
        self.door..self.door + 8 * (END + 1)
    }

    fn rung(&mut self, cycle: u64, address: u64, _: &mut Port<'_>) {
        let since = cycle - std::mem::replace(&mut self.last, cycle);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        match (address - self.door) / 8 {
            BEGIN => {
                drop(spent);
                (self.began, self.ends) = (cycle, cycle + self.window);
                for card in 0..self.cards.len() {
                    let gap = self.gap();
                    self.cards[card].next = cycle + gap;
                }
            }
            NOTHING => spent.nothing += since,
            PACKETS => spent.packets += since,
            END => spent.all = cycle - self.began,
            ENTER => {}
            word => unreachable!("the door has no word {word}"),
        }
    }
}
