#include "machined/config/network/node-identity-name.h"

#include <kj/vector.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/sha256.h"
#include "common/text/ascii.h"
#include "common/tls/pki.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kKey = "nodeId: "_kj;
constexpr kj::StringPtr kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"_kj;
constexpr size_t kLength = 43;  // digits of base 62 for 32 octets
constexpr size_t kMostFile = 4096;

// Returns digits of base 62 by chance. A byte from which digits would not be equally likely is
// left out.
kj::String newIdentity() {
  constexpr unsigned kFair = 256 / 62 * 62;
  kj::Vector<char> text;
  while (text.size() < kLength) {
    for (auto byte : pki::randomBytes(kLength)) {
      if (byte < kFair && text.size() < kLength) text.add(kDigits[byte % 62]);
    }
  }
  text.add('\0');
  return kj::String(text.releaseAsArray());
}

// Returns the identity in the text; an empty text if it has no identity.
kj::String identityIn(kj::StringPtr text) {
  for (auto line : Lines(text)) {
    if (line.size() <= kKey.size() || line.slice(0, kKey.size()) != kKey.asArray()) continue;
    auto value = kj::heapString(line.slice(kKey.size(), line.size()));
    for (char c : value) {
      if (!isAlphanumeric(c)) return kj::String();
    }
    return value;
  }
  return kj::String();
}

}  // namespace

kj::String nameOfIdentity(kj::StringPtr identity) {
  Sha256 digest;
  digest.add(identity.asBytes());
  auto hex = digest.hex();
  uint64_t number = strtoull(kj::heapString(hex.slice(0, 16)).cStr(), nullptr, 16);
  kj::Vector<char> digits;  // the last one first
  do {
    digits.add("0123456789abcdefghijklmnopqrstuvwxyz"[number % 36]);
    number /= 36;
  } while (number > 0 || digits.size() < 7);
  auto digit = [&](size_t place) { return digits[digits.size() - 1 - place]; };
  return kj::str("talos-", digit(1), digit(2), digit(3), "-", digit(4), digit(5), digit(6));
}

kj::String keptIdentity(kj::StringPtr path) {
  KJ_IF_MAYBE (text, tryReadFile(path, kMostFile)) {
    auto identity = identityIn(*text);
    if (identity.size() > 0) return identity;
  }
  auto identity = newIdentity();
  writeFileAtomically(path, kj::str(kKey, identity, "\n"), 0600);
  return identity;
}

}  // namespace talos::machined
