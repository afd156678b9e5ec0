// Firmware files that drivers have asked for in vain, by the lines of the kernel's log, and the
// packages that have them. Pure: the lines are a node's, and may be any.
//
// Two messages of drivers/base/firmware_loader/main.c begin with the device, which begins with its
// driver: "bnx2 0000:03:00.0: Direct firmware load for FILE failed with error -2", and in Debian's
// kernels "bnx2 0000:03:00.0: firmware: failed to load FILE (-2)". A file that was loaded later
// ("firmware: direct-loading firmware FILE", also of Debian's) is not missing.
#pragma once

#include <capnp/list.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl {

// True for a line that missingFirmware() reads.
bool isAboutFirmware(kj::StringPtr line);

struct MissingFirmware {
  kj::String driver, device;        // "bnx2", "0000:03:00.0"
  kj::Vector<kj::String> files;     // "bnx2/bnx2-mips-09-6.2.1b.fw", in the order of the log
  kj::Vector<kj::StringPtr> lines;  // of each file the first
};
// Lines as the node gives them ("kern: warning: [2026-11-22T15:01:10Z]: bnx2 …"), the oldest first.
// One entry for each device and package. The lines outlive the result.
kj::Vector<MissingFirmware> missingFirmware(capnp::List<capnp::Text>::Reader lines);

// "firmware-bnx2"; empty: it is not known (firmware-packages.inc).
kj::StringPtr firmwarePackage(kj::StringPtr file);

}  // namespace talos::talosctl
