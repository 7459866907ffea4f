"""gdb commands for the user threads of Quaver: `info uthreads`, `uthread`.

The protocol and its reasons are in README.md beside this file; `help uthread` and docs/debugging.md say how to use it.
It is embedded in every program that contains the runtime, and can be loaded by hand with `source`. Therefore it is one
file: gdb runs an embedded script without a folder from which that could import others. It reads memory and registers
and never writes them, so that it works on core files as on processes.
"""

import contextlib
import re
import struct

import gdb
import gdb.frames
import gdb.unwinder
from gdb.FrameDecorator import FrameDecorator

# --- What the runtime says about itself (src/debugger.rs) ---

SECTION = ".quaver_gdb"
MAGIC = b"QuaverDB"
VERSION = 3
# magic, version, number of fields; addresses: pointer to the runtime, first instruction of threads
HEADER = struct.Struct("<8sIIQQ")
# name, offset or value
FIELD = struct.Struct("<24sQ")

NO_RUNTIME = "there is no Quaver runtime in this process"


def read(address, size):
    """Memory of the process, as bytes."""
    try:
        return gdb.selected_inferior().read_memory(address, size).tobytes()
    except (OverflowError, MemoryError) as error:
        # Numbers that are no address, or no size.
        raise gdb.MemoryError(f"cannot read {size} bytes at {address:#x}") from error


def read_half(address):
    """The 4-byte word at `address`."""
    return struct.unpack("<I", read(address, 4))[0]


def read_word(address):
    """The 8-byte word at `address`."""
    return struct.unpack("<Q", read(address, 8))[0]


def description_addresses():
    """Where each loaded file that contains the runtime has its description."""
    files = gdb.execute("info files", to_string=True)
    # Lines such as "0x8a0 - 0x8f0 is .quaver_gdb in /lib/x.so", in the language of the user.
    found = re.findall(r"(0x[0-9a-f]+) - 0x[0-9a-f]+ [^/\n]*" + re.escape(SECTION) + r"(?!\S)", files)
    return [int(address, 16) for address in found]


class Description:
    """Offsets and values by name."""

    def __init__(self, address):
        try:
            header = HEADER.unpack(read(address, HEADER.size))
            magic, self.version, count, self.runtime_at, self.thread_start = header
            if magic != MAGIC or count > 1000:
                raise gdb.GdbError(f"the runtime's description at {address:#x} is corrupted")
            if self.version != VERSION:
                raise gdb.GdbError(
                    f"these commands are for version {VERSION} of the runtime's description, but the program has "
                    f"version {self.version}: source the quaver-gdb.py of the runtime that the program was built with"
                )
            fields = FIELD.iter_unpack(read(address + HEADER.size, count * FIELD.size))
            self.values = {name.rstrip(b"\0").decode("ascii"): value for name, value in fields}
        except (gdb.MemoryError, UnicodeDecodeError) as error:
            raise gdb.GdbError(f"the runtime's description at {address:#x} is unreadable or corrupted: {error}")

    def __getitem__(self, name):
        try:
            return self.values[name]
        except KeyError:
            raise gdb.GdbError(f"the runtime's description is corrupted: it has no {name!r}")


# --- The runtime ---


