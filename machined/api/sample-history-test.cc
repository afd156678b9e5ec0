#include "machined/api/sample-history.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::machined {
namespace {

SampleSources sources(uint64_t uptimeMs, kj::StringPtr stat, kj::StringPtr disks,
                      kj::StringPtr links) {
  SampleSources s{.uptimeMs = uptimeMs,
                  .stat = kj::str(stat),
                  .load = kj::str("0.52 0.40 0.31 2/345 6789\n"),
                  .disks = kj::str(disks),
                  .links = kj::str(links),
                  .pressureCpu = kj::str("some avg10=1.25 avg60=0.00 avg300=0.00 total=5\n"),
                  .pressureMemory = kj::str("full avg=x\n"),
                  .pressureIo = nullptr,
                  .memory = {},
                  .realDisks = {},
                  .realLinks = {}};
  s.memory.add(MemoryLine{kj::str("MemTotal"), 2048, kj::str("kB")});
  s.memory.add(MemoryLine{kj::str("MemAvailable"), 512, kj::str("kB")});
  s.realDisks.add(kj::str("vda"));
  s.realLinks.add(kj::str("eth0"));
  return s;
}

constexpr kj::StringPtr kDisksBefore =
    " 254 0 vda 10 0 100 0 5 0 40 0 0 0 0\n 254 1 vda1 9 0 90 0 5 0 40 0 0 0 0\n"_kj;
constexpr kj::StringPtr kDisksAfter =
    " 254 0 vda 20 0 300 0 9 0 140 0 0 0 0\n 254 1 vda1 9 0 290 0 9 0 140 0 0 0 0\n"
    " 7 0 loop0 1 0 900 0 0 0 0 0 0 0 0\n"_kj;
constexpr kj::StringPtr kLinksBefore =
    "Inter-| Receive | Transmit\n face |bytes packets\n  lo: 7 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n"
    "eth0:1000 0 0 0 0 0 0 0 500 0 0 0 0 0 0 0\n"_kj;
constexpr kj::StringPtr kLinksAfter =
    "  lo: 99 0 0 0 0 0 0 0 99 0 0 0 0 0 0 0\n"
    "  eth0: 5000 0 0 0 0 0 0 0 2500 0 0 0 0 0 0 0\n"_kj;

// Catches: partitions, loop devices and lo that are counted, bytes that are not per second, steal
// that counts as idle.
TEST(SampleMaker, RatesBetweenTwoMoments) {
  SampleMaker maker;
  EXPECT_TRUE(maker.next(sources(1000, "cpu 100 0 100 800 0 0 0 0 0 0\n", kDisksBefore,
                                 kLinksBefore)) == nullptr);
  auto sample = KJ_ASSERT_NONNULL(
      maker.next(sources(3000, "cpu 130 10 115 1120 10 3 2 10 0 0\n", kDisksAfter, kLinksAfter)));
  // 40 user, 20 system, 10 waiting, 10 stolen, 320 idle: 400 ticks.
  EXPECT_EQ(sample.cpuBusy, 175);
  EXPECT_EQ(sample.cpuSystem, 50);
  EXPECT_EQ(sample.cpuIowait, 25);
  EXPECT_EQ(sample.cpuSteal, 25);
  EXPECT_EQ(sample.diskRead, 200u * 512 / 2);
  EXPECT_EQ(sample.diskWritten, 100u * 512 / 2);
  EXPECT_EQ(sample.networkReceived, 2000u);
  EXPECT_EQ(sample.networkSent, 1000u);
  EXPECT_EQ(sample.processes, 345u);
  EXPECT_FLOAT_EQ(sample.load1, 0.52f);
  EXPECT_EQ(sample.memoryTotal, 2048u << 10);
  EXPECT_EQ(sample.memoryAvailable, 512u << 10);
  EXPECT_FLOAT_EQ(sample.pressureCpu, 1.25f);
  EXPECT_EQ(sample.pressureMemory, 0);
}

// Catches: the host's CPU as that of a node in a container; a limit that is ignored.
TEST(SampleMaker, ANodeInAContainerHasTheCpuOfItsGroup) {
  constexpr kj::StringPtr kHost =
      "cpu 100 0 100 800 0\ncpu0 50 0 50 400 0\ncpu1 50 0 50 400 0\n"_kj;
  constexpr kj::StringPtr kBusyHost =
      "cpu 900 0 300 800 0\ncpu0 450 0 1 1 0\ncpu1 450 0 1 1 0\n"_kj;
  struct Row {
    kj::StringPtr limit;
    unsigned busy, system;
  };
  // In 2 s of two processors the group had 0.5 s, of which 0.1 s were the kernel's.
  for (auto& row : {Row{"max 100000\n", 125, 25}, Row{"50000 100000\n", 500, 100},
                    Row{"900000 100000\n", 125, 25}, Row{"", 125, 25}}) {
    SampleMaker maker;
    auto before = sources(1000, kHost, "", ""), now = sources(3000, kBusyHost, "", "");
    before.groupCpu = kj::str("usage_usec 200000\nuser_usec 100000\nsystem_usec 100000\n");
    now.groupCpu = kj::str("usage_usec 700000\nuser_usec 500000\nsystem_usec 200000\n");
    before.groupLimit = kj::str(row.limit), now.groupLimit = kj::str(row.limit);
    maker.next(before);
    auto sample = KJ_ASSERT_NONNULL(maker.next(now));
    EXPECT_EQ(sample.cpuBusy, row.busy) << row.limit.cStr();
    EXPECT_EQ(sample.cpuSystem, row.system) << row.limit.cStr();
  }
}

// Catches: a disk that was removed, or a counter that was reset, as a rate of 2^64.
TEST(SampleMaker, CountersThatGoBack) {
  SampleMaker maker;
  maker.next(sources(1000, "cpu 100 0 100 800 50\n", kDisksAfter, kLinksAfter));
  auto sample =
      KJ_ASSERT_NONNULL(maker.next(sources(2000, "cpu 100 0 100 900 40\n", "", kLinksBefore)));
  EXPECT_EQ(sample.diskRead, 0u);
  EXPECT_EQ(sample.networkReceived, 0u);
  EXPECT_EQ(sample.cpuIowait, 0);
  EXPECT_TRUE(maker.next(sources(2000, "", "", "")) == nullptr);
}

// Catches: an order that begins with the newest sample, a ring that drops samples too early or
// returns more than requested.
TEST(SampleHistory, KeepsFiveMinutes) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ReadPool pool(timer, {}, [](kj::StringPtr) {});
  SampleHistory history(pool, timer, {});
  auto ask = [&](uint64_t lastMs) {
    capnp::MallocMessageBuilder message;
    auto results = message.initRoot<rpc::Machine::SamplesResults>();
    history.fill(lastMs, results);
    kj::Vector<uint64_t> times;
    for (auto sample : results.asReader().getSamples()) times.add(sample.getUptimeMs());
    return times;
  };
  EXPECT_EQ(ask(0).size(), 0u);
  for (uint64_t i = 1; i <= kSamplesKept + 5; ++i) history.add({.uptimeMs = i * 1000});
  auto all = ask(0);
  ASSERT_EQ(all.size(), kSamplesKept);
  EXPECT_EQ(all.front(), 6000u);
  EXPECT_EQ(all.back(), 305'000u);
  auto last = ask(2000);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0], 304'000u);
  EXPECT_EQ(ask(1'000'000).size(), kSamplesKept);
}

// Catches: sources that this kernel has elsewhere.
TEST(SampleHistory, ReadsThisKernel) {
  auto sources = readSampleSources(
      {kj::str("/proc"), kj::str("/sys"), kj::str("/sys/fs/cgroup"), kj::str("/nowhere")}, 1000);
  SampleMaker maker;
  maker.next(sources);
  sources.uptimeMs = 2000;
  auto sample = KJ_ASSERT_NONNULL(maker.next(sources));
  EXPECT_GT(sample.memoryTotal, sample.memoryAvailable);
  EXPECT_GT(sample.processes, 0u);
}

}  // namespace
}  // namespace talos::machined
