// Bonds and their members in rtnetlink messages: encoded, decoded and described. The rules of the
// options are in common/bond/bond-options.h. Pure.
#pragma once

#include <kj/string.h>
#include <stdint.h>

#include <optional>

#include "common/bond/bond-options.h"
#include "common/netlink/link-names.h"

struct nlattr;

namespace talos::netlink {

class MessageBuilder;

// Returns "mode 802.3ad, miimon 100", for logs and problems.
kj::String describe(const BondOptions& options, const NameOfLink& nameOf = indexText);

// Partner of LACP; read only.
struct BondPartner {
  uint16_t aggregator = 0, ports = 0, actorKey = 0, partnerKey = 0;
  Mac partner = {};
  bool operator==(const BondPartner&) const = default;
};

// A link that belongs to a bond, as the bond sees it; read only.
struct BondMember {
  bool backup = false;     // false if it sends and receives
  uint8_t miiStatus = 0;   // 0 up, 1 going to fail, 2 down, 3 coming back
  uint32_t failures = 0;   // how often the link failed
  Mac permanentAddress{};  // the link's own address, which it gets back
  uint16_t queue = 0, aggregator = 0;
  bool operator==(const BondMember&) const = default;
};
kj::StringPtr miiStatusName(uint8_t status);

// Appends IFLA_INFO_DATA and IFLA_INFO_SLAVE_DATA.
void putBond(MessageBuilder& out, const BondOptions& options);
BondOptions readBond(const nlattr* data);
std::optional<BondPartner> readBondPartner(const nlattr* data);
BondMember readBondMember(const nlattr* data);

}  // namespace talos::netlink
