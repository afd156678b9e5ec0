#include "machined/crashes/crash-reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/crash/service-page.h"
#include "common/testing/test-tree.h"
#include "machined/crashes/service-pages.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/test-store.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct CrashReportsTest : testing::Test {
  ~CrashReportsTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  UvLoop uv{io.unixEventPort, timer};
  Registry registry;
  TestClock clock;
  TestTree tree;
  FakeMachine machine;
  kj::String folder = tree.at("crashes");
  bool mounted = true;
  kj::Vector<kj::String> said;

  // A brain; the machine and STATE outlive it.
  struct Brain {
    FakeProcess1 process1;
    Logs logs;
    ServicePages pages;
    Store store;
    CrashReports reports;
    explicit Brain(CrashReportsTest& test)
        : process1(test.machine),
          logs(process1, test.io.unixEventPort),
          pages(process1),
          store(test.registry, test.clock),
          reports(CrashReports::Dependencies{
              .uv = test.uv,
              .timer = test.timer,
              .clock = test.clock,
              .logs = logs,
              .store = store,
              .version = kj::str("v1"),
              .say = [&test](kj::StringPtr line) { test.said.add(kj::str(line)); },
              .mounted = [&test]() { return test.mounted; },
              .folder = test.folder}) {}
    std::vector<std::string> ids() const {
      std::vector<std::string> all;
      for (auto& report : store.list<rpc::CrashReportSpec>()) all.push_back(report.id().cStr());
      return all;
    }
  };
  kj::Own<Brain> start(bool journal = false) {
    auto brain = kj::heap<Brain>(*this);
    if (journal) brain->store.attachJournal(brain->process1).wait(io.waitScope);
    return brain;
  }

  static crash::CrashRecord record(int signal = SIGSEGV) {
    return KJ_ASSERT_NONNULL(crash::parseCrashRecord(
        kj::str("signal ", signal, "\nprogram apid\nbuild-id 0a\npid 7\naddress 0x8\nframe 0x40\n",
                "map\n00-01 r\n")));
  }
  std::vector<std::string> files() {
    std::vector<std::string> all;
    for (auto& name : namesIn(folder)) all.push_back(name.cStr());
    return all;
  }
  // Waits until all requested work of the disk's thread is done.
  void settle(Brain& brain) { brain.reports.written().wait(io.waitScope); }
};

