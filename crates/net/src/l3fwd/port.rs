//! Interfaces of a forwarder, which share their frames: a packet goes from one to another without
//! being copied.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arp::{self, Message};
use super::packet::ETHERNET;
use super::prefix::Prefix;
use crate::xdp::interface::Interface;
use crate::xdp::memory::{Area, Frame, Stock};
use crate::xdp::socket::{ENTRIES, Packet, Share, Socket};
use crate::xdp::{self, Attachment, Counts, Error, Filter, Mode};

/// An interface to forward from and to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSettings {
    /// Its name.
    pub interface: String,
    /// The forwarder's own address there and the bits of its network. It answers questions for it,
    /// and asks from it; without one, next hops have to be hardware addresses.
    pub address: Option<(Ipv4Addr, u8)>,
}

/// How often an address is asked for.
const PAUSE: Duration = Duration::from_secs(1);
/// How many neighbours are remembered; more: they are all asked for again.
const MOST_NEIGHBOURS: usize = 1 << 16;

/// An interface that is open.
#[derive(Debug)]
pub(super) struct Port {
    /// One for each queue. Sends by the first.
    pub sockets: Vec<Socket>,
    pub interface: Interface,
    pub mode: Mode,
    pub neighbours: Neighbours,
    /// Has something been put into its queue?
    pub unsent: bool,
    // After the sockets: what comes while the program is still there is dropped.
    _attachment: Attachment,
}

/// Opens ports that share an area of frames. `mode`: the only one to try.
pub(super) fn open(
    settings: &[PortSettings],
    mode: Option<Mode>,
) -> Result<(Vec<Port>, Arc<Area>, Stock), Error> {
    xdp::check()?;
    let find = |port: &PortSettings| Interface::find(&port.interface);
    let interfaces = settings.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    // Sockets that share frames share how they are copied.
    let zero_copy = match mode {
        None => [true, false].as_slice(),
        Some(Mode::ZeroCopy) => &[true],
        Some(_) => &[false],
    };
    let mut last = None;
    for &zero_copy in zero_copy {
        match open_all(settings, &interfaces, mode, zero_copy) {
            Err(error @ Error::Mode { .. }) => last = Some(error),
            result => return result,
        }
    }
    Err(last.expect("something was tried"))
}

fn open_all(
    settings: &[PortSettings],
    interfaces: &[Interface],
    mode: Option<Mode>,
    zero_copy: bool,
) -> Result<(Vec<Port>, Arc<Area>, Stock), Error> {
    let sizes = interfaces.iter().map(xdp::frame_size).collect::<Result<Vec<_>, _>>()?;
    let size = sizes.into_iter().max().unwrap_or(2048);
    let queues: u32 = interfaces.iter().map(|interface| interface.queues).sum();
    let frames = 2 * ENTRIES * queues;
    let bytes = frames as usize * size;
    let (area, mut stock) = Area::new(frames, size).map_err(|why| Error::Kernel {
        interface: interfaces.first().map_or_else(String::new, |first| first.name.clone()),
        what: "get memory",
        why,
    })?;
    let area = Arc::new(area);
    let copying = if zero_copy { Mode::ZeroCopy } else { Mode::Native };
    let mut ports: Vec<Port> = Vec::new();
    for (settings, interface) in settings.iter().zip(interfaces) {
        let mut sockets = Vec::new();
        for queue in 0..interface.queues {
            let before = ports.first().map_or(&sockets, |port| &port.sockets).first();
            let share = before.map_or(Share::Alone(copying.bind_flags()), Share::With);
            let mut socket = Socket::open(interface.index, queue, &area, share)
                .map_err(|why| xdp::refused(interface, queue, copying, bytes, why))?;
            socket.fill(&mut stock);
            sockets.push(socket);
        }
        let mode = mode.or(zero_copy.then_some(Mode::ZeroCopy));
        let (mode, attachment) = xdp::in_best_mode(interface, mode, |mode| {
            if mode == Mode::ZeroCopy && !zero_copy {
                let why = "its sockets copy".to_owned();
                return Err(Error::Mode { interface: interface.name.clone(), mode, why });
            }
            Ok((mode, xdp::redirect(interface, &Filter::All, mode, sockets.iter())?))
        })?;
        ports.push(Port {
            sockets,
            interface: interface.clone(),
            mode,
            neighbours: Neighbours::new(interface.address, settings.address),
            unsent: false,
            _attachment: attachment,
        });
    }
    Ok((ports, area, stock))
}

impl Port {
    /// Puts a packet into the queue; it comes back if there is no room.
    pub(super) fn send(&mut self, packet: Packet, stock: &mut Stock) -> Result<(), Frame> {
        let socket = &mut self.sockets[0];
        if !socket.has_room() {
            // Whether the interface is there is found out at the end of the round.
            let _ = socket.flush();
            socket.reclaim(stock);
            if !socket.has_room() {
                return Err(packet.frame);
            }
        }
        socket.send(packet);
        self.unsent = true;
        Ok(())
    }

    /// Puts a message of ARP into the queue, if there is room.
    pub(super) fn send_message(&mut self, message: &Message, area: &Area, stock: &mut Stock) {
        let Some(mut frame) = stock.take() else { return };
        let bytes = area.bytes(&mut frame, 0, arp::LEN);
        message.write(bytes.first_chunk_mut().expect("it is as long"));
        if let Err(frame) = self.send(Packet { frame, at: 0, len: arp::LEN }, stock) {
            stock.put(frame);
        }
    }

