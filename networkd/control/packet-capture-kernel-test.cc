// Captures against the real kernel, in network namespaces that each test creates. Needs root;
// nothing leaves the namespace.
#include "networkd/control/packet-capture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <linux/filter.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"
#include "common/testing/virtual-time.h"
#include "networkd/control/pcap-format.h"

namespace talos::networkd {
namespace {

constexpr auto kCaptureTimeout = 120 * kj::SECONDS;

uint32_t numberAt(kj::ArrayPtr<const kj::byte> bytes, size_t at) {
  uint32_t value;
  memcpy(&value, bytes.slice(at, at + 4).begin(), 4);
  return value;
}

// The received bytes, the end of each write, and the promise that a write waits for.
struct Received {
  kj::Vector<kj::byte> bytes;
  kj::Vector<size_t> ends;
  kj::Maybe<kj::Promise<void>> held;  // only the next write
};

class Collector final : public rpc::ByteSink::Server {
 public:
  explicit Collector(Received& received) : received(received) {}
  kj::Promise<void> write(WriteContext context) override {
    kj::Promise<void> done = kj::READY_NOW;
    KJ_IF_MAYBE (held, received.held) done = kj::mv(*held);
    received.held = nullptr;
    received.bytes.addAll(context.getParams().getBytes());
    received.ends.add(received.bytes.size());
    return done;
  }

 private:
  Received& received;
};

struct Fixture {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Own<Captures> captures = openCaptures(io.unixEventPort, io.provider->getTimer());
  Received received;
  kj::Vector<kj::byte>& bytes = received.bytes;

  Fixture() {
    auto kernel = netlink::openKernel();
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "lo"));
  }
  kj::Promise<Captures::Counts> begin(kj::StringPtr link, kj::ArrayPtr<const sock_filter> filter,
                                      uint64_t durationMs = 0, uint32_t snapLength = 0) {
    capnp::MallocMessageBuilder message;
    auto wanted = message.initRoot<rpc::Network::CaptureParams>();
    wanted.setLink(link);
    wanted.setDurationMs(durationMs);
    wanted.setSnapLength(snapLength);
    wanted.setSink(kj::heap<Collector>(received));
    auto steps = wanted.initFilter(filter.size());
    for (auto i : kj::indices(filter)) {
      steps[i].setCode(filter[i].code), steps[i].setK(filter[i].k);
      steps[i].setJt(filter[i].jt), steps[i].setJf(filter[i].jf);
    }
    return captures->capture(wanted);
  }
  void send(kj::StringPtr text, uint16_t port) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    sendto(fd, text.begin(), text.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to));
    close(fd);
  }
  std::string text() const { return {bytes.asPtr().asChars().begin(), bytes.size()}; }
  // Sends until the packet is captured: a capture starts with a delay.
  void sendUntilCaptured(kj::StringPtr payload) {
    auto& timer = io.provider->getTimer();
    auto deadline = timer.now() + kCaptureTimeout;
    while (text().find(payload.cStr()) == std::string::npos && timer.now() < deadline) {
      send(payload, 4000);
      timer.afterDelay(5 * kj::MILLISECONDS).wait(io.waitScope);
    }
    EXPECT_NE(text().find(payload.cStr()), std::string::npos);
  }
};

