//! The numbers of the core, from `parameters.toml`, which says what each means and its source.

use serde::{Deserialize, Serialize};

use super::microcode::{Step, StepOp};
use crate::fault::Error;

/// The file that comes with the model; it says where each number is from.
pub const SHIPPED: &str = include_str!("../../parameters.toml");

/// All numbers of the timing model. Times are in cycles.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // parameters.toml says what each field is
pub struct Parameters {
    pub frequency: u64,
    pub front: Front,
    pub predictor: Predictor,
    pub window: Window,
    pub memory: Memory,
    pub units: Units,
    pub served: Served,
    pub microcode: Microcode,
    pub interrupt: Interrupt,
    pub kernel: Kernel,
}

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $type,)* }
    };
}

numbers! {
    /// Fetch and decoding.
    Front {
        width: usize, bytes: u64, depth: u64, decode: u64, queue: usize, uop_cache_lines: usize,
        uop_cache_ways: usize, microcode_width: usize, microcode_switch: u64, resteer: u64,
        redirect: u64,
    }
}
numbers! {
    /// Branch prediction.
    Predictor {
        base: usize, tagged: usize, histories: Vec<u32>, loops: usize, targets: usize,
        indirect: usize, returns: usize,
    }
}
numbers! {
    /// From renaming to retirement.
    Window {
        rename: usize, reorder_buffer: usize, scheduler: usize, loads: usize, stores: usize,
        registers: usize, vectors: usize, issue: usize, retire: usize, squash: usize, drain: usize,
    }
}
numbers! {
    /// A cache.
    Cache { size: usize, ways: usize, latency: u64, }
}
numbers! {
    /// Translation of addresses.
    PageTable { first: usize, second: usize, second_latency: u64, walk: u64, }
}
numbers! {
    /// The memory hierarchy.
    Memory {
        line: u64, code: Cache, data: Cache, second: Cache, third: Cache, dram: u64,
        vector_load: u64, forward: u64, forward_fails: u64, misses: usize, page_table: PageTable,
        prefetch_distance: u64, prefetch_entries: usize,
    }
}
numbers! {
    /// Instructions served around the core.
    Served { system_call: u64, rdtsc: u64, cpuid: u64, timer: u64, locked: u64, }
}
numbers! {
    /// Sequences of microcode.
    Microcode {
        senduipi: Vec<Step>, notification: Vec<Step>, delivery: Vec<Step>, uiret: Vec<Step>,
    }
}
numbers! {
    /// User interrupts.
    Interrupt {
        stui: u64, clui: u64, flag_renamed: bool, notification_delay: u64, flush_entry: u64,
        drain_entry: u64, remote_line: u64, signal: u64, safepoint_cached: bool, in_history: bool,
        targets_predicted: bool,
    }
}

numbers! {
    /// What the kernel takes, where there are threads.
    Kernel { switch: u64, trap: u64, alarm: u64, }
}

/// A kind of execution unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The ports that have one, in the order in which they are tried.
    pub ports: Vec<u8>,
    /// Cycles until the result.
    pub latency: u64,
    /// Cycles until the port takes another one.
    #[serde(default = "one")]
    pub busy: u64,
}

fn one() -> u64 {
    1
}

macro_rules! units {
    ($($name:ident $class:ident)*) => {
        /// Which unit executes a uop.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        #[allow(missing_docs)] // `units` in parameters.toml
        pub enum Class { $($class,)* }

        /// The units.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)]
        pub struct Units { $(pub $name: Unit,)* }

        impl Units {
            /// All of them; a [`Class`] is the place of its unit.
            pub fn all(&self) -> Vec<Unit> {
                vec![$(self.$name.clone(),)*]
            }
        }
    };
}

units! {
    alu Alu shift Shift condition Condition branch Branch multiply Multiply bits Bits
    divide32 Divide32 divide64 Divide64 load Load store_address StoreAddress store_data StoreData
    vector Vector vector_shift VectorShift vector_multiply VectorMultiply shuffle Shuffle
    float_add FloatAdd float_multiply FloatMultiply float_divide FloatDivide float_root FloatRoot
    convert Convert to_integer ToInteger from_integer FromInteger slow Slow serialize Serialize
}

/// One more than the highest port.
pub const PORTS: usize = 16;

impl Default for Parameters {
    /// Those of `parameters.toml`.
    fn default() -> Self {
        Parameters::load(SHIPPED).expect("a test reads the shipped file")
    }
}

impl Parameters {
    /// Reads the text of a parameter file. All values must be there.
    ///
    /// # Errors
    ///
    /// It is no TOML, or a value is missing, unknown or out of range.
    pub fn load(text: &str) -> Result<Parameters, Error> {
        let parameters: Parameters =
            toml::from_str(text).map_err(|e| Error::Parameters(e.to_string()))?;
        parameters.check().map_err(Error::Parameters)?;
        Ok(parameters)
    }

