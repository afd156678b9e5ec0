#include "vipd/hcloud-place.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::vipd {
namespace {

// Two servers in network 4711 (10.0.0.0/16); the first one has a second network, 4712.
struct Project {
  kj::Vector<HcloudServer> servers;
  kj::Vector<HcloudFloatingIp> ips;
  kj::Vector<HcloudNetwork> networks;

  Project() {
    add(42, "198.51.100.4/32", "10.0.0.4/32");
    add(43, "198.51.100.5/32", "10.0.0.5/32");
    servers[0].networks.add(HcloudServer::Attachment{.network = 4712, .aliases = {}});
    ips.add(HcloudFloatingIp{.id = 7, .address = prefix("203.0.113.7/32"), .server = 43});
    ips.add(HcloudFloatingIp{.id = 8, .address = prefix("2001:db8:8::/64"), .server = 0});
    networks.add(HcloudNetwork{.id = 4711, .range = prefix("10.0.0.0/16")});
    networks.add(HcloudNetwork{.id = 4712, .range = prefix("10.1.0.0/16")});
    networks.add(HcloudNetwork{.id = 4713, .range = prefix("10.2.0.0/16")});
  }
  static Prefix prefix(kj::StringPtr text) { return KJ_ASSERT_NONNULL(Prefix::parse(text)); }
  void add(uint64_t id, kj::StringPtr global, kj::StringPtr local) {
    auto& server = servers.add(HcloudServer{.id = id, .addresses = {}, .networks = {}});
    for (auto text : {global, local}) server.addresses.add(prefix(text));
    server.networks.add(HcloudServer::Attachment{.network = 4711, .aliases = {}});
  }
  // Returns "server/floating IP/network", or the error.
  std::string find(kj::StringPtr address, kj::StringPtr instance,
                   std::initializer_list<kj::StringPtr> own) {
    Machine self{.instance = kj::str(instance), .addresses = {}};
    for (auto text : own) self.addresses.add(Ip::require(text));
    kj::String result;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   auto place = findHcloudPlace(Ip::require(address), self, servers, ips, networks);
                   result = kj::str(place.server, "/", place.floatingIp, "/", place.network);
                 })) {
      result = messageOf(*e);
    }
    return result.cStr();
  }
  // Returns the changes of 10.0.0.9 for server 42: "43: ;42: 10.0.0.8 10.0.0.9;".
  std::string changes() {
    std::string result;
    auto all = aliasChanges(Ip::require("10.0.0.9"), {.server = 42, .network = 4711}, servers);
    for (auto& change : all) {
      result += kj::str(change.server, ": ", kj::strArray(change.aliases, " "), ";").cStr();
    }
    return result;
  }
};

// Catches: another server of the project that is taken for this one; an address of another
// network.
TEST(HcloudPlace, WhereAnAddressIs) {
  Project project;
  struct Row {
    kj::StringPtr address, instance;
    std::initializer_list<kj::StringPtr> own;
    const char* result;
  } rows[] = {
      {"203.0.113.7", "42", {}, "42/7/0"},
      {"203.0.113.7", "", {"192.0.2.1", "198.51.100.5"}, "43/7/0"},
      {"2001:db8:8::9", "42", {}, "42/8/0"},
      {"10.0.0.9", "43", {}, "43/0/4711"},
      {"10.0.0.9", "", {"10.0.0.4"}, "42/0/4711"},
      {"10.1.0.9", "42", {}, "42/0/4712"},
      {"10.1.0.9",
       "43",
       {},
       "10.1.0.9 is neither a floating IP in the project of the API token nor in a network of this "
       "server"},
      {"10.0.0.9",
       "44",
       {"10.0.0.4"},
       "the project of the API token has no server with the id 44 of this machine; use a token of "
       "the right project"},
      {"10.0.0.9",
       "",
       {"10.0.0.6"},
       "no server in the project of the API token has an address of this node"},
      {"10.0.0.9",
       "",
       {"10.0.0.4", "10.0.0.5"},
       "the servers 42 and 43 both have an address of this node; with talos.platform=hcloud the "
       "node knows its id"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(project.find(row.address, row.instance, row.own), row.result)
        << row.address.cStr() << " " << row.instance.cStr();
  }
}

// Catches: an alias that two servers have; other aliases that are lost; a change without need; the
// alias of another network.
TEST(HcloudPlace, AliasesMoveFromServerToServer) {
  Project project;
  auto ip = [](kj::StringPtr text) { return Ip::require(text); };
  EXPECT_EQ(project.changes(), "42: 10.0.0.9;");
  project.servers[1].networks[0].aliases.add(ip("10.0.0.9"));
  project.servers[1].networks[0].aliases.add(ip("10.0.0.10"));
  project.servers[0].networks[0].aliases.add(ip("10.0.0.8"));
  project.servers[0].networks[1].aliases.add(ip("10.0.0.9"));
  EXPECT_EQ(project.changes(), "43: 10.0.0.10;42: 10.0.0.8 10.0.0.9;");
  project.servers[0].networks[0].aliases.add(ip("10.0.0.9"));
  EXPECT_EQ(project.changes(), "43: 10.0.0.10;");
  project.servers[1].networks[0].aliases = {};
  EXPECT_EQ(project.changes(), "");
  project.servers[0].networks = {};
  EXPECT_THROW(project.changes(), kj::Exception);
}

}  // namespace
}  // namespace talos::vipd
