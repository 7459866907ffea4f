/* All registers that a program has, and a function that holds them. */
#ifndef REGISTERS_H
#define REGISTERS_H

#include <stdint.h>

struct registers {
    unsigned char vectors[32][64];
    uint64_t masks[8];
    uint64_t general[13]; /* all but RSP, RCX and RDI, which hold_registers needs */
    uint64_t flags;
};

/* Loads `in`, runs a loop of so many rounds that changes nothing but RCX, and stores into `out`. */
void hold_registers(const struct registers *in, struct registers *out, uint64_t rounds);

#endif