class Runtime:
    """The runtime that runs, or ran last, with all threads as they are now."""

    def __init__(self):
        if gdb.selected_thread() is None:
            raise gdb.GdbError("there is no process: run the program, attach to it or open a core file")
        addresses = description_addresses()
        if not addresses:
            raise gdb.GdbError(f"{NO_RUNTIME}: no loaded file has a section {SECTION}")
        for address in addresses:
            self.d = Description(address)
            try:
                self.at = read_word(self.d.runtime_at)
            except gdb.MemoryError as error:
                raise gdb.GdbError(f"the runtime's description at {address:#x} is corrupted: {error}")
            if self.at != 0:
                break
        else:
            raise gdb.GdbError(f"{NO_RUNTIME} yet: none has been started")
        try:
            self._read_threads()
        except gdb.MemoryError as error:
            raise gdb.GdbError(f"the runtime's thread table is corrupted or not in the core file: {error}")
        self._read_carriers()

    def _read_threads(self):
        d = self.d
        high = read_half(self.at + d["Inner.table.high"])
        limit = read_half(self.at + d["Inner.max_threads"])
        if high > limit:
            raise gdb.GdbError(f"the runtime's thread table is corrupted: {high} threads where the limit is {limit}")
        blocks = read_word(self.at + d["Inner.table.blocks"])
        self.signal = read_half(self.at + d["Inner.signal"])
        size = d["Uthread.size"]
        memory = read(blocks, high * size) if high else b""
        every = [Uthread(d, memory[i * size : (i + 1) * size], blocks + i * size) for i in range(high)]
        self.guards = sorted((t.region, t.region + d["GUARD"]) for t in every)
        self.threads = sorted((t for t in every if t.alive), key=lambda t: t.id)
        self.by_address = {t.address: t for t in self.threads}

    def _read_carriers(self):
        """Finds out which kernel threads are carriers, who is on them, and which of all suits as a host."""
        self.host = gdb.selected_thread()
        with restored_selection():
            for thread in gdb.selected_inferior().threads():
                if not thread.is_stopped():
                    raise gdb.GdbError("some kernel threads are running: stop them first, with `interrupt -a`")
                thread.switch()
                # Inside inlined functions gdb puts frames of these before the one that stands for "switched out".
                if gdb.newest_frame().type() != gdb.INLINE_FRAME:
                    self.host = thread
                carrier = self._carrier_of_selected()
                if carrier is None:
                    continue
                owner = self._owner(carrier)
                if owner is not None:
                    owner.carrier = carrier
                    owner.kernel_thread = thread

    def _carrier_of_selected(self):
        d = self.d
        try:
            frame = gdb.newest_frame()
            gs = int(frame.read_register("gs_base"))
            if gs == 0:
                return None
            word = lambda name: read_word(gs + d["Carrier." + name])
            lwp = read_half(gs + d["Carrier.tid"])
            # Anything else may use gs: a carrier begins with its own address and knows its thread.
            if word("this") != gs or lwp != gdb.selected_thread().ptid[1]:
                return None
            slot = word("slot")
            worker = read_word(slot + d["Slot.id"]) if slot else None
            rsp = int(frame.read_register("rsp"))
            return Carrier(lwp, worker, rsp, word("current"), word("native_rsp"), (word("alt_stack"), word("alt_size")))
        except (gdb.error, ValueError):
            return None

    def _owner(self, carrier):
        """Whose registers the kernel thread has. In the middle of a switch that is not `current`."""
        for t in self.threads:
            if t.region <= carrier.rsp <= t.stack_top:
                return t
        start, size = carrier.alt_stack
        on_alternate = start <= carrier.rsp < start + size
        on_native = abs(carrier.rsp - carrier.native_rsp) < NATIVE_STACK
        # Neither: the thread has left its stack for one of the program's own.
        return self.by_address.get(carrier.current) if on_alternate or not on_native else None

    def thread(self, number):
        """The user thread with this number."""
        for t in self.threads:
            if t.id == number:
                return t
        raise gdb.GdbError(f"there is no user thread {number}; `info uthreads` lists those that there are")

    def of_kernel_thread(self, thread):
        """The user thread that a kernel thread runs, or None."""
        for t in self.threads:
            if t.kernel_thread is not None and thread is not None and t.kernel_thread.num == thread.num:
                return t
        return None


# Carriers' own stacks are of this size.
NATIVE_STACK = 256 * 1024


class Carrier:
    """A kernel thread on which user threads run."""

    def __init__(self, lwp, worker, rsp, current, native_rsp, alt_stack):
        self.lwp, self.worker, self.rsp = lwp, worker, rsp
        self.current, self.native_rsp, self.alt_stack = current, native_rsp, alt_stack


