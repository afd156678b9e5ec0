// Options of a bond, by the numbers of the kernel's driver, and their conversion from and to the
// machine config. Pure.
#pragma once

#include <kj/array.h>
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

}  // namespace talos::netlink
