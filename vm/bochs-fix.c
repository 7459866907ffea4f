/*
 * Corrects user interrupts of Debian's Bochs 3.0+dfsg-1 in memory; to be preloaded.
 *
 * SENDUIPI takes its index from a field of the decoded instruction that the decoder leaves empty for this opcode: the
 * operand is in the field before it, and the table of opcodes has to name the operand's kind so that the decoder fills
 * it. UIRET pops from 8 bytes too far up the stack: it reads from RSP+8, RSP+16, RSP+24. The delivery does not commit
 * the address that it jumps to: if the handler's first instruction faults, the fault is said to be of the interrupted
 * one, which then goes on with the handler's stack pointer.
 *
 * Every byte is compared before any is changed; an emulator that differs ends with status 99.
 *
 * The screen is a terminal that nobody reads. What Bochs writes there goes nowhere: otherwise it would wait for a
 * reader once the terminal is full, the sooner the slower it runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct patch {
    const char *function;
    size_t offset;
    size_t length;
    unsigned char from[32], to[32];
};

#define SENDUIPI "_ZN8BX_CPU_C11SENDUIPI_GqEP15bxInstruction_c"
#define UIRET "_ZN8BX_CPU_C5UIRETEP15bxInstruction_c"
#define DELIVERY "_ZN8BX_CPU_C13deliver_UINTREv"

static const struct patch patches[] = {
    /* movzbl field(%r12),%eax: the destination's number instead of the source's. */
    {SENDUIPI, 0x36, 6, {0x41, 0x0f, 0xb6, 0x44, 0x24, 0x25}, {0x41, 0x0f, 0xb6, 0x44, 0x24, 0x24}},
    /* lea offset(%rax),%rsi, three times. */
    {UIRET, 0x48, 4, {0x48, 0x8d, 0x70, 0x08}, {0x48, 0x8d, 0x70, 0x00}},
    {UIRET, 0x5e, 4, {0x48, 0x8d, 0x70, 0x10}, {0x48, 0x8d, 0x70, 0x08}},
    {UIRET, 0x77, 4, {0x48, 0x8d, 0x70, 0x18}, {0x48, 0x8d, 0x70, 0x10}},
    /* mov %rax,rip(%rbx) and the end of the function; then room up to the next branch's target. A second
     * mov %rax,committed_rip(%rbx) fits. */
    {DELIVERY, 0x1f2, 30,
     {0x48, 0x89, 0x83, 0xe0, 0, 0, 0, 0x89, 0x93, 0xdc, 0x91, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3,
      0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
     {0x48, 0x89, 0x83, 0xe0, 0, 0, 0, 0x48, 0x89, 0x83, 0x18, 0x01, 0, 0, 0x89, 0x93, 0xdc, 0x91, 0, 0,
      0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3, 0x90, 0x90, 0x90}},
};

/* An entry of Bochs's table of opcodes: two pointers to members (address, adjustment), operands, flags. */
struct opcode {
    uintptr_t execute_memory[2], execute_register[2];
    uint8_t operands[4];
    uint16_t flags;
};

enum { OPCODES = 8192, KIND_MASK = 0xf, KIND_G = 2, KIND_E = 3 };

static void refuse(const char *what) {
    fprintf(stderr, "bochs-fix: this is not Bochs 3.0+dfsg-1 of Debian for amd64: %s differs\n", what);
    _exit(99);
}

static void *find(const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    if (!address)
        refuse(name);
    return address;
}

static void overwrite(unsigned char *at, const unsigned char *bytes, size_t length) {
    uintptr_t page = (uintptr_t)at & ~4095UL;
    if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        perror("bochs-fix: mprotect");
        _exit(99);
    }
    memcpy(at, bytes, length);
}

__attribute__((constructor)) static void fix(void) {
    const size_t count = sizeof(patches) / sizeof(patches[0]);
    /* Programs that Bochs starts have the preload as well, and nothing to correct. */
    if (!dlsym(RTLD_DEFAULT, "BxOpcodesTable"))
        return;
    struct opcode *table = find("BxOpcodesTable"), *senduipi = NULL;
    uintptr_t function = (uintptr_t)find(SENDUIPI);
    for (size_t i = 0; i < OPCODES && !senduipi; i++)
        if (table[i].execute_memory[0] == function || table[i].execute_register[0] == function)
            senduipi = &table[i];
    if (!senduipi || (senduipi->operands[0] & KIND_MASK) != KIND_G)
        refuse("the opcode of SENDUIPI");
    for (size_t i = 0; i < count; i++)
        if (memcmp((char *)find(patches[i].function) + patches[i].offset, patches[i].from, patches[i].length))
            refuse(patches[i].function);

    for (size_t i = 0; i < count; i++)
        overwrite((unsigned char *)find(patches[i].function) + patches[i].offset, patches[i].to, patches[i].length);
    uint8_t operand = (uint8_t)((senduipi->operands[0] & ~KIND_MASK) | KIND_E);
    overwrite(&senduipi->operands[0], &operand, 1);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    const dev_t terminal = makedev(5, 2);
    struct stat file;
    if (fstat(fd, &file) == 0 && S_ISCHR(file.st_mode) && file.st_rdev == terminal) return (ssize_t)length;
    return syscall(SYS_write, fd, bytes, length);
}
