// Selectors of links in documents: the part of CEL that LinkAliasConfig uses for hardware links.
//
// Conditions on the driver, the bus path, the PCI id and the hardware addresses of a link, as
// comparisons with a text, glob(), startsWith(), endsWith() and contains(), combined with && and ||
// and parentheses. Whatever else CEL knows is a problem that names it. Pure. Standard: Common
// Expression Language, https://cel.dev.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::config {

constexpr kj::StringPtr kLinkSelectorForm =
    "for example mac(link.permanent_addr) == \"02:00:5e:10:00:01\", or link.driver == \"e1000e\" "
    "&& "
    "glob(\"0000:03:*\", link.bus_path)"_kj;

// Conditions that must all hold; "" is no condition, and * matches any characters.
struct LinkConditions {
  kj::String busPath, hardwareAddr, permanentAddr, pciId, driver;
};
struct LinkSelector {
  kj::Vector<LinkConditions> any;  // a link is selected if one of them holds
  kj::String problem;              // empty if the text is valid
};
// Takes any text; time and memory are bounded.
LinkSelector parseLinkSelector(kj::StringPtr text);

}  // namespace talos::config
