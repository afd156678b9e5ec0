#include "networkd/dns/dns-resolver.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "networkd/dns/test-dns-messages.h"

namespace talos::networkd::dns {
namespace {

// Upstreams whose answers a test gives.
class ModelNetwork final : public UpstreamNetwork {
 public:
  struct Exchange {
    Endpoint upstream;
    QueryKey key;
    Transport transport;
    kj::Own<kj::PromiseFulfiller<kj::Own<UpstreamAnswer>>> fulfiller;
  };
  std::vector<Exchange> exchanges;

  kj::Promise<kj::Own<UpstreamAnswer>> exchange(Endpoint upstream, QueryKey key,
                                                Transport transport) override {
    auto paf = kj::newPromiseAndFulfiller<kj::Own<UpstreamAnswer>>();
    exchanges.push_back({upstream, kj::mv(key), transport, kj::mv(paf.fulfiller)});
    return kj::mv(paf.promise);
  }
};

struct DnsResolver : testing::Test {
  ~DnsResolver() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelNetwork network;
  Resolver resolver{timer, network};
  ResolverSettings settings;

  DnsResolver() { upstreams({"192.0.2.1", "192.0.2.2"}); }
  void upstreams(std::initializer_list<kj::StringPtr> addresses) {
    settings.upstreams.clear();
    for (auto text : addresses) settings.upstreams.push_back({ip(text), kPort});
    configure();
  }
  void configure() { resolver.configure(settings); }

