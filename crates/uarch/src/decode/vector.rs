//! Uops of SSE and AVX instructions.

use iced_x86::{EncodingKind, Mnemonic as M, OpKind};

use super::operand::{Emit, Refused, log, number};
use crate::uop::{Op, Uop, reg};
use crate::vop::Vop;

/// What `M::Name | M::VName => Vop::Name` says for many names.
macro_rules! same {
    ($m:expr, both: $($both:ident $v:ident)*, alone: $($alone:ident = $vop:ident)*) => {
        match $m {
            $(M::$both | M::$v => Some(Vop::$both),)*
            $(M::$alone => Some(Vop::$vop),)*
            _ => None,
        }
    };
}

/// Instructions whose operands are a destination, one or two sources, and perhaps an immediate.
#[rustfmt::skip]
fn plain(m: M) -> Option<Vop> {
    same!(m, both:
        Paddb Vpaddb Paddw Vpaddw Paddd Vpaddd Paddq Vpaddq Psubb Vpsubb Psubw Vpsubw Psubd Vpsubd
        Psubq Vpsubq
        Paddsb Vpaddsb Paddsw Vpaddsw Paddusb Vpaddusb Paddusw Vpaddusw
        Psubsb Vpsubsb Psubsw Vpsubsw Psubusb Vpsubusb Psubusw Vpsubusw
        Pmullw Vpmullw Pmulhw Vpmulhw Pmulhuw Vpmulhuw Pmulhrsw Vpmulhrsw Pmulld Vpmulld
        Pmuludq Vpmuludq
        Pmuldq Vpmuldq Pmaddwd Vpmaddwd Pmaddubsw Vpmaddubsw Psadbw Vpsadbw Pavgb Vpavgb
        Pavgw Vpavgw
        Pminub Vpminub Pminsb Vpminsb Pminuw Vpminuw Pminsw Vpminsw Pminud Vpminud Pminsd Vpminsd
        Pmaxub Vpmaxub Pmaxsb Vpmaxsb Pmaxuw Vpmaxuw Pmaxsw Vpmaxsw Pmaxud Vpmaxud Pmaxsd Vpmaxsd
        Pcmpeqb Vpcmpeqb Pcmpeqw Vpcmpeqw Pcmpeqd Vpcmpeqd Pcmpeqq Vpcmpeqq
        Pcmpgtb Vpcmpgtb Pcmpgtw Vpcmpgtw Pcmpgtd Vpcmpgtd Pcmpgtq Vpcmpgtq
        Pand Vpand Pandn Vpandn Por Vpor Pxor Vpxor Pabsb Vpabsb Pabsw Vpabsw Pabsd Vpabsd
        Psignb Vpsignb Psignw Vpsignw Psignd Vpsignd
        Psllw Vpsllw Pslld Vpslld Psllq Vpsllq Psrlw Vpsrlw Psrld Vpsrld Psrlq Vpsrlq
        Psraw Vpsraw Psrad Vpsrad Pslldq Vpslldq Psrldq Vpsrldq
        Phaddw Vphaddw Phaddd Vphaddd Phsubw Vphsubw Phsubd Vphsubd
        Packsswb Vpacksswb Packssdw Vpackssdw Packuswb Vpackuswb Packusdw Vpackusdw
        Punpcklbw Vpunpcklbw Punpcklwd Vpunpcklwd Punpckldq Vpunpckldq Punpcklqdq Vpunpcklqdq
        Punpckhbw Vpunpckhbw Punpckhwd Vpunpckhwd Punpckhdq Vpunpckhdq Punpckhqdq Vpunpckhqdq
        Pshufd Vpshufd Pshufhw Vpshufhw Pshuflw Vpshuflw Pshufb Vpshufb Palignr Vpalignr
        Shufps Vshufps Shufpd Vshufpd Movhlps Vmovhlps Movlhps Vmovlhps
        Movddup Vmovddup Movshdup Vmovshdup Movsldup Vmovsldup
        Pblendw Vpblendw Blendps Vblendps Blendpd Vblendpd Pblendvb Vpblendvb
        Blendvps Vblendvps Blendvpd Vblendvpd Insertps Vinsertps
        Pmovzxbw Vpmovzxbw Pmovzxbd Vpmovzxbd Pmovzxbq Vpmovzxbq Pmovzxwd Vpmovzxwd
        Pmovzxwq Vpmovzxwq
        Pmovzxdq Vpmovzxdq Pmovsxbw Vpmovsxbw Pmovsxbd Vpmovsxbd Pmovsxbq Vpmovsxbq
        Pmovsxwd Vpmovsxwd
        Pmovsxwq Vpmovsxwq Pmovsxdq Vpmovsxdq
        Addps Vaddps Addpd Vaddpd Addss Vaddss Addsd Vaddsd Subps Vsubps Subpd Vsubpd Subss Vsubss
        Subsd Vsubsd
        Mulps Vmulps Mulpd Vmulpd Mulss Vmulss Mulsd Vmulsd Divps Vdivps Divpd Vdivpd Divss Vdivss
        Divsd Vdivsd
        Minps Vminps Minpd Vminpd Minss Vminss Minsd Vminsd Maxps Vmaxps Maxpd Vmaxpd Maxss Vmaxss
        Maxsd Vmaxsd
        Sqrtps Vsqrtps Sqrtpd Vsqrtpd Sqrtss Vsqrtss Sqrtsd Vsqrtsd Cmpps Vcmpps Cmppd Vcmppd
        Cmpss Vcmpss
        Cmpsd Vcmpsd Haddps Vhaddps Haddpd Vhaddpd Hsubps Vhsubps Hsubpd Vhsubpd
        Addsubps Vaddsubps Addsubpd Vaddsubpd Roundps Vroundps Roundpd Vroundpd Roundss Vroundss
        Roundsd Vroundsd
        Cvtss2sd Vcvtss2sd Cvtsd2ss Vcvtsd2ss Cvtps2pd Vcvtps2pd Cvtpd2ps Vcvtpd2ps
        Cvtdq2ps Vcvtdq2ps
        Cvtdq2pd Vcvtdq2pd Cvtps2dq Vcvtps2dq Cvttps2dq Vcvttps2dq Cvtpd2dq Vcvtpd2dq
        Cvttpd2dq Vcvttpd2dq,
        alone:
        Andps = Pand Andpd = Pand Vandps = Pand Vandpd = Pand Andnps = Pandn Andnpd = Pandn
        Vandnps = Pandn Vandnpd = Pandn Orps = Por Orpd = Por Vorps = Por Vorpd = Por
        Xorps = Pxor Xorpd = Pxor Vxorps = Pxor Vxorpd = Pxor
        Unpcklps = Punpckldq Vunpcklps = Punpckldq Unpckhps = Punpckhdq Vunpckhps = Punpckhdq
        Unpcklpd = Punpcklqdq Vunpcklpd = Punpcklqdq Unpckhpd = Punpckhqdq Vunpckhpd = Punpckhqdq
        Vpsllvd = Vpsllvd Vpsllvq = Vpsllvq Vpsrlvd = Vpsrlvd Vpsrlvq = Vpsrlvq Vpsravd = Vpsravd
        Vpblendd = Vpblendd Vpbroadcastb = Broadcastb Vpbroadcastw = Broadcastw
        Vpbroadcastd = Broadcastd Vpbroadcastq = Broadcastq Vbroadcastss = Broadcastd
        Vbroadcastsd = Broadcastq
        Vbroadcasti128 = Broadcast128 Vbroadcastf128 = Broadcast128
        Vinserti128 = Vinsert128 Vinsertf128 = Vinsert128 Vperm2i128 = Vperm2i128
        Vperm2f128 = Vperm2i128
        Vpermq = Vpermq Vpermpd = Vpermq Vpermd = Vpermd Vpermps = Vpermd
    )
}

