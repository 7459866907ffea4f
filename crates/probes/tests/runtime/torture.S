# A runtime that is as bad as the rules allow: at every probe it overwrites each register, vector
# part and flag that the stub says is dead.
#
# Stack of an entry, from its return address up: return address, mask, red zone.
        .section .rodata
        .balign 64
garbage:
        .fill   8, 8, 0xfedcba9876543211

        .text
        .macro  entry class
        .globl  torture_\class
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
        incq    torture_hits(%rip)

        # Sometimes somebody unwinds from here.
        movq    torture_visit(%rip), %rax
        testq   %rax, %rax
        jz      1f
        movq    %rsp, %rbx
        .cfi_def_cfa %rbx, 144
        subq    $3072, %rsp
        andq    $-64, %rsp
        movq    %rax, %r12
        movl    $-1, %eax
        movl    $-1, %edx
        # The header of the area must be clear.
        pxor    %xmm15, %xmm15
        fxsave64 (%rsp)
        cmpb    $0, torture_avx(%rip)
        je      2f
        movq    $0, 512(%rsp)
        movq    $0, 520(%rsp)
        movq    $0, 528(%rsp)
        movq    $0, 536(%rsp)
        movq    $0, 544(%rsp)
        movq    $0, 552(%rsp)
        movq    $0, 560(%rsp)
        movq    $0, 568(%rsp)
        xsave64 (%rsp)
2:      call    *%r12
        movl    $-1, %eax
        movl    $-1, %edx
        cmpb    $0, torture_avx(%rip)
        je      2f
        xrstor64 (%rsp)
        jmp     3f
2:      fxrstor64 (%rsp)
3:      movq    %rbx, %rsp
        .cfi_def_cfa %rsp, 144
1:
        # Vectors: what is beyond the class.
        movq    128(%rsp), %rax
        cmpq    $3, %rax
        ja      registers
        fldz
        fldz
        fldz
        fldz
        fldz
        fldz
        fldz
        fldz
        .rept   8
        fstp    %st(0)
        .endr
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
1:      cmpb    $0, torture_avx(%rip)
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
        testb   $1, torture_hits(%rip)
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
        .section .note.GNU-stack, "", @progbits
