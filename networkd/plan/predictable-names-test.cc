#include "networkd/plan/predictable-names.h"

#include <gtest/gtest.h>

namespace talos::networkd {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Bridge {
  kj::StringPtr address;
  uint32_t firmwareSlot = kNone;
  bool bridge = true;
};
struct CardRow {
  kj::StringPtr pci = ""_kj, usb = ""_kj;
  uint32_t firmwareSlot = kNone;
  bool multifunction = false, ari = false;
  uint32_t index = kNone, function = kNone, xen = kNone, port = 0;
  kj::StringPtr portName = ""_kj, mac = ""_kj, prefix = "en"_kj;
  kj::ArrayPtr<const Bridge> above = nullptr;
  kj::StringPtr slot = ""_kj;  // address of slot 4
};

std::optional<uint32_t> optionalOf(uint32_t value) {
  if (value == kNone) return {};
  return value;
}

kj::String namesOf(const CardRow& row) {
  CardFacts card;
  card.prefix = row.prefix;
  if (row.pci.size() > 0) {
    card.pci.add(PciDevice{kj::str(row.pci), false, optionalOf(row.firmwareSlot)});
    for (auto& each : row.above) {
      card.pci.add(PciDevice{kj::str(each.address), each.bridge, optionalOf(each.firmwareSlot)});
    }
  }
  card.multifunction = row.multifunction;
  card.ari = row.ari;
  card.onboardIndex = optionalOf(row.index);
  card.virtualFunction = optionalOf(row.function);
  card.usb = kj::str(row.usb);
  card.xen = optionalOf(row.xen);
  card.port = row.port;
  card.portName = kj::str(row.portName);
  card.permanentAddress = kj::str(row.mac);
  card.slots.add(PciSlot{0, kj::str("0000:01:00")});
  if (row.slot.size() > 0) card.slots.add(PciSlot{4, kj::str(row.slot)});
  return kj::strArray(predictableNames(card), " ");
}

constexpr Bridge kPort[] = {{"0000:00:1c.3"_kj}};
constexpr Bridge kPortWithSlot[] = {{"0000:00:1c.3"_kj, 9}};
constexpr Bridge kSwitch[] = {{"0000:00:1c.3"_kj, 9, false}};

struct NameRow {
  CardRow card;
  kj::StringPtr names;
};
const NameRow kNames[] = {
    // The examples of the manual page.
    {{.pci = "0000:00:1f.6", .mac = "54ee75cb1dc0"}, "enp0s31f6 enx54ee75cb1dc0"},
    {{.pci = "0000:05:00.0", .index = 1}, "eno1 enp5s0"},
    {{.pci = "0000:05:00.0", .mac = "000000000466", .above = kPort, .slot = "0000:05:00"},
     "ens4 enp5s0 enx000000000466"},
    {{.pci = "0000:02:00.0", .multifunction = true, .mac = "78e7d1ea46da"},
     "enp2s0f0 enx78e7d1ea46da"},
    {{.pci = "0000:02:00.1", .multifunction = true, .mac = "78e7d1ea46dc"},
     "enp2s0f1 enx78e7d1ea46dc"},
    {{.pci = "0000:03:00.0", .mac = "0024d7e31130", .prefix = "wl"}, "wlp3s0 wlx0024d7e31130"},
    {{.pci = "0000:15:00.0", .multifunction = true, .prefix = "ib"}, "ibp21s0f0"},
    {{.pci = "0000:00:1d.0", .usb = "2-1.4:1.6", .mac = "028037ec0200", .prefix = "ww"},
     "wwp0s29u1u4i6 wwx028037ec0200"},
    {{.pci = "0000:00:1d.0", .usb = "2-1.2:1.0", .mac = "d626b3450fb5"},
     "enp0s29u1u2 enxd626b3450fb5"},
    // QEMU: q35 has no slots, i440fx numbers its slots; a card at a port.
    {{.pci = "0000:00:02.0", .mac = "525400000002"}, "enp0s2 enx525400000002"},
    {{.pci = "0000:00:03.0", .firmwareSlot = 3, .mac = "525400000001"},
     "ens3 enp0s3 enx525400000001"},
    {{.pci = "0000:01:00.0", .firmwareSlot = 0, .above = kPort, .slot = "0000:00:1c"}, "enp1s0"},
    {{.pci = "0000:00:04.0", .usb = "1-2:1.0"}, "enp0s4u2"},
    // Slots: a bridge's slot is not the card's, unless the card's functions have numbers.
    {{.pci = "0000:05:00.0", .above = kPortWithSlot}, "enp5s0"},
    {{.pci = "0000:05:00.0", .multifunction = true, .above = kPortWithSlot}, "ens9f0 enp5s0f0"},
    {{.pci = "0000:05:00.0", .above = kSwitch}, "ens9 enp5s0"},
    {{.pci = "0000:01:00.0"}, "enp1s0"},  // slot 0
    // The firmware's index: 0 is valid, too large numbers are not.
    {{.pci = "0000:05:00.0", .index = 0}, "eno0 enp5s0"},
    {{.pci = "0000:05:00.0", .index = 65535}, "eno65535 enp5s0"},
    {{.pci = "0000:05:00.0", .index = 16777215}, "enp5s0"},
    {{.pci = "0000:05:00.0", .index = 2, .port = 1}, "eno2d1 enp5s0d1"},
    // Domains, ports, functions.
    {{.pci = "0001:02:00.0"}, "enP1p2s0"},
    {{.pci = "10000:e1:00.0"}, "enP65536p225s0"},
    {{.pci = "0000:81:00.0", .port = 1}, "enp129s0d1"},
    {{.pci = "0000:81:00.0", .multifunction = true, .port = 1, .portName = "p0"}, "enp129s0f0np0"},
    {{.pci = "0000:81:00.0", .multifunction = true, .portName = "pf0vf3"}, "enp129s0f0r3"},
    {{.pci = "0000:01:00.0", .portName = "c1pf0vf3"}, "enp1s0nc1pf0vf3"},
    {{.pci = "0000:81:00.0", .multifunction = true, .function = 12}, "enp129s0f0v12"},
    {{.pci = "0000:81:02.3", .ari = true}, "enp129s2f19"},
    // Names that are too long, or that the kernel refuses.
    {{.pci = "10000:e1:00.0", .multifunction = true, .portName = "p0", .mac = "525400000001"},
     "enx525400000001"},
    {{.pci = "0000:81:00.0", .portName = "a b", .mac = "525400000001"}, "enx525400000001"},
    {{.pci = "0000:81:00.0", .portName = "p%d"}, ""},
    // USB without PCI, another configuration; texts that are not the name of an interface.
    {{.usb = "1-1.2.1:1.0"}, "enu1u2u1"},
    {{.usb = "1-1:2.3"}, "enu1c2i3"},
    {{.usb = "usb1", .mac = "525400000001"}, "enx525400000001"},
    {{.xen = 0, .mac = "00163e000001"}, "enX0 enx00163e000001"},
    // Other buses, and texts that are not an address.
    {{.mac = "525400000001"}, ""},
    {{.pci = "virtio0"}, ""},
    {{.pci = "0000:00:03"}, ""},
};

}  // namespace

// Catches: a name that differs from that of other systems with the same card.
TEST(PredictableNames, AreThoseOfTheManualPage) {
  for (auto& row : kNames) {
    EXPECT_STREQ(namesOf(row.card).cStr(), row.names.cStr())
        << row.card.pci.cStr() << " " << row.card.usb.cStr();
  }
}

}  // namespace talos::networkd
