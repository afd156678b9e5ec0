#include "networkd/plan/change-texts.h"

#include <gtest/gtest.h>

#include "common/testing/test-ip.h"

namespace talos::networkd {
namespace {

Observed observed(std::initializer_list<kj::StringPtr> names) {
  Observed result;
  for (auto name : names) {
    netlink::Link link;
    link.index = result.links.size() + 1;
    link.name = kj::str(name);
    result.links.add(kj::mv(link));
  }
  return result;
}

// Catches: a number that is wrongly taken for a link; a link that is shown by its number; a link's
// name that is taken for a word of the sentence.
TEST(ChangeWords, LinksHaveTheirNames) {
  auto there = observed({"lo", "eth0", "link", "bond0"});
  netlink::BondOptions options;
  options[netlink::BondOption::kMode] = 1;
  options[netlink::BondOption::kMiimon] = 2;
  options[netlink::BondOption::kPrimary] = 2;
  netlink::Route route{.destination = prefix("10.2.0.0/16"), .link = 2, .metric = 2};
  struct {
    netlink::Change change;
    kj::StringPtr text, link;
  } rows[] = {
      {netlink::AddAddress{{.link = 2, .prefix = prefix("10.0.0.2/24")}},
       "add address 10.0.0.2/24 to link eth0", "eth0"},
      {netlink::AddRoute{route}, "add route 10.2.0.0/16 link eth0 metric 2", "eth0"},
      {netlink::SetLink{.index = 3, .mtu = 2u, .master = 4u}, "set link link mtu 2 master bond0",
       "link"},
      {netlink::SetLink{.index = 4, .hardwareAddress = {{2, 0, 0, 0, 0, 7}}},
       "set link bond0 address 02:00:00:00:00:07", "bond0"},
      {netlink::AddLink{kj::str("v"), netlink::Vlan{.parent = 3, .id = 2}},
       "add link v, vlan 2 on link link", "v"},
      {netlink::SetBond{4, options}, "set bond bond0: mode active-backup, miimon 2, primary eth0",
       "bond0"},
      {netlink::DeleteLink{9}, "delete link 9", ""},
      {netlink::RenameLink{2, kj::str("enp0s3")}, "rename link eth0 to enp0s3", "eth0"},
  };
  for (auto& row : rows) {
    EXPECT_STREQ(describe(row.change, there).cStr(), row.text.cStr());
    EXPECT_STREQ(linkOf(row.change, there).cStr(), row.link.cStr());
  }
}

}  // namespace
}  // namespace talos::networkd