/// A result in a general register or the flags.
fn to_general(m: M) -> Option<Vop> {
    same!(m, both:
        Movmskps Vmovmskps Movmskpd Vmovmskpd Pmovmskb Vpmovmskb
        Pextrb Vpextrb Pextrw Vpextrw Pextrd Vpextrd Pextrq Vpextrq
        Cvtss2si Vcvtss2si Cvttss2si Vcvttss2si Cvtsd2si Vcvtsd2si Cvttsd2si Vcvttsd2si
        Ptest Vptest Comiss Vcomiss Comisd Vcomisd,
        alone:
        Ucomiss = Comiss Vucomiss = Comiss Ucomisd = Comisd Vucomisd = Comisd Extractps = Pextrd
        Vextractps = Pextrd
    )
}

/// A source in a general register.
fn from_general(m: M) -> Option<Vop> {
    same!(m, both:
        Pinsrb Vpinsrb Pinsrw Vpinsrw Pinsrd Vpinsrd Pinsrq Vpinsrq
        Cvtsi2ss Vcvtsi2ss Cvtsi2sd Vcvtsi2sd,
        alone:
    )
}

/// Emits the uops of a vector instruction.
///
/// # Errors
///
/// It is left out: the class.
pub(super) fn translate(e: &mut Emit<'_>) -> Result<(), Refused> {
    let i = e.i;
    let m = i.mnemonic();
    if let Some(vop) = plain(m) {
        return lanes(e, vop);
    }
    if let Some(vop) = to_general(m) {
        return out_of(e, vop);
    }
    if let Some(vop) = from_general(m) {
        return into(e, vop);
    }
    let sse = legacy(e);
    match m {
        M::Movaps
        | M::Movapd
        | M::Movdqa
        | M::Movntps
        | M::Movntpd
        | M::Movntdq
        | M::Movntdqa
        | M::Vmovaps
        | M::Vmovapd
        | M::Vmovdqa
        | M::Vmovntps
        | M::Vmovntpd
        | M::Vmovntdq
        | M::Vmovntdqa => whole(e, 1),
        M::Movups
        | M::Movupd
        | M::Movdqu
        | M::Lddqu
        | M::Vmovups
        | M::Vmovupd
        | M::Vmovdqu
        | M::Vlddqu => whole(e, 0),
        M::Movss | M::Vmovss => part(e, Vop::Movss, 2),
        M::Movsd | M::Vmovsd => part(e, Vop::Movsd, 3),
        M::Movlps | M::Movlpd | M::Vmovlps | M::Vmovlpd => half(e, Vop::Movlps, 0),
        M::Movhps | M::Movhpd | M::Vmovhps | M::Vmovhpd => half(e, Vop::Movhps, 4),
        M::Movd | M::Movq | M::Vmovd | M::Vmovq => word(e),
        M::Vextracti128 | M::Vextractf128 => {
            let imm = e.i.immediate8() as i64;
            let (b, dst) = (number(i.op1_register()), destination(e));
            e.push(Uop { imm, ..vector(Vop::Vextract128, 4, dst, reg::VT, b, false) });
            if e.in_memory(0) {
                store(e, 4, dst, 0);
            }
        }
        M::Vzeroupper => e.push(vector(Vop::Zeroupper, 5, 0, 0, 0, sse)),
        M::Vzeroall => e.push(vector(Vop::Zeroall, 5, 0, 0, 0, sse)),
        M::Emms => return Err(1),
        _ if x87(e) => return Err(1),
        _ if i.encoding() == EncodingKind::VEX || i.op0_register().is_xmm() => return Err(5),
        _ => return Err(0),
    }
    Ok(())
}

