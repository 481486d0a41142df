#include "textflag.h"

// What may stand behind a backslash, by the two halves of its byte: a bit for each upper half that there is, and at the
// lower half those with which it makes an escape of two characters.
//   2: '"' '/'   5: '\\'   6: 'b' 'f' 'n'   7: 'r' 't'
DATA upper<>+0(SB)/8, $0x0804020000010000
DATA upper<>+8(SB)/8, $0
GLOBL upper<>(SB), RODATA|NOPTR, $16
DATA lower<>+0(SB)/8, $0x00040008000D0000
DATA lower<>+8(SB)/8, $0x0104000200000000
GLOBL lower<>(SB), RODATA|NOPTR, $16

// func plainBlocks(b []byte) (n int, beyondASCII bool)
TEXT ·plainBlocks(SB), NOSPLIT, $0-33
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	SUBQ $32, CX             // where the last block may begin
	XORQ DI, DI              // where this one does
	XORL R8, R8              // 1 where its first byte is escaped
	VPXOR X9, X9, X9         // all bytes, or-ed
	VPXOR X8, X8, X8
	MOVL $0x22222222, AX
	VMOVD AX, X10
	VPBROADCASTD X10, Y10    // quotes
	MOVL $0x5C5C5C5C, AX
	VMOVD AX, X11
	VPBROADCASTD X11, Y11    // backslashes
	MOVL $0x1F1F1F1F, AX
	VMOVD AX, X12
	VPBROADCASTD X12, Y12    // the last control character
	MOVL $0x0F0F0F0F, AX
	VMOVD AX, X15
	VPBROADCASTD X15, Y15
	VBROADCASTI128 lower<>(SB), Y13
	VBROADCASTI128 upper<>(SB), Y14

block:
	CMPQ DI, CX
	JGT end
	VMOVDQU (SI)(DI*1), Y0
	VPOR Y0, Y9, Y9
	VPCMPEQB Y10, Y0, Y1
	VPMOVMSKB Y1, AX         // AX: quotes
	VPCMPEQB Y11, Y0, Y2
	VPMOVMSKB Y2, BX         // BX: backslashes
	VPMINUB Y12, Y0, Y3
	VPCMPEQB Y0, Y3, Y3
	VPMOVMSKB Y3, DX         // DX: control characters
	MOVL BX, R9
	ORL R8, R9
	JNZ escapes
	ORL DX, AX
	JNZ stop
	ADDQ $32, DI
	JMP block

escapes:
	// A backslash is the first half of an escape where the run that it is in begins at an even place and it is at one, or
	// both are odd. Adding its beginning to a run clears it.
	MOVL R8, R9
	NOTL R9
	ANDL R9, BX              // but for one that is escaped
	LEAL (BX)(BX*1), R9
	NOTL R9
	ANDL BX, R9
	ANDL $0x55555555, R9     // R9: where runs begin at even places
	MOVQ BX, R10
	ADDL R9, R10
	XORL $0x55555555, R10
	ANDL BX, R10             // R10: the backslashes that begin an escape
	ADDQ R10, R10
	ORQ R8, R10              // R10: what is escaped, and in bit 32 whether the next block begins so
	MOVQ R10, R8
	SHRQ $32, R8
	VPSHUFB Y0, Y13, Y4
	VPSRLW $4, Y0, Y5
	VPAND Y15, Y5, Y5
	VPSHUFB Y5, Y14, Y5
	VPAND Y4, Y5, Y4
	VPCMPEQB Y8, Y4, Y4
	VPMOVMSKB Y4, R11        // R11: what makes no escape of two characters
	ANDL R10, R11
	MOVL R10, R9
	NOTL R9
	ANDL R9, AX              // but for quotes that are escaped
	ORL DX, AX
	ORL R11, AX
	JNZ escaped
	ADDQ $32, DI
	JMP block

escaped:
	BSFL AX, AX
	ADDQ AX, DI
	BTL AX, R10
	SBBQ $0, DI              // the backslash before it
	JMP done

stop:
	BSFL AX, AX
	ADDQ AX, DI
	JMP done

end:
	SUBQ R8, DI

done:
	VPMOVMSKB Y9, AX
	VZEROUPPER
	TESTL AX, AX
	SETNE beyondASCII+32(FP)
	MOVQ DI, n+24(FP)
	RET
