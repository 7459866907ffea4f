# A runtime that is as bad as the rules allow. At every probe it switches to another thread, which
# overwrites every register. It keeps across that only what the stub says is alive, and then
# overwrites what is dead once more.
#
# Stack of an entry, from its return address up: return address, mask, red zone.
#
# Of the thread control block it uses, beside the words of the probes:
        .set    HITS, 0x100             # probes of this thread that hit, 8 bytes
        .set    OTHER, 0x108            # stack pointer of the thread that does not run; 0: none

        .hidden torture_visit
        .hidden torture_avx
        .hidden torture_avx512

        .section .rodata
        .balign 64
garbage:
        .fill   8, 8, 0xfedcba9876543211
waste:
        .fill   8, 8, 0x7ff45a5a3c3c9617

        .text
        .macro  entry class
        .globl  torture_\class
        .hidden torture_\class
        .type   torture_\class, @function
torture_\class:
        .cfi_startproc
        endbr64
        pushq   $\class
        .cfi_adjust_cfa_offset 8
        jmp     torture
        .cfi_endproc
        .size   torture_\class, .-torture_\class
        .endm
        entry   0
        entry   1
        entry   2
        entry   3
        entry   4

# The state components that compiled code uses: x87, SSE, AVX, AVX-512. 2,688 bytes.
        .set    COMPONENTS, 0xe7

# Saves these at (%rsp), aligned to 64, or restores them.
        .macro  save_all
        movl    $COMPONENTS, %eax
        xorl    %edx, %edx
        cmpb    $0, torture_avx(%rip)
        je      8f
        .irp    n, 0,1,2,3,4,5,6,7
        movq    $0, 512 + 8 * \n(%rsp)  # the header of the area must be clear
        .endr
        xsave64 (%rsp)
        jmp     9f
8:      fxsave64 (%rsp)
9:
        .endm
        .macro  restore_all
        movl    $COMPONENTS, %eax
        xorl    %edx, %edx
        cmpb    $0, torture_avx(%rip)
        je      8f
        xrstor64 (%rsp)
        jmp     9f
8:      fxrstor64 (%rsp)
9:
        .endm

# Overwrites the x87 registers, and leaves their stack empty.
        .macro  scramble_x87
        .rept   8
        fldz
        .endr
        .rept   8
        fstp    %st(0)
        .endr
        .endm

# After the pushes: 0(%rsp) rax ... 120(%rsp) r15 in the order of the mask, 128 class, 136 return
# address, 144 mask.
        .type   torture, @function
torture:
        .cfi_startproc
        .cfi_def_cfa_offset 16
        pushq   %r15
        pushq   %r14
        pushq   %r13
        pushq   %r12
        pushq   %r11
        pushq   %r10
        pushq   %r9
        pushq   %r8
        pushq   %rdi
        pushq   %rsi
        pushq   %rbp
        pushq   $0                      # rsp, which nobody scrambles
        pushq   %rbx
        pushq   %rdx
        pushq   %rcx
        pushq   %rax
        .cfi_adjust_cfa_offset 128
        incq    %fs:HITS
        movq    %rsp, %rbx
        .cfi_def_cfa %rbx, 144
        subq    $3072, %rsp
        andq    $-64, %rsp

        # Sometimes somebody unwinds from here.
        movq    torture_visit(%rip), %r12
        testq   %r12, %r12
        jz      1f
        save_all
        call    *%r12
        restore_all
1:
        # The other thread runs: what is alive is kept in this one's stack.
        cmpq    $0, %fs:OTHER
        je      back
        movq    128(%rbx), %r12
        movq    %r12, 3008(%rsp)
        movq    %rbx, 3016(%rsp)
        cmpq    $1, %r12
        jb      1f
        je      2f
        cmpq    $3, %r12
        jb      3f
        ja      4f
        cmpb    $0, torture_avx512(%rip)
        je      4f
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqa64 %zmm\n, 64 * \n(%rsp)
        .endr
        .irp    n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovdqa64 %zmm\n, 64 * \n(%rsp)
        .endr
        .irp    n, 0,1,2,3,4,5,6,7
        kmovq   %k\n, 2048 + 8 * \n(%rsp)
        .endr
        jmp     1f
4:      save_all
        jmp     1f
3:      .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqa %ymm\n, 32 * \n(%rsp)
        .endr
        jmp     1f