/// Of SSE, not AVX.
fn legacy(e: &Emit<'_>) -> bool {
    e.i.encoding() == EncodingKind::Legacy
}

fn x87(e: &Emit<'_>) -> bool {
    use iced_x86::CpuidFeature as F;
    e.i.cpuid_features().iter().any(|f| matches!(f, F::FPU | F::FPU287 | F::FPU387 | F::MMX))
}

fn vector(vop: Vop, size: u8, dst: u8, a: u8, b: u8, sse: bool) -> Uop {
    Uop { size, dst, a, b, aux: vop as u8, scale: sse.into(), ..Uop::new(Op::Vector) }
}

/// The register of operand 0, or the temporary one if it is in memory.
fn destination(e: &Emit<'_>) -> u8 {
    if e.in_memory(0) { reg::VT } else { number(e.i.op0_register()) }
}

/// The width of an instruction: 4 for XMM, 5 for YMM.
fn width(e: &Emit<'_>) -> u8 {
    let i = e.i;
    let ymm = (0..i.op_count())
        .filter(|&n| i.op_kind(n) == OpKind::Register)
        .any(|n| i.op_register(n).is_ymm());
    if ymm { 5 } else { 4 }
}

fn load(e: &mut Emit<'_>, size: u8, dst: u8, aux: u8) {
    let uop = e.address(Op::LoadVector, size, dst);
    e.push(Uop { aux, ..uop });
}

