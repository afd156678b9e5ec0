#include "machined/upgrade/version-floor.h"

#include <kj/debug.h>
#include <kj/vector.h>
#include <stdint.h>
#include <string.h>

#include <compare>

namespace talos::machined {
namespace {

constexpr size_t kNumbers = 3;

struct SystemVersion {
  uint64_t numbers[kNumbers] = {};
  kj::Vector<kj::String> preRelease;  // parts between the dots; empty: a release
};

kj::Vector<kj::String> split(kj::StringPtr text) {
  kj::Vector<kj::String> parts;
  for (auto rest = text;;) {
    auto size = strcspn(rest.cStr(), ".");
    parts.add(kj::heapString(rest.slice(0, size)));
    if (size == rest.size()) return parts;
    rest = rest.slice(size + 1);
  }
}

// Returns nullptr for a sign, a blank, and a number that does not fit into 64 bits.
kj::Maybe<uint64_t> number(kj::StringPtr text) {
  if (text.size() == 0) return nullptr;
  for (char c : text) {
    if (c < '0' || c > '9') return nullptr;
  }
  return text.tryParseAs<uint64_t>();
}

bool isIdentifier(kj::StringPtr text) {
  for (char c : text) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '-') return false;
  }
  return text.size() > 0;
}

bool isPreRelease(kj::StringPtr suffix) {
  for (auto name : {"alpha"_kj, "beta"_kj, "rc"_kj}) {
    if (suffix.startsWith(name)) return true;
  }
  return false;
}

kj::Maybe<SystemVersion> parse(kj::StringPtr text) {
  if (text.startsWith("v")) text = text.slice(1);
  auto precedence = kj::heapString(text.slice(0, strcspn(text.cStr(), "+")));
  auto core = strcspn(precedence.cStr(), "-");
  SystemVersion version;
  auto numbers = split(kj::heapString(precedence.slice(0, core)));
  if (numbers.size() > kNumbers) return nullptr;
  for (auto i : kj::indices(numbers)) {
    KJ_IF_MAYBE (n, number(numbers[i])) {
      version.numbers[i] = *n;
    } else {
      return nullptr;
    }
  }
  if (core == precedence.size()) return kj::mv(version);
  auto suffix = precedence.slice(core + 1);
  if (!isPreRelease(suffix)) return kj::mv(version);
  version.preRelease = split(suffix);
  for (auto& part : version.preRelease) {
    if (!isIdentifier(part)) return nullptr;
  }
  return kj::mv(version);
}

// Compares parts; a number is below a text.
std::strong_ordering compareParts(kj::StringPtr left, kj::StringPtr right) {
  auto a = number(left), b = number(right);
  if ((a == nullptr) != (b == nullptr)) return (a == nullptr) <=> (b == nullptr);
  KJ_IF_MAYBE (value, a) return *value <=> KJ_ASSERT_NONNULL(b);
  return strcmp(left.cStr(), right.cStr()) <=> 0;
}

std::strong_ordering operator<=>(const SystemVersion& left, const SystemVersion& right) {
  for (size_t i = 0; i < kNumbers; ++i) {
    auto order = left.numbers[i] <=> right.numbers[i];
    if (order != 0) return order;
  }
  auto &a = left.preRelease, &b = right.preRelease;
  if (a.empty() != b.empty()) return a.empty() <=> b.empty();
  for (size_t i = 0; i < kj::min(a.size(), b.size()); ++i) {
    auto order = compareParts(a[i], b[i]);
    if (order != 0) return order;
  }
  return a.size() <=> b.size();
}

}  // namespace

kj::Maybe<bool> isOlder(kj::StringPtr version, kj::StringPtr than) {
  KJ_IF_MAYBE (left, parse(version)) {
    KJ_IF_MAYBE (right, parse(than)) return *left < *right;
  }
  return nullptr;
}

kj::StringPtr raisedFloor(kj::StringPtr kept, kj::StringPtr running) {
  if (parse(running) == nullptr) return kept;
  return isOlder(kept, running).orDefault(true) ? running : kept;
}

kj::Maybe<kj::String> belowFloor(kj::StringPtr version, kj::StringPtr floor) {
  if (parse(floor) == nullptr) return nullptr;
  KJ_IF_MAYBE (older, isOlder(version, floor)) {
    if (!*older) return nullptr;
    return kj::str(version, " is older than ", floor, ", which this node has run");
  }
  return kj::str("its version \"", version, "\" cannot be compared with ", floor,
                 ", which this node has run");
}

}  // namespace talos::machined
