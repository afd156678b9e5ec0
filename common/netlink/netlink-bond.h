// Bonds as the kernel's driver knows them: every option, with the conditions under which it can be
// set. The one table of them, for whoever encodes, plans, models or shows a bond. Pure.
//
// The figures are those of linux/if_link.h (IFLA_BOND_*) and of the driver of Linux 6.12; a test in
// a guest compares each row with what that kernel accepts (tests/kernel).
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <stdint.h>

#include <array>
#include <optional>
#include <vector>

#include "common/net/ip.h"
#include "common/netlink/link-names.h"

struct nlattr;

namespace talos::netlink {

class MessageBuilder;

enum class BondMode : uint8_t {
  kBalanceRr,
  kActiveBackup,
  kBalanceXor,
  kBroadcast,
  kLacp,  // 802.3ad
  kBalanceTlb,
  kBalanceAlb,
};
constexpr size_t kBondModes = 7;

// The numbers of IFLA_BOND_*; those whose value is not a number are members of BondOptions.
enum class BondOption : uint8_t {
  kMode = 1,
  kActiveMember = 2,  // index of a link
  kMiimon = 3,        // ms
  kUpDelay = 4,       // ms
  kDownDelay = 5,     // ms
  kUseCarrier = 6,
  kArpInterval = 7,  // ms
  kArpValidate = 9,
  kArpAllTargets = 10,
  kPrimary = 11,  // index of a link
  kPrimaryReselect = 12,
  kFailOverMac = 13,
  kXmitHashPolicy = 14,
  kResendIgmp = 15,
  kNumPeerNotif = 16,
  kAllMembersActive = 17,
  kMinLinks = 18,
  kLpInterval = 19,  // s
  kPacketsPerMember = 20,
  kLacpRate = 21,
  kAdSelect = 22,
  kAdActorSysPrio = 24,
  kAdUserPortKey = 25,
  kTlbDynamicLb = 27,
  kPeerNotifDelay = 28,  // ms
  kLacpActive = 29,
  kMissedMax = 30,
  kCoupledControl = 32,
};

using Mac = std::array<kj::byte, 6>;

// Only what is there is set, or known.
struct BondOptions {
  static constexpr size_t kNumbers = 33;
  std::array<std::optional<uint32_t>, kNumbers> numbers = {};  // by BondOption
  std::optional<std::vector<Ip>> arpTargets, nsTargets;        // in their order
  std::optional<Mac> actorSystem;

  std::optional<uint32_t>& operator[](BondOption option) { return numbers[size_t(option)]; }
  const std::optional<uint32_t>& operator[](BondOption option) const {
    return numbers[size_t(option)];
  }
  bool empty() const { return *this == BondOptions{}; }
  // balance-rr when it is not known.
  BondMode mode() const;
  bool operator==(const BondOptions&) const = default;
};

// What must hold for an option to be set, and what it is when nobody sets it.
struct BondRule {
  BondOption option;
  kj::StringPtr name;  // as in the machine config: a field of its Bond, if it is one of its keys
  uint8_t bytes;       // of the attribute
  uint32_t standard;   // in modes that say nothing else
  bool down;           // the bond must be down, else EBUSY
  bool empty;          // it must have no members, else ENOTEMPTY
  uint8_t modes;       // bit n: mode n; in the others EACCES
  uint32_t most;       // largest value, else EINVAL
  uint32_t least = 0;

  bool fits(BondMode mode) const { return (modes >> unsigned(mode) & 1) != 0; }
  uint32_t standardIn(BondMode mode) const;
};

// In the order in which the kernel applies them, whatever their order in the message.
kj::ArrayPtr<const BondRule> bondRules();
const BondRule& ruleOf(BondOption option);
constexpr size_t kMostBondTargets = 16;
// The modes in which bond-wide settings of ARP and of LACP can be made.
constexpr uint8_t kArpModes = 0b0001111, kLacpModes = 0b0010000;

kj::StringPtr nameOf(BondMode mode);  // as in the machine config
// "mode 802.3ad, miimon 100": for logs and problems.
kj::String describe(const BondOptions& options, const NameOfLink& nameOf = indexText);

// The partner of LACP; read only.
struct BondPartner {
  uint16_t aggregator = 0, ports = 0, actorKey = 0, partnerKey = 0;
  Mac partner = {};
  bool operator==(const BondPartner&) const = default;
};

// A link that belongs to a bond, as the bond sees it; read only.
struct BondMember {
  bool backup = false;     // false: it sends and receives
  uint8_t miiStatus = 0;   // 0 up, 1 going to fail, 2 down, 3 coming back
  uint32_t failures = 0;   // how often its link failed
  Mac permanentAddress{};  // its own address, which it gets back
  uint16_t queue = 0, aggregator = 0;
  bool operator==(const BondMember&) const = default;
};
kj::StringPtr miiStatusName(uint8_t status);

// IFLA_INFO_DATA and IFLA_INFO_SLAVE_DATA.
void putBond(MessageBuilder& out, const BondOptions& options);
BondOptions readBond(const nlattr* data);
std::optional<BondPartner> readBondPartner(const nlattr* data);
BondMember readBondMember(const nlattr* data);

}  // namespace talos::netlink
