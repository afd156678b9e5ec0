#include "machined/disk/volumes/node-reset.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/devices/test-sysfs.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

BlockDevice device(kj::StringPtr name, kj::StringPtr label, uint64_t bytes = 1 << 20) {
  BlockDevice d;
  d.name = kj::str(name);
  d.disk = kj::heapString(name.slice(0, 3));
  d.partitionName = kj::str(label);
  d.bytes = bytes;
  d.whole = name.size() == 3;
  return d;
}
kj::Vector<BlockDevice> machineDisks() {
  kj::Vector<BlockDevice> devices;
  devices.add(device("vda", ""));
  devices.add(device("vda4", "META"));
  devices.add(device("vda5", "STATE", 100 << 20));
  devices.add(device("vda6", "EPHEMERAL", uint64_t{1} << 30));
  devices.add(device("vdb", ""));
  devices.add(device("vdb1", "user-disk-1"));
  return devices;
}
kj::Vector<kj::String> labels(std::initializer_list<kj::StringPtr> given) {
  kj::Vector<kj::String> result;
  for (auto label : given) result.add(kj::str(label));
  return result;
}
kj::String shown(const ResetPlan& plan) {
  auto targets = KJ_MAP(t, plan.targets) {
    return kj::str(t.label, "=", t.device);
  };
  return kj::str(plan.disk, ": ", kj::strArray(targets, " "));
}
kj::String failureOf(kj::Function<void()> act) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { act(); })) {
    return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
  }
  return kj::str("none");
}

// Catches: a mark that is read as another request than the written one; a foreign mark that erases.
TEST(ResetMark, MarkIsReadAsWritten) {
  struct Row {
    bool reboot;
    kj::Vector<kj::String> labels;
    kj::StringPtr mark;
  };
  Row rows[] = {{true, labels({}), "reboot"},
                {false, labels({}), "off"},
                {true, labels({"STATE", "EPHEMERAL"}), "reboot STATE EPHEMERAL"},
                {false, labels({"META"}), "off META"}};
  for (auto& row : rows) {
    ResetRequest request;
    request.labels = kj::mv(row.labels);
    request.reboot = row.reboot;
    EXPECT_EQ(markOf(request), row.mark);
    auto back = KJ_ASSERT_NONNULL(requestOfMark(row.mark));
    EXPECT_EQ(back.reboot, row.reboot);
    EXPECT_EQ(markOf(back), row.mark);
    EXPECT_EQ(erases(back, "EPHEMERAL"), row.mark != "off META");
  }
  for (auto bad : {""_kj, "rebooted"_kj, "reboot "_kj, " off"_kj, "off state"_kj, "off STATE\n"_kj,
                   "STATE"_kj, "reboot  STATE"_kj}) {
    EXPECT_EQ(requestOfMark(bad), nullptr) << bad.cStr();
  }
}

// Catches: a partition of another disk in the plan; a label that is not looked for.
TEST(ResetPlan, IsOfTheSystemDisk) {
  auto devices = machineDisks();
  EXPECT_EQ(shown(planReset(devices, nullptr)),
            "/dev/vda: META=/dev/vda4 STATE=/dev/vda5 EPHEMERAL=/dev/vda6");
  EXPECT_EQ(shown(planReset(devices, labels({"EPHEMERAL"}))), "/dev/vda: EPHEMERAL=/dev/vda6");
  EXPECT_EQ(
      failureOf([&] { planReset(devices, labels({"STATE", "state"})); }),
      "InvalidArgument: \"state\" is not a label of a system partition; use EFI, BIOS, BOOT, META, "
      "STATE, EPHEMERAL");
  EXPECT_EQ(failureOf([&] { planReset(devices, labels({"EFI"})); }),
            "NotFound: /dev/vda has no partition EFI");
  devices.add(device("vdc1", "META"));
  EXPECT_EQ(failureOf([&] { planReset(devices, nullptr); }),
            "Conflict: META: more than one partition is named META: /dev/vda4, /dev/vdc1; remove "
            "the disks that are not this node's");
  EXPECT_EQ(failureOf([] { planReset(nullptr, nullptr); }),
            "FailedPrecondition: this node has no partition META; it is made when the node is "
            "installed on a "
            "disk");
}