2:      .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movdqa  %xmm\n, 16 * \n(%rsp)
        .endr
1:
        leaq    1f(%rip), %rax
        pushq   %rax
        xchgq   %rsp, %fs:OTHER
        ret
1:
        movq    3016(%rsp), %rbx
        movq    3008(%rsp), %r12
        cmpq    $1, %r12
        jb      back
        je      2f
        cmpq    $3, %r12
        jb      3f
        ja      4f
        cmpb    $0, torture_avx512(%rip)
        je      4f
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqa64 64 * \n(%rsp), %zmm\n
        .endr
        .irp    n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovdqa64 64 * \n(%rsp), %zmm\n
        .endr
        .irp    n, 0,1,2,3,4,5,6,7
        kmovq   2048 + 8 * \n(%rsp), %k\n
        .endr
        jmp     back
4:      restore_all
        jmp     back
3:      .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqa 32 * \n(%rsp), %ymm\n
        .endr
        jmp     back
2:      .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movdqa  16 * \n(%rsp), %xmm\n
        .endr

back:   movq    %rbx, %rsp
        .cfi_def_cfa %rsp, 144

        # Vectors: what is beyond the class.
        movq    128(%rsp), %rax
        cmpq    $3, %rax
        ja      registers
        scramble_x87
        cmpq    $2, %rax
        ja      registers
        cmpb    $0, torture_avx512(%rip)
        je      1f
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vinserti64x4 $1, garbage(%rip), %zmm\n, %zmm\n
        .endr
        .irp    n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovdqu64 garbage(%rip), %zmm\n
        .endr
        .irp    n, 0,1,2,3,4,5,6,7
        kmovw   garbage(%rip), %k\n
        .endr
        cmpq    $1, %rax
        ja      registers
        # An AVX write would clear what is above it, and that is scrambled already.
1:      cmpq    $1, %rax
        ja      registers
        cmpb    $0, torture_avx(%rip)
        je      1f
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vinsertf128 $1, garbage(%rip), %ymm\n, %ymm\n
        .endr
1:      testq   %rax, %rax
        jnz     registers
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movdqa  garbage(%rip), %xmm\n
        .endr

registers:
        movq    144(%rsp), %rax
        xorl    %ecx, %ecx
        movq    garbage(%rip), %rdx
1:      btq     %rcx, %rax
        jc      2f
        movq    %rdx, (%rsp,%rcx,8)
        addq    $3, %rdx
2:      incl    %ecx
        cmpl    $16, %ecx
        jne     1b

        # All flags set, then all clear.
        pushq   $0x8d5
        testb   $1, %fs:HITS
        jz      1f
        movq    $0, (%rsp)
1:      popfq
        popq    %rax
        popq    %rcx
        popq    %rdx
        popq    %rbx
        leaq    8(%rsp), %rsp
        popq    %rbp
        popq    %rsi
        popq    %rdi
        popq    %r8
        popq    %r9
        popq    %r10
        popq    %r11
        popq    %r12
        popq    %r13
        popq    %r14
        popq    %r15
        leaq    8(%rsp), %rsp
        ret
        .cfi_endproc
        .size   torture, .-torture

# The other thread: overwrites everything, and switches back. It has a stack, and nothing on it but
# where to go on.
        .globl  torture_other
        .hidden torture_other
        .type   torture_other, @function
torture_other:
        .cfi_startproc
        .cfi_undefined %rip
        scramble_x87
        cmpb    $0, torture_avx512(%rip)
        je      1f
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqu64 waste(%rip), %zmm\n
        .endr
        .irp    n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovdqu64 waste(%rip), %zmm\n
        .endr
        .irp    n, 0,1,2,3,4,5,6,7
        kmovq   waste(%rip), %k\n
        .endr
        jmp     2f
1:      cmpb    $0, torture_avx(%rip)
        je      1f
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqu waste(%rip), %ymm\n
        .endr
        jmp     2f
1:      .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movdqa  waste(%rip), %xmm\n
        .endr
2:      leaq    torture_other(%rip), %rax
        pushq   %rax
        movq    waste(%rip), %rax
        .irp    register, rbx,rcx,rdx,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15
        movq    %rax, %\register
        .endr
        xchgq   %rsp, %fs:OTHER
        ret
        .cfi_endproc
        .size   torture_other, .-torture_other
        .section .note.GNU-stack, "", @progbits
