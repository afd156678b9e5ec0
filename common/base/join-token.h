// The text of a join token, a value of machine.token with which one worker joins once:
// "join-" ID "." SECRET, six and sixteen of a-z and 0-9. The prefix tells it from the machine.token
// of a control plane, which has a bootstrap token's form. The id is no secret: lists and messages
// name the token by it. The 82 bits of the secret are random, so a plain hash of it may be stored.
// Users of joinTokenDigest() link libcrypto. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <openssl/sha.h>

namespace talos {

constexpr kj::StringPtr kJoinTokenPrefix = "join-"_kj;
constexpr size_t kJoinTokenId = 6, kJoinTokenSecret = 16;

// True of what is meant as one, also if it is not valid.
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

// The id of a valid one; none for any other text.
inline kj::Maybe<kj::String> joinTokenId(kj::StringPtr token) {
  const size_t kDot = kJoinTokenPrefix.size() + kJoinTokenId;
  if (!isJoinTokenLike(token) || token.size() != kDot + 1 + kJoinTokenSecret) return nullptr;
  auto id = token.slice(kJoinTokenPrefix.size(), kDot);
  if (!isJoinTokenPart(id, kJoinTokenId) || token[kDot] != '.') return nullptr;
  if (!isJoinTokenPart(token.slice(kDot + 1), kJoinTokenSecret)) return nullptr;
  return kj::str(id);
}

// SHA-256 of the whole text: what is stored of it, and compared.
inline kj::Array<kj::byte> joinTokenDigest(kj::StringPtr token) {
  auto digest = kj::heapArray<kj::byte>(SHA256_DIGEST_LENGTH);
  SHA256(token.asBytes().begin(), token.size(), digest.begin());
  return digest;
}

}  // namespace talos
