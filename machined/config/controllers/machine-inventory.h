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
// From <sys>/class/dmi/id; none without SMBIOS.
kj::Maybe<SystemInformation> readSystemInformation(kj::StringPtr sys);

// The marks of a platform in it; empty ones without SMBIOS.
platforms::Firmware readFirmware(kj::StringPtr sys);

// A package: what is in one socket.
struct ProcessorPackage {
  unsigned socket = 0;
  kj::String manufacturer, productName;
  kj::String microcode;             // its revision; empty: the kernel does not say
  unsigned cores = 0, threads = 0;  // of it; cores 0: the kernel does not say
};
// Of the text of /proc/cpuinfo, sorted by socket; processors without one are in socket 0.
kj::Vector<ProcessorPackage> processorPackages(kj::ArrayPtr<const char> cpuinfo);

struct PciDevice {
  kj::String address;  // 0000:00:1f.2
  // With two or four hexadecimal digits: 0x8086. Empty: the kernel does not say.
  kj::String classId, subclassId, vendorId, productId;
};
// From <sys>/bus/pci/devices, sorted by address.
kj::Vector<PciDevice> readPciDevices(kj::StringPtr sys);

// The firmware has checked the signatures of what it booted: from <sys>/kernel/boot_params/data,
// where the kernel for x86 keeps what its EFI stub found out. False where it is not known, as on
// arm64.
bool bootedSecurely(kj::StringPtr sys);

}  // namespace talos::machined
