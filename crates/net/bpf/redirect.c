// SPDX-License-Identifier: MIT OR GPL-2.0
//
// Which frames go to user space: IPv4 to one of `addresses`, and ARP that asks for one of them or
// answers it. All other frames are the kernel's. With `all_frames`, everything goes to user space.
//
// A frame that is ours on a queue without a socket is dropped: the kernel has no use for it.
//
// Needs clang and nothing else: what it uses of the kernel's interface is declared here.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define section(name) __attribute__((section(name), used))
#define big_endian_16(x) ((u16)((x) << 8 | (x) >> 8 & 0xff))

// The start of `struct xdp_md`.
struct context {
    u32 data;
    u32 data_end;
    u32 data_meta;
    u32 ingress_ifindex;
    u32 rx_queue_index;
};

enum { XDP_DROP = 1, XDP_PASS = 2 };
enum { MAP_HASH = 1, MAP_XSK = 17 };

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const redirect_map)(void *map, u64 key, u64 otherwise) = (void *)51;

// The loader sets how many entries both have.
struct {
    int (*type)[MAP_XSK];
    u32 *key;
    u32 *value;
    int (*max_entries)[1];
} sockets section(".maps");

struct {
    int (*type)[MAP_HASH];
    u32 *key; // in network order
    u8 *value;
    int (*max_entries)[1];
} addresses section(".maps");

volatile const u32 all_frames = 0;

struct ethernet {
    u8 destination[6];
    u8 source[6];
    u16 type;
} __attribute__((packed));

struct ipv4 {
    u8 before[16];
    u32 destination;
} __attribute__((packed));

struct arp {
    u8 before[24];
    u32 target;
} __attribute__((packed));

static inline int is_ours(const void *address)
{
    u32 key;
    __builtin_memcpy(&key, address, sizeof key);
    return lookup(&addresses, &key) != 0;
}

static inline int wanted(struct context *frame)
{
    void *end = (void *)(u64)frame->data_end;
    struct ethernet *ethernet = (void *)(u64)frame->data;
    void *packet = ethernet + 1;
    if (packet > end)
        return 0;
    if (ethernet->type == big_endian_16(0x0800)) {
        struct ipv4 *ipv4 = packet;
        return (void *)(ipv4 + 1) <= end && is_ours(&ipv4->destination);
    }
    if (ethernet->type == big_endian_16(0x0806)) {
        struct arp *arp = packet;
        return (void *)(arp + 1) <= end && is_ours(&arp->target);
    }
    return 0;
}

section("xdp") int redirect(struct context *frame)
{
    if (!all_frames && !wanted(frame))
        return XDP_PASS;
    return redirect_map(&sockets, frame->rx_queue_index, XDP_DROP);
}

char license_of_program[] section("license") = "Dual MIT/GPL";
