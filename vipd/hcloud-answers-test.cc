#include "vipd/hcloud-answers.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::vipd {
namespace {

std::string text(const HcloudServer& server) {
  std::string out = kj::str(server.id, ":").cStr();
  for (auto& prefix : server.addresses) out += kj::str(" ", prefix).cStr();
  for (auto& net : server.networks) {
    out += kj::str(" net ", net.network, " [", kj::strArray(net.aliases, " "), "]").cStr();
  }
  return out;
}

// Catches: a server without a public address that is not read; the length of an IPv6 network that
// is lost; aliases of another network.
TEST(HcloudAnswers, ServersHaveAddressesAndAliases) {
  auto page = readHcloudServers(R"({"servers":[
    {"id":42,"name":"a","public_net":{"ipv4":{"id":1,"ip":"198.51.100.4","blocked":false},
      "ipv6":{"id":2,"ip":"2001:db8:4::/64"},"floating_ips":[478]},
     "private_net":[{"network":4711,"ip":"10.0.0.4","alias_ips":["10.0.0.9","10.0.0.10"],
       "mac_address":"86:00:ff:2a:7d:e1"},{"network":4712,"ip":"10.1.0.4","alias_ips":[]}]},
    {"id":43,"public_net":{"ipv4":null,"ipv6":null},"private_net":[]}],
    "meta":{"pagination":{"page":1,"per_page":25,"previous_page":null,"next_page":2}}})"_kj);
  ASSERT_EQ(2u, page.items.size());
  EXPECT_EQ(text(page.items[0]),
            "42: 198.51.100.4/32 2001:db8:4::/64 10.0.0.4/32 10.1.0.4/32 net 4711 [10.0.0.9 "
            "10.0.0.10] net 4712 []");
  EXPECT_EQ(text(page.items[1]), "43:");
  EXPECT_EQ(2u, page.next);
}

// Catches: a floating IP that is assigned to no server and counts as ours; the last page that is
// followed by another one.
TEST(HcloudAnswers, FloatingIpsAndNetworks) {
  auto ips = readHcloudFloatingIps(R"({"floating_ips":[
    {"id":7,"ip":"203.0.113.7","type":"ipv4","server":42},
    {"id":8,"ip":"2001:db8:8::/64","type":"ipv6","server":null}],
    "meta":{"pagination":{"next_page":null}}})"_kj);
  ASSERT_EQ(2u, ips.items.size());
  EXPECT_EQ("203.0.113.7/32"_kj, ips.items[0].address.toString());
  EXPECT_EQ(42u, ips.items[0].server);
  EXPECT_EQ("2001:db8:8::/64"_kj, ips.items[1].address.toString());
  EXPECT_EQ(0u, ips.items[1].server);
  EXPECT_EQ(0u, ips.next);
  EXPECT_EQ(9u, readHcloudFloatingIp(R"({"floating_ip":{"id":9,"ip":"203.0.113.9"}})"_kj).id);
  auto networks = readHcloudNetworks(R"({"networks":[{"id":4711,"ip_range":"10.0.0.0/16"}]})"_kj);
  ASSERT_EQ(1u, networks.items.size());
  EXPECT_EQ("10.0.0.0/16"_kj, networks.items[0].range.toString());
}

// Catches: an action that has failed and counts as done, or one that runs; a token in its problem.
TEST(HcloudAnswers, Actions) {
  auto running =
      readHcloudAction(R"({"action":{"id":3,"status":"running","error":null}})"_kj, "t0k");
  EXPECT_EQ(3u, running.id);
  EXPECT_TRUE(running.running);
  EXPECT_EQ(""_kj, running.problem);
  EXPECT_FALSE(readHcloudAction(R"({"action":{"id":3,"status":"success"}})"_kj, "t0k").running);
  auto failed = readHcloudAction(
      R"({"action":{"id":3,"status":"error","error":{"code":"action_failed","message":"no\nt0k"}}})"_kj,
      "t0k");
  EXPECT_FALSE(failed.running);
  EXPECT_EQ("no ***"_kj, failed.problem);
  EXPECT_EQ("it gives no reason"_kj,
            readHcloudAction(R"({"action":{"id":3,"status":"error"}})"_kj, "t0k").problem);
}

