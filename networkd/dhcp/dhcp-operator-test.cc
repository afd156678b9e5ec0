// The operators without packets: their link does not exist, so every socket fails and only the
// state machine, the timer and the lease's file are left. tests/network has the tests with packets.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/if_addr.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/file.h"
#include "networkd/dhcp/dhcp-operator4.h"
#include "networkd/dhcp/dhcp-operator6.h"

namespace talos::networkd::dhcp {
namespace {

const kj::byte kOperatorMac[] = {2, 0, 0, 0, 0, 1};

struct Fixture {
  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>() + 100 * kj::SECONDS};
  kj::String directory = kj::str("/tmp/dhcp-operator-test.", getpid());
  kj::Function<uint64_t()> random = [] { return uint64_t(1000) << 32; };
  unsigned changes = 0;

  Fixture() { makeDirectories(directory); }
  ~Fixture() noexcept(false) { removeTree(directory); }
  Dependencies dependencies() { return {port, timer, directory, random}; }
  LinkState link() {
    LinkState state;
    state.index = 0x7ffffff0;
    state.running = true;
    state.hardwareAddress = copyOf(kOperatorMac);
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
  m.hardwareAddress = copyOf(kOperatorMac);
  m.server = KJ_ASSERT_NONNULL(Ip::parse("10.0.0.1"));
  m.yours = KJ_ASSERT_NONNULL(Ip::parse("10.0.0.9"));
  m.lease = 3600u;
  return KJ_ASSERT_NONNULL(leaseOf(m, since));
}

// Catches: a status that says "confirming" for half an hour, because without an answer nothing
// updates it.
TEST(Operator4, ReportsAStateChangeWithoutAnAction) {
  Fixture fixture;
  writeFileAtomically(kj::str(fixture.directory, "/dhcp4-none0"),
                      encode(lease4(fixture.timer.now())).asChars(), 0600);
  Client4::State last = Client4::State::kDown;
  kj::Maybe<Operator4&> self;
  Operator4 four(fixture.dependencies(), "none0", fixture.link(), "", [&] {
    KJ_IF_MAYBE (there, self) last = there->client().state();
  });
  self = four;
  EXPECT_EQ(four.client().state(), Client4::State::kConfirming);
  fixture.advance(40 * kj::SECONDS);
  EXPECT_EQ(four.client().state(), Client4::State::kBound);
  EXPECT_EQ(last, Client4::State::kBound);
}

// Catches: an address of one card on another that has its name now; an unreadable file that is
// never removed.
TEST(OperatorManager, TakeNoLeaseOfAnotherCard) {
  Fixture fixture;
  auto four4 = kj::str(fixture.directory, "/dhcp4-none0"),
       six6 = kj::str(fixture.directory, "/dhcp6-none0");
  writeFileAtomically(four4, encode(lease4(fixture.timer.now())).asChars(), 0600);
  writeFileAtomically(six6, "no lease"_kj, 0600);
  auto link = fixture.link();
  link.hardwareAddress.back() = 2;
  Operator4 four(fixture.dependencies(), "none0", kj::mv(link), "", [] {});
  Operator6 six(Operator6::Kind::kDhcp, fixture.dependencies(), "none0", fixture.link(), [] {});
  EXPECT_TRUE(four.client().lease() == nullptr);
  EXPECT_EQ(four.stateName(), "selecting");
  EXPECT_FALSE(six.watches());
  six.stop();
  EXPECT_TRUE(tryReadFile(six6) == nullptr);
}

// Catches: a state that does not say why nothing happens, and a lease that is kept although it is
// not wanted.
TEST(OperatorManager, SayThatThereIsNoCarrierAndEndWithoutOne) {
  Fixture fixture;
  auto path = kj::str(fixture.directory, "/dhcp4-none0");
  writeFileAtomically(path, encode(lease4(fixture.timer.now())).asChars(), 0600);
  auto ignore = [] {};
  Operator4 four(fixture.dependencies(), "none0", fixture.link(), "", ignore);
  Operator6 six(Operator6::Kind::kDhcp, fixture.dependencies(), "none0", fixture.link(), ignore);
  Operator6 routers(Operator6::Kind::kRouters, fixture.dependencies(), "none0", fixture.link(),
                    ignore);
  EXPECT_EQ(four.stateName(), "confirming");
  EXPECT_EQ(six.stateName(), "no link-local address");
  EXPECT_EQ(routers.stateName(), "listening");
  four.setRunning(false);
  six.setRunning(false);
  routers.setRunning(false);
  for (auto name : {four.stateName(), six.stateName(), routers.stateName()})
    EXPECT_EQ(name, "no carrier");
  EXPECT_TRUE(tryReadFile(path) != nullptr) << "a cable that is out changes nothing";
  fixture.advance(60 * kj::SECONDS);
  EXPECT_EQ(four.stateName(), "no carrier");
  four.setRunning(true);
  EXPECT_EQ(four.stateName(), "confirming");
  four.setRunning(false);
  four.stop();
  six.stop();
  routers.stop();
  EXPECT_TRUE(tryReadFile(path) == nullptr);
  EXPECT_TRUE(four.client().lease() == nullptr);
  EXPECT_TRUE(six.ended() && routers.ended());
}

// Catches: a kernel report about the address that never reaches the client; a report about another
// link or another address that does; an operator that never ends.
TEST(Operator6, FollowsWhatTheKernelSaysOfItsAddress) {
  auto address = KJ_ASSERT_NONNULL(Ip::parse("fd00::9"));
  auto said = [&](uint32_t flags, unsigned link = 0x7ffffff0, kj::StringPtr which = "fd00::9") {
    return netlink::Address{
        .link = link, .prefix = Prefix::host(KJ_ASSERT_NONNULL(Ip::parse(which))), .flags = flags};
  };
  struct Row {
    netlink::Address there;
    bool kept;
  } rows[] = {{said(IFA_F_PERMANENT), true},
              {said(IFA_F_TENTATIVE), true},
              {said(IFA_F_DADFAILED, 7), true},
              {said(IFA_F_DADFAILED, 0x7ffffff0, "fd00::8"), true},
              {said(IFA_F_DADFAILED | IFA_F_TENTATIVE), false}};
  for (auto& row : rows) {
    Fixture fixture;
    auto path = kj::str(fixture.directory, "/dhcp6-none0");
    Message6 m;
    m.type = Message6::Type::kReply;
    m.client = linkLayerIdentifier(1, kOperatorMac);
    m.server = linkLayerIdentifier(1, kOperatorMac);
    m.associations.add().id = 1;  // the last four octets of the hardware address
    m.associations[0].addresses.add(Address6{address, 3000, 4000, nullptr});
    auto lease = KJ_ASSERT_NONNULL(leaseOf(m, 1, fixture.timer.now()));
    writeFileAtomically(path, encode(lease).asChars(), 0600);
    Operator6 six(Operator6::Kind::kDhcp, fixture.dependencies(), "none0", fixture.link(), [] {});
    EXPECT_TRUE(six.watches());
    six.see(kj::arrayPtr(&row.there, 1));
    auto& client = KJ_ASSERT_NONNULL(six.client());
    EXPECT_EQ(client.lease() != nullptr, row.kept) << kj::str(row.there.prefix).cStr();
    EXPECT_EQ(tryReadFile(path) != nullptr, row.kept);
    six.stop();
    EXPECT_TRUE(six.ended()) << "the link was never ready: nobody can be told";
    EXPECT_FALSE(six.watches());
    EXPECT_TRUE(tryReadFile(path) == nullptr);
  }
}

// Catches: packets after the first 64 that wait until another packet arrives.
TEST(Socket, SaysThatThereIsMore) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
  kj::AutoCloseFd in(ends[0]), out(ends[1]);
  unsigned received = 0;
  auto receiveAll = [&] { return receive(in, [&](const Received&) { ++received; }); };
  auto send = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) KJ_SYSCALL(::send(out, "x", 1, MSG_DONTWAIT));
  };
  send(63);
  EXPECT_FALSE(receiveAll());
  EXPECT_EQ(received, 63u);
  send(65);
  EXPECT_TRUE(receiveAll());
  EXPECT_EQ(received, 63u + 64u);
  EXPECT_FALSE(receiveAll());
  EXPECT_EQ(received, 63u + 65u);
}

}  // namespace
}  // namespace talos::networkd::dhcp
