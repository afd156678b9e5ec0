#include "networkd/control/sysfs-card.h"

#include <linux/netdevice.h>
#include <linux/pci_regs.h>
#include <net/if_arp.h>
#include <stdlib.h>

#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/kernel/sysfs-attributes.h"

namespace talos::networkd {
namespace {

constexpr size_t kMostSlots = 1024, kMostFunctions = 65536;

// Reads a number: decimal, or hexadecimal after 0x.
kj::Maybe<uint32_t> numberAt(kj::StringPtr device, kj::StringPtr name) {
  auto text = readAttributeLine(device, name).orDefault(kj::String());
  if (text.size() == 0 || text[0] < '0' || text[0] > '9') return nullptr;
  char* end = nullptr;
  auto value = strtoul(text.cStr(), &end, 0);
  if (*end != '\0' || value > UINT32_MAX) return nullptr;
  return uint32_t(value);
}

std::optional<uint32_t> optional(kj::Maybe<uint32_t> number) {
  KJ_IF_MAYBE (there, number) return *there;
  return {};
}

kj::String subsystemOf(kj::StringPtr device) {
  return nameOfTarget(kj::str(device, "/subsystem"));
}

kj::StringPtr nameIn(kj::StringPtr path) {
  KJ_IF_MAYBE (slash, path.findLast('/')) return path.slice(*slash + 1);
  return path;
}

// Goes from `device` up to the first device for which `fits` holds; nullptr if no device fits.
template <typename Fits>
kj::Maybe<kj::String> upFrom(kj::StringPtr device, kj::StringPtr devices, Fits&& fits) {
  auto path = kj::str(device);
  while (path.size() > devices.size() && path.startsWith(devices)) {
    if (fits(path)) return kj::mv(path);
    path = folderOf(path);
  }
  return nullptr;
}

kj::Maybe<kj::String> pciFrom(kj::StringPtr device, kj::StringPtr devices) {
  return upFrom(device, devices, [](kj::StringPtr path) { return subsystemOf(path) == "pci"; });
}

bool isMultifunction(kj::StringPtr device) {
  constexpr unsigned kMultifunction = 0x80;
  auto config = readAttribute(device, "config").orDefault(kj::String());
  return config.size() > PCI_HEADER_TYPE &&
         (static_cast<unsigned char>(config[PCI_HEADER_TYPE]) & kMultifunction) != 0;
}

// Returns the physical function of a virtual function, and sets the latter's number.
kj::String physicalOf(kj::String device, CardFacts& card) {
  constexpr kj::StringPtr kLink = "virtfn"_kj;
  KJ_IF_MAYBE (physical, resolvedPath(kj::str(device, "/physfn"))) {
    for (auto& name : namesIn(*physical, kMostFunctions)) {
      if (!name.startsWith(kLink)) continue;
      KJ_IF_MAYBE (number, name.slice(kLink.size()).tryParseAs<uint32_t>()) {
        if (nameOfTarget(kj::str(*physical, "/", name)) != nameIn(device)) continue;
        card.virtualFunction = *number;
        return kj::mv(*physical);
      }
    }
  }
  return device;
}

void readPci(kj::StringPtr sys, kj::StringPtr devices, kj::StringPtr function, CardFacts& card) {
  constexpr kj::StringPtr kBridgeClass = "0x0604"_kj;
  card.multifunction = isMultifunction(function);
  card.ari = numberAt(function, "ari_enabled").orDefault(0) != 0;
  card.onboardIndex = optional(numberAt(function, "acpi_index"));
  if (!card.onboardIndex) card.onboardIndex = optional(numberAt(function, "index"));
  auto next = pciFrom(function, devices);
  for (;;) {
    KJ_IF_MAYBE (path, next) {
      auto kind = readAttributeLine(*path, "class").orDefault(kj::String());
      card.pci.add(PciDevice{kj::str(nameIn(*path)), kind.startsWith(kBridgeClass),
                             optional(numberAt(*path, "firmware_node/sun"))});
      next = pciFrom(folderOf(*path), devices);
    } else {
      break;
    }
  }
  auto slots = kj::str(sys, "/bus/pci/slots");
  for (auto& name : namesIn(slots, kMostSlots)) {
    KJ_IF_MAYBE (number, name.tryParseAs<uint32_t>()) {
      KJ_IF_MAYBE (address, readAttributeLine(kj::str(slots, "/", name), "address")) {
        card.slots.add(PciSlot{*number, kj::mv(*address)});
      }
    }
  }
}

// Returns false if the bus of the card has no names for places.
bool readPlace(kj::StringPtr sys, kj::StringPtr devices, kj::StringPtr device, CardFacts& card) {
  auto isVirtio = [](kj::StringPtr path) { return subsystemOf(path) == "virtio"; };
  auto bus = upFrom(device, devices, [&](kj::StringPtr path) { return !isVirtio(path); });
  auto own = kj::mv(KJ_UNWRAP_OR_RETURN(bus, false));
  auto kind = subsystemOf(own);
  if (kind == "pci") {
    readPci(sys, devices, physicalOf(kj::mv(own), card), card);
    return true;
  }
  if (kind == "xen") {
    constexpr kj::StringPtr kInterface = "vif-"_kj;
    auto name = nameIn(own);
    if (name.startsWith(kInterface)) {
      card.xen = optional(name.slice(kInterface.size()).tryParseAs<uint32_t>());
    }
    return true;
  }
  if (kind != "usb") return false;
  auto isInterface = [](kj::StringPtr path) { return nameIn(path).findFirst(':') != nullptr; };
  auto interface = KJ_UNWRAP_OR_RETURN(upFrom(own, devices, isInterface), false);
  card.usb = kj::str(nameIn(interface));
  KJ_IF_MAYBE (function, pciFrom(interface, devices)) readPci(sys, devices, *function, card);
  return true;
}

kj::StringPtr prefixOf(kj::StringPtr entry, const netlink::Link& link) {
  if (link.type == ARPHRD_INFINIBAND) return "ib";
  auto uevent = readAttribute(entry, "uevent").orDefault(kj::String());
  for (auto line : Lines(uevent)) {
    if (line == "DEVTYPE=wlan"_kj.asArray()) return "wl";
    if (line == "DEVTYPE=wwan"_kj.asArray()) return "ww";
  }
  return "en";
}

void readPort(kj::StringPtr entry, const netlink::Link& link, CardFacts& card) {
  card.portName = readAttributeLine(entry, "phys_port_name").orDefault(kj::String());
  card.port = numberAt(entry, "dev_port").orDefault(0);
  if (card.port == 0 && link.type == ARPHRD_INFINIBAND) {
    card.port = numberAt(entry, "dev_id").orDefault(0);
  }
}

kj::String permanentAddressOf(kj::StringPtr entry, const netlink::Link& link) {
  constexpr size_t kOctets = 6;
  constexpr uint32_t kPermanent = 0;  // NET_ADDR_PERM of the kernel: neither random nor set
  bool own = numberAt(entry, "addr_assign_type").orDefault(UINT32_MAX) == kPermanent;
  if (!own || link.type != ARPHRD_ETHER || link.hardwareAddress.size() != kOctets) return {};
  kj::Vector<char> text;
  for (char c : netlink::hardwareText(link.hardwareAddress)) {
    if (c != ':') text.add(c);
  }
  return kj::heapString(text);
}

bool nameWasChosen(kj::StringPtr entry) {
  // The file is unreadable while the kernel does not know the type.
  auto type = numberAt(entry, "name_assign_type").orDefault(NET_NAME_UNKNOWN);
  return type != NET_NAME_UNKNOWN && type != NET_NAME_ENUM;
}

}  // namespace

kj::Maybe<CardFacts> readCard(kj::StringPtr sys, const netlink::Link& link) {
  auto entry = kj::str(sys, "/class/net/", link.name);
  // Another link may have got the name meanwhile.
  if (numberAt(entry, "ifindex").orDefault(0) != link.index || nameWasChosen(entry)) return nullptr;
  auto device = KJ_UNWRAP_OR_RETURN(resolvedPath(kj::str(entry, "/device")), nullptr);
  auto devices = KJ_UNWRAP_OR_RETURN(resolvedPath(kj::str(sys, "/devices")), nullptr);
  CardFacts card;
  card.prefix = prefixOf(entry, link);
  if (!readPlace(sys, devices, device, card)) return nullptr;
  readPort(entry, link, card);
  card.permanentAddress = permanentAddressOf(entry, link);
  return kj::mv(card);
}

}  // namespace talos::networkd