// The folders of a container, and many brains.
struct FolderResetTest : testing::Test {
  FolderResetTest() {
    char name[] = "/tmp/reset-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    root = kj::str(name);
    state = kj::str(root, "/state"), var = kj::str(root, "/var");
    for (auto& folder : {kj::str(state), kj::str(var, "/lib/x")}) makeDirectories(folder);
    writeFileAtomically(kj::str(state, "/config.yaml"), "a"_kj, 0600);
    writeFileAtomically(kj::str(var, "/lib/x/data"), "b"_kj, 0600);
    writeFileAtomically(kj::str(var, "/reset"), "b"_kj, 0600);
    mounted(true);
  }
  ~FolderResetTest() noexcept override {
    brain = nullptr;
    removeTree(root);
  }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::Own<FakeMachine> machine = kj::heap<FakeMachine>();
  kj::String root, state, var;
  kj::Vector<kj::String> said;
  struct Brain {
    FakeProcess1 process1;
    kj::Own<Reset> reset;
    explicit Brain(FolderResetTest& test)
        : process1(*test.machine),
          reset(resetOfFolders(
              process1, test.uv, [&test](kj::StringPtr line) { test.said.add(kj::str(line)); },
              test.state, test.var, test.mountinfo())) {}
  };
  kj::Maybe<kj::Own<Brain>> brain;

  kj::String mountinfo() const { return kj::str(root, "/mountinfo"); }
  void mounted(bool both) {
    auto line = [](kj::StringPtr at) { return kj::str("1 1 0:1 / ", at, " rw - x x rw\n"); };
    auto text = both ? kj::str(line(state), line(var)) : line(var);
    writeFileAtomically(mountinfo(), text, 0600);
  }
  Reset& boot() {
    brain = nullptr;
    return *brain.emplace(kj::heap<Brain>(*this))->reset;
  }
  bool exists(kj::StringPtr path) {
    struct stat info;
    return lstat(kj::str(root, "/", path).cStr(), &info) == 0;
  }
  // Resolves with true if it then reboots.
  kj::Maybe<bool> finish(Reset& reset) {
    return reset.finishMarked([]() {}).wait(io.waitScope);
  }
};

// Catches: a reset that another brain or another boot does not know, that leaves its mark or the
// data, or that cannot be repeated.
TEST_F(FolderResetTest, APromiseOutlastsBrainAndBoot) {
  auto& first = boot();
  EXPECT_EQ(first.promised(), nullptr);
  EXPECT_TRUE(finish(first) == nullptr);
  EXPECT_TRUE(exists("state/config.yaml"));
  first.promise({labels({}), true, false}).wait(io.waitScope);
  EXPECT_EQ(failureOf([&] { first.promise({}).wait(io.waitScope); }),
            "FailedPrecondition: this node is being reset already");

  auto& second = boot();  // another brain of this boot
  auto held = KJ_ASSERT_NONNULL(second.promised());
  EXPECT_TRUE(held.reboot);
  EXPECT_FALSE(held.graceful);

  brain = nullptr;
  machine = kj::heap<FakeMachine>();  // another boot
  auto& third = boot();
  EXPECT_EQ(third.promised(), nullptr);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(finish(third)));
  auto expectEmpty = [&]() {
    EXPECT_FALSE(exists("state/config.yaml") || exists("var/lib") || exists("state/reset"));
    EXPECT_FALSE(exists("var/reset")) << "it is no mark there";
    EXPECT_TRUE(exists("state") && exists("var"));
  };
  expectEmpty();
  writeFileAtomically(kj::str(state, "/config.yaml"), "new"_kj, 0600);
  EXPECT_TRUE(finish(third) == nullptr);
  EXPECT_TRUE(exists("state/config.yaml"));
  third.promise({}).wait(io.waitScope);
  for (int twice = 0; twice < 2; ++twice) {
    third.carryOutPromised().wait(io.waitScope);
    expectEmpty();
  }
}

// Catches: labels that are ignored, or labels of a disk that a container lacks.
TEST_F(FolderResetTest, OnlyWhatWasAskedFor) {
  auto& reset = boot();
  EXPECT_EQ(shown(reset.plan(labels({})).wait(io.waitScope)),
            kj::str(": STATE=", state, " EPHEMERAL=", var));
  EXPECT_EQ(failureOf([&] { reset.promise({labels({"BOOT"})}).wait(io.waitScope); }),
            "NotFound: a node in a container has no partition BOOT; use STATE or EPHEMERAL");
  reset.promise({labels({"EPHEMERAL"})}).wait(io.waitScope);
  EXPECT_TRUE(exists("state/reset"));
  reset.carryOutPromised().wait(io.waitScope);
  EXPECT_TRUE(exists("state/config.yaml"));
  EXPECT_FALSE(exists("var/lib") || exists("state/reset"));
}

