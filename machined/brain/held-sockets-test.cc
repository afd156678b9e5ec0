#include "machined/brain/held-sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/base/error.h"
#include "machined/process1/test-damaged-descriptors.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

struct HeldSocketsTest : testing::Test {
  ~HeldSocketsTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;
  unsigned made = 0;

  kj::Promise<kj::AutoCloseFd> open(Process1& process1) {
    return heldSocket(process1, "apid", [this]() {
      ++made;
      int fd;
      KJ_SYSCALL(fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      struct sockaddr_un nameless = {};
      nameless.sun_family = AF_UNIX;  // bound to a name that the kernel chooses
      KJ_SYSCALL(bind(fd, reinterpret_cast<struct sockaddr*>(&nameless), sizeof(sa_family_t)));
      KJ_SYSCALL(listen(fd, 1));
      return kj::AutoCloseFd(fd);
    });
  }
  static ino_t inode(int fd) {
    struct stat status;
    KJ_SYSCALL(fstat(fd, &status));
    return status.st_ino;
  }
};

// Catches: a refused client because a new brain opens its socket again.
TEST_F(HeldSocketsTest, IsMadeOnceInTheLifeOfTheMachine) {
  ino_t first;
  {
    FakeProcess1 brain(machine);
    first = inode(open(brain).wait(scope));
    EXPECT_TRUE(machine.holds("listen/apid"));
  }
  FakeProcess1 next(machine);
  EXPECT_EQ(first, inode(open(next).wait(scope)));
  EXPECT_EQ(1u, made);
}

// Catches: a client that connects to a socket that the next brain does not know.
TEST_F(HeldSocketsTest, IsThereOnlyWhenProcess1HasIt) {
  {
    FakeProcess1 brain(machine);
    auto never = kj::newPromiseAndFulfiller<void>();
    machine.holdGate = kj::mv(never.promise);
    EXPECT_FALSE(open(brain).poll(scope));
  }
  FakeProcess1 next(machine);
  open(next).wait(scope);
  EXPECT_EQ(2u, made);
}

// Catches: a held descriptor that crashes the brain that accepts from it, and each next brain.
TEST_F(HeldSocketsTest, HeldSocketThatDoesNotListenIsReplaced) {
  for (auto& bad : garbage("")) {
    made = 0;
    machine.keep("listen/apid", kj::mv(bad.fd));
    FakeProcess1 brain(machine);
    auto first = inode(open(brain).wait(scope));
    EXPECT_EQ(1u, made) << bad.what.cStr();
    FakeProcess1 next(machine);
    EXPECT_EQ(first, inode(open(next).wait(scope))) << bad.what.cStr();
    EXPECT_EQ(1u, made) << bad.what.cStr();
  }
}

// Catches: a held name without a socket, because the socket could not be made.
TEST_F(HeldSocketsTest, SocketThatCannotBeMadeIsNotHeld) {
  FakeProcess1 brain(machine);
  auto failing = heldSocket(brain, "apid", []() -> kj::AutoCloseFd {
    fail(ErrorKind::kUnavailable, "port 50000 is in use");
  });
  auto e = kj::runCatchingExceptions([&]() { failing.wait(scope); });
  EXPECT_EQ("port 50000 is in use", messageOf(KJ_ASSERT_NONNULL(e)));
  EXPECT_FALSE(machine.holds("listen/apid"));
}

// Catches: a program that sends to a pair of which its next start has another half; descriptors
// that are lost with the brain; a brain that crashes on another brain's record under the name.
TEST_F(HeldSocketsTest, APairIsMadeOnceAndIsWhole) {
  ino_t first, second;
  {
    FakeProcess1 brain(machine);
    auto pair = keptPair(brain, "login1").wait(scope);
    first = inode(pair.keeping);
    second = inode(pair.kept);
    KJ_SYSCALL(send(pair.keeping, "x", 1, MSG_NOSIGNAL));
  }
  {
    FakeProcess1 brain(machine);
    auto pair = keptPair(brain, "login1").wait(scope);
    EXPECT_EQ(inode(pair.keeping), first);
    EXPECT_EQ(inode(pair.kept), second);
    char byte = 0;
    EXPECT_EQ(recv(pair.kept, &byte, 1, MSG_DONTWAIT), 1);
    brain.drop("keeping/login1").wait(scope);  // as if it had not been held yet
  }
  {
    FakeProcess1 brain(machine);
    auto pair = keptPair(brain, "login1").wait(scope);
    EXPECT_NE(inode(pair.kept), second);
    KJ_SYSCALL(send(pair.keeping, "x", 1, MSG_NOSIGNAL));
    char byte = 0;
    EXPECT_EQ(recv(pair.kept, &byte, 1, MSG_DONTWAIT), 1);
    brain.hold("kept/login1", STDIN_FILENO).wait(scope);
  }
  FakeProcess1 brain(machine);
  auto pair = keptPair(brain, "login1").wait(scope);
  KJ_SYSCALL(send(pair.keeping, "x", 1, MSG_NOSIGNAL));
}

}  // namespace
}  // namespace talos::machined
