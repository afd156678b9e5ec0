// Predictable names of network cards: from facts of sysfs to "eno1", "ens3", "enp0s31f6",
// "enP1p2s0", "enp0s20u1u2", "enX0" or "enx525400000001". Pure.
//
// Follows systemd.net-naming-scheme(7), scheme v257, with the policy of systems with udev: the
// index of the firmware, the hot plug slot, the place on the bus; then, where none of these fits
// into the 15 characters of a name, the hardware address. Schemes for buses of other architectures
// (CCW, VIO, BCMA, device tree, ACPI platform devices) are not implemented: such links, and links
// without hardware, have no predictable name and keep the kernel's.
#pragma once

#include <kj/common.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

#include <optional>

namespace talos::networkd {

// A device on the path from a card to the root of its PCI bus.
struct PciDevice {
  kj::String address;                    // "0000:03:00.1"
  bool bridge = false;                   // from PCI to PCI
  std::optional<uint32_t> firmwareSlot;  // ACPI _SUN
};
// A slot of the hot plug driver: "3" is "0000:03:00".
struct PciSlot {
  uint32_t number;
  kj::String address;
};

struct CardFacts {
  kj::StringPtr prefix = "en"_kj;  // "ib" InfiniBand, "wl" wireless LAN, "ww" wireless WAN

  // The card's PCI function, or the function of its port or bus, and the devices above it; for a
  // virtual function (SR-IOV) the physical function. Empty: the card is not on PCI.
  kj::Vector<PciDevice> pci;
  bool multifunction = false, ari = false;
  std::optional<uint32_t> onboardIndex;  // ACPI _DSM, else SMBIOS type 41
  std::optional<uint32_t> virtualFunction;
  kj::Vector<PciSlot> slots;  // all slots of the machine

  kj::String usb;               // the interface, "2-1.4:1.0"; empty: not on USB
  std::optional<uint32_t> xen;  // number of the guest's interface
  kj::String portName;          // phys_port_name
  uint32_t port = 0;            // dev_port; for InfiniBand on older kernels dev_id
  kj::String permanentAddress;  // "525400000001"; empty: the current address is not the card's
                                // permanent one
};

// Returns the names that fit, the best first.
kj::Vector<kj::String> predictableNames(const CardFacts& card);

}  // namespace talos::networkd
