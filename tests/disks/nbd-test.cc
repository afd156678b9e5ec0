#include "tests/disks/nbd.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/encoding.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/disks/machine-disks.h"
#include "tests/disks/test-memory-medium.h"

namespace talos::disk {
namespace {

// A client of NBD in the same loop as its server.
class NbdClient {
 public:
  static constexpr uint32_t kSilence = UINT32_MAX;  // instead of an answer

  NbdClient(kj::WaitScope& scope, Export& disk)
      : scope(scope),
        pipe(kj::newTwoWayPipe()),
        serving(serveNbd(*pipe.ends[0],
                         [&disk](kj::StringPtr name) -> kj::Maybe<Export&> {
                           if (name.size() > 0) return nullptr;
                           return disk;
                         })
                    .then([this] { gone = true; }, [this](kj::Exception&&) { gone = true; })
                    .eagerlyEvaluate(nullptr)),
        reading(drain().eagerlyEvaluate(nullptr)) {}

  std::string data;  // of the last read

  void send(kj::StringPtr hex) { write(kj::decodeHex(hex)); }
  void write(kj::ArrayPtr<const kj::byte> bytes) {
    auto writing = pipe.ends[1]->write(bytes.begin(), bytes.size()).eagerlyEvaluate(nullptr);
    writing.poll(scope);
    scope.poll();
  }
  // Takes the next `count` received bytes, in hexadecimal.
  std::string take(size_t count) {
    scope.poll();
    count = std::min(count, heard.size());
    auto bytes = heard.substr(0, count);
    heard.erase(0, count);
    return kj::encodeHex(kj::StringPtr(bytes.data(), bytes.size()).asBytes()).cStr();
  }
  void negotiate() {
    send("00000003");
    send(
        "49484156454f505400000007000000060000000000"
        "00");
    take(18 + 32 + 34 + 20);
  }
  void request(uint16_t command, uint64_t offset, uint32_t length, const std::string& payload = "",
               uint16_t flags = 0) {
    std::string bytes;
    auto add = [&](uint64_t value, int size) {
      while (size-- > 0) bytes += static_cast<char>(value >> (8 * size));
    };
    add(0x25609513, 4), add(flags, 2), add(command, 2), add(++cookie, 8), add(offset, 8);
    add(length, 4);
    bytes += payload;
    write(kj::StringPtr(bytes.data(), bytes.size()).asBytes());
  }
  // Sends a request and returns the error of its answer.
  uint32_t ask(uint16_t command, uint64_t offset, uint32_t length, const std::string& payload = "",
               uint16_t flags = 0) {
    request(command, offset, length, payload, flags);
    auto answer = take(16);
    if (answer.empty()) return kSilence;
    auto number = [&](size_t at, size_t digits) {
      return std::stoull(answer.substr(at, digits), nullptr, 16);
    };
    KJ_REQUIRE(answer.size() == 32 && number(0, 8) == 0x67446698 && number(16, 16) == cookie);
    if (command == 0 && number(8, 8) == 0) {
      data = heard.substr(0, length);
      heard.erase(0, length);
    }
    KJ_REQUIRE(heard.empty(), "more than the answer");
    return static_cast<uint32_t>(number(8, 8));
  }
  bool ended() {
    scope.poll();
    return gone;
  }

 private:
  kj::WaitScope& scope;
  kj::TwoWayPipe pipe;
  bool gone = false;
  std::string heard;
  uint64_t cookie = 0x1122334455667700;
  kj::Promise<void> serving, reading;

  kj::Promise<void> drain() {
    kj::byte buffer[4096];
    for (;;) {
      auto n = co_await pipe.ends[1]->tryRead(buffer, 1, sizeof buffer);
      if (n == 0) co_return;
      heard.append(reinterpret_cast<const char*>(buffer), n);
    }
  }
};

constexpr uint16_t kRead = 0, kWrite = 1, kDisconnect = 2, kFlush = 3, kTrim = 4, kZeroes = 6;
constexpr uint32_t kInvalid = 22, kNoSpace = 28;

// A machine with two disks and a client of each.
struct Testbed {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  MachineDisks disks;
  kj::Vector<MemoryMedium*> media;
  kj::Vector<kj::Own<NbdClient>> clients;

