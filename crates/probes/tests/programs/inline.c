// Inline assembly of many kinds.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static unsigned joined(const unsigned *p, int n) {
    unsigned s = 0;
    for (int i = 0; i < n; i++) {
        unsigned v = p[i];
        __asm__("roll $3, %0; xorl $0x55, %0; # a comment; ret\n\tnotl %0" : "+r"(v) : : "cc");
        s += v;
    }
    return s;
}
// Another section in the middle of a loop, with code that nobody calls, and data.
__attribute__((noinline)) static int sections(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        __asm__ volatile(
            "1: addl $2, %0\n"
            ".pushsection .text.other, \"ax\", @progbits\n"
            "2: decl %%eax; jnz 2b; jmp 1b\n"
            ".popsection\n"
            ".section .table, \"aw\"; .quad 1b; .previous\n" : "+r"(s));
    }
    return s;
}
// The out-of-line part of a loop jumps back in.
__attribute__((noinline)) static int outline(int n) {
    int s = 0, i = 0;
    for (; i < n; i++)
        __asm__ volatile(
            "testl $1, %1; jnz 3f\n4:\n"
            ".pushsection .text.unlikely, \"ax\", @progbits\n3: addl $5, %0\n jmp 4b\n.popsection"
            : "+r"(s) : "r"(i) : "cc");
    return s;
}
__attribute__((noinline)) static int jumps(int n) {
    int rounds = 0;
again:
    rounds += 3;
    if (rounds == 30) rounds += 2;
    __asm__ goto("cmpl %1, %0; jl %l[again]; testl $1, %0; jnz %l[odd]" : : "r"(rounds), "r"(n) : "cc" : again, odd);
    return rounds;
odd:
    rounds *= 3;
    if (rounds < 1000) goto again;
    return rounds;
}
__attribute__((noinline)) static unsigned long carries(unsigned long a, int n) {
    for (int i = 0; i < n; i++) {
        __asm__ goto("addq %1, %0\n jc %l[full]" : "+r"(a) : "r"(a >> 3 | 1) : "cc" : full);
        continue;
    full:
        a ^= 0x1234567;
    }
    return a;
}
// Flags as results: the compiler reads them after the assembly.
__attribute__((noinline)) static int flags(const int *p, int n) {
    int s = 0;
    for (int i = 0; i + 1 < n; i++) {
        int carry, zero;
        __asm__("cmpl %3, %2" : "=@ccb"(carry), "=@ccz"(zero) : "r"(p[i]), "r"(p[i + 1]));
        s = s * 3 + carry - zero;
    }
    return s;
}
// Macros and repetitions of the assembler. clang does not mark this as the program's own.
#ifdef __clang__
#define TWICE(what) what "\n" what
#else
#define TWICE(what) "quaver_twice \"" what "\""
__asm__(".macro quaver_twice what\n \\what\n \\what\n.endm");
#endif
__attribute__((noinline)) static int macros(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        __asm__ volatile(TWICE("incl %0") : "+r"(s) : : "cc");
        __asm__ volatile(".rept 3\n addl $1, %0\n.endr\n.if 1\n addl $10, %0\n.else\n ud2\n.endif"
                         : "+r"(s) : : "cc");
    }
    return s;
}
#ifndef __clang__
__attribute__((noinline)) static int intel(int n) {
    int s = 0;
    for (int i = 0; i < n; i++)
        __asm__ volatile(".intel_syntax noprefix\n add %k0, 7\n.att_syntax prefix" : "+r"(s) : : "cc");
    return s;
}
#else
#define intel(n) (7 * (n))
#endif
// Loops of string instructions and of `loop`.
__attribute__((noinline)) static long strings(char *to, const char *from, long n) {
    long left = n;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    long rounds = 0, count = n;
    __asm__ volatile("1: incq %0\n loop 1b" : "+r"(rounds), "+c"(count));
    return rounds + left;
}
// A function whose whole body is assembly, with a loop.
__attribute__((naked, noinline)) long bare(long n) {
    __asm__("xorl %eax, %eax\n1: addq %rdi, %rax\n decq %rdi\n jnz 1b\n ret");
}
// A call from assembly.
long helper(long n) {
    long s = 0;
    for (long i = 0; i <= n; i++) s += i ^ (s >> 3);
    return s;
}
__attribute__((noinline)) static long calls(long n) {
    long s = 0;
    for (long i = 0; i < n; i++) {
        long r, argument = i;
        __asm__ volatile("call helper@PLT" : "=a"(r), "+D"(argument)
                         : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
        s += r + helper(i % 3); // It calls as compilers know: so it has no red zone.
    }
    return s;
}
// Outside of all functions: data in the middle of code, a function with a loop.
__asm__(".text\n.globl toplevel\n.type toplevel, @function\ntoplevel:\n"
        ".cfi_startproc\n movl %edi, %eax\n5: addl $3, %eax\n"
        " subl $1, %edi\n jg 5b\n ret\n .cfi_endproc\n.size toplevel, .-toplevel\n .byte 0xe8, 1, 2\n.p2align 4\n");
int toplevel(int n);
#ifndef __clang__
register long kept __asm__("r15");
__attribute__((noinline)) static long global(int n) {
    long before = kept;
    kept = 5;
    for (int i = 0; i < n; i++) kept = kept * 3 + i;
    long r = kept;
    kept = before;
    return r;
}
#else
#define global(n) (n)
#endif

int main(void) {
    unsigned data[41];
    for (unsigned i = 0; i < 41; i++) data[i] = i * 2654435761u;
    printf("joined %u sections %d outline %d\n", joined(data, 41), sections(9), outline(50));
    printf("jumps %d flags %d macros %d intel %d\n", jumps(100), flags((int *)data, 41), macros(10), intel(6));
    printf("carries %lu\n", carries(0x8000000000000001u, 100));
    char to[100], from[100];
    memset(from, 7, 100);
    long s = strings(to, from, 100);
    printf("strings %ld %d bare %ld calls %ld\n", s, to[99], bare(20), calls(30));
    printf("toplevel %d global %ld\n", toplevel(30), global(20));
    return 0;
}
