/* Delivery: to oneself, across CPUs, to threads that sleep or move. */
#include "registers.h"
#include "tests.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static void flag_holds_back(void) {
    int fd = device();
    receive(fd);
    int self = route_to_self(fd, 3);
    CHECK(!_testui());
    _senduipi(self);
    for (volatile int i = 0; i < 100000; i++)
        ;
    CHECK(got[3] == 0 && !_testui());
    _stui();
    CHECK(spin_until(&got[3], 1));
    CHECK(got[3] == 1 && _testui());
    /* In a system call with the flag clear, and delivered afterwards. */
    _clui();
    _senduipi(self);
    sleep_ms(5);
    CHECK(got[3] == 1 && !_testui());
    _stui();
    CHECK(spin_until(&got[3], 2));
}

static void self_1000(void) {
    int fd = device();
    receive(fd);
    int self = route_to_self(fd, 5);
    _stui();
    for (uint64_t i = 1; i <= 1000; i++) {
        _senduipi(self);
        CHECK(spin_until(&got[5], i));
        CHECK(got[5] == i);
    }
}

static void coalesce(void) {
    int fd = device();
    receive(fd);
    int low = route_to_self(fd, 4), high = route_to_self(fd, 60);
    _senduipi(low);
    _senduipi(low);
    _senduipi(high);
    sleep_ms(1);
    _stui();
    CHECK(spin_until(&got[4], 1));
    sleep_ms(1);
    CHECK(got[4] == 1 && got[60] == 1);
    CHECK(ordered == 2 && order[0] == 60 && order[1] == 4);
}

/* A sender on another CPU, which waits for words of the test. */
struct peer {
    int fd;
    int index;
    int cpu;
    atomic_ulong wanted; /* how many to send in all */
    atomic_ulong sent;
    atomic_bool stop;
    long delay_ms; /* before each */
};

