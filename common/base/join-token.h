// Text of a join token, a value of machine.token with which one worker joins once: "join-" ID "."
// SECRET, six and sixteen of a-z and 0-9. The prefix distinguishes it from the machine.token of a
// control plane, which has a bootstrap token's form. The id is not secret: lists and messages name
// the token by it. The 82 bits of the secret are random, so a plain hash of it may be stored. Users
// of joinTokenDigest() link libcrypto. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <openssl/sha.h>

namespace talos {

constexpr kj::StringPtr kJoinTokenPrefix = "join-"_kj;
constexpr size_t kJoinTokenId = 6, kJoinTokenSecret = 16;

// Returns true for a text that is meant as a join token, even if it is not valid.
inline bool isJoinTokenLike(kj::StringPtr token) {
  return token.startsWith(kJoinTokenPrefix);
}

inline bool isJoinTokenPart(kj::ArrayPtr<const char> part, size_t size) {
  if (part.size() != size) return false;
  for (char c : part) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) return false;
  }
  return true;
}

inline bool isJoinTokenId(kj::StringPtr text) {
  return isJoinTokenPart(text, kJoinTokenId);
}

// Returns the id of a valid join token; nullptr for any other text.
inline kj::Maybe<kj::String> joinTokenId(kj::StringPtr token) {
  const size_t kDot = kJoinTokenPrefix.size() + kJoinTokenId;
  if (!isJoinTokenLike(token) || token.size() != kDot + 1 + kJoinTokenSecret) return nullptr;
  auto id = token.slice(kJoinTokenPrefix.size(), kDot);
  if (!isJoinTokenPart(id, kJoinTokenId) || token[kDot] != '.') return nullptr;
  if (!isJoinTokenPart(token.slice(kDot + 1), kJoinTokenSecret)) return nullptr;
  return kj::str(id);
}

// Returns SHA-256 of the whole text, for storing and comparing.
inline kj::Array<kj::byte> joinTokenDigest(kj::StringPtr token) {
  auto digest = kj::heapArray<kj::byte>(SHA256_DIGEST_LENGTH);
  SHA256(token.asBytes().begin(), token.size(), digest.begin());
  return digest;
}

}  // namespace talos
