/* hold_registers(in = rdi, out = rsi, rounds = rdx): see registers.h. */

.set MASKS, 2048
.set GENERAL, MASKS + 64
.set FLAGS, GENERAL + 104

.macro each_general operation
    \operation %rax, GENERAL + 0
    \operation %rbx, GENERAL + 8
    \operation %rdx, GENERAL + 16
    \operation %rsi, GENERAL + 24
    \operation %rbp, GENERAL + 32
    \operation %r8, GENERAL + 40
    \operation %r9, GENERAL + 48
    \operation %r10, GENERAL + 56
    \operation %r11, GENERAL + 64
    \operation %r12, GENERAL + 72
    \operation %r13, GENERAL + 80
    \operation %r14, GENERAL + 88
    \operation %r15, GENERAL + 96
.endm

.macro load register, offset
    mov \offset(%rdi), \register
.endm
.macro store register, offset
    mov \register, \offset(%rdi)
.endm

.macro each_vector operation
.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    \operation \n
.endr
.endm
.macro load_vector n
    vmovdqu64 64 * \n(%rdi), %zmm\n
.endm
.macro store_vector n
    vmovdqu64 %zmm\n, 64 * \n(%rdi)
.endm

    .text
    .globl hold_registers
    .type hold_registers, @function
hold_registers:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    push %rsi
    mov %rdx, %rcx
    each_vector load_vector
.irp n, 0,1,2,3,4,5,6,7
    kmovq MASKS + 8 * \n(%rdi), %k\n
.endr
    pushq FLAGS(%rdi)
    each_general load
    popfq
1:  loop 1b
    /* Nothing from here to popq changes a flag. */
    mov (%rsp), %rdi
    pushfq
    popq FLAGS(%rdi)
    cld
    each_general store
    each_vector store_vector
.irp n, 0,1,2,3,4,5,6,7
    kmovq %k\n, MASKS + 8 * \n(%rdi)
.endr
    vzeroupper
    pop %rsi
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
    .size hold_registers, . - hold_registers
    .section .note.GNU-stack, "", @progbits