  kj::Promise<kj::Array<kj::byte>> ask(const TestQuery& query = {},
                                       Resolver::Client client = Resolver::Client::kNode) {
    auto asked = resolver.answer(query.parsed(), client).eagerlyEvaluate(nullptr);
    scope.poll();
    return asked;
  }
  // Returns the upstreams that were queried, by their last digits; "t" follows one over TCP.
  std::string asked() {
    std::string text;
    for (auto& each : network.exchanges) {
      text += std::to_string(each.upstream.address.bytes()[3]);
      if (each.transport == UpstreamNetwork::Transport::kTcp) text += "t";
    }
    return text;
  }
  // The last query gets this answer.
  void reply(const TestResponse& response, const TestQuery& query = {}) {
    auto message = response.encode(query.encode());
    auto parsed = KJ_ASSERT_NONNULL(parseResponse(message, query.parsed().key, query.id));
    network.exchanges.back().fulfiller->fulfill(
        kj::refcounted<UpstreamAnswer>(kj::mv(message), kj::mv(parsed)));
    scope.poll();
  }
  void reply() { reply({.answers = {addressRecord("203.0.113.9", 60)}}); }
  void fails() {
    network.exchanges.back().fulfiller->reject(error(ErrorKind::kUnavailable, "unreachable"));
    scope.poll();
  }
  void pass(kj::Duration time) { advance(timer, scope, time); }
  // Returns "RCODE ANSWERS"; "waits" without an answer.
  std::string answer(kj::Promise<kj::Array<kj::byte>>& promise) {
    if (!promise.poll(scope)) return "waits";
    auto message = promise.wait(scope);
    return kj::str(rcodeOf(message), " ", countOfAnswers(message)).cStr();
  }
  std::string counts() {
    auto& c = resolver.counts();
    return kj::str(c.hits, " ", c.misses, " ", c.failures).cStr();
  }
};

// Catches: a name that is looked up again although its answer is known; counts that do not say so.
TEST_F(DnsResolver, AnswersFromTheCache) {
  auto first = ask();
  EXPECT_EQ("1", asked());
  reply();
  EXPECT_EQ("0 1", answer(first));
  auto second = ask({.name = "A.test", .id = 9});
  EXPECT_EQ("0 1", answer(second));
  EXPECT_EQ("1", asked());
  EXPECT_EQ("1 1 0", counts());
  pass(60 * kj::SECONDS);
  auto third = ask();
  EXPECT_EQ("11", asked());
}

// Catches: a server that fails and after which no other is queried; the failure of one that is
// passed on although another knows the name; a failure that is kept.
TEST_F(DnsResolver, TheNextUpstreamIsAskedAfterAFailure) {
  for (auto rcode : {kServerFailure, kRefused}) {
    network.exchanges.clear();
    auto query = ask();
    reply({rcode});
    EXPECT_EQ("12", asked());
    EXPECT_EQ("waits", answer(query));
    reply({kNameError});
    EXPECT_EQ("3 0", answer(query));
  }
  auto query = ask();
  fails();
  reply({kServerFailure});
  EXPECT_EQ("2 0", answer(query));
  EXPECT_EQ("0 2 1", counts());
}

// Catches: a query that waits for a server that is down until its client has given up; a server
// that is down and delays each query.
TEST_F(DnsResolver, TheNextUpstreamIsAskedAfterATimeout) {
  auto query = ask();
  pass(Resolver::kAttemptLimit - 1 * kj::MILLISECONDS);
  EXPECT_EQ("1", asked());
  pass(1 * kj::MILLISECONDS);
  EXPECT_EQ("12", asked());
  reply();
  EXPECT_EQ("0 1", answer(query));
  auto other = ask({.name = "b.test"});
  EXPECT_EQ("122", asked());
}

// Catches: a name whose own servers are down, for which the queries of all others go to another
// upstream, which may not know the names of this network.
TEST_F(DnsResolver, ASlowNameDoesNotMoveItsUpstream) {
  auto slow = ask({.name = "slow.test"});
  pass(1 * kj::SECONDS);
  auto other = ask();
  reply();
  EXPECT_EQ("0 1", answer(other));
  pass(Resolver::kAttemptLimit - 1 * kj::SECONDS);
  EXPECT_EQ("112", asked()) << "the slow name goes to the next one";
  auto third = ask({.name = "b.test"});
  EXPECT_EQ("1121", asked());
}

// Catches: a query without an answer, for which its client waits longer than for the failure.
TEST_F(DnsResolver, EveryQueryEndsInTime) {
  auto query = ask();
  pass(Resolver::kRequestLimit - 1 * kj::MILLISECONDS);
  EXPECT_EQ("waits", answer(query));
  EXPECT_EQ("121", asked());
  pass(1 * kj::MILLISECONDS);
  EXPECT_EQ("2 0", answer(query));
  upstreams({});
  auto none = ask();
  EXPECT_EQ("2 0", answer(none));
  EXPECT_EQ("0 0 2", counts());
}

// Catches: an answer without its records, because they do not fit into a datagram.
TEST_F(DnsResolver, ATruncatedAnswerIsAskedForOverTcp) {
  auto query = ask();
  reply({.flags = 0x8380});
  EXPECT_EQ("11t", asked());
  reply();
  EXPECT_EQ("0 1", answer(query));
  auto other = ask({.name = "b.test"});
  reply({.flags = 0x8380}, {.name = "b.test"});
  fails();
  EXPECT_EQ("11t11t2", asked());
}

// Catches: a flood of equal queries that all go to the upstream, each with a chance for a forged
// answer; one of them that gets no answer, or the number of another.
TEST_F(DnsResolver, EqualQueriesShareAnAnswer) {
  auto first = ask({.id = 1}), second = ask({.id = 2});
  {
    auto dropped = ask({.id = 3});
  }
  EXPECT_EQ("1", asked());
  reply();
  EXPECT_EQ(1, first.wait(scope)[1]);
  EXPECT_EQ(2, second.wait(scope)[1]);
  EXPECT_EQ("0 2 0", counts());
}

// Catches: queries of pods without a bound, each of which has a socket.
TEST_F(DnsResolver, QueriesAtTheUpstreamsAreBounded) {
  kj::Vector<kj::String> names;
  kj::Vector<kj::Promise<kj::Array<kj::byte>>> waiting;
  for (size_t i = 0; i < Resolver::kMostLookups; ++i) {
    waiting.add(ask({.name = names.add(kj::str("n", i, ".test"))}));
  }
  auto more = ask();
  EXPECT_EQ("2 0", answer(more));
  EXPECT_EQ(Resolver::kMostLookups, network.exchanges.size());
  auto same = ask({.name = "n0.test"});
  EXPECT_EQ("waits", answer(same)) << "it needs no other socket";
  pass(Resolver::kRequestLimit);
  auto later = ask();
  EXPECT_EQ("waits", answer(later));
}

// Catches: pods whose names are slow, and the node that cannot look up any name meanwhile.
TEST_F(DnsResolver, PodsLeaveLookupsToTheNode) {
  constexpr auto kPod = Resolver::Client::kPod;
  kj::Vector<kj::String> names;
  kj::Vector<kj::Promise<kj::Array<kj::byte>>> waiting;
  for (size_t i = 0; i < Resolver::kMostBeforePods; ++i) {
    waiting.add(ask({.name = names.add(kj::str("n", i, ".test"))}, kPod));
  }
  auto pod = ask({}, kPod);
  EXPECT_EQ("2 0", answer(pod));
  auto node = ask();
  EXPECT_EQ("waits", answer(node));
}

struct HostRow {
  kj::StringPtr name;
  uint16_t type;
  std::string answer;  // "" if the query goes to the upstreams
};

// Catches: a host of the config, or a member of the cluster, that is not known, or hides records
// that are not addresses; a member that comes before a host of the config; "no such name" for the
// IPv6 address of a host with IPv4.
TEST_F(DnsResolver, HostsComeBeforeTheUpstreams) {
  settings.hosts.add("Reg.lab.test", ip("192.0.2.60"));
  settings.hosts.add("node", ip("192.0.2.7"));
  settings.members.add("node", ip("192.0.2.8"));
  settings.members.add("node", ip("192.0.2.9"));
  settings.members.add("node", ip("2001:db8::8"));
  configure();
  const HostRow rows[] = {{"reg.LAB.test", kAddress, "0 1"},
                          {"reg.lab.test", kAddress6, "0 0"},
                          {"node", kAddress, "0 1"},
                          {"node", kAddress6, "0 1"},
                          {"node", kSoa, ""},
                          {"node.lab.test", kAddress, ""}};
  for (auto& row : rows) {
    auto before = network.exchanges.size();
    auto query = ask({.name = row.name, .type = row.type});
    EXPECT_EQ(row.answer.empty() ? "waits" : row.answer, answer(query)) << row.name.cStr();
    EXPECT_EQ(row.answer.empty(), network.exchanges.size() > before) << row.name.cStr();
  }
}

// Catches: answers of upstreams that the config no longer has; an answer that comes from them
// later and is kept.
TEST_F(DnsResolver, OtherSettingsEmptyTheCache) {
  auto first = ask();
  reply();
  configure();
  auto cached = ask();
  EXPECT_EQ("0 1", answer(cached)) << "the same settings";
  auto late = ask({.name = "b.test"});
  upstreams({"192.0.2.3"});
  reply({.answers = {addressRecord("203.0.113.9")}}, {.name = "b.test"});
  EXPECT_EQ("0 1", answer(late));
  network.exchanges.clear();
  auto again = ask(), other = ask({.name = "b.test"});
  EXPECT_EQ("33", asked());
}

// Catches: a query after a change of the config that waits for a name server of before.
TEST_F(DnsResolver, AQueryAfterAChangeGoesToTheNewUpstreams) {
  auto before = ask();
  upstreams({"192.0.2.3"});
  auto after = ask();
  EXPECT_EQ("13", asked());
  reply({kNameError});
  EXPECT_EQ("3 0", answer(after));
  EXPECT_EQ("waits", answer(before));
}

// Catches: a query of a later EDNS that is answered as if it were of version 0.
TEST_F(DnsResolver, ALaterEdnsIsRefused) {
  auto query = TestQuery{.udp = 1232}.parsed();
  auto key = query.key;
  query.laterEdns = true;
  auto message = resolver.answer(kj::mv(query)).wait(scope);
  EXPECT_EQ(kBadVersion, KJ_ASSERT_NONNULL(parseResponse(message, key, 7)).rcode);
}

// Catches: the copy of a whole zone through the resolver, which an answer cannot hold.
TEST_F(DnsResolver, TransfersAreRefused) {
  auto query = ask({.type = kAxfr});
  EXPECT_EQ("4 0", answer(query));
  EXPECT_EQ("", asked());
}

}  // namespace
}  // namespace talos::networkd::dns