// Catches: a file that readers refuse; a packet cut before the snap length or not at it.
TEST(CaptureKernel, WhatPassesALinkIsAPcapFile) {
  inNamespace([] {
    Fixture f;
    auto running = f.begin("lo", {}, 0, 48);
    f.sendUntilCaptured("hello");
    auto bytes = f.bytes.asPtr();
    EXPECT_EQ(numberAt(bytes, 0), 0xa1b23c4du);
    EXPECT_EQ(numberAt(bytes, 16), 48u);
    EXPECT_EQ(numberAt(bytes, 20), 1u);  // Ethernet
    // Every record is whole, and the packet is 14 + 20 + 8 + 5 bytes.
    size_t records = 0;
    for (size_t at = 24; at < bytes.size(); ++records) {
      ASSERT_LE(at + 16, bytes.size());
      EXPECT_GT(numberAt(bytes, at), 1'600'000'000u);
      EXPECT_LT(numberAt(bytes, at + 4), 1'000'000'000u);
      auto captured = numberAt(bytes, at + 8), length = numberAt(bytes, at + 12);
      EXPECT_LE(captured, 48u);
      EXPECT_LE(captured, length);
      at += 16 + captured;
      EXPECT_LE(at, bytes.size());
    }
    EXPECT_GE(records, 2u);  // Loopback sends and receives each packet.
  });
}

// Runs the loop for this time, and reads the sockets.
void letPass(Fixture& f, kj::Duration time) {
  f.io.provider->getTimer().afterDelay(time).wait(f.io.waitScope);
}

// Catches: a packet that arrived during a write and is not read until the next packet.
TEST(CaptureKernel, SeesWhatCameDuringAWrite) {
  inNamespace([] {
    Fixture f;
    auto gate = kj::newPromiseAndFulfiller<void>();
    f.received.held = kj::mv(gate.promise);
    auto running = f.begin("lo", {}).eagerlyEvaluate(nullptr);
    letPass(f, 1 * kj::MILLISECONDS);
    f.send("once", 4000);
    letPass(f, 1 * kj::MILLISECONDS);
    gate.fulfiller->fulfill();
    auto& timer = f.io.provider->getTimer();
    auto deadline = timer.now() + kCaptureTimeout / 4;
    while (f.text().find("once") == std::string::npos && timer.now() < deadline) {
      letPass(f, 5 * kj::MILLISECONDS);
    }
    EXPECT_NE(f.text().find("once"), std::string::npos);
  });
}

// Catches: packets received in time that are lost or miscounted, packets after the end, a write
// that ends within a record.
TEST(CaptureKernel, WhatWasHeardUntilTheEndIsSentWhole) {
  inNamespace([] {
    Fixture f;
    auto gate = kj::newPromiseAndFulfiller<void>();
    f.received.held = kj::mv(gate.promise);
    auto running = f.begin("lo", {}, 20).eagerlyEvaluate(nullptr);
    auto text = kj::str(kj::repeat('x', 3001));
    constexpr unsigned kSent = 40;
    for (unsigned i = 0; i < kSent; ++i) f.send(text, 4000);
    letPass(f, 100 * kj::MILLISECONDS);  // by the clock of the capture's end
    f.send("after", 4000);
    gate.fulfiller->fulfill();
    auto counts = running.wait(f.io.waitScope);
    EXPECT_GE(counts.packets, 2u * kSent);  // the packets and the ICMP errors for the closed port
    EXPECT_EQ(counts.dropped, 0u);
    EXPECT_EQ(f.text().find("after"), std::string::npos);
    auto bytes = f.bytes.asPtr();
    size_t records = 0, write = 0;
    for (size_t at = 24; at < bytes.size(); ++records) {
      while (write < f.received.ends.size() && f.received.ends[write] < at) ++write;
      ASSERT_LE(at + 16, f.received.ends[write] == at ? bytes.size() : f.received.ends[write]);
      auto next = at + 16 + numberAt(bytes, at + 8);
      if (f.received.ends[write] != at) ASSERT_LE(next, f.received.ends[write]);
      at = next;
    }
    EXPECT_EQ(records, counts.packets);
    EXPECT_GT(f.received.ends.size(), 2u);
    size_t from = 0;
    for (auto end : f.received.ends) {
      EXPECT_LE(end - from, 64u << 10);
      from = end;
    }
  });
}

// Catches: a filter that is not attached before the first packet.
TEST(CaptureKernel, AFilterLeavesOutTheOthers) {
  inNamespace([] {
    Fixture f;
    // Passes UDP to port 4000, as tcpdump -dd 'udp dst port 4000' on Ethernet without fragments.
    const sock_filter only4000[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 262144),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    auto running = f.begin("lo", only4000);
    f.send("quiet", 4001);
    f.sendUntilCaptured("loud");
    EXPECT_EQ(f.text().find("quiet"), std::string::npos);
  });
}

TEST(CaptureKernel, EndsWithItsDurationAndCounts) {
  inNamespace([] {
    Fixture f;
    auto counts = f.begin("lo", {}, 10).wait(f.io.waitScope);
    EXPECT_EQ(counts.packets, 0u);
    EXPECT_EQ(counts.dropped, 0u);
    EXPECT_EQ(f.bytes.size(), 24u);
  });
}

// Catches: a refusal without its error, and a slot that a refused or ended capture keeps.
TEST(CaptureKernel, RefusesWhatItCannotDo) {
  inNamespace([] {
    Fixture f;
    auto refused = [&](kj::Promise<Captures::Counts> promise, ErrorKind kind, const char* words) {
      auto e = kj::runCatchingExceptions([&] { promise.wait(f.io.waitScope); });
      EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), kind);
      EXPECT_NE(strstr(messageOf(KJ_ASSERT_NONNULL(e)).cStr(), words), nullptr)
          << messageOf(KJ_ASSERT_NONNULL(e)).cStr();
    };
    refused(f.begin("eth9", {}), ErrorKind::kNotFound, "there is no link \"eth9\"");
    refused(f.begin("", {}), ErrorKind::kNotFound, "there is no link \"\"");
    refused(f.begin("lo", {}, 0, 1u << 30), ErrorKind::kInvalidArgument, "must be at most 262144");
    const sock_filter endless[] = {BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0)};
    refused(f.begin("lo", endless), ErrorKind::kInvalidArgument, "the kernel refuses the filter");
    {
      kj::Vector<kj::Promise<Captures::Counts>> running;
      for (unsigned i = 0; i < kMostCaptures; ++i) running.add(f.begin("lo", {}));
      refused(f.begin("lo", {}), ErrorKind::kResourceExhausted, "which is the most");
    }
    f.begin("lo", {}, 1).wait(f.io.waitScope);
  });
}

