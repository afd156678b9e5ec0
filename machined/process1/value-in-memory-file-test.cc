#include "machined/process1/value-in-memory-file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machined/process1/test-damaged-descriptors.h"
#include "machined/process1/test-process1.h"
#include "rpc/held.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kName = "config/trial"_kj;

struct HeldTest : testing::Test {
  ~HeldTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;

  kj::Promise<void> hold(Process1& process1, kj::StringPtr document) {
    return Held<rpc::HeldTrial>(process1, kName).hold([&](rpc::HeldTrial::Builder out) {
      out.setDeadline(-5);
      out.setTried(document.asBytes());
    });
  }
  // Returns the value that the next brain finds; "-" if there is no value.
  kj::String found() {
    FakeProcess1 next(machine);
    return Held<rpc::HeldTrial>(next, kName)
        .take([](rpc::HeldTrial::Reader in) {
          EXPECT_EQ(-5, in.getDeadline());
          return kj::str(in.getTried().asChars());
        })
        .orDefault(kj::str("-"));
  }
  void keep(kj::StringPtr name, kj::ArrayPtr<const char> content) {
    int fd;
    KJ_SYSCALL(fd = memfd_create("test", MFD_CLOEXEC));
    kj::AutoCloseFd file(fd);
    kj::FdOutputStream(fd).write(content.begin(), content.size());
    machine.keep(name, kj::mv(file));
  }
  kj::Array<char> content(kj::StringPtr name) {
    auto fd = machine.heldFd(name);
    auto bytes = kj::heapArray<char>(lseek(fd, 0, SEEK_END));
    KJ_ASSERT(pread(fd, bytes.begin(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
};

// Catches: a value that a new brain does not find, or finds twice.
TEST_F(HeldTest, OutlivesTheBrainUntilItIsReplacedOrDropped) {
  EXPECT_EQ("-", found());
  FakeProcess1 first(machine);
  hold(first, "one").wait(scope);
  EXPECT_EQ("one", found());
  hold(first, "two").wait(scope);
  EXPECT_EQ("two", found());
  FakeProcess1 second(machine);
  Held<rpc::HeldTrial> held(second, kName);
  auto nothing = [](rpc::HeldTrial::Reader) { return true; };
  EXPECT_TRUE(held.take(nothing) != nullptr);
  EXPECT_TRUE(held.take(nothing) == nullptr);
  held.drop().wait(scope);
  EXPECT_EQ("-", found());
}

// Catches: a new value that replaces the old one before process 1 has confirmed it.
TEST_F(HeldTest, ACrashBeforeProcess1HasItLeavesTheOldOne) {
  {
    FakeProcess1 brain(machine);
    hold(brain, "one").wait(scope);
    auto never = kj::newPromiseAndFulfiller<void>();
    machine.holdGate = kj::mv(never.promise);
    EXPECT_FALSE(hold(brain, "two").poll(scope));
  }
  EXPECT_EQ("one", found());
}

// Catches: a truncated or damaged file that is taken for a value, or ends every new brain.
TEST_F(HeldTest, TornContentIsNothing) {
  FakeProcess1 brain(machine);
  hold(brain, "document").wait(scope);
  auto good = content(kName);
  for (size_t cut = 0; cut < good.size(); ++cut) {
    keep(kName, good.slice(0, cut));
    EXPECT_EQ("-", found()) << cut;
  }
  for (size_t i = 0; i < good.size() * 8; ++i) {
    good[i / 8] ^= 1 << i % 8;
    keep(kName, good);
    EXPECT_EQ("-", found()) << i;
    good[i / 8] ^= 1 << i % 8;
  }
  keep(kName, good);
  EXPECT_EQ("document", found());
}

// Catches: content of another name or type, or by a version without this encoding, taken for a
// value.
TEST_F(HeldTest, ForeignContentIsNothing) {
  FakeProcess1 brain(machine);
  Held<rpc::HeldCount>(brain, kName)
      .hold([](rpc::HeldCount::Builder out) { out.setNumber(7); })
      .wait(scope);
  EXPECT_EQ("-", found());
  hold(brain, "document").wait(scope);
  auto other = content(kName);
  keep("config/other", other);
  FakeProcess1 next(machine);
  EXPECT_TRUE(Held<rpc::HeldTrial>(next, "config/other").take([](auto) { return true; }) ==
              nullptr);
  keep(kName, "stage running\n"_kj.asArray());
  EXPECT_EQ("-", found());
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd a(ends[0]), b(ends[1]);
  machine.keep(kName, kj::mv(a));
  EXPECT_EQ("-", found());
}

// Catches: a value that is held although no successor would read it.
TEST_F(HeldTest, ALargerOneIsRefused) {
  FakeProcess1 brain(machine);
  auto most = kj::str(kj::repeat('x', kMostHeldBytes - 128));
  hold(brain, most).wait(scope);
  EXPECT_EQ(most, found());
  auto tooMuch = kj::str(kj::repeat('x', kMostHeldBytes + 1));
  auto e = kj::runCatchingExceptions([&]() { hold(brain, tooMuch).wait(scope); });
  EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(KJ_ASSERT_NONNULL(e)));
  EXPECT_EQ(most, found());
}

// Catches: a value that changes under process 1 after it was held.
TEST_F(HeldTest, HeldValueCannotBeChanged) {
  FakeProcess1 first(machine);
  hold(first, "one").wait(scope);
  auto fd = machine.heldFd(kName);
  EXPECT_EQ(-1, pwrite(fd, "x", 1, 0));
  EXPECT_EQ(EPERM, errno);
  EXPECT_EQ(-1, ftruncate(fd, 0));
}

// Catches: a brain that dies of unexpected content under a name that it knows.
TEST_F(HeldTest, NothingElseIsTakenForIt) {
  for (auto& bad : garbage("held")) {
    machine.keep(kName, kj::mv(bad.fd));
    EXPECT_EQ("-", found()) << bad.what.cStr();
  }
}

}  // namespace
}  // namespace talos::machined
