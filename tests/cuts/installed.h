// Checks that a machine starts from a disk after a power cut, or can be installed on it.
#pragma once

#include <map>
#include <string>

#include "tests/cuts/image.h"

namespace talos::cuts {

// Digests of what a slot is started from.
struct System {
  std::string kernel, initramfs, entry;
  bool operator==(const System&) const = default;
};

// As the boot loader sees it, by the slots' names; throws when it finds a file that it needs not,
// or grubenv is none. `slots` has those that may be started: the confirmed one, and one that is to
// be tried.
struct BootView {
  install::SlotState state;
  std::map<std::string, System> slots;
};
BootView bootView(const std::string& image, const std::string& folder);

// All that a whole installation has put on the disk.
struct Installation {
  std::string config;
  System system;
  std::string efi, bootCode, menu;
  bool operator==(const Installation&) const = default;
};
Installation readInstallation(const std::string& image, const std::string& folder);

// "untouched" or "unfinished": the installer would begin again; "installed": all of it is there.
// Throws for anything else.
std::string stateOfInstallation(const std::string& image, const Installation& whole,
                                const std::string& folder);

}  // namespace talos::cuts
