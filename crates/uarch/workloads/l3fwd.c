/* A router: packets come in the rings of QUEUES network cards, their routes are looked up by the longest prefix, and
 * they go back. MODE 0 polls the rings; MODE 1 works on something else, and each card interrupts with a vector of its
 * own. The cards are whoever runs it: a store to quaver_door[0] begins, to quaver_door[1 + q] allows card q to
 * interrupt once; quaver_end ends. */
#include "start.h"

#ifndef QUEUES
#define QUEUES 1
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef SIZE
#define SIZE 16000
#endif

#define SLOTS 256
#define BURST 32
#define VALID 0x80000000u
#define LONGER 0x40000000u

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;

struct descriptor {
    volatile quaver_word address, status;
};
/* Room for a packet: what software keeps about it, free room, the packet. */
struct room {
    u8 *data;
    u32 length, port;
    quaver_word offload, rest[13];
    u8 headroom[128], packet[1792];
};

volatile quaver_word quaver_door[1 + QUEUES] __attribute__((aligned(64)));
volatile quaver_word quaver_end __attribute__((aligned(64)));
struct descriptor quaver_rings[QUEUES][SLOTS] __attribute__((aligned(64)));
static struct descriptor out[QUEUES][SLOTS] __attribute__((aligned(64)));
static struct room rooms[QUEUES][SLOTS] __attribute__((aligned(64)));
static u32 first[1 << 24], longer[256];
static u8 stations[4][8] __attribute__((aligned(64)));
static unsigned head[QUEUES];
static quaver_word forwarded, dropped;

static inline u32 swap32(u32 x) { return __builtin_bswap32(x); }

static inline u32 route(u32 to) {
    u32 entry = first[to >> 8];
    if (__builtin_expect(entry & LONGER, 0)) entry = longer[to & 255];
    return entry;
}

/* Sends one packet back where it came from. */
static inline void forward(unsigned queue, struct room *room, struct descriptor *to) {
    u8 *packet = room->data;
    u32 entry = route(swap32(*(u32 *)(packet + 30)));
    if (__builtin_expect(!(entry & VALID), 0)) {
        dropped++;
        return;
    }
    const u8 *station = stations[entry & 3];
    *(u32 *)packet = *(const u32 *)station;
    *(u16 *)(packet + 4) = *(const u16 *)(station + 4);
    *(u32 *)(packet + 6) = *(const u32 *)stations[queue & 3];
    *(u16 *)(packet + 10) = *(const u16 *)(stations[queue & 3] + 4);
    packet[22]--;
    *(u16 *)(packet + 24) += 1;
    to->address = (quaver_word)packet;
    to->status = room->length | 3ul << 32;
    forwarded++;
}

/* Takes up to BURST packets of a card. Says how many there were. */
static unsigned burst(unsigned queue) {
    struct room *taken[BURST];
    unsigned count = 0, at = head[queue];
    while (count < BURST) {
        struct descriptor *from = &quaver_rings[queue][at % SLOTS];
        quaver_word status = from->status;
        if (!(status & 1)) break;
        struct room *room = &rooms[queue][at % SLOTS];
        __builtin_prefetch(room->packet);
        room->length = (u32)(status >> 32);
        room->port = queue;
        room->offload = 0;
        room->data = room->packet;
        taken[count++] = room;
        at++;
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned slot = (head[queue] + i) % SLOTS;
        forward(queue, taken[i], &out[queue][slot]);
        quaver_rings[queue][slot].address = (quaver_word)rooms[queue][slot].packet;
        quaver_rings[queue][slot].status = 0;
    }
    head[queue] = at;
    return count;
}

#if MODE == 1
__attribute__((interrupt, target("general-regs-only"))) static void handler(struct quaver_frame *frame,
                                                                           quaver_word vector) {
    (void)frame;
    while (burst((unsigned)vector)) {}
    quaver_door[1 + vector] = 1;
}

/* 64 cycles of work. */
static quaver_word work(quaver_word x) {
#define EIGHT "add $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\t"
    __asm__ volatile(EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT : "+r"(x));
    return x;
}
#endif

static int run(void) {
    quaver_word worked = 0, polls = 0;
    for (u32 i = 0; i < SIZE; i++) first[(i * 2654435761u) >> 8] = VALID | (i & 3);
    for (unsigned q = 0; q < QUEUES; q++)
        for (unsigned i = 0; i < SLOTS; i++) quaver_rings[q][i].address = (quaver_word)rooms[q][i].packet;
#if MODE == 1
    if (quaver_call(471, (long)handler, 0, 0)) return 1;
    __asm__ volatile("stui" : : : "memory");
    quaver_door[0] = 1;
    for (unsigned q = 0; q < QUEUES; q++) quaver_door[1 + q] = 1;
    while (!quaver_end) worked = work(worked);
    __asm__ volatile("clui" : : : "memory");
#else
    quaver_door[0] = 1;
    while (!quaver_end)
        for (unsigned q = 0; q < QUEUES; q++) polls += !burst(q);
#endif
    say("worked", worked);
    say("polls", polls);
    say("forwarded", forwarded);
    return dropped != 0;
}
