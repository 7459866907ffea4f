//! Network cards: packets come at random into the rings of `l3fwd.c`, and a card interrupts when it
//! may.

use std::ops::Range;

use quaver_uarch::core::{Device, Port};

/// As in `l3fwd.c`.
const SLOTS: u64 = 256;
const ROUTES: u64 = 16_000;

/// The cards of one core.
pub struct Cards {
    /// Where the program rings: the begin, then a word for each card.
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
}

struct Card {
    /// When the next packet comes.
    next: u64,
    /// Packets so far.
    count: u64,
    /// It may interrupt.
    armed: bool,
}

impl Cards {
    /// So many cards at these addresses of the program.
    pub fn new(count: u32, [door, rings, end]: [u64; 3], apart: f64, window: u64) -> Cards {
        let card = || Card { next: u64::MAX, count: 0, armed: false };
        let cards = (0..count).map(|_| card()).collect();
        Cards {
            door,
            rings,
            end,
            apart,
            window,
            cards,
            random: 0x2545_f491_4f6c_dd1d,
            ends: u64::MAX,
        }
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
        packet[22] = 64;
        packet[30..34].copy_from_slice(&to.to_be_bytes());
        let room = port.read(slot);
        port.write(room, &packet);
        port.write(slot + 8, &(1u64 | 64 << 32).to_le_bytes());
        self.cards[card].count += 1;
        self.interrupt(card, port);
    }

    fn interrupt(&mut self, card: usize, port: &mut Port<'_>) {
        if std::mem::take(&mut self.cards[card].armed) {
            port.interrupt(card as u8);
        }
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
        self.door..self.door + 8 * (1 + self.cards.len() as u64)
    }

    fn rung(&mut self, cycle: u64, address: u64, port: &mut Port<'_>) {
        match ((address - self.door) / 8).checked_sub(1) {
            None => {
                self.ends = cycle + self.window;
                for card in 0..self.cards.len() {
                    let gap = self.gap();
                    self.cards[card].next = cycle + gap;
                }
            }
            Some(card) => {
                let card = card as usize;
                self.cards[card].armed = true;
                // A packet came after the program's last look.
                let last = self.cards[card].count.checked_sub(1);
                let waits = |last| port.read(self.slot(card, last) + 8) & 1 == 1;
                if last.is_some_and(waits) {
                    self.interrupt(card, port);
                }
            }
        }
    }
}
