// apid's HTTP/2 protocol under attack by readers who know HTTP/2 well: floods of frames that cost
// the readers nothing, headers that are larger than they look, requests that are begun and not
// finished, and answers that are requested and not read.
//
// All attacks run at once. With HOSTILE_ATTACK=each they run one after the other, from several
// connections, each against a new apid and for HOSTILE_SECONDS, and a table is printed in the end;
// with the name of an attack (kKinds) only this attack runs:
//   HOSTILE_ATTACK=each HOSTILE_SECONDS=60 /build/out/hostile-pack --gtest_filter=Pack.SecondFace
#include "common/grpc/test-h2.h"
#include "common/testing/own-network.h"
#include "tests/hostile/both-protocols.h"

namespace talos::hostile {
namespace {

using apid::testing::Authority;
using namespace grpc::testing;

// The memory that gate.h allows one client, twice: attackers have one account, the honest callers
// another.
constexpr size_t kMostGrowthKiB = 128u << 10;
constexpr auto kVersion = "/machine.MachineService/Version";
constexpr auto kLogs = "/machine.MachineService/Logs";

std::string logsOf(int32_t stream) {
  return headersFrame(stream, request(kLogs)) +
         dataFrame(stream, grpcMessage("\x0a\x06system\x12\x04"
                                       "apid\x20\x01"));
}
std::string begun(int32_t stream, uint32_t announced) {
  return headersFrame(stream, request(kVersion)) +
         dataFrame(stream, '\0' + bigEndian(announced, 4) + "x", 0);
}

// One connection: its first bytes, and the part that is repeated until the server ends it.
struct Kind {
  const char* name;
  std::string first;
  std::string (*part)(int);
  bool reads = true;
  // True if the server ends the connection even when it is one of several, on each of which less
  // waits than the amount for which a single connection is ended.
  bool ended = true;
};
const Kind kKinds[] = {
    {"rapid reset", "",
     [](int i) {
       return headersFrame(2 * i + 1, request(kVersion)) +
              h2Frame(NGHTTP2_RST_STREAM, 0, 2 * i + 1, bigEndian(NGHTTP2_CANCEL, 4));
     }},
    // Ended when its answers have filled the kernel's buffers: how soon, depends on the machine.
    {"calls without end", "", [](int i) { return call(2 * i + 1, kVersion); }, false, false},
    {"PING", "", [](int) { return h2Frame(NGHTTP2_PING, 0, 0, "12345678"); }},
    {"SETTINGS", "", [](int) { return settingsFrame(); }},
    {"unread SETTINGS", "", [](int) { return settingsFrame(); }, false},
    {"empty DATA", headersFrame(1, request(kVersion)), [](int) { return dataFrame(1, "", 0); }},
    {"CONTINUATION", headersFrame(1, request(kVersion), 0),
     [](int) { return h2Frame(NGHTTP2_CONTINUATION, 0, 1, std::string(16'000, '\x82')); }},
    {"HPACK bomb", headersFrame(1, request(kVersion)),
     [](int i) {
       auto block = hpack({{"x", std::string(4000, 'x')}}, true) + std::string(12'000, '\xbe');
       return h2Frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, 2 * i + 3, block);
     }},
    {"HPACK bomb in trailers", "",
     [](int i) {
       auto block = hpack({{"x", std::string(4000, 'x')}}, true) + std::string(12'000, '\xbe');
       return headersFrame(2 * i + 1, request(kVersion)) +
              h2Frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, 2 * i + 1, block);
     }},
    {"small headers that unpack to 100 KiB", headersFrame(1, request(kVersion)),
     [](int i) {
       auto block = i == 0 ? hpack({{"x", std::string(4000, 'x')}}, true) : std::string();
       return headersFrame(2 * i + 3, request(kVersion)) +
              h2Frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, 2 * i + 3,
                      block + std::string(25, '\xbe'));
     }},
    {"huge frames", "", [](int) { return std::string("\xff\xff\xff\0\0\0\0\0\1", 9); }},
    {"noise", "",
     [](int i) {
       std::string bytes(4096, '\0');
       for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = (n * 2'654'435'761u + i) >> 13;
       return bytes;
     }},
    {"requests that do not go on", "",
     [](int i) { return i < 1000 ? begun(2 * i + 1, 8'000'000) : std::string(); }, true, false},
    {"gibibytes", "", [](int i) { return begun(2 * i + 1, 1u << 30); }, true, false},
    {"logs that are not read", h2Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)),
     [](int i) { return i < 1024 ? logsOf(2 * i + 1) : std::string(); }, true, false},
    {"logs on a connection that is not read", "",
     [](int i) { return i < 1024 ? logsOf(2 * i + 1) : std::string(); }, false, false},
};

kj::Promise<void> listen(kj::AsyncIoStream& stream) {
  kj::byte buffer[65'536];
  while (co_await stream.tryRead(buffer, 1, sizeof buffer) > 0) {
  }
}
kj::Promise<void> talk(kj::AsyncIoStream& stream, const Kind& kind) {
  auto bytes = hello() + kind.first;
  for (int i = 0;;) {
    for (auto end = bytes.size() + 8192; bytes.size() < end;) {
      auto part = kind.part(i++);
      if (part.empty()) break;
      bytes += part;
    }
    if (bytes.empty()) break;
    co_await stream.write(bytes.data(), bytes.size());
    bytes.clear();
  }
  co_await stream.whenWriteDisconnected();
}

struct Attack {
  kj::StringPtr name;
  kj::ArrayPtr<const Kind> kinds;  // at once
  unsigned connections;            // of each
  kj::Duration timeout;            // of a connection for being ended
};

// Again and again until the end.
kj::Promise<void> attack(kj::AsyncIoContext& io, TlsEndpoint& tls, const Kind& kind,
                         kj::Duration timeout, Tally& tally) {
  auto& timer = io.provider->getTimer();
  for (;;) {
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto address = co_await io.provider->getNetwork().parseAddress("10.0.0.1", kApidPort);
      auto stream = co_await tls.connectWithAlpn("h2", co_await address->connect(), "10.0.0.1");
      ++tally.attacks;
      auto talking = talk(*stream, kind);
      if (kind.reads) talking = talking.exclusiveJoin(listen(*stream));
      // A connection that the server does not end lasts `timeout`, and does not count as refused.
      co_await talking.exclusiveJoin(timer.afterDelay(timeout).then([&]() { --tally.refused; }));
      ++tally.refused;
    }).catch_([&](kj::Exception&&) { ++tally.refused; });
    co_await timer.afterDelay(20 * kj::MILLISECONDS);  // handshakes are not the point
  }
}
kj::Promise<void> attack(kj::AsyncIoContext& io, const Authority& authority, const Attack& what,
                         Tally& tally) {
  TlsEndpoint reader(authority.client("evil", kj::arr("os:reader"_kj)));
  kj::Vector<kj::Promise<void>> all;
  for (auto& kind : what.kinds) {
    for (unsigned i = 0; i < what.connections; ++i) {
      all.add(attack(io, reader, kind, what.timeout, tally));
    }
  }
  co_await kj::joinPromises(all.releaseAsArray());
}

// Runs an attack against a new apid while honest callers use both of its protocols.
Honest::Fared bear(const Attack& what) {
  SharedTally tally;
  Authority authority;
  ApidProcess node(authority, "10.0.0.1");
  Attacker attacker(*tally,
                    [&](kj::AsyncIoContext& io) { return attack(io, authority, what, *tally); });
  Honest honest(*tally);
  BothProtocols callers(honest, authority);
  callers.add("10.0.0.1");
  bool ended = false;
  for (auto& kind : what.kinds) ended = ended || kind.ended;
  ended = ended && attackTime() >= 2 * what.timeout;
  auto fared = honest.run(what.name, node.apid, kMostGrowthKiB, ended);
  // One connection may end for another reason.
  if (ended && what.kinds.size() == 1) {
    EXPECT_GT(8 * tally->refused, tally->attacks) << what.name.cStr() << " is borne";
  }
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
  return fared;
}

// Catches: a client of the second face that ends apid, makes it grow, or keeps it from answering
// others by either face.
TEST_F(Pack, SecondFace) {
  OwnNetwork network;
  auto* chosen = getenv("HOSTILE_ATTACK");
  if (chosen == nullptr) {
    bear({"second face", kKinds, 1, 3 * kj::SECONDS});
    return;
  }
  std::string table;
  for (auto& kind : kKinds) {
    if (kj::StringPtr(chosen) != "each" && kj::StringPtr(chosen) != kind.name) continue;
    // More connections than the one, and longer than the timeout of a client that does not read.
    auto fared = bear({kind.name, kj::arrayPtr(&kind, 1), 8, 30 * kj::SECONDS});
    char row[160];
    snprintf(row, sizeof row, "%-40s %8zu %8u %11.1f %10.1f\n", kind.name, fared.calls,
             fared.failed, fared.slowestMs, fared.mostKiB / 1024.0);
    table += row;
  }
  ASSERT_FALSE(table.empty()) << "no attack is called " << chosen;
  printf("%-40s %8s %8s %11s %10s\n%s", "ATTACK", "HONEST", "FAILED", "SLOWEST/ms", "MOST/MiB",
         table.c_str());
}

}  // namespace
}  // namespace talos::hostile
