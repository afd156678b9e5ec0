#include "apid/grpc/kernel-counters.h"

#include <sys/resource.h>

#include "apid/grpc/test-grpc-api.h"
#include "common/testing/sanitizers.h"

namespace talos::grpcapi {
namespace {

using testing::Message;

double doubleIn(const Message& message, uint32_t number) {
  return doubleOf(message.number(number));
}

// Catches: a counter under another counter's number, in each file.
TEST(Counters, LoadAverage) {
  Message load(loadAverage("0.50 1.25 2.00 1/123 4567\n"_kj));
  EXPECT_EQ(0.5, doubleIn(load, 2));
  EXPECT_EQ(1.25, doubleIn(load, 3));
  EXPECT_EQ(2.0, doubleIn(load, 4));
  EXPECT_EQ(0u, loadAverage(""_kj).size());
}

TEST(Counters, SystemStat) {
  Message stat(
      systemStat("cpu  100 200 300 400 500 600 700 800 900 1000\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
                 "intr 33 11 22\nctxt 7000\nbtime 1600000000\nprocesses 8000\nprocs_running 3\n"
                 "procs_blocked 1\nsoftirq 55 1 2 3 4 5 6 7 8 9 10\n"_kj));
  EXPECT_EQ(1600000000u, stat.number(2));
  EXPECT_EQ(1.0, doubleIn(stat.in(3), 1));
  EXPECT_EQ(10.0, doubleIn(stat.in(3), 10));
  EXPECT_EQ(1u, stat.count(4));
  EXPECT_EQ(0.1, doubleIn(stat.in(4), 10));
  EXPECT_EQ(33u, stat.number(5));
  EXPECT_EQ("\x0b\x16", stat.text(6));
  EXPECT_EQ(7000u, stat.number(7));
  EXPECT_EQ(8000u, stat.number(8));
  EXPECT_EQ(3u, stat.number(9));
  EXPECT_EQ(1u, stat.number(10));
  EXPECT_EQ(55u, stat.number(11));
  EXPECT_EQ(1u, stat.in(12).number(1));
  EXPECT_EQ(10u, stat.in(12).number(10));
}

TEST(Counters, ProcessorInfo) {
  Message info(processorInfo(
      "processor\t: 0\nvendor_id\t: Example\ncpu MHz\t\t: 2100.5\nsiblings\t: 2\n"
      "flags\t\t: fpu vme\npower management:\n\nprocessor\t: 1\nbogomips\t: 4200.00\n"_kj));
  ASSERT_EQ(2u, info.count(2));
  auto first = info.in(2, 0), second = info.in(2, 1);
  EXPECT_EQ("Example", first.text(2));
  EXPECT_EQ(2100.5, doubleIn(first, 8));
  EXPECT_EQ(2u, first.number(11));
  EXPECT_EQ("vme", first.text(20, 1));
  EXPECT_FALSE(first.has(26));
  EXPECT_EQ(1u, second.number(1));
  EXPECT_EQ(4200.0, doubleIn(second, 22));
}

TEST(Counters, Devices) {
  Message network(networkStats(
      "Inter-|   Receive |  Transmit\n face |bytes |bytes\n"
      "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0:100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
      "  bad: 1 2\n"_kj));
  ASSERT_EQ(2u, network.count(3));
  EXPECT_EQ("lo", network.in(3, 0).text(1));
  EXPECT_EQ(1u, network.in(3, 0).number(2));
  EXPECT_EQ(16u, network.in(3, 0).number(17));
  EXPECT_EQ("Total", network.in(2).text(1));
  EXPECT_EQ(101u, network.in(2).number(2));
  Message disks(
      diskStats(" 254  0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n 254 1 vda1 1 2 3\n"_kj));
  ASSERT_EQ(1u, disks.count(3));
  EXPECT_EQ("vda", disks.in(3).text(1));
  EXPECT_EQ(1u, disks.in(3).number(2));
  EXPECT_EQ(15u, disks.in(3).number(16));
  EXPECT_EQ(15u, disks.in(2).number(16));
  EXPECT_FALSE(disks.in(2).has(1)) << "the total has no name";
}

// Catches: files of one processor taken for another's; a number under the wrong field; a processor
// of zeros for an empty list.
TEST(Counters, Frequencies) {
  capnp::MallocMessageBuilder message;
  auto files = message.initRoot<rpc::Machine::CountersResults>().initFiles(6);
  EXPECT_EQ(0u, frequencies(capnp::List<rpc::CounterFile>::Reader()).size());
  auto set = [&](unsigned i, const char* path, const char* text) {
    files[i].setPath(kj::str("/sys/devices/system/cpu/", path));
    files[i].setText(text);
  };
  set(0, "cpu0/cpufreq/scaling_cur_freq", "2800000\n");
  set(1, "cpu0/cpufreq/scaling_min_freq", "800000\n");
  set(2, "cpu0/cpufreq/scaling_max_freq", "3600000\n");
  set(3, "cpu0/cpufreq/scaling_governor", "powersave\n");
  set(4, "cpu10/cpufreq/scaling_cur_freq", "<unknown>\n");
  set(5, "cpu10/cpufreq/scaling_governor", "performance\n");
  Message all(frequencies(files.asReader()));
  ASSERT_EQ(2u, all.count(2));
  auto first = all.in(2, 0), second = all.in(2, 1);
  EXPECT_EQ(2800000u, first.number(1));
  EXPECT_EQ(800000u, first.number(2));
  EXPECT_EQ(3600000u, first.number(3));
  EXPECT_EQ("powersave", first.text(4));
  EXPECT_FALSE(second.has(1));
  EXPECT_EQ("performance", second.text(4));
}

size_t peakKiB() {
  rusage usage;
  KJ_SYSCALL(getrusage(RUSAGE_SELF, &usage));
  return usage.ru_maxrss;
}

// Catches: a node's text with as many words as letters, each of which becomes an object: 4 MiB that
// need 120 MiB in apid.
TEST(Counters, ShortWordsCostNoMoreThanTheirText) {
  using Read = kj::Array<kj::byte> (*)(kj::ArrayPtr<const char>);
  for (auto first : {"intr", "cpu0", "softirq", "", "processor: 0\nflags:", "eth0:", "8 0 sda"}) {
    std::string text = first;
    while (text.size() + 2 <= 4u << 20) text += " 1";
    for (Read read : {loadAverage, systemStat, processorInfo, networkStats, diskStats}) {
      auto before = peakKiB();
      kj::runCatchingExceptions(
          [&] { EXPECT_LE(read(kj::arrayPtr(text.data(), text.size())).size(), 8u << 20); });
#ifndef TALOS_ADDRESS_SANITIZER
      EXPECT_LT(peakKiB(), before + (24u << 10)) << first;
#endif
    }
  }
}

// Catches: unlimited texts, lines and devices.
TEST(Counters, MoreThanAnyMachineHasIsRefused) {
  auto repeated = [](const char* line, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += line;
    return text;
  };
  struct Row {
    kj::Array<kj::byte> (*read)(kj::ArrayPtr<const char>);
    std::string text;
    const char* error;
  };
  auto device = "a: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
  Row rows[] = {
      {loadAverage, repeated("1 ", 3u << 20),
       "the node has sent 6291456 bytes of counters; at most 4194304 are read"},
      {systemStat, "intr " + repeated(" 1", 70'000),
       "the node has sent more than 65536 interrupts; no more are read"},
      {systemStat, repeated("cpu0 1\n", 20'000),
       "the node has sent more than 16384 lines of counters; no more are read"},
      {processorInfo, repeated("processor: 1\n", 20'000),
       "the node has sent more than 16384 processors; no more are read"},
      {networkStats, repeated(device, 20'000),
       "the node has sent more than 16384 devices; no more are read"},
  };
  for (auto& row : rows) {
    auto e = kj::runCatchingExceptions(
        [&] { row.read(kj::arrayPtr(row.text.data(), row.text.size())); });
    auto& refusal = KJ_REQUIRE_NONNULL(e, "it was accepted", row.error);
    EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(refusal));
    EXPECT_STREQ(row.error, messageOf(refusal).cStr());
  }
}

}  // namespace
}  // namespace talos::grpcapi
