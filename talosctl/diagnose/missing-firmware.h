// Finds firmware files that drivers requested without success, by the lines of the kernel's log,
// and the packages that contain them. Pure: the lines come from a node and may have any content.
//
// Two messages of drivers/base/firmware_loader/main.c begin with the device, preceded by its
// driver: "bnx2 0000:03:00.0: Direct firmware load for FILE failed with error -2", and in Debian's
// kernels "bnx2 0000:03:00.0: firmware: failed to load FILE (-2)". A file that was loaded later
// ("firmware: direct-loading firmware FILE", also in Debian's kernels) is not missing.
#pragma once

#include <capnp/list.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl {

// Returns true for a line that missingFirmware() reads.
bool isAboutFirmware(kj::StringPtr line);

struct MissingFirmware {
  kj::String driver, device;        // "bnx2", "0000:03:00.0"
  kj::Vector<kj::String> files;     // "bnx2/bnx2-mips-09-6.2.1b.fw", in the order of the log
  kj::Vector<kj::StringPtr> lines;  // the first line for each file
};
// Returns one entry for each device and package. `lines` are in the node's format ("kern: warning:
// [2026-11-22T15:01:10Z]: bnx2 …"), the oldest first, and must outlive the result.
kj::Vector<MissingFirmware> missingFirmware(capnp::List<capnp::Text>::Reader lines);

// Returns the package of a file, such as "firmware-bnx2"; empty if unknown (firmware-packages.inc).
kj::StringPtr firmwarePackage(kj::StringPtr file);

}  // namespace talos::talosctl
