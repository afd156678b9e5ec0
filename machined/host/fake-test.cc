// The model of process 1 that other tests stand on: a crash of the brain must lose nothing in it
// either.
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <poll.h>

#include "machined/process1-fake.h"

namespace talos::machined {
namespace {

Process1::SpawnRequest request(kj::StringPtr slot) {
  Process1::SpawnRequest r;
  r.slot = kj::str(slot);
  r.argv = kj::arr(kj::str("/usr/bin/x"));
  return r;
}

bool readable(int fd) {
  struct pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

// Would miss: an exit that is lost, or told twice after it was acknowledged, when the brain
// crashes.
TEST(FakeProcess1, exitIsToldAgainUntilAcknowledged) {
  auto io = kj::setupAsyncIo();
  FakeMachine machine;
  {
    FakeProcess1 first(machine);
    auto started = first.spawn(request("a")).wait(io.waitScope);
    EXPECT_FALSE(readable(started.pidfd.get()));
    first.spawn(request("b")).wait(io.waitScope);
    machine.exit("a", 3 << 8);
    EXPECT_TRUE(readable(started.pidfd.get()));
    EXPECT_EQ(3 << 8, first.nextExit().wait(io.waitScope).status);
  }
  FakeProcess1 second(machine);
  EXPECT_EQ(1u, second.brainRestarts());
  auto survivors = second.takeSurvivors();
  ASSERT_EQ(1u, survivors.size());
  EXPECT_EQ("b"_kj, survivors[0].slot);
  EXPECT_EQ("a"_kj, second.nextExit().wait(io.waitScope).slot);
  auto next = second.nextExit();
  EXPECT_FALSE(next.poll(io.waitScope));
  second.signal("b", SIGTERM);
  EXPECT_EQ(SIGTERM, next.wait(io.waitScope).status);
}

// Would miss: a held descriptor that the successor does not find, or finds in its replaced form.
TEST(FakeProcess1, holdsOutliveTheBrain) {
  auto io = kj::setupAsyncIo();
  FakeMachine machine;
  int ends[2];
  KJ_SYSCALL(pipe(ends));
  kj::AutoCloseFd readEnd(ends[0]), writeEnd(ends[1]);
  {
    FakeProcess1 first(machine);
    first.hold("x", readEnd).wait(io.waitScope);
    first.hold("x", writeEnd).wait(io.waitScope);
    EXPECT_TRUE(first.takeHeld("x") == nullptr);
  }
  FakeProcess1 second(machine);
  ASSERT_EQ(1u, second.heldNames().size());
  auto fd = KJ_ASSERT_NONNULL(second.takeHeld("x"));
  EXPECT_EQ(1, write(fd.get(), "q", 1));
  EXPECT_TRUE(second.takeHeld("x") == nullptr);
}

}  // namespace
}  // namespace talos::machined
