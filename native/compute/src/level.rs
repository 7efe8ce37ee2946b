//! Which kernels this processor runs; chosen once.

use std::fmt;
use std::sync::OnceLock;

/// A set of instructions that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Scalar,
    /// ARMv8 with NEON.
    Neon,
    /// AVX2, FMA, F16C.
    Avx2,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Scalar => "scalar",
            Level::Neon => "neon",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
    }
}

/// Levels that this processor can run, the best last.
pub(crate) fn available() -> Vec<Level> {
    #[allow(unused_mut)]
    let mut v = vec![Level::Scalar];
    #[cfg(target_arch = "aarch64")]
    v.push(Level::Neon);
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        if avx2 {
            v.push(Level::Avx2);
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vnni")
            {
                v.push(Level::Avx512);
            }
        }
    }
    v
}

/// The level in force: the best that there is, or the one that `KEKTORDB_CPU` names if this processor can run it.
pub fn cpu_level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let all = available();
        let best = all.iter().copied().max().unwrap_or(Level::Scalar);
        match std::env::var("KEKTORDB_CPU") {
            Ok(name) => all.into_iter().find(|l| l.to_string() == name).unwrap_or(best),
            Err(_) => best,
        }
    })
}
