// The same checks on the real process 1, in a new pid namespace, and on the model that the tests of
// the brain use: where they differ, the model is wrong.
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <linux/reboot.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/error.h"
#include "machined/process1/init/init-harness.h"
#include "machined/process1/process1-socket.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

// A machine on which children wait until they are ended, and brains come and go.
class Machine {
 public:
  virtual ~Machine() noexcept(false) = default;
  virtual kj::Own<Process1> brain() = 0;  // the first, or the next after crash()
  virtual void crash() = 0;       // the brain's process ends; its object is destroyed afterwards
  virtual void started() {}       // a child was started
  virtual void pressReset() = 0;  // ctrl-alt-del
  virtual Process1::SpawnRequest request(kj::StringPtr slot) = 0;
};

class Real final : public Machine {
 public:
  explicit Real(kj::AsyncIoContext& io) : io(io) {}
  kj::Own<Process1> brain() override {
    current = harness.next();
    return kj::heap<SocketProcess1>(io.unixEventPort, kj::AutoCloseFd(dup(current.socket)));
  }
  void crash() override { harness.killNow(current.pid); }
  void started() override { harness.next(); }
  void pressReset() override { KJ_SYSCALL(kill(harness.pid(), SIGINT)); }
  Process1::SpawnRequest request(kj::StringPtr slot) override {
    auto text = harness.child({"wait"});
    Process1::SpawnRequest r;
    r.slot = kj::str(slot);
    r.argv = KJ_MAP(a, text.argv) {
      return kj::str(a.c_str());
    };
    r.environment = KJ_MAP(e, text.environment) {
      return kj::str(e.c_str());
    };
    return r;
  }
  process1::Harness harness;

 private:
  kj::AsyncIoContext& io;
  process1::Harness::Reporter current;
};

class Model final : public Machine {
 public:
  kj::Own<Process1> brain() override { return kj::heap<FakeProcess1>(machine); }
  void crash() override {}
  void pressReset() override { machine.requestPowerAction(Process1::PowerAction::kReboot); }
  Process1::SpawnRequest request(kj::StringPtr slot) override {
    Process1::SpawnRequest r;
    r.slot = kj::str(slot);
    r.argv = kj::arr(kj::str("/usr/bin/x"));
    return r;
  }
  FakeMachine machine;
};

class Process1Test : public testing::TestWithParam<bool> {
 protected:
  Process1Test() {
    if (GetParam()) {
      machine = kj::heap<Real>(io);
    } else {
      machine = kj::heap<Model>();
    }
    brain = machine->brain();
  }
  ~Process1Test() noexcept override {}
  Process1::Started start(kj::StringPtr slot) {
    auto started = brain->spawn(machine->request(slot)).wait(io.waitScope);
    machine->started();
    return started;
  }
  void crash() {
    machine->crash();
    brain = nullptr;
    brain = machine->brain();
  }
  ErrorKind failureOf(kj::Promise<Process1::Started> promise) {
    try {
      promise.wait(io.waitScope);
    } catch (const kj::Exception& e) {
      return kindOf(e);
    }
    ADD_FAILURE() << "it did not fail";
    return ErrorKind::kInternal;
  }

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Own<Machine> machine;
  kj::Own<Process1> brain;
};

bool readable(int fd, int timeout) {
  struct pollfd p = {fd, POLLIN, 0};
  return poll(&p, 1, timeout) == 1;
}

