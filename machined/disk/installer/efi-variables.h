// The firmware's variables that select what a machine is started from, in the kernel's file system
// for them (Documentation/filesystems/efivarfs.rst): each variable is a file, named by the
// variable's name and vendor, with 4 bytes of attributes and then the value. Everything blocks, and
// throws.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "machined/disk/installer/efi-boot-option.h"

namespace talos::install {

// Returns a detached mount, which ends with its descriptor; nullptr if UEFI did not start the
// machine.
kj::Maybe<kj::AutoCloseFd> openEfiVariables();

// `folder`: a descriptor of that file system, or of a folder like it. An option that cannot be read
// has no content, and its number counts as in use. Throws Unavailable if the order cannot be read,
// because then it must not be replaced.
BootVariables readBootVariables(int folder);
void writeEfiVariable(int folder, kj::StringPtr name, kj::ArrayPtr<const kj::byte> value);

// Makes the firmware start `wanted` first (efi-boot-option.h). Returns false if it did already.
bool addBootEntry(int folder, const EfiBootOption& wanted);

}  // namespace talos::install
