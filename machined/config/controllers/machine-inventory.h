// The machine as the kernel describes it: its firmware, processors and PCI devices, from files of
// /sys and /proc. The parsers are pure; reading is thin.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/platforms/platform.h"

namespace talos::machined {

struct SystemInformation {
  kj::String manufacturer, productName, version, serialNumber, uuid, skuNumber;
};
// Reads <sys>/class/dmi/id; nullptr without SMBIOS.
kj::Maybe<SystemInformation> readSystemInformation(kj::StringPtr sys);

// Reads the marks of a platform in the firmware; empty without SMBIOS.
platforms::Firmware readFirmware(kj::StringPtr sys);

// A processor package: the contents of one socket.
struct ProcessorPackage {
  unsigned socket = 0;
  kj::String manufacturer, productName;
  kj::String microcode;             // microcode revision; empty if the kernel does not say
  unsigned cores = 0, threads = 0;  // counts of the package; 0 cores: the kernel does not say
};
// Reads the text of /proc/cpuinfo; sorted by socket. Processors without a socket are in socket 0.
kj::Vector<ProcessorPackage> processorPackages(kj::ArrayPtr<const char> cpuinfo);

struct PciDevice {
  kj::String address;  // 0000:00:1f.2
  // IDs with two or four hexadecimal digits: 0x8086. Empty if the kernel does not say.
  kj::String classId, subclassId, vendorId, productId;
};
// Reads <sys>/bus/pci/devices; sorted by address.
kj::Vector<PciDevice> readPciDevices(kj::StringPtr sys);

// Returns true if the firmware has checked the signatures of what it booted, by
// <sys>/kernel/boot_params/data, where the x86 kernel keeps what its EFI stub found out. False if
// this is not known, as on arm64.
bool bootedSecurely(kj::StringPtr sys);

}  // namespace talos::machined