// Catches: an answer that is not the requested one and counts as an empty list; an alias that would
// be lost when the list is written back; lists that take all memory.
TEST(HcloudAnswers, WhatIsRefused) {
  struct Row {
    kj::StringPtr body, problem;
    void (*read)(kj::StringPtr);
  };
  auto servers = [](kj::StringPtr body) { readHcloudServers(body); };
  auto ips = [](kj::StringPtr body) { readHcloudFloatingIps(body); };
  auto ip = [](kj::StringPtr body) { readHcloudFloatingIp(body); };
  auto networks = [](kj::StringPtr body) { readHcloudNetworks(body); };
  auto action = [](kj::StringPtr body) { readHcloudAction(body, "t0k"); };
  Row rows[] = {
      {"", "is not valid JSON", servers},
      {"<html>", "is not valid JSON", servers},
      {"{\"servers\":[", "is not valid JSON", servers},
      {"[]", "has no list of servers", servers},
      {"{}", "has no list of servers", servers},
      {"{\"servers\":{}}", "has no list of servers", servers},
      {"{\"servers\":[{}]}", "has a server without an id", servers},
      {"{\"servers\":[{\"id\":\"42\"}]}", "has a server without an id", servers},
      {"{\"servers\":[{\"id\":-1}]}", "has a server without an id", servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[{\"ip\":\"10.0.0.1\"}]}]}",
       "has a private network without an id", servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[{\"network\":2,\"alias_ips\":[\"x\"]}]}]}",
       "has an alias IP that is not an address", servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[{\"network\":2,\"alias_ips\":[7]}]}]}",
       "has an alias IP that is not an address", servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[{\"network\":2,\"alias_ips\":{}}]}]}",
       "has no list of alias_ips", servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[{\"network\":2}]}]}", "has no list of alias_ips",
       servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[{\"network\":2,\"alias_ips\":["
       "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}]}",
       "has more than 20 alias_ips", servers},
      {"{\"servers\":[{\"id\":1,\"private_net\":[0,0,0,0,0,0,0,0,0,0,0]}]}",
       "has a server in too many networks", servers},
      {"{\"networks\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}",
       "has more than 25 networks", networks},
      {"{\"servers\":[]}", "has no list of floating_ips", ips},
      {"{\"floating_ips\":[{\"id\":1}]}", "has a floating IP without an address", ips},
      {"{}", "has no floating IP", ip},
      {"{\"networks\":[{\"id\":1,\"ip_range\":\"10\"}]}", "has a network without a range",
       networks},
      {"{}", "has no action", action},
      {"{\"action\":{\"id\":1,\"status\":\"odd\"}}", "has an action of an unknown status", action},
      {"{\"action\":{\"status\":\"running\"}}", "has an action without an id", action},
  };
  for (auto& row : rows) {
    auto failure = kj::runCatchingExceptions([&] { row.read(row.body); });
    ASSERT_TRUE(failure != nullptr) << row.body.cStr();
    auto& e = KJ_ASSERT_NONNULL(failure);
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(e)) << row.body.cStr();
    EXPECT_STREQ(kj::str("the answer of Hetzner's API ", row.problem).cStr(), messageOf(e).cStr());
  }
}

// Catches: a token in a log because the server repeats it, also where a long text is cut; control
// characters in a log.
TEST(HcloudAnswers, ErrorsAreFieldsWithoutTheToken) {
  EXPECT_EQ(
      "401 Unauthorized: unable to authenticate (unauthorized)"_kj,
      readHcloudError(401, "Unauthorized",
                      R"({"error":{"code":"unauthorized","message":"unable to authenticate"}})"_kj,
                      "t0k"));
  EXPECT_EQ("502 Bad Gateway"_kj,
            readHcloudError(502, "Bad Gateway", "<html>nginx</html>"_kj, "t0k"));
  EXPECT_EQ("403 no: *** is? bad"_kj,
            readHcloudError(403, "no", R"({"error":{"message":"t0k is\u0007 bad"}})"_kj, "t0k"));
  auto body =
      kj::str("{\"error\":{\"message\":\"", kj::StringPtr(std::string(290, 'x')), "t0ken\"}}");
  auto cut = readHcloudError(403, "no", body, "t0ken");
  EXPECT_EQ(nullptr, strstr(cut.cStr(), "t0")) << cut.cStr();
  EXPECT_LE(cut.size(), 300u);
}

}  // namespace
}  // namespace talos::vipd
