// Options of a bond, by the numbers of the kernel's driver: their conversion from and to the
// machine config, and the driver's rules for them. Pure. Their netlink attributes are in
// common/netlink/netlink-encode.cc.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>
#include <stdint.h>

#include <array>
#include <optional>
#include <vector>

#include "common/net/ip.h"
#include "rpc/config.capnp.h"

namespace talos::netlink {

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

// Numbers of IFLA_BOND_*; options whose value is not a number are members of BondOptions.
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

// Options of a bond. An absent option is not set, or not known.
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
  // Returns the mode; balance-rr if it is absent.
  BondMode mode() const;
  bool operator==(const BondOptions&) const = default;
};

kj::StringPtr nameOf(BondMode mode);  // as in the machine config

// Convert from and to the machine config. The caller handles options that name links (primary,
// members).
BondOptions bondOptions(config::Bond::Reader bond);
void fillBond(config::Bond::Builder out, const BondOptions& options);

// --- rules
//
// For each option the modes, states and values in which it can be set, and which options exclude
// each other. The checks of the config call effectiveBond() before anything happens, and networkd's
// planner when it sends; ModelKernel enforces the table.
//
// The figures are those of linux/if_link.h (IFLA_BOND_*) and of the driver of Linux 6.12; a test in
// a guest compares each row with that kernel (tests/kernel).

// The conditions for setting an option, and its default.
struct BondRule {
  BondOption option;
  kj::StringPtr name;  // as in the machine config: a field of its Bond, if it is one of its keys
  uint8_t bytes;       // size of the attribute
  uint32_t standard;   // the default, in most modes
  bool down;           // the bond must be down, otherwise EBUSY
  bool empty;          // the bond must have no members, otherwise ENOTEMPTY
  uint8_t modes;       // bit n: mode n; in other modes EACCES
  uint32_t most;       // largest value, otherwise EINVAL
  uint32_t least = 0;

  bool fits(BondMode mode) const { return (modes >> unsigned(mode) & 1) != 0; }
  uint32_t standardIn(BondMode mode) const;
};

// Returns the rules in the order in which the kernel applies the options, whatever their order in
// the message.
kj::ArrayPtr<const BondRule> bondRules();
const BondRule& ruleOf(BondOption option);
constexpr size_t kMostBondTargets = 16;
// Modes in which bond-wide settings of ARP and of LACP can be made.
constexpr uint8_t kArpModes = 0b0001111, kLacpModes = 0b0010000;

// Returns "is used only in modes balance-tlb and balance-alb, not in 802.3ad": the modes in which
// the option has an effect, for a bond of another mode.
kj::String usedOnlyIn(const BondRule& rule, BondMode mode);

// Reports the option's name in the config, and its problem: "has no effect without miimon".
using BondProblem = kj::FunctionParam<void(kj::StringPtr option, kj::StringPtr problem)>;

// Returns the options that a bond gets: the given ones, or else the driver's defaults, if they have
// an effect in its mode and together. Reports each given option without an effect. The caller
// checks options that depend on the primary member, which is not among the given ones.
BondOptions effectiveBond(const BondOptions& given, BondProblem problem);

// Selects the options to send to a bond from its options as effectiveBond() returns them; empty if
// nothing differs.
BondOptions bondDifference(const BondOptions& effective, const BondOptions& current);

}  // namespace talos::netlink