fn store(e: &mut Emit<'_>, size: u8, data: u8, aux: u8) {
    let uop = e.address(Op::StoreVector, size, data);
    e.push(Uop { aux, ..uop });
}

/// The vector register with operand `n`.
fn source(e: &mut Emit<'_>, n: u32) -> u8 {
    if !e.in_memory(n) {
        return number(e.i.op_register(n));
    }
    let size = log(e.i.memory_size().size());
    let aligned = legacy(e) && size == 4;
    load(e, size, reg::VT, aligned.into());
    reg::VT
}

/// Operands that are registers or in memory; the others are immediates.
fn operands(e: &Emit<'_>) -> u32 {
    let i = e.i;
    (0..i.op_count()).filter(|&n| matches!(i.op_kind(n), OpKind::Register | OpKind::Memory)).count()
        as u32
}

fn lanes(e: &mut Emit<'_>, vop: Vop) -> Result<(), Refused> {
    let (i, sse, count) = (e.i, legacy(e), operands(e));
    let has_imm = i.op_count() > count;
    let mut imm = if has_imm { i64::from(i.immediate8()) } else { 0 };
    let dst = number(i.op0_register());
    let blend = matches!(vop, Vop::Pblendvb | Vop::Blendvps | Vop::Blendvpd);
    // Where the sources are: SSE's first one is the destination.
    let (first, second) = if sse { (0, 1) } else { (1, 2) };
    let shift = has_imm && count == first + 1 && is_shift(vop);
    let (a, b) = if shift {
        (number(i.op_register(first)), 0)
    } else if count <= second {
        let b = source(e, 1);
        (b, b)
    } else {
        (number(i.op_register(first)), source(e, second))
    };
    if blend {
        // The mask is in XMM0, or the last operand.
        let mask = if sse { 0 } else { number(i.op_register(3)) };
        imm = i64::from(mask) << 4;
    }
    let mut size = if i.op0_register().is_ymm() { 5 } else { 4 };
    let narrows = matches!(vop, Vop::Cvtpd2ps | Vop::Cvtpd2dq | Vop::Cvttpd2dq);
    let (mut a, mut b) = (a, b);
    if narrows {
        let from_xmm = width(e) == 4;
        size = 4;
        if from_xmm && b != reg::VT {
            // The upper half must not become lanes of the result.
            e.push(vector(Vop::Whole, 4, reg::VT, b, b, false));
            (a, b) = (reg::VT, reg::VT);
        }
    }
    if matches!(vop, Vop::Cmpps | Vop::Cmppd | Vop::Cmpss | Vop::Cmpsd) {
        imm &= if sse { 7 } else { 31 };
    }
    if vop == Vop::Insertps && b == reg::VT {
        // There is only one lane in memory.
        imm &= 0x3f;
    }
    let seg = if shift { reg::IMM } else { reg::ZERO };
    e.push(Uop { imm, seg, ..vector(vop, size, dst, a, b, sse) });
    Ok(())
}

fn is_shift(vop: Vop) -> bool {
    matches!(
        vop,
        Vop::Psllw
            | Vop::Pslld
            | Vop::Psllq
            | Vop::Psrlw
            | Vop::Psrld
            | Vop::Psrlq
            | Vop::Psraw
            | Vop::Psrad
            | Vop::Pslldq
            | Vop::Psrldq
    )
}

fn out_of(e: &mut Emit<'_>, vop: Vop) -> Result<(), Refused> {
    let i = e.i;
    let imm = if i.op_count() > operands(e) { i64::from(i.immediate8()) } else { 0 };
    let compares = matches!(vop, Vop::Ptest | Vop::Comiss | Vop::Comisd);
    if compares {
        let (a, b) = (number(i.op0_register()), source(e, 1));
        e.push(vector(vop, width(e), reg::ZERO, a, b, false));
        return Ok(());
    }
    let (size, b, dst) = (width(e), source(e, 1), e.result());
    let seg = if e.in_memory(0) { 3 } else { e.size(0) };
    e.push(Uop { imm, seg, ..vector(vop, size, dst, reg::VT, b, false) });
    if e.in_memory(0) {
        let bytes = match vop {
            Vop::Pextrb => 0,
            Vop::Pextrw => 1,
            Vop::Pextrd => 2,
            _ => 3,
        };
        e.store(bytes, dst);
    }
    Ok(())
}

