// A bond's options between the machine config and the kernel: which are given, and which of them
// mean something together.
//
// effectiveBond() is the one place that knows what the bonding driver refuses or ignores: the
// checks of the config ask it before anything happens, and networkd's planner when it sends. Pure.
// The conditions of each option alone are in the table of common/netlink/netlink-bond.h.
#pragma once

#include <kj/function.h>

#include "common/netlink/netlink-bond.h"
#include "rpc/config.capnp.h"

namespace talos::netlink {

// In the words of the machine config, both ways; in what comes of the kernel, primary and members
// are left to the caller.
BondOptions bondOptions(config::Bond::Reader bond);
void fillBond(config::Bond::Builder out, const BondOptions& options);

// The option as it is called in the config, and what is wrong with it: "has a meaning only in ...".
using BondProblem = kj::FunctionParam<void(kj::StringPtr option, kj::StringPtr why)>;

// The options that a bond is to have in the end: those that are given, or the kernel's standard, as
// far as they have a meaning in its mode and with the others.
BondOptions effectiveBond(const BondOptions& given, BondProblem problem);

// "mode 802.3ad", "modes balance-tlb and balance-alb": those in which the option does something.
kj::String modesOf(const BondRule& rule);

}  // namespace talos::netlink
