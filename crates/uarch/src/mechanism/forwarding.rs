//! Interrupt forwarding: the local APIC of a core gives interrupts of devices to the thread that
//! runs there, or to the kernel if that thread is not the one that they are for (xUI 4.5).

/// A register of 256 bits, one for each vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vectors([u64; 4]);

impl Vectors {
    /// Whether the bit is set.
    pub fn has(&self, vector: u8) -> bool {
        self.0[usize::from(vector / 64)] >> (vector % 64) & 1 == 1
    }

    /// Sets the bit.
    pub fn insert(&mut self, vector: u8) {
        self.0[usize::from(vector / 64)] |= 1 << (vector % 64);
    }

    /// Clears the bit.
    pub fn remove(&mut self, vector: u8) {
        self.0[usize::from(vector / 64)] &= !(1 << (vector % 64));
    }
}

/// Where an interrupt goes that has arrived at a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// To the running thread, as this user vector: the fast path.
    Thread(u8),
    /// Notification processing: the vector is UINV.
    Notification,
    /// It is forwarded, but not to the running thread. The kernel finds the user vector in UIRR.
    Kernel(u8),
    /// A conventional interrupt.
    Conventional,
}

/// The part of a local APIC that xUI adds.
#[derive(Clone, Debug)]
pub struct LocalApic {
    /// `forwarding_enabled`: interrupts of this core that are forwarded.
    pub enabled: Vectors,
    /// `forwarded_active`: those for the thread that runs now.
    pub active: Vectors,
    /// The user vector of each.
    user: [u8; 256],
}

impl Default for LocalApic {
    fn default() -> LocalApic {
        LocalApic { enabled: Vectors::default(), active: Vectors::default(), user: [0; 256] }
    }
}

impl LocalApic {
    /// The kernel maps `vector` to a user vector, below 64.
    pub fn map(&mut self, vector: u8, user: u8) {
        self.enabled.insert(vector);
        self.user[usize::from(vector)] = user;
    }

    /// The user vector of one that is mapped.
    pub fn user(&self, vector: u8) -> u8 {
        self.user[usize::from(vector)]
    }

    /// Where an interrupt goes. `uinv`: the notification vector of the running thread, if it takes
    /// user interrupts.
    pub fn route(&self, vector: u8, uinv: Option<u8>) -> Route {
        if uinv == Some(vector) {
            return Route::Notification;
        }
        let user = self.user[usize::from(vector)];
        match (self.enabled.has(vector), self.active.has(vector)) {
            (false, _) => Route::Conventional,
            (true, true) => Route::Thread(user),
            (true, false) => Route::Kernel(user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_goes_to_its_thread_or_to_the_kernel() {
        let mut apic = LocalApic::default();
        assert_eq!(apic.route(0xec, Some(0xec)), Route::Notification);
        assert_eq!(apic.route(0xec, None), Route::Conventional);
        assert_eq!(apic.route(200, Some(0xec)), Route::Conventional);
        apic.map(200, 8);
        assert_eq!(apic.route(200, None), Route::Kernel(8));
        apic.active.insert(200);
        assert_eq!(apic.route(200, None), Route::Thread(8));
        assert_eq!(apic.route(201, None), Route::Conventional);
        apic.active.remove(200);
        assert_eq!(apic.route(200, None), Route::Kernel(8));
    }
}
