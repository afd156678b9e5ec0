#include "etcd-supervisor/plan/moved-member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::supervisor {
namespace {

using ::testing::HasSubstr;

Config configAt(kj::StringPtr address) {
  Config config;
  config.name = kj::str("m-1");
  config.addresses.add(kj::str(address));
  return config;
}

etcd::Member memberOf(etcd::MemberId id, kj::StringPtr name, kj::StringPtr address) {
  etcd::Member member;
  member.id = id;
  member.name = kj::str(name);
  member.peerUrls = kj::arr(urlOf(address, 2380));
  return member;
}

// Three members in 10.5.0.0/24; this node's is the first.
Intent three() {
  Intent intent;
  intent.member = 1;
  recordMembers(intent, kj::arr(memberOf(1, "m-1", "10.5.0.2"), memberOf(2, "m-2", "10.5.0.3"),
                                memberOf(3, "m-3", "10.5.0.4")));
  return intent;
}

FoundMember foundAt(kj::StringPtr address, kj::StringPtr name, kj::StringPtr former) {
  FoundMember found;
  found.address = kj::str(address);
  found.names.add(kj::str(name));
  found.addresses.add(kj::str(address));
  found.addresses.add(kj::str(former));
  return found;
}

// Catches: a node whose etcd gets a proxy although its members reach it.
TEST(MovedMember, HasMovedWhenItServesNoneOfItsUrls) {
  EXPECT_FALSE(hasMoved(configAt("10.5.0.2"), three()));
  EXPECT_TRUE(hasMoved(configAt("10.6.0.2"), three()));
  auto both = configAt("10.6.0.2");
  both.addresses.add(kj::str("10.5.0.2"));
  EXPECT_FALSE(hasMoved(both, three()));
  both.listenAddresses.add(kj::str("10.6.0.2"));
  EXPECT_TRUE(hasMoved(both, three())) << "etcd does not listen at the former address";
  EXPECT_FALSE(hasMoved(configAt("10.6.0.2"), Intent())) << "nothing is recorded";
  Intent alone;
  alone.member = 1;
  recordMembers(alone, kj::arr(memberOf(1, "m-1", "10.5.0.2")));
  EXPECT_FALSE(hasMoved(configAt("10.6.0.2"), alone)) << "a single member needs no other";
}

// Catches: a member that comes back later and cannot verify those that have new URLs already.
TEST(MovedMember, FormerAddressesStayInTheRecord) {
  auto intent = three();
  EXPECT_FALSE(
      recordMembers(intent, kj::arr(memberOf(3, "m-3", "10.5.0.4"), memberOf(1, "m-1", "10.5.0.2"),
                                    memberOf(2, "m-2", "10.5.0.3"))))
      << "the order of the list does not matter";
  auto now = configAt("10.6.0.2");
  EXPECT_EQ("10.5.0.2", joined(formerAddressesOf(now, intent)));
  EXPECT_TRUE(
      recordMembers(intent, kj::arr(memberOf(1, "m-1", "10.6.0.2"), memberOf(2, "m-2", "10.5.0.3"),
                                    memberOf(3, "m-3", "10.5.0.4"))));
  EXPECT_EQ("10.5.0.2", joined(formerAddressesOf(now, intent)));
  EXPECT_EQ("", joined(formerAddressesOf(configAt("10.5.0.2"), three()))) << "it has the address";
  for (auto i : kj::range(3, 9)) {
    recordMembers(
        intent, kj::arr(memberOf(1, "m-1", kj::str("10.7.0.", i)), memberOf(2, "m-2", "10.5.0.3")));
  }
  EXPECT_EQ("10.7.0.4, 10.7.0.5, 10.7.0.6, 10.7.0.7", joined(intent.formerAddresses));
}

// Catches: a record that the next process cannot read, which would forget the intent with it.
TEST(MovedMember, RecordIsReadBack) {
  auto intent = three();
  recordMembers(intent, kj::arr(memberOf(1, "m-1", "fd00::2"), memberOf(2, "", "10.5.0.3"),
                                memberOf(3, "two\x01lines", "10.5.0.4"),
                                memberOf(4, "by-name", "etcd.example.org")));
  auto text = format(intent);
  EXPECT_EQ(
      "state none\nmember 1\n"
      "peer 1 https://[fd00::2]:2380 m-1\n"
      "peer 2 https://10.5.0.3:2380 \n"
      "peer 3 https://10.5.0.4:2380 two?lines\n"
      "former-address 10.5.0.2\n",
      text);
  EXPECT_EQ(text, format(parseIntent(text)));
  EXPECT_ANY_THROW(parseIntent("state none\npeer 1\n"));
  EXPECT_ANY_THROW(parseIntent("state none\npeer x https://10.5.0.3:2380 m\n"));
}

// Catches: a search over millions of addresses, one that leaves out half of the subnet, and a node
// that connects to itself or to an address that moves.
TEST(MovedMember, PlacesAreTheSubnetsOfTheNode) {
  auto config = configAt("10.6.0.2");
  config.shared.add(kj::str("10.6.0.100"));
  auto subnet = [](kj::StringPtr text) { return KJ_ASSERT_NONNULL(Prefix::parse(text)); };
  auto intent = three();
  auto small = placesOfMembers(
      config, intent, kj::arr(kj::str("10.9.0.1"), kj::str("a.name")),
      kj::arr(subnet("10.6.0.2/29"), subnet("10.244.0.1/24"), subnet("fd00::2/64")));
  EXPECT_EQ("10.5.0.3, 10.5.0.4, 10.9.0.1, 10.6.0.1, 10.6.0.3, 10.6.0.4, 10.6.0.5, 10.6.0.6",
            joined(small));
  auto large = placesOfMembers(config, Intent(), nullptr, kj::arr(subnet("10.6.0.2/8")));
  EXPECT_EQ(1022 - 2, large.size());
  EXPECT_EQ("10.6.0.1", large[0]);
  EXPECT_EQ("10.6.3.254", large.back());
  auto link = placesOfMembers(config, Intent(), nullptr, kj::arr(subnet("10.6.0.2/31")));
  EXPECT_EQ("10.6.0.3", joined(link));
}

// Catches: connections for one member that lead to the node which has its former address now.
TEST(MovedMember, RoutesFollowTheNameBeforeTheAddress) {
  auto config = configAt("10.6.0.2");
  auto routes = routesTo(
      config, three(),
      kj::arr(foundAt("10.6.0.2", "m-1", "10.5.0.2"), foundAt("10.6.0.7", "renamed", "10.5.0.3"),
              foundAt("10.6.0.9", "m-2", "10.5.0.9"), foundAt("10.6.0.8", "unknown", "10.5.0.77")));
  ASSERT_EQ(1, routes.size());
  EXPECT_EQ("10.5.0.3", routes[0].host);
  EXPECT_EQ("10.6.0.9, 10.6.0.7", joined(routes[0].addresses));
  auto message = movedMessage(config, three(), routes);
  EXPECT_THAT(message.cStr(), HasSubstr("another address (10.6.0.2)"));
  EXPECT_THAT(message.cStr(),
              HasSubstr("found m-2 at 10.6.0.9 or 10.6.0.7 (before: 10.5.0.3); looking for m-3 "
                        "(before: 10.5.0.4) in the subnets of this node"));
}

}  // namespace
}  // namespace talos::supervisor