    /// Sends what is in the queue, takes back what was sent, gives the kernel empty frames.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub(super) fn finish(&mut self, stock: &mut Stock) -> io::Result<()> {
        if self.unsent {
            self.sockets[0].flush().map_err(|why| self.gone(why))?;
            self.unsent = self.sockets[0].has_pending();
        }
        self.sockets[0].reclaim(stock);
        for socket in &mut self.sockets {
            socket.fill(stock);
        }
        Ok(())
    }

    /// Finds out whether the interface is still there.
    ///
    /// # Errors
    ///
    /// It has gone.
    pub(super) fn look(&self) -> io::Result<()> {
        self.sockets[0].look().map_err(|why| self.gone(why))
    }

    fn gone(&self, why: io::Error) -> io::Error {
        io::Error::new(why.kind(), format!("the interface {} has gone", self.interface.name))
    }

    /// The longest frame that it sends.
    pub(super) fn longest(&self) -> usize {
        ETHERNET + self.interface.mtu
    }

    pub(super) fn counts(&self) -> Counts {
        self.sockets.iter().map(Socket::counts).fold(Counts::default(), |sum, one| Counts {
            too_long: sum.too_long + one.too_long,
            ring_full: sum.ring_full + one.ring_full,
            no_frames: sum.no_frames + one.no_frames,
        })
    }
}

/// Who has which address behind a port.
#[derive(Debug)]
pub(super) struct Neighbours {
    mac: [u8; 6],
    /// The port's own address and its network.
    own: Option<(Ipv4Addr, Prefix)>,
    known: HashMap<Ipv4Addr, [u8; 6]>,
    asked: HashMap<Ipv4Addr, Instant>,
}

impl Neighbours {
    fn new(mac: [u8; 6], address: Option<(Ipv4Addr, u8)>) -> Neighbours {
        let own = address.and_then(|(address, len)| Some((address, Prefix::of(address, len)?)));
        Neighbours { mac, own, known: HashMap::new(), asked: HashMap::new() }
    }

    /// The network that the port is on.
    pub(super) fn network(&self) -> Option<Prefix> {
        self.own.map(|(_, network)| network)
    }

    pub(super) fn find(&self, address: Ipv4Addr) -> Option<[u8; 6]> {
        self.known.get(&address).copied()
    }

    /// The question for `address`, unless it was asked a moment ago.
    pub(super) fn ask(&mut self, address: Ipv4Addr) -> Option<Message> {
        let (own, network) = self.own?;
        let now = Instant::now();
        let recently = |asked: &Instant| now < *asked + PAUSE;
        if !network.contains(address) || self.asked.get(&address).is_some_and(recently) {
            return None;
        }
        if self.asked.len() >= MOST_NEIGHBOURS {
            self.asked.clear();
        }
        self.asked.insert(address, now);
        Some(Message::ask((self.mac, own), address))
    }

    /// Learns from a message: who has asked for us or answered us, and what has changed. The
    /// neighbour that is new or has moved, and the answer if there is one to give.
    pub(super) fn hear(&mut self, message: &Message) -> (Option<Ipv4Addr>, Option<Message>) {
        let Some((own, network)) = self.own else { return (None, None) };
        let (mac, sender) = message.sender;
        let for_us = message.target.1 == own;
        let mut news = None;
        let counts = network.contains(sender) && sender != own;
        if counts && (for_us || self.known.contains_key(&sender)) {
            if self.known.len() >= MOST_NEIGHBOURS {
                self.known.clear();
            }
            if self.known.insert(sender, mac) != Some(mac) {
                news = Some(sender);
            }
        }
        (news, (message.asks && for_us).then(|| message.answer(self.mac)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn neighbours() -> Neighbours {
        Neighbours::new(OURS, Some(([10, 0, 0, 1].into(), 24)))
    }

    #[test]
    fn who_asks_is_answered_and_known() {
        let mut neighbours = neighbours();
        let theirs = (THEIRS, [10, 0, 0, 2].into());
        let question = Message::ask(theirs, [10, 0, 0, 1].into());
        let (news, answer) = neighbours.hear(&question);
        assert_eq!((news, answer), (Some(theirs.1), Some(question.answer(OURS))));
        assert_eq!(neighbours.find(theirs.1), Some(THEIRS));
        assert_eq!(neighbours.hear(&question).0, None);
        // It has another card.
        let moved = Message::ask(([9; 6], theirs.1), [10, 0, 0, 7].into());
        assert_eq!(neighbours.hear(&moved), (Some(theirs.1), None));
        assert_eq!(neighbours.find(theirs.1), Some([9; 6]));
    }

    #[test]
    fn nobody_else_is_believed() {
        let mut neighbours = neighbours();
        for (sender, target) in [
            // To others; from elsewhere; in our name.
            ([10, 0, 0, 2], [10, 0, 0, 3]),
            ([10, 0, 1, 2], [10, 0, 0, 1]),
            ([10, 0, 0, 1], [10, 0, 0, 1]),
        ] {
            neighbours.hear(&Message::ask((THEIRS, sender.into()), target.into()));
            assert_eq!(neighbours.find(sender.into()), None);
        }
        let mut without = Neighbours::new(OURS, None);
        let question = Message::ask((THEIRS, [10, 0, 0, 2].into()), [10, 0, 0, 1].into());
        assert_eq!(without.hear(&question), (None, None));
        assert_eq!(without.ask([10, 0, 0, 2].into()), None);
    }

    #[test]
    fn an_address_is_asked_for_once_in_a_while() {
        let mut neighbours = neighbours();
        let address = [10, 0, 0, 9].into();
        let question = Message::ask((OURS, [10, 0, 0, 1].into()), address);
        assert_eq!(neighbours.ask(address), Some(question));
        assert_eq!(neighbours.ask(address), None);
        assert_eq!(neighbours.ask([10, 0, 1, 9].into()), None);
        *neighbours.asked.get_mut(&address).unwrap() -= PAUSE;
        assert_eq!(neighbours.ask(address), Some(question));
    }
}