// Catches: a core that is lost with a boot, belongs to another report, is left when its report has
// gone, or is readable for others.
TEST_F(CrashReportsTest, ACoreGoesWithItsReport) {
  auto brain = start();
  brain->reports.begin().wait(io.waitScope);
  auto addCore = [&](char fill) {
    auto made = record();
    made.core = kj::heapArray<kj::byte>(100'000);
    for (auto& b : made.core) b = static_cast<kj::byte>(fill);
    clock.time = clock.time + 1 * kj::SECONDS;
    auto id = brain->reports.add("apid", kj::mv(made));
    settle(*brain);
    return id;
  };
  auto none = brain->reports.add("apid", record());
  auto id = addCore('a');
  auto file = kj::str(folder, "/", id, ".core.zst");
  struct stat info;
  ASSERT_EQ(0, stat(file.cStr(), &info));
  EXPECT_EQ(0600u, info.st_mode & 07777);
  EXPECT_LT(info.st_size, 1000);

  machine = FakeMachine();
  brain = nullptr;
  brain = start();
  auto get = [&](kj::StringPtr name) {
    auto packed = brain->reports.core(name).wait(io.waitScope);
    auto out = kj::heapArray<char>(200'000);
    auto size = ZSTD_decompress(out.begin(), out.size(), packed.begin(), packed.size());
    EXPECT_EQ(100'000u, size);
    return out[0];
  };
  auto kindOfRefusal = [&](auto&& call) {
    auto failure = kj::runCatchingExceptions([&]() { call(); });
    return kindOf(KJ_ASSERT_NONNULL(failure));
  };
  // The store has the report already, while STATE is not mounted yet.
  EXPECT_EQ(ErrorKind::kNotFound, kindOfRefusal([&]() { get(id); }));
  brain->reports.begin().wait(io.waitScope);
  EXPECT_EQ('a', get(id));
  EXPECT_EQ(100'000u, KJ_ASSERT_NONNULL(brain->store.tryGet<rpc::CrashReportSpec>(id)).getCore());
  EXPECT_EQ(ErrorKind::kNotFound, kindOfRefusal([&]() { get(none); }));
  EXPECT_EQ(ErrorKind::kNotFound, kindOfRefusal([&]() { get("../apid"); }));
  mounted = false;
  EXPECT_EQ(ErrorKind::kUnavailable, kindOfRefusal([&]() { get(id); }));
  EXPECT_EQ(ErrorKind::kUnavailable,
            kindOfRefusal([&]() { brain->reports.remove(id).wait(io.waitScope); }));
  mounted = true;

  auto other = addCore('b');
  EXPECT_EQ('b', get(other));
  EXPECT_EQ('a', get(id));
  brain->reports.remove(other).wait(io.waitScope);
  EXPECT_THAT(files(), ElementsAre(none.cStr(), id.cStr(), kj::str(id, ".core.zst").cStr()));
  EXPECT_EQ(ErrorKind::kNotFound,
            kindOfRefusal([&]() { brain->reports.remove(other).wait(io.waitScope); }));
  for (char c : {'c', 'd', 'e'}) addCore(c);
  EXPECT_EQ(6u, files().size());  // three, with their cores
  EXPECT_EQ(ErrorKind::kNotFound, kindOfRefusal([&]() { get(id); }));
}

// Catches: a report that is lost with the reboot, or is only half as long.
TEST_F(CrashReportsTest, OutlivesABoot) {
  auto brain = start();
  brain->reports.begin().wait(io.waitScope);
  brain->logs.append("apid", "level=info message=one\nlevel=info message=two\n"_kj);
  auto id = brain->reports.add("apid", record());
  EXPECT_EQ("apid-20231114T221320Z"_kj, id);
  settle(*brain);
  EXPECT_THAT(files(), ElementsAre(id.cStr()));
  struct stat info;
  ASSERT_EQ(0, stat(kj::str(folder, "/", id).cStr(), &info));
  EXPECT_EQ(0600u, info.st_mode & 07777);

  machine = FakeMachine();
  brain = nullptr;
  auto next = start();
  EXPECT_THAT(next->ids(), IsEmpty());
  next->reports.begin().wait(io.waitScope);
  auto report = KJ_ASSERT_NONNULL(next->store.tryGet<rpc::CrashReportSpec>(id));
  EXPECT_EQ("SIGSEGV"_kj, report.getSignal());
  EXPECT_EQ("0x8"_kj, report.getAddress());
  EXPECT_EQ("0a"_kj, report.getBuildId());
  ASSERT_EQ(1u, report.getStack().size());
  EXPECT_EQ("0x40"_kj, report.getStack()[0]);
  EXPECT_EQ("00-01 r"_kj, report.getMap()[0]);
  ASSERT_EQ(2u, report.getLog().size());
  EXPECT_EQ("level=info message=two"_kj, report.getLog()[1]);
  EXPECT_THAT(said, IsEmpty());
}

// Catches: a service in a loop of crashes that fills STATE, or removes another's report.
TEST_F(CrashReportsTest, KeepsTheNewestOfEachService) {
  auto brain = start();
  brain->reports.begin().wait(io.waitScope);
  brain->reports.add("vipd", record());
  for (int i = 0; i < 9; ++i) {
    brain->reports.add("apid", record());
    clock.time = clock.time + 1 * kj::SECONDS;
  }
  settle(*brain);
  auto expected = ElementsAre("apid-20231114T221326Z", "apid-20231114T221327Z",
                              "apid-20231114T221328Z", "vipd-20231114T221320Z");
  EXPECT_THAT(brain->ids(), expected);
  EXPECT_THAT(files(), expected);
}

// Catches: a second crash within a second that replaces the first one. Catches: a crash before the
// clock is set, whose time is older than all others, and that is removed although the service's
// event names it.
TEST_F(CrashReportsTest, ANewCrashIsNewWhateverTheClockSays) {
  {
    auto brain = start();
    brain->reports.begin().wait(io.waitScope);
    for (int i = 0; i < 3; ++i) {
      clock.time = clock.time + 1 * kj::SECONDS;
      brain->reports.add("apid", record());
    }
    settle(*brain);
  }
  machine = FakeMachine();
  auto brain = start();
  clock.time = clock.time - 400 * kj::DAYS;
  auto early = brain->reports.add("apid", record());
  brain->reports.begin().wait(io.waitScope);
  settle(*brain);
  auto kept = ElementsAre(early.cStr(), "apid-20231114T221322Z", "apid-20231114T221323Z");
  EXPECT_THAT(brain->ids(), kept);
  EXPECT_THAT(files(), kept);
  auto next = brain->reports.add("apid", record());
  EXPECT_THAT(brain->ids(), ElementsAre(early.cStr(), next.cStr(), "apid-20231114T221323Z"));
}

TEST_F(CrashReportsTest, TwoInOneSecondAreTwo) {
  auto brain = start();
  brain->reports.add("apid", record());
  brain->reports.add("apid", record(SIGABRT));
  EXPECT_THAT(brain->ids(), ElementsAre("apid-20231114T221320Z", "apid-20231114T221320Z-2"));
}

// Catches: a crash before STATE is mounted that is forgotten; a crash that a brain could not write
// before its own end.
TEST_F(CrashReportsTest, WritesWhatCameBefore) {
  auto brain = start(true);
  auto id = brain->reports.add("networkd", record());
  settle(*brain);
  EXPECT_THAT(files(), IsEmpty());
  brain = nullptr;
  brain = start(true);
  brain->reports.begin().wait(io.waitScope);
  settle(*brain);
  EXPECT_THAT(files(), ElementsAre(id.cStr()));
  // While STATE is being unmounted.
  mounted = false;
  brain->reports.add("kubed", record());
  settle(*brain);
  EXPECT_EQ(1u, files().size());
}

// Catches: a file of a damaged disk that stops the boot, or gets into the store.
TEST_F(CrashReportsTest, PassesOverWhatIsNoReport) {
  makeDirectories(folder);
  auto put = [&](kj::StringPtr name, kj::ArrayPtr<const char> content) {
    writeFileAtomically(kj::str(folder, "/", name), content, 0600);
  };
  put("apid-20231114T221320Z", "not a message"_kj);
  put("vipd-20231114T221320Z", nullptr);
  {
    auto brain = start();
    brain->reports.begin().wait(io.waitScope);
    brain->reports.add("kubed", record());
    settle(*brain);
  }
  // A report under the name of another service.
  auto content = readFile(kj::str(folder, "/kubed-20231114T221320Z"));
  put("trustd-20231114T221320Z", content);
  auto next = start();
  next->reports.begin().wait(io.waitScope);
  EXPECT_THAT(next->ids(), ElementsAre("kubed-20231114T221320Z"));
  settle(*next);
  EXPECT_THAT(files(), ElementsAre("kubed-20231114T221320Z"));
}

// Catches: a log that makes a report too large to keep.
TEST_F(CrashReportsTest, TakesTheEndOfALongLog) {
  auto brain = start();
  auto longLine = kj::heapString(4000);
  for (char& c : longLine) c = 'x';
  for (int i = 0; i < 60; ++i) brain->logs.append("apid", kj::str(longLine, i, "\n"));
  for (int i = 0; i < 60; ++i) brain->logs.append("vipd", kj::str("line ", i, "\n"));
  auto apid = brain->reports.add("apid", record()), vipd = brain->reports.add("vipd", record());
  auto lines = [&](kj::StringPtr id) {
    return KJ_ASSERT_NONNULL(brain->store.tryGet<rpc::CrashReportSpec>(id)).getLog();
  };
  EXPECT_EQ(4u, lines(apid).size());
  ASSERT_EQ(kMostLogLines, lines(vipd).size());
  EXPECT_EQ("line 10"_kj, lines(vipd)[0]);
  EXPECT_EQ("line 59"_kj, lines(vipd)[49]);
}

// Catches: a record that is reported twice; a record that a restart of the brain loses.
TEST_F(CrashReportsTest, APageOutlivesTheBrain) {
  auto brain = start();
  int page = brain->pages.open("apid").wait(io.waitScope);
  EXPECT_EQ(page, brain->pages.open("apid").wait(io.waitScope));
  EXPECT_TRUE(brain->pages.takeRecord("apid") == nullptr);
  EXPECT_TRUE(brain->pages.takeRecord("nobody") == nullptr);
  constexpr kj::StringPtr kText = "signal 11\nprogram apid\n"_kj;
  uint32_t size = kText.size();
  pwrite(page, kText.begin(), size, offsetof(crash::ServicePage, record));
  pwrite(page, &size, sizeof size, offsetof(crash::ServicePage, size));
  brain->pages.setLevel("apid", log::Level::kDebug);

  brain = nullptr;
  brain = start();
  EXPECT_EQ(SIGSEGV, KJ_ASSERT_NONNULL(brain->pages.takeRecord("apid")).signal);
  EXPECT_TRUE(brain->pages.takeRecord("apid") == nullptr);
  EXPECT_EQ(log::Level::kDebug, brain->pages.level("apid"));
  EXPECT_EQ(log::Level::kInfo, brain->pages.level("nobody"));
  EXPECT_ANY_THROW(brain->pages.setLevel("nobody", log::Level::kDebug));
}

// Catches: a core that comes with another report, stays in memory, or is larger than its place.
TEST_F(CrashReportsTest, ACoreIsTakenWithItsRecord) {
  auto brain = start();
  int page = brain->pages.open("apid").wait(io.waitScope);
  EXPECT_FALSE(brain->pages.keepsCores("apid"));
  brain->pages.setKeepsCores("apid", true);
  EXPECT_TRUE(brain->pages.keepsCores("apid"));
  EXPECT_ANY_THROW(brain->pages.setKeepsCores("nobody", true));
  constexpr kj::StringPtr kText = "signal 11\nprogram apid\n"_kj;
  auto crash = [&](uint32_t coreSize) {
    uint32_t size = kText.size();
    pwrite(page, kText.begin(), size, offsetof(crash::ServicePage, record));
    pwrite(page, &size, sizeof size, offsetof(crash::ServicePage, size));
    pwrite(page, "core", 4, offsetof(crash::ServicePage, core));
    pwrite(page, &coreSize, sizeof coreSize, offsetof(crash::ServicePage, coreSize));
    return KJ_ASSERT_NONNULL(brain->pages.takeRecord("apid"));
  };
  EXPECT_EQ("core"_kj.asBytes(), crash(4).core);
  struct stat info;
  ASSERT_EQ(0, fstat(page, &info));
  EXPECT_LE(info.st_blocks * 512, 64 << 10);
  EXPECT_EQ(0u, crash(0).core.size());
  EXPECT_EQ(crash::kMostCore, crash(0xffffffffu).core.size());
  EXPECT_TRUE(brain->pages.keepsCores("apid"));
}

// Catches: a page that a program makes larger or smaller than the mappings of others; a size in the
// page that leads beyond its end.
TEST_F(CrashReportsTest, NothingInAPageIsTrusted) {
  auto brain = start();
  int page = brain->pages.open("apid").wait(io.waitScope);
  EXPECT_EQ(-1, ftruncate(page, 1));
  EXPECT_EQ(-1, ftruncate(page, 2 * crash::kServicePageSize));
  uint32_t size = 0xffffffffu;
  pwrite(page, &size, sizeof size, offsetof(crash::ServicePage, size));
  uint8_t level = 77;
  pwrite(page, &level, 1, offsetof(crash::ServicePage, level));
  EXPECT_TRUE(brain->pages.takeRecord("apid") == nullptr);
  EXPECT_EQ(log::Level::kInfo, brain->pages.level("apid"));
}

}  // namespace
}  // namespace talos::machined