    /// Reads the text of a parameter file, and changes values: `interrupt.remote_line=40`, the
    /// value as TOML has it.
    ///
    /// # Errors
    ///
    /// As [`Parameters::load`]; a change is not of this form, or names no value of the file.
    pub fn load_with(text: &str, changes: &[String]) -> Result<Parameters, Error> {
        let mut all: toml::Table =
            toml::from_str(text).map_err(|e| Error::Parameters(e.to_string()))?;
        for change in changes {
            let wrong = |why: &str| Error::Parameters(format!("{change:?}: {why}"));
            let form = || wrong("a change is NAME=VALUE, such as interrupt.remote_line=40");
            let (name, value) = change.split_once('=').ok_or_else(form)?;
            let mut value: toml::Table =
                toml::from_str(&format!("value = {value}")).map_err(|_| form())?;
            let mut place = Some(&mut all);
            let mut names = name.trim().split('.');
            let last = names.next_back().unwrap_or_default();
            for name in names {
                place = place.and_then(|table| table.get_mut(name)?.as_table_mut());
            }
            let place = place.and_then(|table| table.get_mut(last));
            let place = place.ok_or_else(|| wrong("there is no such parameter"))?;
            *place = value.remove("value").ok_or_else(form)?;
        }
        let parameters: Parameters =
            all.try_into().map_err(|e: toml::de::Error| Error::Parameters(e.to_string()))?;
        parameters.check().map_err(Error::Parameters)?;
        Ok(parameters)
    }

    /// Cycles of this many microseconds.
    pub fn cycles(&self, microseconds: f64) -> u64 {
        (microseconds * self.frequency as f64 / 1e6).round() as u64
    }

    /// What would make the model stand still or index nowhere.
    fn check(&self) -> Result<(), String> {
        let (front, window, memory) = (&self.front, &self.window, &self.memory);
        for (name, value) in [
            ("frequency", self.frequency as usize),
            ("front.width", front.width),
            ("front.bytes", front.bytes as usize),
            ("front.microcode_width", front.microcode_width),
            ("front.queue", front.queue),
            ("window.rename", window.rename),
            ("window.loads", window.loads),
            ("window.stores", window.stores),
            ("window.scheduler", window.scheduler),
            ("window.issue", window.issue),
            ("window.retire", window.retire),
            ("window.squash", window.squash),
            ("window.drain", window.drain),
            ("memory.misses", memory.misses),
            ("predictor.returns", self.predictor.returns),
            ("memory.page_table.first", memory.page_table.first),
            ("memory.page_table.second", memory.page_table.second),
        ] {
            if value == 0 {
                return Err(format!("{name} is 0; it must be at least 1"));
            }
        }
        if window.reorder_buffer < 16 || window.registers < 64 || window.vectors < 64 {
            return Err("the reorder buffer needs 16 entries, registers and vectors 64".into());
        }
        for (name, value) in [
            ("predictor.base", self.predictor.base),
            ("predictor.tagged", self.predictor.tagged),
            ("predictor.targets", self.predictor.targets),
            ("predictor.indirect", self.predictor.indirect),
            ("memory.prefetch_entries", memory.prefetch_entries),
            ("memory.line", memory.line as usize),
        ] {
            if !value.is_power_of_two() {
                return Err(format!("{name} is {value}; it must be a power of two"));
            }
        }
        if ![0, self.predictor.loops.next_power_of_two()].contains(&self.predictor.loops) {
            return Err("predictor.loops must be 0 or a power of two".into());
        }
        if self.predictor.histories.iter().any(|&bits| bits == 0 || bits > 128) {
            return Err("predictor.histories: each must be between 1 and 128".into());
        }
        for (name, cache) in [
            ("code", &memory.code),
            ("data", &memory.data),
            ("second", &memory.second),
            ("third", &memory.third),
        ] {
            let lines = cache.size / memory.line as usize;
            if cache.ways == 0 || lines < cache.ways || !lines.is_multiple_of(cache.ways) {
                return Err(format!("memory.{name}: its lines do not fill its ways"));
            }
        }
        if front.uop_cache_ways == 0
            || !front.uop_cache_lines.is_multiple_of(front.uop_cache_ways)
            || front.uop_cache_lines == 0
        {
            return Err("front.uop_cache_lines does not fill its ways".into());
        }
        for unit in self.units.all() {
            if unit.ports.is_empty() || unit.ports.iter().any(|&p| usize::from(p) >= PORTS) {
                return Err(format!("units: a unit has no port below {PORTS}"));
            }
        }
        let count = |steps: &[Step], op| -> u32 {
            steps.iter().filter(|step| step.op == op).map(|step| step.count).sum()
        };
        let code = &self.microcode;
        for (name, steps, op, needed) in [
            ("delivery", &code.delivery, StepOp::Store, 4),
            ("delivery", &code.delivery, StepOp::Jump, 1),
            ("uiret", &code.uiret, StepOp::Load, 3),
            ("uiret", &code.uiret, StepOp::Jump, 1),
            ("notification", &code.notification, StepOp::Jump, 0),
            ("senduipi", &code.senduipi, StepOp::Jump, 0),
        ] {
            if count(steps, op) != needed {
                return Err(format!("microcode.{name} needs {needed} of {op:?}"));
            }
        }
        for steps in [&code.delivery, &code.uiret] {
            if steps.last().is_none_or(|step| step.op != StepOp::Jump) {
                return Err("microcode: delivery and uiret end with a jump".into());
            }
        }
        if code.senduipi.is_empty() {
            return Err("microcode.senduipi is empty".into());
        }
        Ok(())
    }
}
