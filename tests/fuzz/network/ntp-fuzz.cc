// Datagrams on an NTP port: any bytes, as an answer and as a query, at any time of the local clock.
#include <kj/debug.h>
#include <string.h>

#include "common/net/ntp.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(ntp) {
  using namespace talos::ntp;
  if (size < 16) return 0;
  int64_t local;
  uint32_t elapsed;
  uint32_t fix;
  memcpy(&local, data, 8);
  memcpy(&elapsed, data + 8, 4);
  memcpy(&fix, data + 12, 4);
  auto bytes = kj::heapArray<kj::byte>(kj::arrayPtr(data + 16, size - 16));
  constexpr uint64_t kNonce = 0x6e6f6e6365;
  if ((fix & 1) != 0 && bytes.size() >= kPacketSize) {  // or the fuzzer would have to guess them
    for (size_t i = 0; i < 8; ++i) bytes[24 + i] = kj::byte(kNonce >> (56 - 8 * i));
    bytes[0] = kj::byte((bytes[0] & 0xc0) | 0x24);
  }
  auto sent = kj::UNIX_EPOCH + local * kj::NANOSECONDS;
  auto verdict = judge(bytes, kNonce, sent, elapsed * kj::NANOSECONDS);
  if (verdict.is<Sample>()) {
    auto& s = verdict.get<Sample>();
    KJ_ASSERT(s.delay >= 0 * kj::NANOSECONDS && s.rootDistance >= 0 * kj::NANOSECONDS);
    KJ_ASSERT(s.error() <= kMaxError && s.stratum >= 1 && s.stratum <= 15);
    KJ_ASSERT(showOffset(s.offset).size() < 40);
  } else if (verdict.is<KissOfDeath>()) {
    for (char c : verdict.get<KissOfDeath>().code) KJ_ASSERT(c > ' ' && c < 0x7f);
  }
  KJ_IF_MAYBE (packet, decode(bytes)) {
    KJ_ASSERT(Timestamp::of(packet->transmit.date()).date() == packet->transmit.date());
    auto again = KJ_ASSERT_NONNULL(decode(encode(*packet)));
    KJ_ASSERT(encode(again) == encode(*packet));
  }
  KJ_IF_MAYBE (reply, answer(bytes, sent, sent, {})) {
    KJ_ASSERT(reply->size() <= bytes.size(), "an amplifier");
    KJ_ASSERT(answer(*reply, sent, sent, {}) == nullptr, "two servers that answer each other");
  }
  return 0;
}
