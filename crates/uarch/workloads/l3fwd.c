/* A router as DPDK's l3fwd is built: each turn takes up to BURST packets from the ring of each of QUEUES network cards,
 * checks them, looks up their routes by the longest prefix, and puts them in a buffer for the card that the route names;
 * a buffer goes to its card when BURST are in it, or once in DRAIN cycles. Rooms for packets come from a pool and go
 * back to it. MODE 0 takes turns for ever; MODE 1 works on something else, and each packet interrupts: the handler
 * takes turns until one finds nothing. The cards are whoever runs it, and what they must know are stores to
 * quaver_door. quaver_end ends. */
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
/* 100 us. */
#define DRAIN 200000
#define ROOMS (QUEUES * (2 * SLOTS + BURST) + BURST)
#define VALID 0x80000000u
#define LONGER 0x40000000u
#define IPV4 0x11

/* Stores to quaver_door: it begins; what comes then is a handler; what came since the last such store was a look that
 * found nothing, or packets; it ends. From TAILS on they are the cards' registers, a pair for each. */
enum { BEGIN, ENTER, NOTHING, PACKETS, END, TAILS = 8 };

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;

struct descriptor {
    volatile quaver_word address, status;
};
/* Room for a packet: two lines of what software keeps about it, free room, the packet. */
struct room {
    u8 *begin;
    quaver_word bus;
    u16 offset, references, parts, port;
    quaver_word flags;
    u32 type, length;
    u16 here, tag, rest[2];
    quaver_word hash, pool;
    struct room *next;
    quaver_word offload, more[6];
    u8 headroom[128], packet[1792];
};

volatile quaver_word quaver_door[TAILS + 2 * QUEUES] __attribute__((aligned(64)));
volatile quaver_word quaver_end __attribute__((aligned(64)));
struct descriptor quaver_rings[QUEUES][SLOTS] __attribute__((aligned(64)));
static struct descriptor out[QUEUES][SLOTS] __attribute__((aligned(64)));
static struct room rooms[ROOMS] __attribute__((aligned(64)));
/* Whose rooms are in the rings. */
static struct room *given[QUEUES][SLOTS], *sent[QUEUES][SLOTS];
static struct room *pool[ROOMS], *buffer[QUEUES][BURST];
static unsigned free_rooms, buffered[QUEUES], head[QUEUES], tail[QUEUES], held[QUEUES];
static u32 first[1 << 24], longer[256];
static u8 stations[QUEUES][16] __attribute__((aligned(64)));
static quaver_word forwarded, dropped, drained;

static inline quaver_word now(void) {
    u32 low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (quaver_word)high << 32 | low;
}

static inline u32 swap32(u32 x) { return __builtin_bswap32(x); }

static inline void give_back(struct room *room) {
    if (__builtin_expect(room->references == 1, 1)) {
        room->next = 0;
        room->parts = 1;
        pool[free_rooms++] = room;
    }
}

/* Takes up to BURST packets of a card, whose slots get other rooms. */
static unsigned receive(unsigned queue, struct room **taken) {
    unsigned count = 0, at = head[queue];
    while (count < BURST) {
        struct descriptor *from = &quaver_rings[queue][at];
        quaver_word status = from->status;
        if (!(status & 1) || !free_rooms) break;
        struct room *other = pool[--free_rooms], *room = given[queue][at];
        given[queue][at] = other;
        at = (at + 1) % SLOTS;
        __builtin_prefetch(given[queue][at]);
        if (at % 4 == 0) __builtin_prefetch((const void *)&quaver_rings[queue][at]);
        other->references = 1;
        from->address = other->bus;
        from->status = 0;
        room->offset = sizeof room->headroom;
        __builtin_prefetch(room->begin + room->offset);
        room->parts = 1;
        room->next = 0;
        room->length = (u32)(status >> 32);
        room->here = (u16)(status >> 32);
        room->port = (u16)queue;
        room->flags = status >> 8 & 0xff;
        room->tag = (u16)(status >> 16);
        taken[count++] = room;
    }
    head[queue] = at;
    held[queue] += count;
    if (held[queue] > BURST) {
        quaver_door[TAILS + 2 * queue] = at;
        held[queue] = 0;
    }
    return count;
}

