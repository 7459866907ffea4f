// The handler of user interrupts, and the instructions, as bytes: the assembler does not know them.

#include "go_asm.h"
#include "go_tls.h"
#include "textflag.h"

// The frame of the handler, at the end of the stack that quaverThreadBegins has registered (a multiple of 64). The
// processor pushes the last four words, UIRET takes the last three.
//
//	2680(SP)  SP
//	2672(SP)  flags
//	2664(SP)  PC
//	2656(SP)  vector
//	192(SP)   vector and mask registers: the XSAVE area, 2432 bytes
//	136(SP)   the g that was interrupted
//	16(SP)    general registers
//	0(SP)     arguments of quaverInterrupted
#define FRAME 2656
#define AREA 192
// Components of the XSAVE area: SSE, AVX, and AVX-512's three. Nothing here touches others.
#define COMPONENTS 0xe6

// func quaverEntry()
TEXT ·quaverEntry(SB),NOSPLIT|NOFRAME|TOPFRAME,$0-0
	SUBQ $FRAME, SP // ADJSP would count against what functions without a stack check may use
	MOVQ AX, 16(SP)
	MOVQ CX, 24(SP)
	MOVQ DX, 32(SP)
	MOVQ BX, 40(SP)
	MOVQ BP, 48(SP)
	MOVQ SI, 56(SP)
	MOVQ DI, 64(SP)
	MOVQ R8, 72(SP)
	MOVQ R9, 80(SP)
	MOVQ R10, 88(SP)
	MOVQ R11, 96(SP)
	MOVQ R12, 104(SP)
	MOVQ R13, 112(SP)
	MOVQ R14, 120(SP)
	MOVQ R15, 128(SP)
	CLD
	// XSAVEC writes the first two words of the area's header. XRSTOR wants 0 in the others.
	XORL AX, AX
	MOVQ AX, (AREA+528)(SP)
	MOVQ AX, (AREA+536)(SP)
	MOVQ AX, (AREA+544)(SP)
	MOVQ AX, (AREA+552)(SP)
	MOVQ AX, (AREA+560)(SP)
	MOVQ AX, (AREA+568)(SP)
	MOVL $COMPONENTS, AX
	XORL DX, DX
	// XSAVEC AREA(SP)
	BYTE $0x0f; BYTE $0xc7; BYTE $0xa4; BYTE $0x24; LONG $AREA
	VZEROUPPER

	get_tls(CX)
	MOVQ g(CX), BX
	MOVQ BX, 136(SP)
	TESTQ BX, BX
	JEQ done
	MOVQ g_m(BX), DX
	MOVQ (m_quaver+quaverM_handler)(DX), DX
	MOVQ DX, g(CX)
	MOVQ BX, 0(SP)
	LEAQ FRAME(SP), AX
	MOVQ AX, 8(SP)
	CALL ·quaverInterrupted(SB)
	get_tls(CX)
	MOVQ 136(SP), BX
	MOVQ BX, g(CX)

done:
	MOVL $COMPONENTS, AX
	XORL DX, DX
	// XRSTOR AREA(SP)
	BYTE $0x0f; BYTE $0xae; BYTE $0xac; BYTE $0x24; LONG $AREA
	MOVQ 16(SP), AX
	MOVQ 24(SP), CX
	MOVQ 32(SP), DX
	MOVQ 40(SP), BX
	MOVQ 48(SP), BP
	MOVQ 56(SP), SI
	MOVQ 64(SP), DI
	MOVQ 72(SP), R8
	MOVQ 80(SP), R9
	MOVQ 88(SP), R10
	MOVQ 96(SP), R11
	MOVQ 104(SP), R12
	MOVQ 112(SP), R13
	MOVQ 120(SP), R14
	MOVQ 128(SP), R15
	ADDQ $(FRAME+8), SP // with the vector
	// UIRET, which sets UIF
	BYTE $0xf3; BYTE $0x0f; BYTE $0x01; BYTE $0xec
	INT $3

// func quaverAllow()
// Sets UIF: from here on user interrupts come.
TEXT ·quaverAllow(SB),NOSPLIT,$0-0
	// STUI
	BYTE $0xf3; BYTE $0x0f; BYTE $0x01; BYTE $0xef
	RET

// func quaverSend(route uint64)
TEXT ·quaverSend(SB),NOSPLIT,$0-8
	MOVQ route+0(FP), AX
	// SENDUIPI AX
	BYTE $0xf3; BYTE $0x0f; BYTE $0xc7; BYTE $0xf0
	RET
