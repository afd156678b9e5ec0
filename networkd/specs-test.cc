#include "networkd/specs.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

namespace talos::networkd {
namespace {

template <typename Spec, typename Fill>
Wanted read(Fill&& fill, void (*add)(Wanted&, kj::StringPtr, uint64_t, typename Spec::Reader)) {
  capnp::MallocMessageBuilder message;
  auto spec = message.initRoot<Spec>();
  fill(spec);
  Wanted wanted;
  add(wanted, "cmdline/x", 7, spec.asReader());
  return wanted;
}

Wanted readAddress(kj::StringPtr text, kj::StringPtr family = "", kj::StringPtr scope = "") {
  return read<rpc::AddressSpecSpec>(
      [&](rpc::AddressSpecSpec::Builder spec) {
        spec.setAddress(text);
        spec.setLinkName("eth0");
        spec.setFamily(family);
        spec.setScope(scope);
      },
      &addAddress);
}

Wanted readRoute(kj::StringPtr destination, kj::StringPtr gateway, kj::StringPtr family = "") {
  return read<rpc::RouteSpecSpec>(
      [&](rpc::RouteSpecSpec::Builder spec) {
        spec.setDestination(destination);
        spec.setGateway(gateway);
        spec.setFamily(family);
        spec.setLinkName("eth0");
        spec.setMetric(10);
      },
      &addRoute);
}

// Catches: a scope that does not follow from the address, and the version being lost.
TEST(Specs, readsAddresses) {
  struct {
    kj::StringPtr text, scope;
    uint8_t expected;
  } rows[] = {{"10.5.0.2/24", "", RT_SCOPE_UNIVERSE},
              {"169.254.1.1/16", "", RT_SCOPE_LINK},
              {"127.0.0.2/8", "", RT_SCOPE_HOST},
              {"10.5.0.2/24", "link", RT_SCOPE_LINK},
              {"fd00::1/64", "global", RT_SCOPE_UNIVERSE}};
  for (auto& row : rows) {
    auto wanted = readAddress(row.text, "", row.scope);
    ASSERT_EQ(wanted.addresses.size(), 1u) << row.text.cStr();
    EXPECT_EQ(wanted.addresses[0].scope, row.expected) << row.text.cStr();
    EXPECT_EQ(wanted.addresses[0].version, 7u);
  }
}

// Catches: a spec that cannot be read being dropped without a word.
TEST(Specs, whatCannotBeReadIsAProblemThatNamesTheSpec) {
  struct {
    Wanted wanted;
    kj::StringPtr problem;
  } rows[] = {
      {readAddress("10.5.0.2"),
       "AddressSpec cmdline/x: \"10.5.0.2\" is not an address with a prefix length, as "
       "10.5.0.2/24"},
      {readAddress("10.5.0.2/24", "inet6"),
       "AddressSpec cmdline/x: family \"inet6\" does not fit 10.5.0.2/24"},
      {readAddress("224.0.0.1/24"),
       "AddressSpec cmdline/x: 224.0.0.1/24 cannot be a link's address"},
      {readAddress("10.5.0.2/24", "", "world"),
       "AddressSpec cmdline/x: scope \"world\" is none of global, site, link, host"},
      {readRoute("10.9.0.0", "10.5.0.1"),
       "RouteSpec cmdline/x: destination \"10.9.0.0\" is not a prefix, as 10.9.0.0/16"},
      {readRoute("", "gateway"), "RouteSpec cmdline/x: gateway \"gateway\" is not an address"},
      {readRoute("fd00::/8", "10.5.0.1"),
       "RouteSpec cmdline/x: family, destination and gateway are not of one family"},
  };
  for (auto& row : rows) {
    ASSERT_EQ(row.wanted.problems.size(), 1u) << row.problem.cStr();
    EXPECT_STREQ(row.wanted.problems[0].cStr(), row.problem.cStr());
    EXPECT_EQ(row.wanted.addresses.size() + row.wanted.routes.size(), 0u);
  }
}

// Catches: an empty destination of the wrong family, and the gateway 0.0.0.0 taken for a router.
TEST(Specs, readsRoutes) {
  struct {
    Wanted wanted;
    kj::StringPtr destination;
    bool gateway;
  } rows[] = {{readRoute("", "10.5.0.1"), "0.0.0.0/0", true},
              {readRoute("", "fe80::1"), "::/0", true},
              {readRoute("", "", "inet6"), "::/0", false},
              {readRoute("10.9.1.2/16", "0.0.0.0"), "10.9.0.0/16", false}};
  for (auto& row : rows) {
    ASSERT_EQ(row.wanted.routes.size(), 1u) << row.destination.cStr();
    EXPECT_STREQ(row.wanted.routes[0].destination.toString().cStr(), row.destination.cStr());
    EXPECT_EQ(row.wanted.routes[0].gateway != nullptr, row.gateway) << row.destination.cStr();
    EXPECT_EQ(row.wanted.routes[0].metric, 10u);
  }
}

// Catches: more servers than the C library reads, or a line that a spec's text smuggles into the
// file.
TEST(Specs, resolverFile) {
  auto servers = kj::arr(kj::str("10.5.0.1"), kj::str("1.1.1.1\nnameserver 6.6.6.6"),
                         kj::str("fd00::53"), kj::str("8.8.8.8"), kj::str("9.9.9.9"));
  auto search = kj::arr(kj::str("example.org"), kj::str("a\nnameserver 6.6.6.6"), kj::str("b.org"));
  EXPECT_STREQ(
      resolverFile(servers, search).cStr(),
      "nameserver 10.5.0.1\nnameserver fd00::53\nnameserver 8.8.8.8\nsearch example.org b.org\n");
  EXPECT_STREQ(resolverFile(nullptr, search.slice(1, 2)).cStr(), "");
}

}  // namespace
}  // namespace talos::networkd
