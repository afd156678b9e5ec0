#include "networkd/control/host-dns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-port.h"
#include "networkd/control/host-dns-store.h"

namespace talos::networkd {
namespace {

constexpr kj::byte kQuery[] = {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1};

// Every upstream refuses connections.
class NoNetwork final : public dns::UpstreamNetwork {
 public:
  kj::Promise<kj::Own<dns::UpstreamAnswer>> exchange(Endpoint, dns::QueryKey, Transport) override {
    return error(ErrorKind::kUnavailable, "refused");
  }
};

// The resolver with its specs and its status, and real sockets of loopback.
struct HostDnsTest : testing::Test {
  ~HostDnsTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  NoNetwork network;
  Signal work;
  Ip own = ip("127.0.0.1"), second = ip("127.0.0.2");
  uint16_t free = freePort();
  bool synced = true, enabled = true, storeFails = false;
  std::vector<Endpoint> addresses{{own, free}};
  std::vector<std::string> problems;
  std::string status = "none";
  unsigned published = 0, changes = 0;
  kj::Maybe<kj::Own<HostDns>> resolver;
  kj::Promise<void> running = nullptr;

  void start() {
    running = nullptr;
    resolver = kj::heap<HostDns>(
        io.unixEventPort, *io.lowLevelProvider, timer, network, work,
        HostDnsInputs{[this] { return read(); },
                      [this](Records records) { return publish(kj::mv(records)); }},
        [this] { ++changes; });
    running =
        dns().run().eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
    settle();
  }
  HostDns& dns() { return *KJ_ASSERT_NONNULL(resolver); }
  void settle() { io.waitScope.poll(); }
  void change() {
    work.raise();
    settle();
  }
  void pass(kj::Duration time) {
    timer.advanceTo(timer.now() + time);
    settle();
  }
  kj::Maybe<WantedHostDns> read() {
    if (!synced) return nullptr;
    WantedHostDns wanted;
    wanted.enabled = enabled;
    wanted.version = 5;
    wanted.reported = status != "none";
    if (enabled) {
      wanted.addresses = addresses;
      wanted.problems = problems;
      wanted.settings.upstreams.push_back({ip("192.0.2.53"), 53});
    }
    return kj::mv(wanted);
  }
  kj::Promise<void> publish(Records records) {
    if (storeFails) return error(ErrorKind::kUnavailable, "machined is away");
    ++published;
    status = "none";
    for (auto& entry : records) {
      auto s = entry.value->getRoot<rpc::HostDnsStatusSpec>().asReader();
      status = kj::str("v", s.getSpecVersion(), " ", s.getListening().size(), " on ",
                       s.getNameserver(), "/", kj::strArray(s.getPodNameservers(), ","), " ",
                       kj::strArray(s.getUpstreams(), ","), " ", s.getHits(), " ", s.getMisses(),
                       " ", s.getFailures(), " ", s.getProblem())
                   .cStr();
    }
    return kj::READY_NOW;
  }
  // Acts as the reconciler that has written the resolver files.
  void filesWritten() {
    dns().named(dns().answering());
    settle();
  }
};

// Catches: resolver files that name a resolver which does not listen; a status that says so before
// they do.
TEST_F(HostDnsTest, ListensBeforeTheFilesNameIt) {
  addresses.push_back({own, 0});
  addresses[1].address = ip("169.254.116.108");
  start();
  EXPECT_EQ("v5 2 on / 192.0.2.53:53 0 0 0 ", status);
  EXPECT_EQ(1u, changes);
  auto answering = dns().answering();
  EXPECT_EQ(std::vector<Ip>{own}, answering.node);
  EXPECT_EQ(std::vector<Ip>{ip("169.254.116.108")}, answering.pods);
  filesWritten();
  EXPECT_EQ(kj::str("v5 2 on ", own, "/169.254.116.108 192.0.2.53:53 0 0 0 "), status.c_str());
  EXPECT_EQ(1u, changes);
}

// Catches: a resolver that runs although the config does not want it (any more); a status of it
// that stays, also that of an earlier networkd.
TEST_F(HostDnsTest, RunsOnlyIfItIsEnabled) {
  enabled = false;
  start();
  EXPECT_EQ("none", status);
  EXPECT_EQ(0u, published);
  enabled = true;
  change();
  EXPECT_EQ(1u, dns().answering().node.size());
  enabled = false;
  change();
  EXPECT_EQ("none", status);
  EXPECT_EQ(2u, changes);
  EXPECT_TRUE(dns().answering() == ResolverAddresses{});
  UdpSocket::bound(io.unixEventPort, {own, free});  // else throws
  status = "of an earlier networkd";
  start();
  EXPECT_EQ("none", status);
}

// Catches: a resolver that is stopped because the specs have not arrived yet.
TEST_F(HostDnsTest, NothingHappensBeforeTheSpecsArrive) {
  synced = false;
  start();
  EXPECT_EQ(0u, published);
  EXPECT_EQ(0u, changes);
  synced = true;
  change();
  EXPECT_EQ(1u, published);
}

// Catches: an address of another program that stops the other listeners, is not reported, or is not
// tried again.
TEST_F(HostDnsTest, ATakenAddressIsAProblemUntilItIsFree) {
  kj::Maybe<kj::Own<UdpSocket>> taken = UdpSocket::bound(io.unixEventPort, {own, free});
  addresses.push_back({second, 0});
  start();
  EXPECT_THAT(status, testing::StartsWith("v5 1 on / 192.0.2.53:53 0 0 0 cannot listen on "));
  EXPECT_EQ(std::vector<Ip>{second}, dns().answering().node);
  taken = nullptr;
  pass(HostDns::kFirstPause);
  EXPECT_EQ("v5 2 on / 192.0.2.53:53 0 0 0 ", status);
  EXPECT_EQ(2u, changes);
}

// Catches: clients of an address that lose their answers because another address comes or goes.
TEST_F(HostDnsTest, AnotherAddressLeavesTheClientsOfThisOne) {
  start();
  auto name = addresses[0].socketName();
  auto server = io.provider->getNetwork().getSockaddr(name.get(), name.size());
  auto client = server->connect().wait(io.waitScope);
  settle();
  addresses.push_back({ip("169.254.116.108"), 0});
  change();
  ASSERT_EQ(1u, dns().answering().pods.size());
  dns::writeMessage(*client, kj::arrayPtr(kQuery, sizeof kQuery)).wait(io.waitScope);
  EXPECT_TRUE(dns::readMessage(*client).wait(io.waitScope) != nullptr);
}

// Catches: a problem of the specs that is not reported.
TEST_F(HostDnsTest, ProblemsOfTheSpecsAreReported) {
  problems = {"there is no name server", "a"};
  start();
  EXPECT_EQ("v5 1 on / 192.0.2.53:53 0 0 0 there is no name server; a", status);
}

// Catches: a status that is written although nothing has changed, or whose counts are never
// written; one that is lost because machined was away.
TEST_F(HostDnsTest, CountsAreWrittenOnceAMinute) {
  start();
  EXPECT_EQ(1u, published);
  pass(HostDns::kPause);
  EXPECT_EQ(1u, published);
  auto client = UdpSocket::connected(io.unixEventPort, {own, free});
  client->send(kj::arrayPtr(kQuery, sizeof kQuery));
  EXPECT_EQ(2, client->receive().wait(io.waitScope).bytes[3] & 0xf) << "no upstream answers";
  EXPECT_EQ(1u, published);
  storeFails = true;
  pass(HostDns::kPause);
  EXPECT_EQ(1u, published);
  storeFails = false;
  pass(HostDns::kFirstPause);
  EXPECT_EQ("v5 1 on / 192.0.2.53:53 0 0 1 ", status);
}

struct SpecRow {
  std::vector<kj::StringPtr> upstreams;
  std::string shown;  // upstreams and problems
};

// Catches: a resolver that queries itself for ever; an upstream that is queried twice; a text of a
// resource that stops networkd.
TEST(HostDnsStore, SpecsBecomeSettings) {
  capnp::MallocMessageBuilder message;
  auto resource = message.initRoot<rpc::Resource>();
  resource.initMetadata().setVersion(3);
  auto spec = resource.initSpec().initAs<rpc::HostDnsConfigSpec>();
  auto wanted = [&](const std::vector<kj::StringPtr>& upstreams) {
    auto texts = KJ_MAP(text, kj::arrayPtr(upstreams.data(), upstreams.size())) {
      return kj::str(text);
    };
    return wantedHostDns(ResourceOf<rpc::HostDnsConfigSpec>(resource.asReader()), texts);
  };
  EXPECT_FALSE(wanted({"192.0.2.1"}).enabled);
  EXPECT_TRUE(wanted({}).problems.empty());
  spec.setEnabled(true);
  auto listen = spec.initListenAddresses(2);
  listen.set(0, "127.0.0.53:53");
  listen.set(1, "[fd54:616c:6f73:0:204f:5320:444e:531]:53");
  auto host = spec.initHosts(2)[0];
  host.setAddress("::ffff:192.0.2.60");
  host.initNames(1).set(0, "Reg.test");
  spec.getHosts()[1].setAddress("no address");
  auto member = spec.initMembers(1)[0];
  member.setAddress("192.0.2.8");
  member.initNames(1).set(0, "w1");
  const SpecRow rows[] = {
      {{"192.0.2.1", "2001:db8::1", "192.0.2.1", "x"}, "192.0.2.1:53 [2001:db8::1]:53 "},
      {{"127.0.0.53", "192.0.2.1"},
       "192.0.2.1:53 the name server 127.0.0.53 is the node's own resolver; set another "},
      {{}, "there is no name server "},
  };
  for (auto& row : rows) {
    auto found = wanted(row.upstreams);
    std::string shown;
    for (auto& upstream : found.settings.upstreams)
      shown += upstream.toString().cStr() + std::string(" ");
    for (auto& problem : found.problems) shown += problem + " ";
    EXPECT_EQ(row.shown, shown);
    EXPECT_EQ(2u, found.addresses.size());
    EXPECT_EQ(3u, found.version);
  }
  auto settings = wanted({"192.0.2.1"}).settings;
  dns::QueryKey key{std::string("\3reg\4test\0", 10), dns::kAddress, dns::kInternet};
  EXPECT_EQ(std::vector<Ip>{ip("192.0.2.60")}, settings.hosts.find(key));
  key.name = std::string("\2w1\0", 4);
  EXPECT_EQ(std::vector<Ip>{ip("192.0.2.8")}, settings.members.find(key));
}

}  // namespace
}  // namespace talos::networkd
