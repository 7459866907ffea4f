//! Vector operations, named after the instructions (SSE's name; AVX's has a V before it).

macro_rules! vops {
    ($($name:ident)*) => {
        /// A vector operation: what a [`crate::uop::Op::Vector`] does.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Vop { $($name,)* }

        impl Vop {
            /// All of them; the number of one is its place.
            pub const ALL: &[Vop] = &[$(Vop::$name,)*];
        }
    };
}

vops! {
    // Integers, lane by lane
    Paddb Paddw Paddd Paddq Psubb Psubw Psubd Psubq
    Paddsb Paddsw Paddusb Paddusw Psubsb Psubsw Psubusb Psubusw
    Pmullw Pmulhw Pmulhuw Pmulhrsw Pmulld Pmuludq Pmuldq Pmaddwd Pmaddubsw Psadbw
    Pavgb Pavgw Pminub Pminsb Pminuw Pminsw Pminud Pminsd Pmaxub Pmaxsb Pmaxuw Pmaxsw Pmaxud Pmaxsd
    Pcmpeqb Pcmpeqw Pcmpeqd Pcmpeqq Pcmpgtb Pcmpgtw Pcmpgtd Pcmpgtq
    Pand Pandn Por Pxor Pabsb Pabsw Pabsd Psignb Psignw Psignd
    Psllw Pslld Psllq Psrlw Psrld Psrlq Psraw Psrad Pslldq Psrldq
    Vpsllvd Vpsllvq Vpsrlvd Vpsrlvq Vpsravd
    Phaddw Phaddd Phsubw Phsubd
    // Places of lanes
    Packsswb Packssdw Packuswb Packusdw
    Punpcklbw Punpcklwd Punpckldq Punpcklqdq Punpckhbw Punpckhwd Punpckhdq Punpckhqdq
    Pshufd Pshufhw Pshuflw Pshufb Palignr Shufps Shufpd
    Movlps Movhps Movhlps Movlhps Movss Movsd Movq Movddup Movshdup Movsldup
    Pblendw Vpblendd Blendps Blendpd Pblendvb Blendvps Blendvpd
    Pmovzxbw Pmovzxbd Pmovzxbq Pmovzxwd Pmovzxwq Pmovzxdq
    Pmovsxbw Pmovsxbd Pmovsxbq Pmovsxwd Pmovsxwq Pmovsxdq
    Broadcastb Broadcastw Broadcastd Broadcastq Broadcast128
    Vinsert128 Vextract128 Vperm2i128 Vpermq Vpermd Insertps
    Whole Zeroupper Zeroall
    // To and from general registers
    Movd Movmskps Movmskpd Pmovmskb Pinsrb Pinsrw Pinsrd Pinsrq Pextrb Pextrw Pextrd Pextrq Ptest
    // Floating point
    Addps Addpd Addss Addsd Subps Subpd Subss Subsd Mulps Mulpd Mulss Mulsd Divps Divpd Divss Divsd
    Minps Minpd Minss Minsd Maxps Maxpd Maxss Maxsd Sqrtps Sqrtpd Sqrtss Sqrtsd
    Cmpps Cmppd Cmpss Cmpsd Comiss Comisd Haddps Haddpd Hsubps Hsubpd Addsubps Addsubpd
    Roundps Roundpd Roundss Roundsd
    Cvtss2sd Cvtsd2ss Cvtps2pd Cvtpd2ps Cvtdq2ps Cvtdq2pd Cvtps2dq Cvttps2dq Cvtpd2dq Cvttpd2dq
    Cvtsi2ss Cvtsi2sd Cvtss2si Cvtsd2si Cvttss2si Cvttsd2si
}
