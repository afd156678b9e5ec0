// The kernel's netlink messages, from any bytes: reads outside the input, endless walks, and texts
// that are not plain would show here.
#include <kj/debug.h>

#include "common/netlink/netlink-ethtool.h"
#include "common/netlink/netlink-generic.h"
#include "common/netlink/test-netlink.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos::netlink;

namespace {
void checkText(kj::StringPtr text) {
  for (unsigned char c : text) KJ_ASSERT(c >= 0x20 && c != 0x7f);
}

// A decoded rule can be encoded, and is decoded as the same again.
void checkRule(const Rule& rule) {
  checkText(describe(rule));
  for (auto& prefix : {rule.from, rule.to}) {
    KJ_ASSERT(!prefix || (prefix->address.family() == rule.family && prefix->length > 0));
  }
  // A request for a rule is read as the same rule.
  Rule written{.family = rule.family,
               .priority = rule.priority,
               .from = rule.from,
               .to = rule.to,
               .mark = rule.mark,
               .mask = rule.mask,
               .iif = rule.iif,
               .oif = rule.oif,
               .action = rule.action,
               .table = rule.table,
               .protocol = rule.protocol};
  KJ_ASSERT(decode(encode(AddRule{written})).messages[0].body.get<Rule>() == written);
  KJ_ASSERT(decode(encode(DeleteRule{written})).messages[0].body.is<Removed>());
  if (rule.more) return;
  KJ_ASSERT(decode(ruleMessage(RTM_NEWRULE, rule)).messages[0].body.get<Rule>() == rule);
}

void checkNeighbour(const Neighbour& neighbour) {
  for (auto name : neighbourFlagNames(neighbour)) checkText(name);
  KJ_ASSERT(neighbour.hardwareAddress.size() <= 32);
  auto sent = decode(neighbourMessage(RTM_NEWNEIGH, neighbour));
  KJ_ASSERT(sent.messages[0].body.get<Neighbour>() == neighbour);
}

// Reads every message of generic netlink as one of WireGuard, of ethtool and as the controller's
// answer.
void readGeneric(const Decoded& decoded) {
  WireguardDevice device;
  EthernetState state;
  for (auto& message : decoded.messages) {
    KJ_IF_MAYBE (generic, message.body.tryGet<Generic>()) {
      readWireguard(*generic, device);
      readFamily(*generic);
      readGroup(*generic, "acpi_mc_group");
      readEthernet(*generic, state);
    }
  }
  for (auto& feature : state.features) checkText(feature.name.c_str());
  SetWireguard set{.index = 1};
  for (auto& peer : device.peers) {
    for (auto& network : peer.allowed) {
      KJ_ASSERT(network == network.masked());
      checkText(network.toString());
    }
    if (peer.endpoint) checkText(peer.endpoint->toString());
    set.peers.push_back({.publicKey = peer.publicKey,
                         .endpoint = peer.endpoint,
                         .replaceAllowed = true,
                         .allowed = peer.allowed});
  }
  checkText(describe(set));
  WireguardDevice again;
  for (auto& message : encodeWireguard(30, set)) {
    for (auto& part : decodeGeneric(message).messages)
      readWireguard(part.body.get<Generic>(), again);
  }
}

// Reads answers of sock_diag: a request to end a connection names the connection that was read.
void readConnections(const Decoded& decoded) {
  for (auto& message : decoded.messages) {
    KJ_IF_MAYBE (connection, message.body.tryGet<Connection>()) {
      checkText(connection->local.toString());
      auto request = encodeConnectionEnd(*connection);
      KJ_ASSERT(memcmp(request.end() - sizeof(connection->id), &connection->id,
                       sizeof(connection->id)) == 0);
    }
  }
}
}  // namespace

FUZZ_TARGET(netlink) {
  auto bytes = kj::arrayPtr(data, size);
  readGeneric(decodeGeneric(bytes));
  readConnections(decode(bytes, Format::kSockets));
  auto decoded = decode(bytes);
  KJ_ASSERT(decoded.messages.size() <= size / 16);
  auto notice = noticeOf(bytes);
  for (auto& message : decoded.messages) {
    KJ_SWITCH_ONEOF(message.body) {
      KJ_CASE_ONEOF(link, Link) {
        checkText(link.name);
        checkText(link.kind);
        checkText(link.memberKind);
        checkText(link.queueDiscipline);
        if (link.bond) {
          // A decoded bond can be requested again, and is then the same.
          checkText(describe(*link.bond));
          auto again = decode(encode(SetBond{link.index, *link.bond}));
          KJ_ASSERT(again.messages[0].body.get<Link>().bond.value_or(BondOptions{}) == *link.bond);
        }
        if (link.vrfTable) {
          KJ_ASSERT(link.kind == "vrf");
          auto again = decode(encode(AddLink{kj::str("red"), Vrf{*link.vrfTable}}));
          KJ_ASSERT(again.messages[0].body.get<Link>().vrfTable == link.vrfTable);
        }
        if (link.bondMember) checkText(miiStatusName(link.bondMember->miiStatus));
      }
      KJ_CASE_ONEOF(address, Address) {
        // A decoded address can be requested again, and printed.
        checkText(address.prefix.toString());
        encode(DeleteAddress{address});
        if (auto broadcast = address.prefix.broadcast(); broadcast != nullptr) {
          KJ_ASSERT(address.prefix.contains(KJ_ASSERT_NONNULL(broadcast)));
        }
      }
      KJ_CASE_ONEOF(route, Route) {
        checkText(describe(DeleteRoute{route}));
        // A decoded route can be requested again, and is then the same.
        auto sent = decode(encode(AddRoute{route}));
        auto& again = sent.messages[0].body.get<Route>();
        KJ_ASSERT(again.type == route.type && again.flags == route.flags);
        KJ_ASSERT(again.mtu == route.mtu && again.source == route.source);
      }
      KJ_CASE_ONEOF(rule, Rule) {
        checkRule(rule);
        KJ_ASSERT(notice.rules);
      }
      KJ_CASE_ONEOF(neighbour, Neighbour) {
        checkNeighbour(neighbour);
        KJ_ASSERT(notice.neighbours);
      }
      KJ_CASE_ONEOF(ack, Ack) {
        checkText(ack.message);
      }
      KJ_CASE_ONEOF(done, Done) {
        checkText(done.message);
      }
      KJ_CASE_ONEOF(removed, Removed) {}
      KJ_CASE_ONEOF(other, Other) {}
      KJ_CASE_ONEOF(generic, Generic) {
        KJ_FAIL_ASSERT("rtnetlink has none");
      }
      KJ_CASE_ONEOF(connection, Connection) {
        KJ_FAIL_ASSERT("rtnetlink has none");
      }
    }
  }
  return 0;
}