static void *sender(void *argument) {
    struct peer *peer = argument;
    pin(peer->cpu);
    CHECK(!ioctl(peer->fd, QUAVER_ATTACH));
    while (!peer->stop) {
        if (peer->sent < peer->wanted) {
            if (peer->delay_ms)
                sleep_ms(peer->delay_ms);
            _senduipi(peer->index);
            peer->sent++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void cross_1000(void) {
    int fd = device();
    pin(0);
    receive(fd);
    struct peer peer = {.fd = fd, .index = route_to_self(fd, 7), .cpu = 1};
    thread(sender, &peer);
    _stui();
    for (uint64_t i = 1; i <= 1000; i++) {
        peer.wanted = i;
        CHECK(spin_until(&got[7], i));
        CHECK(got[7] == i);
    }
    peer.stop = true;
    join_all();
}

static void sleeping(void) {
    int fd = device();
    pin(0);
    receive(fd);
    struct peer peer = {.fd = fd, .index = route_to_self(fd, 9), .cpu = 1, .delay_ms = 20};
    thread(sender, &peer);
    _stui();
    for (uint64_t i = 1; i <= 10; i++) {
        uint64_t begin = now_ns();
        peer.wanted = i;
        sleep_ms(100);
        /* The call is not ended by it, and there was a CPU switch: the thread was out when it was sent. */
        CHECK(now_ns() - begin >= 100000000);
        CHECK(peer.sent == i);
        CHECK(spin_until(&got[9], i));
        CHECK(got[9] == i);
    }
    peer.stop = true;
    join_all();
}

static void migrated(void) {
    int fd = device();
    pin(0);
    receive(fd);
    struct peer peer = {.fd = fd, .index = route_to_self(fd, 11), .cpu = 1};
    thread(sender, &peer);
    _stui();
    for (uint64_t i = 1; i <= 200; i++) {
        pin((int)(i & 1));
        peer.wanted = i;
        /* The sender is on CPU 1 as well: give way. */
        for (int k = 0; k < 1000 && got[11] < i; k++)
            sched_yield();
        CHECK(spin_until(&got[11], i));
        CHECK(got[11] == i);
    }
    peer.stop = true;
    join_all();
}

/* Sent while the receiver moves between two CPUs as fast as it can: each is delivered before the next is sent. */
static void migrating(void) {
    int fd = device();
    receive(fd);
    struct peer peer = {.fd = fd, .index = route_to_self(fd, 12), .cpu = cpus() > 2 ? 2 : 1};
    thread(sender, &peer);
    _stui();
    for (uint64_t i = 1; i <= 300; i++) {
        peer.wanted = i;
        for (int k = 0; k < 10000 && got[12] < i; k++)
            pin(k & 1);
        CHECK(got[12] == i);
    }
    peer.stop = true;
    join_all();
}

static void *receives_too(void *argument) {
    struct peer *peer = argument;
    pin(peer->cpu);
    receive(peer->fd);
    int self = route_to_self(peer->fd, 13);
    _stui();
    for (uint64_t i = 1; i <= 300; i++) {
        _senduipi(self);
        CHECK(spin_until(&got[13], i));
        CHECK(got[13] == i);
        if (i % 8 == 0)
            sched_yield();
    }
    peer->sent = 300;
    return NULL;
}

/* Receivers that share a CPU: no one gets what is another's. */
static void neighbours(void) {
    int fd = device();
    struct peer peers[3];
    memset(peers, 0, sizeof(peers));
    for (int i = 0; i < 3; i++) {
        peers[i].fd = fd;
        thread(receives_too, &peers[i]);
    }
    join_all();
    for (int i = 0; i < 3; i++)
        CHECK(peers[i].sent == 300);
}

static volatile uint64_t signals;
static volatile int resend = -1;

static void on_signal(int number) {
    (void)number;
    signals++;
    if (resend >= 0)
        _senduipi(resend);
}

/* Signals and user interrupts hit each other; neither is lost. */
static void with_signals(void) {
    int fd = device();
    receive(fd);
    int self = resend = route_to_self(fd, 14);
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    _stui();
    for (uint64_t i = 1; i <= 300; i++) {
        uint64_t before = got[14];
        _senduipi(self);
        /* Every second time the signal may come first. The two are one if neither is delivered before the other. */
        if (i & 1)
            CHECK(spin_until(&got[14], before + 1));
        raise(SIGUSR1);
        CHECK(signals == i);
        CHECK(spin_until(&got[14], before + 1 + (i & 1)));
        sleep_ms(1);
        CHECK(got[14] <= before + 2);
    }
}

/* The stack that UISTACKADJUST names is used, and below RSP the red zone stays as it was. */
static volatile uintptr_t handler_stack;

__attribute__((target("general-regs-only"), interrupt)) static void where(struct __uintr_frame *frame,
                                                                         unsigned long long vector) {
    handler_stack = (uintptr_t)frame;
    got[vector & 63]++;
}

static void other_stack(void) {
    static char stack[16384] __attribute__((aligned(16)));
    int fd = device();
    CHECK(!try_register(fd, where, ((uintptr_t)stack + sizeof(stack)) | 1));
    int self = route_to_self(fd, 2);
    _stui();
    for (uint64_t i = 1; i <= 10; i++) {
        _senduipi(self);
        CHECK(spin_until(&got[2], i));
        CHECK(handler_stack > (uintptr_t)stack && handler_stack < (uintptr_t)stack + sizeof(stack));
    }
}

static void red_zone(void) {
    int fd = device();
    receive(fd);
    uint64_t self = (uint64_t)route_to_self(fd, 2), bad;
    _stui();
    for (uint64_t i = 1; i <= 100; i++) {
        __asm__ volatile("lea -128(%%rsp), %%rdi\n\t"
                         "mov $16, %%ecx\n\t"
                         "mov %[pattern], %%rax\n\t"
                         "cld\n\t"
                         "rep stosq\n\t"
                         "senduipi %[self]\n\t"
                         "mov $2000, %%ecx\n"
                         "1:\tdec %%ecx\n\t"
                         "jnz 1b\n\t"
                         "lea -128(%%rsp), %%rdi\n\t"
                         "mov $16, %%ecx\n\t"
                         "xor %k[bad], %k[bad]\n\t"
                         "repe scasq\n\t"
                         "setne %b[bad]"
                         : [bad] "=&r"(bad)
                         : [self] "r"(self), [pattern] "r"(0x5a5a0000 + i)
                         : "rax", "rcx", "rdi", "memory", "cc");
        CHECK(!bad);
        CHECK(got[2] == i);
    }
}

/* The frame, or what the handler pushes first, is the first thing on a page of the stack. */
static void untouched_stack(void) {
    enum { PAGE = 4096 };
    int fd = device();
    receive(fd);
    uint64_t self = (uint64_t)route_to_self(fd, 2), count = 0;
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    _stui();
    for (char *stack = pages + PAGE + 64; stack <= pages + PAGE + 512; stack += 8) {
        memset(pages + PAGE, 0, PAGE);
        CHECK(!madvise(pages, PAGE, MADV_DONTNEED));
        __asm__ volatile("xchg %%rsp, %[stack]\n\t"
                         "senduipi %[self]\n\t"
                         "mov $2000, %%ecx\n"
                         "1:\tdec %%ecx\n\t"
                         "jnz 1b\n\t"
                         "xchg %%rsp, %[stack]"
                         : [stack] "+&r"(stack)
                         : [self] "r"(self)
                         : "rcx", "memory", "cc");
        CHECK(got[2] == ++count);
    }
}

/* Every register and flag keeps its value while interrupts come from another CPU. */
static void registers_kept(void) {
    int fd = device();
    CHECK(__builtin_cpu_supports("avx512bw"));
    pin(0);
    receive(fd);
    struct peer peer = {.fd = fd, .index = route_to_self(fd, 1), .cpu = 1};
    static struct registers in, out;
    for (size_t i = 0; i < sizeof(in); i++)
        ((unsigned char *)&in)[i] = (unsigned char)(i * 37 + 11);
    thread(sender, &peer);
    _stui();
    for (int i = 0; i < 200; i++) {
        /* Status flags and the direction flag, in turn; bit 1 and IF are always set. */
        in.flags = 0x202 | ((i & 1 ? 0xcd5 : 0) ^ (i & 2 ? 0x8c4 : 0));
        uint64_t before = got[1];
        peer.wanted++;
        hold_registers(&in, &out, 20000);
        CHECK(!memcmp(&in, &out, sizeof(in)));
        CHECK(spin_until(&got[1], before + 1));
    }
    peer.stop = true;
    join_all();
}

const struct test delivery_tests[] = {
    {"flag-holds-back", flag_holds_back, 1},
    {"self-1000", self_1000, 1},
    {"coalesce", coalesce, 1},
    {"cross-cpu-1000", cross_1000, 2},
    {"sleeping-receiver", sleeping, 2},
    {"migrated-receiver", migrated, 2},
    {"migrating-receiver", migrating, 2},
    {"neighbours", neighbours, 1},
    {"signals-and-interrupts", with_signals, 1},
    {"other-stack", other_stack, 1},
    {"red-zone", red_zone, 1},
    {"untouched-stack", untouched_stack, 1},
    {"registers-kept", registers_kept, 2},
    {NULL, NULL, 0},
};
