#include "machined/disk/encryption/node-id-passphrase.h"

#include <kj/debug.h>
#include <kj/vector.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr size_t kMostOfOneCharacter = 18;  // of 36
constexpr kj::byte kSystem = 1, kEnd = 127;
constexpr size_t kUuidAt = 8, kStructureHeader = 4;

}  // namespace

kj::Maybe<kj::Array<kj::byte>> systemUuidIn(kj::ArrayPtr<const kj::byte> table) {
  while (table.size() >= kStructureHeader) {
    auto type = table[0];
    size_t length = table[1];
    if (length < kStructureHeader || length > table.size() || type == kEnd) break;
    if (type == kSystem) {
      if (length < kUuidAt + kUuidBytes) break;
      return kj::heapArray<kj::byte>(table.slice(kUuidAt, kUuidAt + kUuidBytes));
    }
    // The structure's texts follow, each with a zero at its end, then another zero.
    size_t end = length;
    while (end + 1 < table.size() && (table[end] != 0 || table[end + 1] != 0)) ++end;
    table = table.slice(kj::min(end + 2, table.size()), table.size());
  }
  return nullptr;
}

kj::String uuidText(kj::ArrayPtr<const kj::byte> uuid) {
  KJ_REQUIRE(uuid.size() == kUuidBytes);
  constexpr unsigned kOrder[] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
  constexpr char kDigits[] = "0123456789abcdef";
  kj::Vector<char> text;
  for (unsigned i = 0; i < kUuidBytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.add('-');
    text.add(kDigits[uuid[kOrder[i]] >> 4]);
    text.add(kDigits[uuid[kOrder[i]] & 15]);
  }
  return kj::heapString(text);
}

kj::Maybe<kj::String> weaknessOf(kj::StringPtr uuid) {
  if (uuid.size() == 0) return kj::str("this machine has no UUID");
  if (uuid == "00000000-0000-0000-0000-000000000000") {
    return kj::str("the UUID of this machine is ", uuid);
  }
  size_t counts[256] = {};
  for (char c : uuid) {
    if (++counts[static_cast<kj::byte>(c)] > kMostOfOneCharacter) {
      return kj::str("the UUID of this machine, ", uuid,
                     ", is not random: more than half of it is \"", c, "\"");
    }
  }
  return nullptr;
}

kj::Array<kj::byte> nodePassphrase(kj::StringPtr uuid, kj::StringPtr label) {
  KJ_IF_MAYBE (problem, weaknessOf(uuid)) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("no key can be made of nodeID: ", *problem, "; use another kind of key"));
  }
  return kj::heapArray<kj::byte>(kj::str(uuid, label).asBytes());
}

}  // namespace talos::machined
