//! Keys without end, each a function of three numbers. They are spread like digests or UUIDs, so
//! that no store gets the gift of an index that only grows at its end.

/// A set of keys that shares none with another seed's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys(u64);

impl Keys {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The key of a lane (one caller) and a number: 32 hexadecimal digits, of which the first 16
    /// are the caller's and the number's alone.
    pub(crate) fn at(self, lane: u32, number: u32) -> String {
        let place = (u64::from(lane) << 32) | u64::from(number);
        let first = mix(self.0 ^ place);
        format!("{first:016x}{:016x}", mix(first ^ self.0))
    }
}

/// The last step of splitmix64: no two numbers give the same.
const fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_callers_numbers_or_seeds_share_a_key() {
        let mut keys = BTreeSet::new();
        for seed in 0..10 {
            for lane in 0..10 {
                for number in 0..100 {
                    let key = Keys::new(seed).at(lane, number);
                    assert_eq!(key.len(), 32);
                    assert!(keys.insert(key), "{seed} {lane} {number}");
                }
            }
        }
    }
}