class Uthread:
    """A user thread: its control block, and where it is."""

    def __init__(self, d, block, address):
        word = lambda name: struct.unpack_from("<Q", block, d["Uthread." + name])[0]
        half = lambda name: struct.unpack_from("<I", block, d["Uthread." + name])[0]
        self.d, self.address = d, address
        self.id, self.rsp, self.fs = word("id"), word("rsp"), word("fs")
        self.region, self.stack_top, self.entry = word("region"), word("stack_top"), word("run")
        self.name_at = struct.unpack_from("<QQ", block, d["Uthread.name"])
        self.label = struct.unpack_from("16s", block, d["Uthread.label"])[0].partition(b"\0")[0]
        self.alive = block[d["Uthread.phase"]] == d["phase.ALIVE"]
        self.life = half("life")
        self.ended = bool(self.life & d["life.DONE"])
        self.parked = half("park") == d["park.PARKED"]
        self.waits_for, self.waits_at = word("waits_for"), word("waits_at")
        self.carrier = self.kernel_thread = None

    @property
    def name(self):
        """What the program calls it, or the empty string."""
        at, size = self.name_at
        if self.label:
            return self.label.decode("utf-8", "replace")
        if at == 0:
            return ""
        try:
            return read(at, min(size, 100)).decode("utf-8", "replace")
        except gdb.MemoryError:
            return "?"

    def title(self):
        """How messages call it."""
        return f'user thread {self.id} "{self.name}"' if self.name else f"user thread {self.id}"

    def saved(self):
        """The registers of a switched-out thread, as arch/switch.rs draws them."""
        names = ("r15", "r14", "r13", "r12", "rbx", "rbp", "rip")
        if not self.region < self.rsp < self.stack_top:
            raise gdb.GdbError(f"the saved stack pointer of {self.title()}, {self.rsp:#x}, is not on its stack")
        try:
            registers = dict(zip(names, struct.unpack("<7Q", read(self.rsp + 8, 56))))
        except gdb.MemoryError as error:
            raise gdb.GdbError(f"the stack of {self.title()} cannot be read{GCORE_HINT}: {error}")
        registers["rsp"] = self.rsp + 64
        registers["fs_base"] = self.fs
        return registers

    def is_new(self):
        """Has it been made and not run yet?"""
        return self.kernel_thread is None and self.saved()["rip"] == self.d.thread_start

    def stack_use(self):
        """Bytes in use and in all."""
        rsp = self.carrier.rsp if self.carrier else self.rsp
        used = self.stack_top - rsp if self.region <= rsp <= self.stack_top else None
        return used, self.stack_top - self.region - self.d["GUARD"]


GCORE_HINT = " (a core file made by `gcore` lacks the stacks: `uthread gcore` makes a complete one)"


# --- Looking at a thread as if it were the selected one ---


@contextlib.contextmanager
def restored_selection():
    """Puts the selected kernel thread and frame back."""
    thread = gdb.selected_thread()
    level = gdb.selected_frame().level()
    try:
        yield
    finally:
        if thread.is_valid():
            thread.switch()
            frame = gdb.newest_frame()
            while frame is not None and frame.level() < level:
                frame = frame.older()
            if frame is not None:
                frame.select()


class FrameId:
    """What gdb tells frames apart by."""

    def __init__(self, sp, pc):
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)


class Unwinder(gdb.unwinder.Unwinder):
    """Unwinds what compilers cannot describe.

    While a switched-out user thread is shown, the stack of the selected kernel thread seems to continue in that of the
    user thread: the innermost frame becomes one that stands for "switched out", and its caller is the frame in which
    the user thread left.
    """

    def __init__(self):
        super().__init__("quaver")
        self.thread = None
        self.registers = {}
        self.host = None

    @contextlib.contextmanager
    def showing(self, thread):
        """Shows `thread` instead of what the selected kernel thread does."""
        registers = thread.saved()
        if registers["rip"] == thread.d.thread_start:
            # gdb takes the address for one after a call, and looks before it.
            registers["rip"] += 1
        host = gdb.newest_frame()
        self.host = (int(host.read_register("rsp")), int(host.read_register("rip")))
        self.thread, self.registers = thread, registers
        gdb.frame_filters["quaver"] = Filter(thread)
        gdb.invalidate_cached_frames()
        try:
            yield
        finally:
            del gdb.frame_filters["quaver"]
            self.thread = None
            gdb.invalidate_cached_frames()

    def first_frame(self):
        """The innermost frame of the thread that is shown."""
        frame = gdb.newest_frame()
        # The kernel thread may be inside inlined functions.
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        return frame.older()

    def __call__(self, pending):
        register = lambda name: int(pending.read_register(name)) % (1 << 64)
        here = (register("rsp"), register("rip"))
        if self.thread is None or here != self.host:
            return None
        info = pending.create_unwind_info(FrameId(self.thread.rsp, self.registers["rip"]))
        for name, value in self.registers.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(struct.pack("<Q", value)[: kind.sizeof], kind))
        return info


