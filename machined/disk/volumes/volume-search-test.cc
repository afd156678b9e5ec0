// Looks at the devices of a machine, some of which do not answer.
#include "machined/disk/volumes/volume-search.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/process1/test-busy-thread-pool.h"

namespace talos::machined {
namespace {

// The content of some devices never becomes known.
struct SilentForeign final : DirectForeign {
  std::set<std::string> silent;
  unsigned waiting = 0;
  std::vector<ReadDevice> busy;  // as reads of the device that do not end

  kj::Promise<OnDevice> superblock(kj::StringPtr node, ReadDevice read) override {
    if (silent.count(node.cStr()) == 0) return DirectForeign::superblock(node, kj::mv(read));
    ++waiting;
    busy.push_back(kj::mv(read));
    return kj::NEVER_DONE;
  }
};

// A sysfs with these whole disks; their nodes are the machine's own.
struct RealVolumesTest : testing::Test {
  ~RealVolumesTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestTree sys;
  SilentForeign foreign;
  int said = 0;
  RealVolumes volumes{io.unixEventPort,
                      timer,
                      foreign,
                      [this](kj::StringPtr) { ++said; },
                      [] { return Modules::ofRunningKernel(); },
                      sys.root};

  void disk(kj::StringPtr name, kj::StringPtr sequence = "1") {
    sys.directory(kj::str("class/block/", name));
    sys.file(kj::str("class/block/", name, "/size"), "8\n");
    sys.file(kj::str("class/block/", name, "/diskseq"), kj::str(sequence, "\n"));
  }
  void remove(kj::StringPtr name) {
    auto folder = kj::str("class/block/", name);
    for (auto file : {"size"_kj, "diskseq"_kj}) {
      KJ_SYSCALL(unlink(sys.at(kj::str(folder, "/", file)).cStr()));
    }
    KJ_SYSCALL(rmdir(sys.at(folder).cStr()));
  }
  std::string problems(kj::Promise<kj::Vector<Volume>> looking) {
    std::string all;
    for (auto& v : looking.wait(io.waitScope)) {
      all += std::string(v.device.name.cStr()) + " " + v.problem.cStr() + "\n";
    }
    return all;
  }
  // Returns the problems of a look that waits for one device until its timeout.
  std::string problemsLate() {
    auto before = foreign.waiting;
    auto looking = volumes.look();
    auto& real = io.provider->getTimer();
    auto deadline = real.now() + 10 * kj::SECONDS;
    while (foreign.waiting == before) {
      KJ_REQUIRE(real.now() < deadline, "no device was looked at");
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    timer.advanceTo(timer.now() + 10 * kj::SECONDS);
    return problems(kj::mv(looking));
  }
};

}  // namespace

// Catches: a device without a node, or an unreadable one, that is missing in the list.
TEST_F(RealVolumesTest, WhatCannotBeLookedAtSaysSo) {
  disk("absent");
  disk("shm");  // a folder, which can be opened and not read
  EXPECT_EQ(
      "shm cannot be read: Is a directory\n"
      "absent cannot be opened: No such file or directory\n",
      problems(volumes.look()));
}

// Catches: a device slower than the deadline that is missing in the list, also at the second look,
// or that is looked at again and occupies another thread.
TEST_F(RealVolumesTest, ASlowOneSaysSo) {
  disk("null");
  EXPECT_EQ("null \n", problems(volumes.look()));
  foreign.silent = {"/dev/null"};
  EXPECT_EQ("null did not respond within 10 s\n", problemsLate());
  EXPECT_EQ("null did not respond within 10 s\n", problems(volumes.look()));
  EXPECT_EQ(1u, foreign.waiting);
}

// Catches: a disk that was slow once and counts as unresponsive for ever; one that hangs and gets
// another thread with every look, or makes each look late.
TEST_F(RealVolumesTest, ASlowOneIsTriedAgain) {
  constexpr auto kLate = "null did not respond within 10 s\n", kRead = "null \n";
  disk("null");
  foreign.silent = {"/dev/null"};
  EXPECT_EQ(kLate, problemsLate());
  foreign.silent.clear();
  timer.advanceTo(timer.now() + 1 * kj::HOURS);
  EXPECT_EQ(kLate, problems(volumes.look())) << "its read has not ended";
  foreign.busy.clear();
  EXPECT_EQ(kRead, problems(volumes.look()));

  foreign.silent = {"/dev/null"};
  EXPECT_EQ(kLate, problemsLate());
  foreign.silent.clear();
  foreign.busy.clear();
  EXPECT_EQ(kLate, problems(volumes.look())) << "without a pause";
  timer.advanceTo(timer.now() + 20 * kj::SECONDS);
  EXPECT_EQ(kRead, problems(volumes.look()));
  EXPECT_EQ(2, said) << "each silence once";
}

// Catches: disks that hang, or a mount of the API, that occupy all threads of the brain and make a
// healthy disk seem unresponsive.
TEST_F(RealVolumesTest, ABusyBrainHasNoSlowDisks) {
  disk("null");
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  HeldPool busy(uv);
  EXPECT_EQ("null \n", problems(volumes.look()));
}

// Catches: a look that waits for ever for a kernel that does not list its disks, or that takes
// another thread with each attempt; a kernel that is not asked again once it has answered.
TEST_F(RealVolumesTest, AKernelThatListsNoDisksIsAnError) {
  constexpr auto kLate = "listing the disks: the kernel did not respond within 10 s";
  disk("null");
  auto size = sys.at("class/block/null/size");
  KJ_SYSCALL(unlink(size.cStr()));
  auto fifo = sys.at("fifo");
  KJ_SYSCALL(mkfifo(fifo.cStr(), 0600));  // its readers wait for a writer
  KJ_SYSCALL(link(fifo.cStr(), size.cStr()));
  auto failure = [&](kj::Promise<kj::Vector<Volume>> looking) -> std::string {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { looking.wait(io.waitScope); })) {
      return messageOf(*e).cStr();
    }
    return "";
  };
  auto first = volumes.look();
  auto second = volumes.look();  // of another caller
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  EXPECT_EQ(kLate, failure(kj::mv(first)));
  EXPECT_EQ(kLate, failure(kj::mv(second)));
  EXPECT_EQ(kLate, failure(volumes.look())) << "without another wait";
  EXPECT_EQ(kLate,
            failure(volumes.read("x", kj::arr(kj::str("y")), 1, 0 * kj::SECONDS).then([](auto&&) {
              return kj::Vector<Volume>();
            })));
  KJ_SYSCALL(unlink(size.cStr()));
  disk("null");
  auto& real = io.provider->getTimer();
  auto deadline = real.now() + 10 * kj::SECONDS;
  std::string now = kLate;
  while (now == kLate && real.now() < deadline) {
    kj::AutoCloseFd writer(open(fifo.cStr(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    writer = nullptr;
    now = failure(volumes.look());
  }
  EXPECT_EQ("", now);
}

// Catches: a disk that is taken for an unresponsive one because that had its name before.
TEST_F(RealVolumesTest, ANewDiskIsLookedAtAnew) {
  disk("null");
  foreign.silent = {"/dev/null"};
  EXPECT_EQ("null did not respond within 10 s\n", problemsLate());
  foreign.silent.clear();
  remove("null");
  EXPECT_EQ("", problems(volumes.look()));
  disk("null");
  EXPECT_EQ("null \n", problems(volumes.look()));
  // Replaced between two looks.
  foreign.silent = {"/dev/null"};
  EXPECT_EQ("null did not respond within 10 s\n", problemsLate());
  foreign.silent.clear();
  disk("null", "2");
  EXPECT_EQ("null \n", problems(volumes.look()));
}

// Catches: a hanging disc taken for a disc without the file, so that the machine has no config; a
// removed disc that counts as hanging.
TEST_F(RealVolumesTest, ADiscThatMayHaveTheFileIsNoAbsentOne) {
  disk("null");
  auto reading = [this] { return volumes.readDisc(kj::str("x"), 1, 0 * kj::SECONDS); };
  EXPECT_TRUE(reading().wait(io.waitScope) == nullptr);
  foreign.silent = {"/dev/null"};
  problemsLate();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { reading().wait(io.waitScope); })) {
    EXPECT_EQ("/dev/null does not respond", messageOf(*e));
  } else {
    ADD_FAILURE() << "no error";
  }
  remove("null");
  EXPECT_TRUE(reading().wait(io.waitScope) == nullptr);
}

}  // namespace talos::machined