ino_t inode(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Catches: an exit that is lost, reported again after it was acknowledged, or reported as
// another's.
TEST_P(Process1Test, ExitIsReportedAgainUntilAcknowledged) {
  EXPECT_EQ(0u, brain->brainRestarts());
  auto a = start("a");
  start("b");
  EXPECT_FALSE(readable(a.pidfd.get(), 0));
  EXPECT_EQ(ErrorKind::kConflict, failureOf(brain->spawn(machine->request("a"))));
  brain->signal("a", SIGKILL);
  EXPECT_TRUE(readable(a.pidfd.get(), 20'000));
  EXPECT_EQ(SIGKILL, brain->nextExit().wait(io.waitScope).status);
  start("a");  // free again, although not acknowledged
  crash();
  EXPECT_EQ(1u, brain->brainRestarts());
  auto survivors = brain->takeSurvivors();
  EXPECT_EQ(2u, survivors.size());
  EXPECT_EQ(0u, brain->takeSurvivors().size());
  auto exit = brain->nextExit().wait(io.waitScope);
  EXPECT_EQ("a"_kj, exit.slot);
  EXPECT_EQ(a.pid, exit.pid);
  auto next = brain->nextExit();
  EXPECT_FALSE(next.poll(io.waitScope));
  brain->signal("none", SIGTERM);
  brain->signal("b", SIGTERM);
  exit = next.wait(io.waitScope);
  EXPECT_EQ("b"_kj, exit.slot);
  EXPECT_EQ(SIGTERM, exit.status);
}

// Catches: a held descriptor that the successor does not find, or finds as it was before it was
// replaced; a name that stays after drop().
TEST_P(Process1Test, HoldsOutliveTheBrain) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd readEnd(ends[0]), writeEnd(ends[1]);
  int more[2];
  KJ_SYSCALL(pipe2(more, O_CLOEXEC));
  kj::AutoCloseFd other(more[0]), rest(more[1]);
  brain->hold("x", readEnd).wait(io.waitScope);
  brain->hold("x", other).wait(io.waitScope);
  brain->hold("y", writeEnd).wait(io.waitScope);
  brain->hold("z", writeEnd).wait(io.waitScope);
  brain->drop("y").wait(io.waitScope);
  brain->drop("never").wait(io.waitScope);
  EXPECT_TRUE(brain->takeHeld("x") == nullptr);
  crash();
  auto names = brain->heldNames();
  ASSERT_EQ(2u, names.size());
  EXPECT_EQ("x"_kj, names[0]);
  EXPECT_EQ("z"_kj, names[1]);
  auto fd = KJ_ASSERT_NONNULL(brain->takeHeld("x"));
  EXPECT_EQ(inode(other), inode(fd));
  EXPECT_TRUE(brain->takeHeld("x") == nullptr);
  crash();  // process 1 kept its own
  EXPECT_TRUE(brain->takeHeld("x") != nullptr);
}

// Catches: a power action that ends with the brain that it was reported to; an action that comes
// twice.
TEST_P(Process1Test, APowerActionIsRepeatedUntilItHasBegun) {
  machine->pressReset();
  EXPECT_TRUE(brain->nextPowerAction().wait(io.waitScope) == Process1::PowerAction::kReboot);
  crash();
  EXPECT_TRUE(brain->nextPowerAction().wait(io.waitScope) == Process1::PowerAction::kReboot);
  auto next = brain->nextPowerAction();
  brain->drop("none").wait(io.waitScope);
  crash();
  next = brain->nextPowerAction();
  brain->drop("none").wait(io.waitScope);
  EXPECT_FALSE(next.poll(io.waitScope));
}

INSTANTIATE_TEST_SUITE_P(OnBoth, Process1Test, testing::Bool(),
                         [](auto& info) { return info.param ? "real" : "model"; });

// Catches: a failure without the failed step.
TEST(SocketProcess1, ExecFailureSaysWhy) {
  auto io = kj::setupAsyncIo();
  Real machine(io);
  auto brain = machine.brain();
  auto request = machine.request("apid");
  request.argv[0] = kj::str("/usr/bin/none");
  try {
    brain->spawn(kj::mv(request)).wait(io.waitScope);
    ADD_FAILURE();
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kNotFound, kindOf(e));
    EXPECT_EQ("start of \"apid\" failed: cannot start \"apid\": exec: No such file or directory"_kj,
              messageOf(e));
  }
}

// Catches: requests that overtake each other or are lost when the socket is full; answers that are
// given to the wrong request.
TEST(SocketProcess1, ThousandsOfRequestsAtOnce) {
  // Each waiting request has its own descriptor; usual limits are 1024.
  rlimit files;
  ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &files));
  auto before = files;
  files.rlim_cur = kj::min(files.rlim_max, rlim_t(16384));
  ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
  KJ_DEFER(setrlimit(RLIMIT_NOFILE, &before));
  auto io = kj::setupAsyncIo();
  Real machine(io);
  auto brain = machine.brain();
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd first(ends[0]), second(ends[1]);
  kj::Vector<kj::Promise<void>> all;
  for (int i = 0; i < 5000; ++i) {
    all.add(brain->hold(kj::str("name", i % 7), i % 2 == 0 ? first.get() : second.get()));
  }
  kj::joinPromises(all.releaseAsArray()).wait(io.waitScope);
  machine.crash();
  brain = nullptr;
  brain = machine.brain();
  EXPECT_EQ(7u, brain->heldNames().size());
  // 4999 was the last of all.
  EXPECT_EQ(inode(second), inode(KJ_ASSERT_NONNULL(brain->takeHeld(kj::str("name", 4999 % 7)))));
}

TEST(SocketProcess1, PowerActionsAndReboot) {
  auto io = kj::setupAsyncIo();
  Real machine(io);
  auto brain = machine.brain();
  ASSERT_EQ(0, kill(machine.harness.pid(), SIGINT));
  EXPECT_TRUE(brain->nextPowerAction().wait(io.waitScope) == Process1::PowerAction::kReboot);
  auto gone = brain->reboot(LINUX_REBOOT_CMD_POWER_OFF);
  int status = machine.harness.waitForEnd();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
  EXPECT_THROW(gone.wait(io.waitScope), kj::Exception);
}

// Catches: names that are cut, and so become another's.
TEST(SocketProcess1, RefusesWhatDoesNotFit) {
  auto io = kj::setupAsyncIo();
  Real machine(io);
  auto brain = machine.brain();
  auto tooLong = kj::str(kj::repeat('n', process1::kNameSize));
  EXPECT_THROW(brain->hold(tooLong, 0), kj::Exception);
  auto request = machine.request("x");
  request.argv = kj::arr(kj::str("/x"), kj::str(kj::repeat('n', process1::kTextSize)));
  EXPECT_THROW(brain->spawn(kj::mv(request)), kj::Exception);
}

}  // namespace
}  // namespace talos::machined
