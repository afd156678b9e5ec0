// The firmware's variables that say what a machine is started from, in the kernel's file system for
// them (Documentation/filesystems/efivarfs.rst): a file is a variable, named by its name and its
// vendor; it has 4 bytes of attributes and then its value. Everything blocks, and throws.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "machined/disk/installer/efi-boot-option.h"

namespace talos::install {

// None: the machine was not started by UEFI. The mount is nowhere, and ends with the descriptor.
kj::Maybe<kj::AutoCloseFd> openEfiVariables();

// `folder`: a descriptor of that file system, or of a folder like it. An option that cannot be read
// is without content, and its number counts as taken. Throws Unavailable when the order cannot be
// read: it must not be replaced.
BootVariables readBootVariables(int folder);
void writeEfiVariable(int folder, kj::StringPtr name, kj::ArrayPtr<const kj::byte> value);

// Makes the firmware start `wanted` first (efi-boot-option.h). False: it does already.
bool addBootEntry(int folder, const EfiBootOption& wanted);

}  // namespace talos::install