  explicit Testbed(size_t count = 1) {
    for (size_t i = 0; i < count; ++i) {
      auto medium = kj::heap<MemoryMedium>(16 * kSector);
      media.add(medium.get());
      clients.add(kj::heap<NbdClient>(scope, disks.add(kj::mv(medium))));
    }
  }
  NbdClient& client(size_t i = 0) { return *clients[i]; }
  // "17: lost 2 of 3 torn", "waiting", or the refusal.
  std::string cut(uint64_t atWrite, uint64_t seed = 0) {
    auto text = kj::heap<std::string>("waiting");
    auto& result = *text;
    cuts.add(kj::evalNow([&] { return disks.cut(atWrite, seed); })
                 .then(
                     [&result](Cut cut) {
                       result = kj::str(cut.atWrite, ": kept ", cut.kept, " of ", cut.unflushed,
                                        cut.torn ? " torn" : "")
                                    .cStr();
                     },
                     [&result](kj::Exception&& e) { result = messageOf(e).cStr(); })
                 .eagerlyEvaluate(nullptr));
    texts.add(kj::mv(text));
    scope.poll();
    return result;
  }
  std::string answer(size_t i) {
    scope.poll();
    return *texts[i];
  }
  kj::Vector<kj::Own<std::string>> texts;
  kj::Vector<kj::Promise<void>> cuts;
};

// Catches: a handshake that QEMU does not understand, unknown options that end it, a size or flags
// that are not the disk's.
TEST(Nbd, Negotiation) {
  Testbed bed;
  auto& it = bed.client();
  EXPECT_EQ(it.take(18), "4e42444d4147494349484156454f50540003");
  it.send("00000003");
  it.send(
      "49484156454f5054"
      "00000008"
      "00000000");  // structured replies: not done
  EXPECT_EQ(it.take(20),
            "0003e889045565a9"
            "00000008"
            "80000001"
            "00000000");
  it.send(
      "49484156454f5054"
      "00000007"
      "00000008"
      "00000002"
      "6162"
      "0000");
  EXPECT_EQ(it.take(20),
            "0003e889045565a9"
            "00000007"
            "80000006"
            "00000000")
      << "no such export";
  it.send(
      "49484156454f5054"
      "00000007"
      "00000006"
      "00000002"
      "0001");
  EXPECT_EQ(it.take(20),
            "0003e889045565a9"
            "00000007"
            "80000003"
            "00000000")
      << "truncated";
  it.send(
      "49484156454f5054"
      "00000007"
      "00000008"
      "00000000"
      "0001"
      "0003");
  EXPECT_EQ(it.take(32),
            "0003e889045565a9"
            "00000007"
            "00000003"
            "0000000c"
            "0000"
            "0000000000002000"
            "006d");
  EXPECT_EQ(it.take(34),
            "0003e889045565a9"
            "00000007"
            "00000003"
            "0000000e"
            "0003"
            "00000200"
            "00001000"
            "02000000");
  EXPECT_EQ(it.take(20),
            "0003e889045565a9"
            "00000007"
            "00000001"
            "00000000");
}

// Catches: a request that reaches beyond the disk or is done in part, a payload that is read as the
// next request, an unknown flag that is accepted.
TEST(Nbd, RequestsAndRefusals) {
  Testbed bed;
  auto& it = bed.client();
  it.negotiate();
  EXPECT_EQ(it.ask(kWrite, 0, kSector, std::string(kSector, 'a')), 0);
  EXPECT_EQ(it.ask(kWrite, 15 * kSector, 2 * kSector, std::string(2 * kSector, 'b')), kNoSpace);
  EXPECT_EQ(it.ask(kWrite, UINT64_MAX - 511, kSector, std::string(kSector, 'b')), kNoSpace);
  EXPECT_EQ(it.ask(kWrite, 1, kSector, std::string(kSector, 'b')), kInvalid);
  EXPECT_EQ(it.ask(kRead, 16 * kSector, kSector), kInvalid);
  EXPECT_EQ(it.ask(kRead, 0, UINT32_MAX - 511), kInvalid);
  EXPECT_EQ(it.ask(5, 0, kSector), kInvalid);
  EXPECT_EQ(it.ask(kRead, 0, 2 * kSector), 0);
  EXPECT_EQ(it.data, std::string(kSector, 'a') + std::string(kSector, '\0'));
  EXPECT_EQ(it.ask(kTrim, 0, kSector), 0);
  EXPECT_EQ(it.ask(kZeroes, 0, kSector, "", 2), 0) << "no hole";
  EXPECT_EQ(it.ask(kTrim, 0, kSector, "", 2), kInvalid);
  EXPECT_EQ(it.ask(kFlush, 0, 0), 0);
  EXPECT_EQ(it.ask(kRead, 0, kSector), 0);
  EXPECT_EQ(it.data, std::string(kSector, '\0'));
  bed.media[0]->full = true;
  EXPECT_EQ(it.ask(kWrite, 0, kSector, std::string(kSector, 'a')), kNoSpace);
  it.request(kDisconnect, 0, 0);
  EXPECT_TRUE(it.ended());
}

// Catches: a violation of the protocol that is answered all the same, or kept until memory is full.
TEST(Nbd, AClientThatBreaksTheProtocolIsLeft) {
  for (auto bytes : {"00000007", "00000002"}) {
    Testbed bed;
    bed.client().send(bytes);
    EXPECT_TRUE(bed.client().ended()) << bytes;
  }
  for (auto bytes : {"4948415645000000"
                     "00000007"
                     "00000000",
                     "49484156454f5054"
                     "00000007"
                     "00010000"}) {
    Testbed bed;
    bed.client().send("00000001");
    bed.client().send(bytes);
    EXPECT_TRUE(bed.client().ended()) << bytes;
  }
  {
    Testbed bed;
    bed.client().negotiate();
    bed.client().request(kWrite, 0, kMostAtOnce + kSector);
    EXPECT_TRUE(bed.client().ended());
  }
  Testbed bed;
  bed.client().negotiate();
  bed.client().send("2560951400000000000000000000000000000000000000000000000000000000");
  EXPECT_TRUE(bed.client().ended());
}

// Catches: a cut that comes too early or late, counts one disk alone or reads and flushes too;
// anything that is answered or written afterwards.
TEST(MachineDisks, AreCutAtTheWrite) {
  Testbed bed(2);
  for (size_t i : {0, 1}) bed.client(i).negotiate();
  auto write = [&](size_t i, uint64_t sector, char letter) {
    return bed.client(i).ask(kWrite, sector * kSector, kSector, std::string(kSector, letter));
  };
  EXPECT_EQ(write(0, 0, 'a'), 0);
  EXPECT_EQ(bed.client(0).ask(kFlush, 0, 0), 0);
  EXPECT_EQ(bed.cut(4), "waiting");
  EXPECT_EQ(write(0, 1, 'b'), 0);
  EXPECT_EQ(bed.client(0).ask(kFlush, 0, 0), 0);
  EXPECT_EQ(bed.client(1).ask(kRead, 0, kSector), 0);
  EXPECT_EQ(write(1, 0, 'c'), 0);
  EXPECT_EQ(bed.client(1).ask(kTrim, 0, kSector), 0);
  EXPECT_EQ(bed.answer(0), "waiting");
  EXPECT_EQ(bed.client(0).ask(kWrite, 2 * kSector, kSector, std::string(kSector, 'd'), 1),
            NbdClient::kSilence);
  EXPECT_EQ(bed.answer(0), "4: kept 0 of 3");
  EXPECT_EQ(bed.client(1).ask(kFlush, 0, 0), NbdClient::kSilence);
  EXPECT_EQ(bed.media[0]->bytes[0], 'a');
  EXPECT_EQ(bed.media[0]->bytes[kSector], 'b');
  EXPECT_EQ(bed.media[0]->bytes[2 * kSector], 0) << "not answered: its FUA promises nothing";
  EXPECT_EQ(bed.media[1]->bytes[0], 0);
  EXPECT_EQ(bed.cut(0), "its power was already cut");
}

// Catches: a cut whose caller has gone, two cuts that wait for each other's writes, a cut that
// waits forever.
TEST(MachineDisks, OneCutIsWaitedForAtATime) {
  Testbed bed;
  auto& it = bed.client();
  it.negotiate();
  auto write = [&] { return it.ask(kWrite, 0, kSector, std::string(kSector, 'a')); };
  EXPECT_EQ(bed.cut(1), "waiting");
  EXPECT_EQ(bed.cut(1), "its power is already to be cut, at write 1 of another cut");
  bed.cuts.clear();
  EXPECT_EQ(write(), 0) << "dropped";
  EXPECT_EQ(bed.cut(2), "waiting");
  EXPECT_EQ(write(), 0);
  EXPECT_FALSE(bed.disks.isOff());
  EXPECT_EQ(bed.cut(0), "0: kept 0 of 2");
  EXPECT_EQ(bed.answer(2), "its power was cut before that write");
  EXPECT_TRUE(bed.disks.isOff());
}

// Catches: a cut that cannot be repeated, disks that fail alike, a count that differs from the
// disk.
TEST(MachineDisks, ASeedRepeatsACut) {
  auto after = [](uint64_t seed) {
    Testbed bed(2);
    std::string left;
    for (size_t i : {0, 1}) {
      bed.client(i).negotiate();
      for (char sector = 0; sector < 16; sector += 2) {
        bed.client(i).ask(kWrite, sector * kSector, 2 * kSector, std::string(2 * kSector, 'a'));
      }
    }
    left += bed.cut(0, seed) + " ";
    unsigned kept = 0;
    for (auto medium : bed.media) {
      for (size_t i = 0; i < medium->bytes.size(); i += kSector) {
        left += medium->bytes[i] == 0 ? '.' : 'a';
        kept += i % (2 * kSector) == 0 && medium->bytes[i] != 0;
      }
      left += ' ';
    }
    EXPECT_TRUE(left.starts_with(kj::str("0: kept ", kept, " of 16").cStr())) << left;
    EXPECT_NE(left.substr(left.size() - 34, 16), left.substr(left.size() - 17, 16)) << left;
    return left;
  };
  std::vector<std::string> all;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    all.push_back(after(seed));
    EXPECT_EQ(all.back(), after(seed));
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace talos::disk