class StandIn(FrameDecorator):
    """A frame of which only a description is shown, in backtraces."""

    def __init__(self, frame, text):
        super().__init__(frame)
        self.text = text

    def function(self):
        return self.text

    def address(self):
        return None

    def filename(self):
        return None

    def line(self):
        return None

    def frame_args(self):
        return None

    def frame_locals(self):
        return None


class Filter:
    """Shows the frame of the kernel thread for what it stands for. In place while a switched-out thread is shown."""

    def __init__(self, thread):
        self.name, self.priority, self.enabled = "quaver", 1, True
        self.text = f"<{thread.title()} is switched out>"

    def filter(self, frames):
        """gdb calls this for every backtrace."""
        first = True
        for frame in frames:
            inner = frame.inferior_frame()
            # Of the kernel thread, whose innermost functions are inlined, or already of the user thread?
            first = first and (inner.newer() is None or inner.newer().type() == gdb.INLINE_FRAME)
            if first and inner.type() == gdb.INLINE_FRAME:
                continue
            if first:
                yield StandIn(frame, self.text)
            elif inner.type() == gdb.SIGTRAMP_FRAME:
                yield StandIn(frame, "<signal handler called>")
            else:
                yield frame
            first = False


unwinder = Unwinder()


@contextlib.contextmanager
def focus(rt, thread):
    """Selects the innermost frame of a user thread, wherever it is."""
    with restored_selection():
        if thread.kernel_thread is not None:
            thread.kernel_thread.switch()
            gdb.newest_frame().select()
            yield gdb.newest_frame()
            return
        if thread.ended:
            raise gdb.GdbError(f"{thread.title()} has ended and waits to be joined: it has no frames")
        rt.host.switch()
        with unwinder.showing(thread):
            frame = unwinder.first_frame()
            if frame is None:
                raise gdb.GdbError(f"the stack of {thread.title()} cannot be unwound{GCORE_HINT}")
            frame.select()
            yield frame


# --- Where a thread is ---

# Functions that say nothing about what the program is doing.
PLUMBING = re.compile(r"^<?(?:&|mut |dyn )*(?:quaver|core|std|alloc)::|^quaver_|^__rust|^__restore_rt")
MOST_FRAMES = 64
# Bytes from the ucontext of a signal frame to its siginfo (kernel ABI): flags, link, stack, registers, mask.
SIGINFO = 8 + 8 + 24 + 256 + 8


def preempted_frame(frame, signal):
    """The frame in which the thread was when the preemption signal came, if it is in the handler now."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return None
        if frame.type() == gdb.SIGTRAMP_FRAME:
            number = read_half(int(frame.read_register("rsp")) + SIGINFO)
            return frame.older() if number == signal else None
        frame = frame.older()
    return None


def telling_frame(frame):
    """The innermost frame that is the program's, or the innermost of all."""
    first = frame
    for _ in range(MOST_FRAMES):
        if frame is None:
            return first
        if frame.name() is not None and not PLUMBING.match(frame.name()):
            return frame
        frame = frame.older()
    return first


def code_name(frame):
    """Function, file and line, as far as they are known."""
    name = frame.name()
    if name is None:
        library = gdb.solib_name(frame.pc())
        return f"{frame.pc():#x}" + (f" in {library}" if library else "")
    sal = frame.find_sal()
    if sal.symtab is None or sal.line == 0:
        return name
    return f"{name} at {sal.symtab.filename.rsplit('/', 1)[-1]}:{sal.line}"


def symbol_name(address):
    """The function that begins at an address."""
    block = gdb.block_for_pc(address)
    while block is not None and block.function is None:
        block = block.superblock
    if block is not None:
        return block.function.print_name
    name, found, _ = gdb.execute(f"info symbol {address:#x}", to_string=True).partition(" in section ")
    return name if found else f"{address:#x}"


def waits_for_end(rt, t):
    """Is it off its stack until another thread ends?"""
    other = rt.by_address.get(t.waits_at) if t.waits_for else None
    if other is None or not other.life & rt.d["life.SUSPENDED"]:
        return False
    return not other.life & rt.d["life.EXITING"]


