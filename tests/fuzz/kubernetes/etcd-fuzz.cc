// Decoding of etcd's answers, whatever they say: each kind of message that is more than a number.
// And the end of a prefix, which decides the keys of a range or a deletion.
// link: common-etcd
#include <kj/debug.h>
#include <string.h>

#include "common/etcd/etcd-messages.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::etcd;

constexpr auto kLongest = 11 * 365 * kj::DAYS;

template <typename Message>
auto parsed(kj::ArrayPtr<const kj::byte> bytes) {
  Message message;
  // Half of a message is kept when the rest does not parse.
  (void)message.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()));
  return fromMessage(message);
}

void checkAnswer(unsigned which, kj::ArrayPtr<const kj::byte> bytes) {
  switch (which) {
    case 0:
      parsed<pb::RangeResponse>(bytes);
      return;
    case 1: {
      auto result = parsed<pb::TxnResponse>(bytes);
      for (auto& r : result.results) KJ_ASSERT(r != nullptr, "a result of no kind");
      return;
    }
    case 2:
      parsed<pb::WatchResponse>(bytes);
      return;
    case 3:
      parsed<pb::Member>(bytes);
      return;
    case 4:
      parsed<pb::StatusResponse>(bytes);
      return;
    case 5:
      for (auto& a : parsed<pb::AlarmResponse>(bytes)) {
        KJ_ASSERT(a.type <= Alarm::Type::kCorrupt);
      }
      return;
    case 6: {
      int64_t ttl = 0;
      if (bytes.size() < sizeof(ttl)) return;
      memcpy(&ttl, bytes.begin(), sizeof(ttl));
      auto time = secondsOf(ttl);  // deadlines are computed with it
      KJ_ASSERT(time >= 0 * kj::SECONDS && time < kLongest);
      return;
    }
    default:
      return;
  }
}

// All keys that begin with the prefix are before its end, and no others between the two.
void checkPrefix(kj::ArrayPtr<const kj::byte> bytes) {
  auto half = bytes.size() / 2;
  auto prefix = kj::heapString(bytes.slice(0, half).asChars());
  auto key = kj::heapString(bytes.slice(half, bytes.size()).asChars());
  auto end = endOfPrefix(prefix);
  auto less = [](kj::StringPtr a, kj::StringPtr b) {
    return std::string(a.begin(), a.size()) < std::string(b.begin(), b.size());
  };
  bool open = end == kj::heapString("\0", 1);  // it has no end
  auto inside = [&](kj::StringPtr k) { return !less(k, prefix) && (open || less(k, end)); };
  KJ_ASSERT(inside(prefix) && inside(kj::str(prefix, key)));
  KJ_ASSERT(inside(key) == key.startsWith(prefix));
}

}  // namespace

FUZZ_TARGET(etcd) {
  if (size == 0) return 0;
  auto bytes = kj::arrayPtr(data + 1, size - 1);
  if (data[0] % 8 == 7) {
    checkPrefix(bytes);
  } else {
    checkAnswer(data[0] % 8, bytes);
  }
  return 0;
}
