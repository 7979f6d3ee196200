//! Reservation tokens: (generation, fence) bound to one identity by a MAC.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::key::KeyDigest;
use super::record::{Fence, Generation};

const FORMAT: u8 = 1;
const PURPOSE: &str = "oncegate/token/v1";
const MAC_BYTES: usize = 16;
const SEAL_BYTES: usize = 1 + 32;
const BODY_BYTES: usize = 1 + 1 + 8 + 8;

/// What a genuine token says: which reservation of its record it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// The record's generation when the token was made.
    pub generation: Generation,
    /// The reservation's fence.
    pub fence: Fence,
}

/// A token that does not verify for this record: cut, altered, or of another record. One answer
/// for all causes, so that nothing can be learned from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token does not belong to this record")]
pub struct TokenInvalid;

/// The secrets that tokens are made and checked with. The newest makes; all check, for tokens
/// verify for as long as their record exists.
#[derive(Clone)]
pub struct TokenSecrets {
    secrets: Vec<(u8, [u8; 32])>,
}

impl std::fmt::Debug for TokenSecrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "TokenSecrets({} hidden)", self.secrets.len())
    }
}

impl TokenSecrets {
    /// A new store's first secret.
    pub fn first(secret: [u8; 32]) -> Self {
        Self {
            secrets: vec![(1, secret)],
        }
    }

    /// Takes the secrets by id, the newest last; `None` if there is none.
    pub fn new(secrets: Vec<(u8, [u8; 32])>) -> Option<Self> {
        if secrets.is_empty() {
            None
        } else {
            Some(Self { secrets })
        }
    }

    /// Makes the token of one reservation.
    pub fn issue(&self, identity: &KeyDigest, token: Token) -> String {
        let (id, secret) = self.secrets.last().copied().unwrap_or_default();
        let mut bytes = body(id, token).to_vec();
        bytes.extend_from_slice(&mac(&secret, PURPOSE, identity, &bytes)[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Checks a token against the record that it came with.
    ///
    /// # Errors
    ///
    /// The token is not genuine for this record; repeating the call does not help.
    pub fn verify(&self, identity: &KeyDigest, text: &str) -> Result<Token, TokenInvalid> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_not_base64| TokenInvalid)?;
        if bytes.len() != BODY_BYTES + MAC_BYTES {
            return Err(TokenInvalid);
        }
        let (body, tag) = bytes.split_at(BODY_BYTES);
        let &[format, id, ref numbers @ ..] = body else {
            return Err(TokenInvalid);
        };
        let secret = self.secret(id).ok_or(TokenInvalid)?;
        let own = mac(secret, PURPOSE, identity, body);
        let genuine = subtle::ConstantTimeEq::ct_eq(&own[..MAC_BYTES], tag);
        if format != FORMAT || !bool::from(genuine) {
            return Err(TokenInvalid);
        }
        let (generation, fence) = numbers.split_at(8);
        Ok(Token {
            generation: Generation::new(number(generation)?),
            fence: Fence::new(number(fence)?),
        })
    }
}

impl TokenSecrets {
    /// Seals bytes of an identity that are kept where others can write.
    pub fn seal(&self, purpose: &str, identity: &KeyDigest, body: &[u8]) -> Vec<u8> {
        let (id, secret) = self.secrets.last().copied().unwrap_or_default();
        let mut sealed = Vec::with_capacity(SEAL_BYTES + body.len());
        sealed.push(id);
        sealed.extend_from_slice(&mac(&secret, purpose, identity, body));
        sealed.extend_from_slice(body);
        sealed
    }

    /// The bytes that were sealed for that purpose and identity; `None`: these were not.
    pub fn unseal<'a>(
        &self,
        purpose: &str,
        identity: &KeyDigest,
        sealed: &'a [u8],
    ) -> Option<&'a [u8]> {
        let (seal, body) = sealed.split_at_checked(SEAL_BYTES)?;
        let (id, tag) = seal.split_first()?;
        let own = mac(self.secret(*id)?, purpose, identity, body);
        bool::from(subtle::ConstantTimeEq::ct_eq(&own[..], tag)).then_some(body)
    }

    /// Tells deployments apart, and nothing else: the same for all replicas of a store, for as long
    /// as the store lives.
    pub fn name(&self) -> u64 {
        let (_, first) = self.secrets.first().copied().unwrap_or_default();
        let named = mac(
            &first,
            "oncegate/name/v1",
            &KeyDigest::from_bytes([0; 32]),
            &[],
        );
        u64::from_be_bytes(named.first_chunk().copied().unwrap_or_default())
    }

    fn secret(&self, id: u8) -> Option<&[u8; 32]> {
        let found = self.secrets.iter().find(|(known, _)| *known == id);
        found.map(|(_, secret)| secret)
    }
}

fn body(id: u8, token: Token) -> [u8; BODY_BYTES] {
    let mut bytes = [0; BODY_BYTES];
    bytes[0] = FORMAT;
    bytes[1] = id;
    bytes[2..10].copy_from_slice(&token.generation.get().to_be_bytes());
    bytes[10..18].copy_from_slice(&token.fence.get().to_be_bytes());
    bytes
}

fn number(bytes: &[u8]) -> Result<i64, TokenInvalid> {
    let bytes = <[u8; 8]>::try_from(bytes).map_err(|_wrong_length| TokenInvalid)?;
    Ok(i64::from_be_bytes(bytes))
}

fn mac(secret: &[u8; 32], purpose: &str, identity: &KeyDigest, body: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(purpose.as_bytes());
    mac.update(b"\0");
    mac.update(identity.as_bytes());
    mac.update(body);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token {
        generation: Generation::new(7),
        fence: Fence::new(9),
    };

    fn secrets() -> TokenSecrets {
        TokenSecrets::new(vec![(1, [1; 32]), (2, [2; 32])]).expect("two secrets")
    }

    #[test]
    fn a_token_verifies_for_its_own_record_alone() {
        let (one, other) = (
            KeyDigest::from_bytes([1; 32]),
            KeyDigest::from_bytes([2; 32]),
        );
        let text = secrets().issue(&one, TOKEN);
        assert_eq!(secrets().verify(&one, &text), Ok(TOKEN));
        assert_eq!(secrets().verify(&other, &text), Err(TokenInvalid));
    }

    #[test]
    fn a_token_of_an_older_secret_still_verifies() {
        let identity = KeyDigest::from_bytes([1; 32]);
        let old = TokenSecrets::new(vec![(1, [1; 32])]).expect("one secret");
        assert_eq!(
            secrets().verify(&identity, &old.issue(&identity, TOKEN)),
            Ok(TOKEN)
        );
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_refused() {
        let identity = KeyDigest::from_bytes([1; 32]);
        let text = secrets().issue(&identity, TOKEN);
        for cut in 0..text.len() {
            assert_eq!(secrets().verify(&identity, &text[..cut]), Err(TokenInvalid));
        }
        let bytes = URL_SAFE_NO_PAD.decode(&text).expect("our own token");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let text = URL_SAFE_NO_PAD.encode(flipped);
            assert_eq!(
                secrets().verify(&identity, &text),
                Err(TokenInvalid),
                "bit {bit}"
            );
        }
    }
}