def waits_for(rt, t):
    """What a thread waits for, and who holds it, as far as that is known."""
    if t.ended or t.waits_for == 0:
        return ""
    try:
        what = read(t.waits_for, 32).partition(b"\0")[0].decode("utf-8", "replace")
        other = rt.by_address.get(t.waits_at)
        if other is not None:
            return f"end of {other.id}"
        if t.waits_at == 0:
            return what
        holder = ""
        if what == "mutex":
            at = read_word(t.waits_at + rt.d["RawMutex.owner"])
            owner = next((o for o in rt.threads if o.region <= at <= o.stack_top), None)
            holder = f" held by {owner.id}" if owner is not None else " held by a kernel thread"
        return f"{what} {t.waits_at:#x}{holder}"
    except gdb.MemoryError:
        return "?"


def state_and_place(rt, t):
    """What the thread does, and where in the program."""
    try:
        if t.ended:
            return "ended", ""
        if t.kernel_thread is None and t.is_new():
            return "new", "will start in " + symbol_name(t.entry)
        with focus(rt, t) as frame:
            interrupted = preempted_frame(frame, rt.signal)
            # In the handler of the preemption signal, its own frames say nothing.
            place = code_name(telling_frame(frame if interrupted is None else interrupted))
        if t.kernel_thread is not None:
            return ("away" if t.carrier.worker is None else "running"), place
        if t.parked or waits_for_end(rt, t):
            return "parked", place
        return ("preempted" if interrupted is not None else "ready"), place
    except (gdb.error, gdb.GdbError) as error:
        return "unknown", str(error)


# --- Commands ---


def kib(n):
    """A number of bytes, for people."""
    return "?" if n is None else f"{n / 1024:.1f}K"


def print_table(rt, threads):
    """What `info uthreads` prints."""
    here = rt.of_kernel_thread(gdb.selected_thread())
    rows = [("", "Id", "State", "Worker", "LWP", "Stack", "Name", "Waits for", "Where")]
    for t in threads:
        state, place = state_and_place(rt, t)
        used, size = t.stack_use()
        stack = "" if t.ended else f"{kib(used)} of {kib(size)}"
        worker = "" if t.carrier is None or t.carrier.worker is None else str(t.carrier.worker)
        lwp = "" if t.carrier is None else str(t.carrier.lwp)
        waits = waits_for(rt, t)
        rows.append(("*" if t is here else "", str(t.id), state, worker, lwp, stack, t.name, waits, place))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)] + [row[-1]]
        gdb.write("  ".join(cells).rstrip() + "\n")


def chosen(rt, words):
    """The threads with these numbers: `all`, `3`, `3-5`."""
    if words == ["all"]:
        return rt.threads
    threads = []
    for word in words:
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if match is None:
            raise gdb.GdbError(f"{word!r} is not the number of a user thread, nor a range such as 3-5, nor `all`")
        if match[2] is None:
            threads.append(rt.thread(int(match[1])))
        else:
            first, last = int(match[1]), int(match[2])
            threads += [t for t in rt.threads if first <= t.id <= last]
    return threads