// Catches: a promise that process 1 keeps although its mark could not be written; a foreign mark.
TEST_F(FolderResetTest, WhatIsNotMarkedIsNotPromised) {
  auto& reset = boot();
  mounted(false);
  EXPECT_EQ(failureOf([&] { reset.promise({}).wait(io.waitScope); }),
            kj::str("FailedPrecondition: nothing is mounted at ", state,
                    ", so this node keeps nothing that could be erased"));
  mounted(true);
  makeDirectories(kj::str(state, "/reset"));  // in place of the file
  EXPECT_NE(failureOf([&] { reset.promise({}).wait(io.waitScope); }), "none");
  EXPECT_EQ(reset.promised(), nullptr);
  EXPECT_EQ(boot().promised(), nullptr);
  removeTree(kj::str(state, "/reset"));
  writeFileAtomically(kj::str(state, "/reset"), "all of it"_kj, 0600);
  EXPECT_TRUE(finish(boot()) == nullptr);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0],
            kj::str("warning: what ", state, "/reset says of a reset is not valid; ignored"));
}

// A disk that may store a mark without confirming it, or fail during the erasure.
struct ModelReset final : Reset {
  struct Disk {
    kj::Maybe<kj::String> mark;
    kj::StringPtr fails = "";                 // the step that does
    bool late = false;                        // after it has had its effect
    bool gone = false;                        // META is
    kj::Promise<void> ready = kj::READY_NOW;  // to take the next mark
    std::string steps;
    kj::Vector<kj::String> said;
  };
  Disk& disk;
  ModelReset(Process1& process1, Disk& disk)
      : Reset(process1, [&disk](kj::StringPtr line) { disk.said.add(kj::str(line)); }),
        disk(disk) {}

  void step(kj::StringPtr name, kj::Function<void()> effect) {
    disk.steps += (disk.steps.empty() ? "" : " ") + std::string(name.cStr());
    if (disk.fails != name || disk.late) effect();
    if (disk.fails == name) fail(ErrorKind::kDeadlineExceeded, kj::str(name, " timed out"));
  }
  kj::Promise<ResetPlan> plan(kj::Vector<kj::String>) override { return ResetPlan(); }
  kj::Promise<kj::Maybe<ResetRequest>> marked() override {
    kj::Maybe<ResetRequest> request;
    KJ_IF_MAYBE (text, disk.mark) request = requestOfMark(*text);
    return kj::mv(request);
  }
  kj::Promise<void> carryOut(ResetRequest request) override {
    step(kj::str("erase ", kj::strArray(request.labels, "+")), [this]() { disk.mark = nullptr; });
    co_return;
  }
  kj::Promise<void> mark(kj::String text) override {
    if (disk.gone) fail(ErrorKind::kFailedPrecondition, "no META");
    co_await kj::mv(disk.ready);
    disk.ready = kj::READY_NOW;
    step("mark", [&]() { disk.mark = kj::str(text); });
  }
  kj::Promise<void> unmark() override {
    step("unmark", [&]() { disk.mark = nullptr; });
    co_return;
  }
};

kj::Promise<void> nothing() {
  return kj::READY_NOW;
}

struct ResetOrder : testing::Test {
  ~ResetOrder() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;
  ModelReset::Disk disk;
  // Each call uses another brain.
  kj::String promise(kj::StringPtr label) {
    FakeProcess1 process1(machine);
    ModelReset reset(process1, disk);
    return failureOf([&] { reset.promise({labels({label}), true, true}).wait(scope); });
  }
  kj::String carryOut() {
    FakeProcess1 process1(machine);
    ModelReset reset(process1, disk);
    return failureOf([&] { reset.carryOutPromised().wait(scope); });
  }
  bool promised() {
    FakeProcess1 process1(machine);
    return ModelReset(process1, disk).promised() != nullptr;
  }
};

