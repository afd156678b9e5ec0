#include "machined/disk/volumes/file-system-trim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "machined/resources/controller-outputs.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kTrimMounts =
    "21 1 7:0 / / ro - squashfs /dev/loop0 ro\n"
    "23 21 254:5 / /system/state rw - xfs /dev/vda5 rw\n"
    "24 21 254:6 / /var rw - xfs /dev/vda6 rw\n"
    "25 21 254:17 / /var/mnt/cd ro - iso9660 /dev/sr0 ro\n"
    "28 21 8:1 / /var/lib/kubelet/pods/1/volumes/csi/mount rw - xfs /dev/sda1 rw\n";

struct TrimTest : public StoreTest {
  ~TrimTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ControllerRuntime runtime{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};
  uint64_t seconds = 3600;
  bool goesDown = false, supported = true, fails = false;
  uint64_t parts = 1;  // of each file system
  std::vector<std::string> trimmed, said, problems;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> held;
  bool holds = false;

  void SetUp() override {
    runtime.add(kj::heap<FilesystemTrimController>(FilesystemTrimController::Dependencies{
        .timer = timer,
        .clock = clock,
        .node = kj::str("node-1"),
        .mounts = []() -> kj::Promise<kj::String> { return kj::str(kTrimMounts); },
        .targets =
            [this]() {
              kj::Vector<kj::String> targets;
              if (goesDown) return targets;
              for (auto target : {"/system/state", "/var", "/var/mnt/cd"})
                targets.add(kj::str(target));
              return targets;
            },
        .intervals =
            [this](Store&) {
              kj::Vector<TrimInterval> all;
              if (seconds > 0) all.add(TrimInterval{kj::str(), seconds});
              all.add(TrimInterval{kj::str("/system/state"), 0});
              return all;
            },
        .trim = [this](kj::String mountpoint, uint64_t offset) -> kj::Promise<TrimmedPart> {
          trimmed.push_back(kj::str(mountpoint, " ", offset / kTrimPart).cStr());
          if (holds) {
            auto paf = kj::newPromiseAndFulfiller<void>();
            held = kj::mv(paf.fulfiller);
            co_await paf.promise;
          }
          if (fails) fail(ErrorKind::kUnavailable, "Input/output error");
          bool last = offset / kTrimPart + 1 == parts;
          co_return TrimmedPart{.bytes = 1'000'000'000, .supported = supported, .last = last};
        },
        .say = [this](kj::StringPtr line) { said.push_back(line.cStr()); },
        .changed =
            [this](kj::Vector<kj::String> all) {
              problems.clear();
              for (auto& problem : all) problems.push_back(problem.cStr());
            }}));
    Outputs<rpc::MachineStatusSpec> outputs("test");
    outputs.add("machine").setStage("running");
    outputs.apply(store);
    scope.poll();
  }
  // Lets minutes pass, on both clocks.
  void pass(unsigned minutes) {
    for (unsigned i = 0; i < minutes; ++i) {
      clock.time += 1 * kj::MINUTES;
      advance(timer, scope, 1 * kj::MINUTES);
    }
    advance(timer, scope, 1 * kj::SECONDS);
  }
};

}  // namespace

// Catches: a boot that trims; a volume of a pod, a read-only file system or one that is off that is
// trimmed; a time that comes twice.
TEST_F(TrimTest, EachIntervalTrimsOnce) {
  EXPECT_THAT(trimmed, IsEmpty());
  pass(60);
  EXPECT_THAT(trimmed, ElementsAre("/var 0"));
  EXPECT_THAT(said, ElementsAre("/var: trimmed; the disk was told of 1.0 GB of unused blocks"));
  pass(60);
  EXPECT_THAT(trimmed, ElementsAre("/var 0", "/var 0"));
  seconds = 0;
  pass(120);
  EXPECT_EQ(2u, trimmed.size());
}

// Catches: a problem that is not reported, or that stays after a success; a disk that cannot be
// told which is a problem, or fills the log.
TEST_F(TrimTest, AFailureIsAProblemUntilASuccess) {
  fails = true;
  pass(60);
  EXPECT_THAT(problems, ElementsAre("/var: cannot be trimmed: Input/output error"));
  EXPECT_THAT(said, IsEmpty());
  fails = supported = false;
  pass(120);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(3u, trimmed.size());
  EXPECT_THAT(said, ElementsAre("/var: not trimmed, because its disk cannot be told of unused "
                                "blocks"));
}

// Catches: a shutdown that cannot unmount because a trim continues; a second trim beside a slow
// one.
TEST_F(TrimTest, AShutdownEndsATrimBetweenItsParts) {
  parts = 3;
  holds = true;
  pass(60);
  EXPECT_THAT(trimmed, ElementsAre("/var 0"));
  pass(60);
  EXPECT_THAT(trimmed, ElementsAre("/var 0")) << "it is not over";
  KJ_ASSERT_NONNULL(held)->fulfill();
  scope.poll();
  EXPECT_THAT(trimmed, ElementsAre("/var 0", "/var 1"));
  goesDown = true;
  KJ_ASSERT_NONNULL(held)->fulfill();
  scope.poll();
  EXPECT_EQ(2u, trimmed.size());
}

// Catches: all nodes of a cluster that trim at one moment; times of the grid that are not an
// interval apart.
TEST(Trim, TimesDifferBetweenNodesAndFileSystems) {
  auto firstAfter = [](kj::StringPtr node, kj::StringPtr mountpoint) {
    uint64_t at = 1'700'000'000, before = trimTime(at, 3600, node, mountpoint);
    while (trimTime(at, 3600, node, mountpoint) == before) ++at;
    EXPECT_EQ(before + 1, trimTime(at + 3599, 3600, node, mountpoint));
    EXPECT_EQ(before + 2, trimTime(at + 3600, 3600, node, mountpoint));
    return at;
  };
  EXPECT_NE(firstAfter("a", "/var"), firstAfter("b", "/var"));
  EXPECT_NE(firstAfter("a", "/var"), firstAfter("a", "/system/state"));
  EXPECT_EQ(firstAfter("a", "/var"), firstAfter("a", "/var"));
  auto all = kj::arr(TrimInterval{kj::str("/var"), 5}, TrimInterval{kj::str(), 7});
  EXPECT_EQ(5u, trimIntervalOf(all, "/var"));
  EXPECT_EQ(7u, trimIntervalOf(all, "/system/state"));
  EXPECT_EQ(0u, trimIntervalOf(all.slice(0, 1), "/system/state"));
}

// Catches: a file system without discards that counts as a failure, or as trimmed.
TEST(Trim, AFileSystemInMemoryIsNotSupported) {
  EXPECT_FALSE(trimPart("/proc", 0).supported);
  EXPECT_ANY_THROW((void)trimPart("/no/such/folder", 0));
}

}  // namespace talos::machined