/* Gives a card what is in its buffer. */
static void flush(unsigned port) {
    unsigned at = tail[port], count = buffered[port];
    for (unsigned i = 0; i < count; i++) {
        struct room *room = buffer[port][i];
        if (sent[port][at]) give_back(sent[port][at]);
        sent[port][at] = room;
        out[port][at].address = room->bus;
        out[port][at].status = room->here | 0xbul << 24;
        at = (at + 1) % SLOTS;
    }
    buffered[port] = 0;
    tail[port] = at;
    quaver_door[TAILS + 2 * port + 1] = at;
}

/* What kind of packet it is; a card may not say. */
static inline void parse(struct room *room) {
    const u8 *packet = room->begin + room->offset;
    room->type = *(const u16 *)(packet + 12) == 8 && packet[14] == 0x45 ? IPV4 : 0;
}

static inline u32 route(u32 to) {
    u32 entry = first[to >> 8];
    if (__builtin_expect(entry & LONGER, 0)) entry = longer[to & 255];
    return entry;
}

static inline void forward(struct room *room) {
    u8 *packet = room->begin + room->offset;
    u32 entry = room->type & IPV4 ? route(swap32(*(u32 *)(packet + 30))) : 0;
    unsigned length = packet[16] << 8 | packet[17];
    /* RFC 1812: version, header and length are as they must be. */
    int good = packet[14] >> 4 == 4 && (packet[14] & 15) >= 5 && length >= 20 && length + 14 <= room->length;
    if (__builtin_expect(!(entry & VALID) || !good, 0)) {
        dropped++;
        give_back(room);
        return;
    }
    unsigned port = entry & 0xff;
    const u8 *station = stations[port];
    *(quaver_word *)packet = *(const quaver_word *)station;
    *(u32 *)(packet + 8) = *(const u32 *)(station + 8);
    packet[22]--;
    *(u16 *)(packet + 24) += 1;
    buffer[port][buffered[port]++] = room;
    forwarded++;
    if (buffered[port] == BURST) flush(port);
}

/* Looks at each card. Says how many packets there were. */
static unsigned turn(void) {
    struct room *taken[BURST];
    unsigned all = 0;
    quaver_word at = now();
    if (__builtin_expect(at - drained > DRAIN, 0)) {
        for (unsigned port = 0; port < QUEUES; port++)
            if (buffered[port]) flush(port);
        drained = at;
    }
    for (unsigned queue = 0; queue < QUEUES; queue++) {
        unsigned count = receive(queue, taken);
        if (!count) {
            quaver_door[NOTHING] = 0;
            continue;
        }
        for (unsigned i = 0; i < count; i++) parse(taken[i]);
        for (unsigned i = 0; i < count; i++) forward(taken[i]);
        all += count;
        quaver_door[PACKETS] = 0;
    }
    return all;
}

#if MODE == 1
static quaver_word entered;

__attribute__((interrupt, target("general-regs-only"))) static void handler(struct quaver_frame *frame,
                                                                           quaver_word vector) {
    (void)frame, (void)vector;
    quaver_door[ENTER] = 0;
    entered++;
    while (turn()) {}
}

/* 64 cycles of work. */
static quaver_word work(quaver_word x) {
#define EIGHT "add $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\t"
    __asm__ volatile(EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT : "+r"(x));
    return x;
}
#endif

static int run(void) {
    quaver_word worked = 0, entries = 0;
    for (u32 i = 0; i < SIZE; i++) first[(i * 2654435761u) >> 8] = VALID | i % QUEUES;
    for (unsigned i = 0; i < ROOMS; i++) {
        rooms[i].begin = rooms[i].headroom;
        rooms[i].bus = (quaver_word)rooms[i].packet;
        rooms[i].references = rooms[i].parts = 1;
        pool[free_rooms++] = &rooms[i];
    }
    for (unsigned q = 0; q < QUEUES; q++)
        for (unsigned i = 0; i < SLOTS; i++) {
            given[q][i] = pool[--free_rooms];
            quaver_rings[q][i].address = given[q][i]->bus;
        }
    drained = now();
#if MODE == 1
    if (quaver_call(471, (long)handler, 0, 0)) return 1;
    __asm__ volatile("stui" : : : "memory");
    quaver_door[BEGIN] = 0;
    while (!quaver_end) worked = work(worked);
    __asm__ volatile("clui" : : : "memory");
    entries = entered;
#else
    quaver_door[BEGIN] = 0;
    while (!quaver_end) turn();
#endif
    quaver_door[END] = 0;
    say("worked", worked);
    say("entries", entries);
    say("forwarded", forwarded);
    return dropped != 0;
}