class InfoUthreads(gdb.Command):
    """List user threads of Quaver.
Usage: info uthreads [NUMBER | FIRST-LAST]...

Columns: number; state; worker and kernel thread (LWP) if it is on one; how much of its stack it uses; name; what
it waits for, with the address, and the thread that holds it if it is a mutex; the innermost function of the program
that it is in. `*` marks the one on the selected kernel thread.

States: `running` on a worker; `away` in the kernel, or in a blocking call, without a worker; `parked` until
somebody wakes it; `preempted` or `ready`: waits for a worker, after it was interrupted or of its own will; `new`:
not started yet; `ended`: to be joined."""

    def __init__(self):
        super().__init__("info uthreads", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        rt = Runtime()
        threads = chosen(rt, argument.split() or ["all"])
        if threads:
            print_table(rt, threads)
        else:
            gdb.write("No user threads.\n")


# Commands that let the process go on act on the kernel thread, which does something else.
RESUMING = (
    "run start starti continue c fg step s stepi si next n nexti ni finish fin until u advance jump j signal return "
    "detach kill k call reverse-step reverse-continue"
).split()


def execute_in(rt, t, command):
    """Executes a command of gdb as if the user thread were the selected one."""
    if t.kernel_thread is None and command.split()[0] in RESUMING:
        raise gdb.GdbError(f"{t.title()} is switched out: it cannot be resumed by {command.split()[0]!r}")
    with focus(rt, t):
        gdb.execute(command)


class UthreadCommand(gdb.Command):
    """Look at a user thread of Quaver.
Usage: uthread
       uthread NUMBER
       uthread NUMBER COMMAND
       uthread apply all|NUMBER|FIRST-LAST... COMMAND
       uthread gcore [FILE]

Without a command, says where the thread is; without a number, which thread the selected kernel thread runs.
COMMAND is a command of gdb, such as `bt`, `info locals` or `frame 3`, to execute as if the thread were the selected
one. A thread that is switched out has a frame #0 that stands for that, and can be looked at but not resumed.

`uthread gcore` is `gcore` for processes with guard pages that the kernel shows as readable (Linux 6.13): gdb stops
at the first of them and leaves all stacks out of the core file; this adds them."""

    def __init__(self):
        super().__init__("uthread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        words = argument.split()
        if words[:1] == ["gcore"]:
            save_core(Runtime(), " ".join(words[1:]) or f"core.{gdb.selected_inferior().pid}")
        elif words[:1] == ["apply"]:
            self._apply(words[1:])
        elif not words:
            self._here()
        else:
            if re.fullmatch(r"\d+", words[0]) is None:
                raise gdb.GdbError(f"{words[0]!r} is not the number of a user thread; `help uthread` says more")
            rt = Runtime()
            t = rt.thread(int(words[0]))
            if len(words) == 1:
                print_table(rt, [t])
            else:
                execute_in(rt, t, argument.split(None, 1)[1])

    @staticmethod
    def _here():
        rt = Runtime()
        t = rt.of_kernel_thread(gdb.selected_thread())
        if t is None:
            raise gdb.GdbError("the selected kernel thread runs no user thread")
        print_table(rt, [t])

    @staticmethod
    def _apply(words):
        count = 0
        while count < len(words) and (words[count] == "all" or words[count][0].isdigit()):
            count += 1
        if count == 0 or count == len(words):
            raise gdb.GdbError("usage: uthread apply all|NUMBER|FIRST-LAST... COMMAND")
        rt = Runtime()
        for t in chosen(rt, words[:count]):
            gdb.write(f"\nU{t.title()[1:]}:\n")
            try:
                execute_in(rt, t, " ".join(words[count:]))
            except (gdb.error, gdb.GdbError) as error:
                gdb.write(f"{error}\n")


# --- Core files ---

PIECE = 1 << 20
PAGE = 4096
PT_LOAD = 1
PN_XNUM = 0xFFFF


def segments(core):
    """Address, file offset and size of each segment of an open core file."""
    header = core.read(64)
    start, section_start = struct.unpack_from("<QQ", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    if count == PN_XNUM:
        # The true number is in the first section header.
        core.seek(section_start)
        count = struct.unpack_from("<I", core.read(64), 44)[0]
    for i in range(count):
        core.seek(start + i * size)
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", core.read(size))
        if kind == PT_LOAD:
            yield address, offset, length


def between_guards(guards, start, end):
    """The parts of `start..end` that are no guard."""
    for first, after in guards:
        if after <= start or first >= end:
            continue
        if first > start:
            yield start, first
        start = after
    if start < end:
        yield start, end


def save_core(rt, path):
    """`gcore`, and then what it has left out because of guard pages."""
    gdb.execute(f"generate-core-file {path}")
    added = lost = 0
    with open(path, "r+b") as core:
        for address, offset, length in list(segments(core)):
            if not any(address < after and first < address + length for first, after in rt.guards):
                continue
            for start, end in between_guards(rt.guards, address, address + length):
                for at in range(start, end, PIECE):
                    size = min(PIECE, end - at)
                    for place, memory in readable(at, size):
                        # What was never touched stays a hole in the file.
                        if memory.strip(b"\0"):
                            core.seek(offset + place - address)
                            core.write(memory)
                            added += len(memory)
                        size -= len(memory)
                    lost += size
    gdb.write(f"Added {kib(added)} of user threads' memory to {path}")
    gdb.write(f"; {kib(lost)} could not be read.\n" if lost else ".\n")


def readable(at, size):
    """The memory of a range, whole or, if that cannot be read, by pages."""
    try:
        yield at, read(at, size)
    except gdb.MemoryError:
        for page in range(at, at + size, PAGE):
            try:
                yield page, read(page, min(PAGE, at + size - page))
            except gdb.MemoryError:
                pass


InfoUthreads()
UthreadCommand()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