// Catches: a refused reset that is done nevertheless, now or by the next boot; an unknown result
// that is not reported.
TEST_F(ResetOrder, WhatFailedIsNotDoneLater) {
  for (bool late : {false, true}) {
    disk.late = late;
    disk.fails = "mark";
    EXPECT_EQ(promise("STATE"), "DeadlineExceeded: mark timed out");
    EXPECT_EQ(disk.mark, nullptr);
    EXPECT_FALSE(promised());
  }
  disk.fails = "";
  disk.steps.clear();
  EXPECT_EQ(carryOut(), "none");
  EXPECT_EQ(disk.steps, "") << "nothing was asked for";

  struct NeverUnmarked : Reset {
    using Reset::Reset;
    kj::Promise<ResetPlan> plan(kj::Vector<kj::String>) override { return ResetPlan(); }
    kj::Promise<kj::Maybe<ResetRequest>> marked() override { KJ_UNIMPLEMENTED("not asked"); }
    kj::Promise<void> carryOut(ResetRequest) override { KJ_UNIMPLEMENTED("not asked"); }
    kj::Promise<void> mark(kj::String) override { fail(ErrorKind::kUnavailable, "no answer"); }
    kj::Promise<void> unmark() override { fail(ErrorKind::kUnavailable, "still none"); }
  };
  FakeProcess1 process1(machine);
  NeverUnmarked reset(process1, [](kj::StringPtr) {});
  EXPECT_EQ(failureOf([&] { reset.promise({}).wait(scope); }),
            "Unavailable: no answer; whether the next boot resets the node is not known (still "
            "none); repeat the reset, or delete its mark from META");
}

// Catches: two resets at once, the second of which replaces the promise to the first caller.
TEST_F(ResetOrder, SecondResetIsRefusedWhileOneRuns) {
  FakeProcess1 process1(machine);
  ModelReset reset(process1, disk);
  auto gate = kj::newPromiseAndFulfiller<void>();
  disk.ready = kj::mv(gate.promise);
  auto first = reset.promise({labels({"EPHEMERAL"}), true, true});
  EXPECT_FALSE(first.poll(scope));
  EXPECT_EQ(failureOf([&] { reset.promise({}).wait(scope); }),
            "FailedPrecondition: this node is being reset already");
  gate.fulfiller->fulfill();
  first.wait(scope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.mark), "reboot EPHEMERAL");
  disk.steps.clear();
  EXPECT_EQ(carryOut(), "none");
  EXPECT_EQ(disk.steps, "mark erase EPHEMERAL");
}

// Catches: a reset whose caller has hung up, which process 1 or META holds without an effect until
// a crash, or the next boot, erases the disk; a failed reset that is not reported.
TEST_F(ResetOrder, WhoeverAskedItIsWholeOrNot) {
  for (bool fails : {true, false}) {
    FakeProcess1 process1(machine);
    ModelReset reset(process1, disk);
    auto gate = kj::newPromiseAndFulfiller<void>();
    disk.ready = kj::mv(gate.promise);
    disk.fails = fails ? "mark" : "";
    unsigned begun = 0;
    {
      auto gone = reset.accept({labels({"STATE"}), true, true}, nothing, [&]() {
        ++begun;
        return kj::Promise<void>(kj::READY_NOW);
      });
      EXPECT_FALSE(gone.poll(scope));
    }
    gate.fulfiller->fulfill();
    scope.poll();
    EXPECT_EQ(begun, fails ? 0u : 1u);
    EXPECT_EQ(disk.mark == nullptr, fails);
    EXPECT_EQ(promised(), !fails);
    ASSERT_EQ(disk.said.size(), 1u);
    EXPECT_EQ(disk.said[0], "warning: a reset was asked for and is not done: mark timed out");
  }
}