// Catches: a client that reads nothing and keeps one of the few captures for ever, or loses it
// while it is only slow.
TEST(CaptureKernel, ClientThatTakesNothingLosesItsPlace) {
  inNamespace([] {
    Fixture f;
    kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
    f.captures = openCaptures(f.io.unixEventPort, timer);
    auto gate = kj::newPromiseAndFulfiller<void>();
    f.received.held = kj::mv(gate.promise);
    auto slow = f.begin("lo", {}).eagerlyEvaluate(nullptr);
    advance(timer, f.io.waitScope, 59 * kj::SECONDS);
    gate.fulfiller->fulfill();
    advance(timer, f.io.waitScope, 60 * kj::SECONDS);
    EXPECT_FALSE(slow.poll(f.io.waitScope));
    kj::Vector<kj::Promise<Captures::Counts>> stuck;
    for (unsigned i = 1; i < kMostCaptures; ++i) {
      f.received.held = kj::Promise<void>(kj::NEVER_DONE);
      stuck.add(f.begin("lo", {}).eagerlyEvaluate(nullptr));
      f.io.waitScope.poll();
    }
    advance(timer, f.io.waitScope, 60 * kj::SECONDS);
    for (auto& capture : stuck) {
      auto e = kj::runCatchingExceptions([&] { capture.wait(f.io.waitScope); });
      EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(e)),
                "the capture of lo ended: its client took nothing for 60 s");
    }
    auto next = f.begin("lo", {});
    EXPECT_FALSE(next.poll(f.io.waitScope)) << "a place is free again";
  });
}

// Catches: a tag in the wrong place or order; a tag that makes a record longer than its header
// says.
TEST(PcapFormat, ATagIsPutBack) {
  kj::byte frame[20];
  for (size_t i = 0; i < sizeof(frame); ++i) frame[i] = static_cast<kj::byte>(i);
  kj::Vector<kj::byte> out;
  addPcapRecord(out, {{1, 2}, frame, 100, CapturedPacket::Tag{0x8100, 0x2005}}, 18);
  ASSERT_EQ(out.size(), 16u + 18u);
  EXPECT_EQ(numberAt(out, 8), 18u);
  EXPECT_EQ(numberAt(out, 12), 104u);
  const kj::byte tag[] = {11, 0x81, 0x00, 0x20, 0x05, 12, 13};
  EXPECT_EQ(memcmp(out.begin() + 16 + 11, tag, sizeof(tag)), 0);
  EXPECT_EQ(pcapLinkType(ARPHRD_NONE).orDefault(0), 101u);
  EXPECT_EQ(pcapLinkType(ARPHRD_INFINIBAND), nullptr);
}

}  // namespace
}  // namespace talos::networkd
