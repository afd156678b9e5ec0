// Checks that a machine starts from a disk after a power cut, or can be installed on it.
#pragma once

#include <map>
#include <string>

#include "tests/cuts/image.h"

namespace talos::cuts {

// Digests of the files from which a slot is started.
struct System {
  std::string kernel, initramfs, entry;
  bool operator==(const System&) const = default;
};

// The systems as the boot loader sees them, by the slots' names. `slots` has those that may be
// started: the confirmed one, and one that is to be tried. bootView() throws when it does not find
// a file that a slot needs, or grubenv is invalid.
struct BootView {
  install::SlotState state;
  std::map<std::string, System> slots;
};
BootView bootView(const std::string& image, const std::string& folder);

// The files and boot code that a whole installation has put on the disk.
struct Installation {
  std::string config;
  System system;
  std::string efi, bootCode, menu;
  bool operator==(const Installation&) const = default;
};
Installation readInstallation(const std::string& image, const std::string& folder);

// Returns "untouched" or "unfinished" if the installer would begin again, "installed" if the
// installation is complete. Throws for anything else.
std::string stateOfInstallation(const std::string& image, const Installation& whole,
                                const std::string& folder);

}  // namespace talos::cuts