fn into(e: &mut Emit<'_>, vop: Vop) -> Result<(), Refused> {
    let (i, sse) = (e.i, legacy(e));
    let imm = if i.op_count() > operands(e) { i64::from(i.immediate8()) } else { 0 };
    let from = if sse { 1 } else { 2 };
    let (seg, (b, _)) = (e.size(from), e.source(from));
    let (dst, a) = (number(i.op0_register()), number(i.op_register(from - 1)));
    e.push(Uop { imm, seg, ..vector(vop, 4, dst, a, b, sse) });
    Ok(())
}

/// Moves of whole registers; `aligned` is 1 if their place in memory must be.
fn whole(e: &mut Emit<'_>, aligned: u8) {
    let (sse, size) = (legacy(e), width(e));
    if e.in_memory(0) {
        store(e, size, number(e.i.op1_register()), aligned);
    } else if e.in_memory(1) {
        load(e, size, number(e.i.op0_register()), aligned | u8::from(sse) << 1);
    } else {
        let (dst, b) = (number(e.i.op0_register()), number(e.i.op1_register()));
        e.push(vector(Vop::Whole, size, dst, b, b, sse));
    }
}

/// MOVSS, MOVSD.
fn part(e: &mut Emit<'_>, vop: Vop, size: u8) {
    let sse = legacy(e);
    if e.in_memory(0) {
        store(e, size, number(e.i.op1_register()), 0);
    } else if e.in_memory(1) {
        load(e, size, number(e.i.op0_register()), u8::from(sse) << 1);
    } else {
        let dst = number(e.i.op0_register());
        let from = if sse { 0 } else { 1 };
        let (a, b) = (number(e.i.op_register(from)), number(e.i.op_register(from + 1)));
        e.push(vector(vop, 4, dst, a, b, sse));
    }
}

/// MOVLPS, MOVHPS and their like.
fn half(e: &mut Emit<'_>, vop: Vop, from_upper: u8) {
    let sse = legacy(e);
    if e.in_memory(0) {
        store(e, 3, number(e.i.op1_register()), from_upper);
        return;
    }
    let memory = if sse { 1 } else { 2 };
    let a = number(e.i.op_register(memory - 1));
    load(e, 3, reg::VT, 0);
    let dst = number(e.i.op0_register());
    e.push(vector(vop, 4, dst, a, reg::VT, sse));
}

/// MOVD and MOVQ between vector registers, general ones and memory.
fn word(e: &mut Emit<'_>) {
    let (i, sse) = (e.i, legacy(e));
    let size = if matches!(i.mnemonic(), M::Movd | M::Vmovd) { 2 } else { 3 };
    let is_vector = |n: u32| i.op_kind(n) == OpKind::Register && i.op_register(n).is_xmm();
    match (is_vector(0), is_vector(1)) {
        (true, true) => {
            let (dst, b) = (number(i.op0_register()), number(i.op1_register()));
            e.push(vector(Vop::Movq, 4, dst, b, b, sse));
        }
        (true, false) if e.in_memory(1) => {
            load(e, size, number(i.op0_register()), u8::from(sse) << 1);
        }
        (true, false) => {
            let (dst, b) = (number(i.op0_register()), number(i.op1_register()));
            let seg = e.size(1);
            e.push(Uop { seg, ..vector(Vop::Movd, 4, dst, reg::VT, b, sse) });
        }
        _ if e.in_memory(0) => store(e, size, number(i.op1_register()), 0),
        _ => {
            let (dst, b) = (number(i.op0_register()), number(i.op1_register()));
            let vop = if e.size(0) == 2 { Vop::Pextrd } else { Vop::Pextrq };
            e.push(vector(vop, 4, dst, reg::VT, b, false));
        }
    }
}
