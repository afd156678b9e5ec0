#include "networkd/plan/predictable-names.h"

#include <net/if.h>
#include <stdlib.h>

#include "common/net/text-values.h"

namespace talos::networkd {
namespace {

// Firmware without an index reports large numbers.
constexpr uint32_t kLargestOnboardIndex = 65535;
constexpr unsigned kFunctionsOfDevice = 8;

struct PciAddress {
  uint32_t domain, bus, device, function;
};

// Parses "0000:03:00.1": three hexadecimal numbers and a digit.
kj::Maybe<PciAddress> parsePciAddress(kj::StringPtr text) {
  PciAddress result{};
  auto at = text.cStr();
  auto number = [&](uint32_t& out, int base, char end) {
    char* rest = nullptr;
    if (*at == '-' || *at == '+') return false;
    auto value = strtoul(at, &rest, base);
    if (rest == at || *rest != end || value > UINT32_MAX) return false;
    out = uint32_t(value);
    at = rest + 1;
    return true;
  };
  constexpr int kHexadecimal = 16;
  if (!number(result.domain, kHexadecimal, ':') || !number(result.bus, kHexadecimal, ':') ||
      !number(result.device, kHexadecimal, '.') || !number(result.function, 10, '\0')) {
    return nullptr;
  }
  return result;
}

// Returns "u1u4i6" for "2-1.4:1.6": each port on the path; configuration 1 and interface 0 are left
// out.
kj::Maybe<kj::String> usbSuffix(kj::StringPtr interface) {
  KJ_IF_MAYBE (dash, interface.findFirst('-')) {
    auto rest = interface.slice(*dash + 1);
    KJ_IF_MAYBE (colon, rest.findFirst(':')) {
      auto numbers = rest.slice(*colon + 1);
      KJ_IF_MAYBE (dot, numbers.findFirst('.')) {
        auto ports = kj::heapString(rest.slice(0, *colon));
        for (auto& c : ports) {
          if (c == '.') c = 'u';
        }
        auto configuration = kj::heapString(numbers.slice(0, *dot));
        auto number = numbers.slice(*dot + 1);
        auto result = kj::str("u", ports);
        if (configuration != "1") result = kj::str(result, "c", configuration);
        if (number != "0") result = kj::str(result, "i", number);
        return kj::mv(result);
      }
    }
  }
  return nullptr;
}

// Distinguishes several ports of one function. Ports of a virtual function have "pf0vf3".
kj::String portSuffix(const CardFacts& card) {
  if (card.portName.size() > 0) {
    unsigned function = 0, represented = 0;
    char more = 0;
    if (sscanf(card.portName.cStr(), "pf%5uvf%5u%c", &function, &represented, &more) == 2) {
      return kj::str("r", represented);
    }
    return kj::str("n", card.portName);
  }
  return card.port > 0 ? kj::str("d", card.port) : kj::String();
}

// The firmware states the slot of the card, or of the device above it. A bridge's slot holds
// everything below the bridge, and several cards would get its name; so it counts only if the
// card's functions have numbers.
kj::Maybe<uint32_t> slotOfFirmware(const CardFacts& card) {
  auto valid = [](const PciDevice& device) { return device.firmwareSlot.value_or(0) > 0; };
  if (valid(card.pci[0])) return *card.pci[0].firmwareSlot;
  if (card.pci.size() < 2 || !valid(card.pci[1])) return nullptr;
  if (card.pci[1].bridge && !card.multifunction) return nullptr;
  return *card.pci[1].firmwareSlot;
}

kj::Maybe<uint32_t> slotOfHotPlug(const CardFacts& card) {
  for (auto& device : card.pci) {
    for (auto& slot : card.slots) {
      bool its =
          slot.number > 0 && slot.address.size() > 0 && device.address.startsWith(slot.address);
      if (!its) continue;
      if (device.bridge) return nullptr;
      return slot.number;
    }
  }
  return nullptr;
}

kj::Maybe<uint32_t> slotOf(const CardFacts& card) {
  KJ_IF_MAYBE (slot, slotOfFirmware(card)) return *slot;
  return slotOfHotPlug(card);
}

void addPciNames(const CardFacts& card, kj::StringPtr suffix, kj::Vector<kj::String>& names) {
  KJ_IF_MAYBE (place, parsePciAddress(card.pci[0].address)) {
    // With ARI, the five bits of the device and the three of the function form one number.
    auto function =
        card.ari ? place->device * kFunctionsOfDevice + place->function : place->function;
    auto domain = place->domain > 0 ? kj::str("P", place->domain) : kj::String();
    auto rest = kj::str(function > 0 || card.multifunction ? kj::str("f", function) : kj::String(),
                        portSuffix(card), suffix);
    KJ_IF_MAYBE (slot, slotOf(card)) {
      names.add(kj::str(card.prefix, domain, "s", *slot, rest));
    }
    names.add(kj::str(card.prefix, domain, "p", place->bus, "s", place->device, rest));
  }
}

void addOnboardName(const CardFacts& card, kj::StringPtr suffix, kj::Vector<kj::String>& names) {
  if (!card.onboardIndex || *card.onboardIndex > kLargestOnboardIndex) return;
  names.add(kj::str(card.prefix, "o", *card.onboardIndex, portSuffix(card), suffix));
}

}  // namespace

kj::Vector<kj::String> predictableNames(const CardFacts& card) {
  kj::Vector<kj::String> names;
  bool placed = true;
  if (card.usb.size() > 0) {
    KJ_IF_MAYBE (suffix, usbSuffix(card.usb)) {
      if (card.pci.size() > 0) {
        addPciNames(card, *suffix, names);
      } else {
        names.add(kj::str(card.prefix, *suffix));
      }
    }
  } else if (card.pci.size() > 0) {
    auto suffix = card.virtualFunction ? kj::str("v", *card.virtualFunction) : kj::String();
    addOnboardName(card, suffix, names);
    addPciNames(card, suffix, names);
  } else if (card.xen) {
    names.add(kj::str(card.prefix, "X", *card.xen));
  } else {
    placed = false;
  }
  // A card of another bus does not get a name by its address: where such cards have special names
  // (Hyper-V), two of them share an address.
  if (placed && card.permanentAddress.size() > 0) {
    names.add(kj::str(card.prefix, "x", card.permanentAddress));
  }
  kj::Vector<kj::String> fitting;
  for (auto& name : names) {
    // The kernel treats a name with a '%' as a pattern.
    if (config::isLinkName(name) && name.findFirst('%') == nullptr) fitting.add(kj::mv(name));
  }
  return fitting;
}

}  // namespace talos::networkd
