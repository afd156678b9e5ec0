// The operators where no packet goes: their link does not exist, so that every socket fails and
// only the state machine, the timer and the lease's file are left. With packets: tests/network.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/file.h"
#include "networkd/dhcp/operator4.h"
#include "networkd/dhcp/operator6.h"

namespace talos::networkd::dhcp {
namespace {

const kj::byte kMac[] = {2, 0, 0, 0, 0, 1};

struct Loop {
  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>() + 100 * kj::SECONDS};
  kj::String directory = kj::str("/tmp/dhcp-operator-test.", getpid());
  kj::Function<uint64_t()> random = [] { return uint64_t(1000) << 32; };
  unsigned changes = 0;

  Loop() { makeDirectories(directory); }
  ~Loop() noexcept(false) { removeTree(directory); }
  Surroundings around() { return {port, timer, directory, random}; }
  LinkState link() {
    LinkState state;
    state.index = 0x7ffffff0;
    state.running = true;
    state.hardwareAddress = copyOf(kMac);
    return state;
  }
  void advance(kj::Duration time) {
    for (auto end = timer.now() + time; timer.now() < end;) {
      scope.poll();
      timer.advanceTo(kj::min(end, timer.nextEvent().orDefault(end)));
      scope.poll();
    }
  }
};

Lease4 lease4(kj::TimePoint since) {
  Message4 m;
  m.reply = true;
  m.type = Message4::Type::kAck;
  m.hardwareAddress = copyOf(kMac);
  m.server = KJ_ASSERT_NONNULL(Ip::parse("10.0.0.1"));
  m.yours = KJ_ASSERT_NONNULL(Ip::parse("10.0.0.9"));
  m.lease = 3600u;
  return KJ_ASSERT_NONNULL(leaseOf(m, since));
}

// Catches: a status that says "confirming" for half an hour, because nothing is done when nobody
// answers.
TEST(Operator4, tellsAlsoOfWhatItDoesNot) {
  Loop world;
  writeFileAtomically(kj::str(world.directory, "/dhcp4-none0"),
                      encode(lease4(world.timer.now())).asChars(), 0600);
  Client4::State last = Client4::State::kDown;
  kj::Maybe<Operator4&> self;
  Operator4 four(world.around(), "none0", world.link(), "", [&] {
    KJ_IF_MAYBE (there, self) last = there->client().state();
  });
  self = four;
  EXPECT_EQ(four.client().state(), Client4::State::kRebooting);
  world.advance(40 * kj::SECONDS);
  EXPECT_EQ(four.client().state(), Client4::State::kBound);
  EXPECT_EQ(last, Client4::State::kBound);
}

// Catches: packets behind the first 64 that wait until another one comes.
TEST(Socket, saysThatThereIsMore) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
  kj::AutoCloseFd in(ends[0]), out(ends[1]);
  unsigned heard = 0;
  auto hear = [&] { return receive(in, [&](const Heard&) { ++heard; }); };
  auto send = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) KJ_SYSCALL(::send(out, "x", 1, MSG_DONTWAIT));
  };
  send(63);
  EXPECT_FALSE(hear());
  EXPECT_EQ(heard, 63u);
  send(65);
  EXPECT_TRUE(hear());
  EXPECT_EQ(heard, 63u + 64u);
  EXPECT_FALSE(hear());
  EXPECT_EQ(heard, 63u + 65u);
}

}  // namespace
}  // namespace talos::networkd::dhcp
