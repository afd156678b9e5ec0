// Rules of the kernel's bonding driver: for each option the modes, states and values in which it
// can be set, and which options exclude each other. The checks of the config call effectiveBond()
// before anything happens, and networkd's planner when it sends; ModelKernel enforces the table.
// Pure.
//
// The figures are those of linux/if_link.h (IFLA_BOND_*) and of the driver of Linux 6.12; a test in
// a guest compares each row with that kernel (tests/kernel).
#pragma once

#include <kj/function.h>

#include "common/bond/bond-options.h"

namespace talos::netlink {

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

// Returns "mode 802.3ad", "modes balance-tlb and balance-alb": the modes in which the option has an
// effect.
kj::String modesOf(const BondRule& rule);

// Reports the option's name in the config, and its problem: "is used only in mode 802.3ad".
using BondProblem = kj::FunctionParam<void(kj::StringPtr option, kj::StringPtr problem)>;

// Returns the options that a bond gets: the given ones, or else the driver's defaults, if they have
// an effect in its mode and together.
BondOptions effectiveBond(const BondOptions& given, BondProblem problem);

}  // namespace talos::netlink