// Catches: a reset that is promised before the preparation is done, or although it failed; a reset
// that is refused for ever after a failed one; two at once.
TEST_F(ResetOrder, WhatGoesFirstIsDoneFirst) {
  FakeProcess1 process1(machine);
  ModelReset reset(process1, disk);
  auto gate = kj::newPromiseAndFulfiller<void>();
  auto accept = [&](kj::Promise<void> first) {
    return reset.accept(
        {labels({"STATE"}), true, true},
        [first = kj::mv(first)]() mutable { return kj::mv(first); }, nothing);
  };
  auto waits = accept(kj::mv(gate.promise));
  EXPECT_FALSE(waits.poll(scope));
  EXPECT_EQ(disk.steps, "");
  EXPECT_FALSE(promised());
  EXPECT_EQ(failureOf([&] { accept(kj::READY_NOW).wait(scope); }),
            "FailedPrecondition: this node is being reset already");
  gate.fulfiller->reject(error(ErrorKind::kUnavailable, "cannot leave etcd"));
  EXPECT_EQ(failureOf([&] { waits.wait(scope); }), "Unavailable: cannot leave etcd");
  EXPECT_EQ(disk.steps, "");
  EXPECT_FALSE(promised());
  accept(kj::READY_NOW).wait(scope);
  EXPECT_EQ(disk.steps, "mark");
  EXPECT_TRUE(promised());
}

// Catches: an erasure without its mark, which a power cut would leave half done; an erasure that
// the next boot, or the next brain, does not start again; a node that stays up because META is gone
// already.
TEST_F(ResetOrder, TheMarkIsThereBeforeAnythingIsErased) {
  EXPECT_EQ(promise("STATE"), "none");
  disk.mark = nullptr;  // a brain that died between process 1 and the disk
  disk.steps.clear();
  disk.fails = "erase STATE";
  EXPECT_EQ(carryOut(), "DeadlineExceeded: erase STATE timed out");
  EXPECT_EQ(disk.steps, "mark erase STATE");
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.mark), "reboot STATE");

  disk.fails = "";
  disk.steps.clear();
  FakeMachine nextBoot;
  FakeProcess1 process1(nextBoot);
  ModelReset reset(process1, disk);
  bool begun = false;
  EXPECT_TRUE(KJ_ASSERT_NONNULL(reset.finishMarked([&]() { begun = true; }).wait(scope)));
  EXPECT_TRUE(begun);
  EXPECT_EQ(disk.steps, "erase STATE");
  begun = false;
  EXPECT_TRUE(reset.finishMarked([&]() { begun = true; }).wait(scope) == nullptr);
  EXPECT_FALSE(begun);
  EXPECT_EQ(disk.steps, "erase STATE");

  disk.gone = true;
  disk.steps.clear();
  EXPECT_EQ(carryOut(), "none");
  EXPECT_EQ(disk.steps, "erase STATE");
  disk.gone = false;
  disk.steps.clear();
  disk.fails = "mark";
  EXPECT_EQ(carryOut(), "DeadlineExceeded: mark timed out");
  EXPECT_EQ(disk.steps, "mark");
}

// Catches: a mark that is overlooked because META does not answer, and followed by a later boot,
// when the node is in use; a node without a mark that does not boot.
TEST(DiskReset, AMarkIsReadOrTheBootFails) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  UvLoop uv(io.unixEventPort, timer);
  ReadPool pool(timer, {.threads = 2, .mostThreads = 2}, [](kj::StringPtr) {});
  struct NoInstaller final : Installer {
    kj::Promise<bool> run(Fill) override { KJ_FAIL_REQUIRE("it erases"); }
    kj::Promise<void> slots(Fill, Hear, int) override { KJ_FAIL_REQUIRE("it writes"); }
  } installer;
  FakeMachine machine;
  FakeProcess1 process1(machine);
  Sysfs sys;
  TestTree dev;
  MetaPartition meta(timer, sys.root, dev.root);
  auto reset = resetOfDisk(process1, uv, pool, meta, installer, [](kj::StringPtr) {});
  auto finish = [&]() {
    return failureOf([&] {
      EXPECT_TRUE(reset->finishMarked([]() { ADD_FAILURE(); }).wait(io.waitScope) == nullptr);
    });
  };
  EXPECT_EQ(finish(), "none") << "without a disk";
  sys.disk("vda", "8192\n");
  sys.partition("vda", "vda4", "META");
  dev.file("vda4", "");
  ASSERT_EQ(0, truncate(dev.at("vda4").cStr(), kMetaBytes));
  EXPECT_EQ(finish(), "none") << "without a mark";
  unlink(dev.at("vda4").cStr());
  auto unknown = finish();
  EXPECT_TRUE(unknown.startsWith("Internal: whether a reset is pending is not known: META: "))
      << unknown.cStr();
  EXPECT_TRUE(unknown.endsWith("repair or replace the disk, then reboot")) << unknown.cStr();
}

}  // namespace
}  // namespace talos::machined
