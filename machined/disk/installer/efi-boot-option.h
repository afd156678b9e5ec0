// Boot options of UEFI firmware (UEFI specification 2.10, chapter 3): the content of the variables
// Boot#### and BootOrder, and the changes that make a machine start from its system disk. Pure,
// except for the access to the variables: the bytes come from the firmware, and may be any.
//
// Options of other systems are never changed or removed, and all options in the order stay in it,
// after ours: a machine that could be started before still can. An option is written before the
// order that names it, so a cut leaves at most one unnamed option, which the next attempt finds and
// uses.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

#include "common/disk/gpt.h"

namespace talos::install {

// A file on a partition of a GPT.
struct EfiFile {
  uint32_t partition;  // its number, from 1
  uint64_t firstSector, sectors;
  gpt::Guid id;     // of the partition
  kj::String path;  // \EFI\BOOT\BOOTX64.EFI
};

struct EfiBootOption {
  kj::String description;  // non-ASCII characters are '?'
  EfiFile file;
};
kj::Array<kj::byte> encode(const EfiBootOption& option);
// Returns nullptr if the option is damaged, inactive, or starts anything but such a file.
kj::Maybe<EfiBootOption> decodeBootOption(kj::ArrayPtr<const kj::byte> bytes);

// Returns the numbers in BootOrder, in order. An odd last byte is ignored.
kj::Vector<uint16_t> decodeBootOrder(kj::ArrayPtr<const kj::byte> bytes);
kj::Array<kj::byte> encodeBootOrder(kj::ArrayPtr<const uint16_t> order);

// Converts between "Boot00AF" and its number.
kj::String bootOptionName(uint16_t number);
kj::Maybe<uint16_t> bootOptionNumber(kj::StringPtr name);

struct BootVariables {
  struct Option {
    uint16_t number;
    kj::Array<kj::byte> bytes;
  };
  kj::Vector<Option> options;
  kj::Vector<uint16_t> order;
};
struct BootEntryPlan {
  uint16_t number;
  kj::Maybe<kj::Array<kj::byte>> option;  // nullptr: it exists already
  kj::Maybe<kj::Vector<uint16_t>> order;  // nullptr: it is first already
};
// Returns nullptr if all numbers are in use.
kj::Maybe<BootEntryPlan> planBootEntry(const BootVariables& found, const EfiBootOption& wanted);

// The firmware's variables that select what a machine is started from, in the kernel's file system
// for them (Documentation/filesystems/efivarfs.rst): each variable is a file, named by the
// variable's name and vendor, with 4 bytes of attributes and then the value. Everything blocks, and
// throws.

// Returns a detached mount, which ends with its descriptor; nullptr if UEFI did not start the
// machine.
kj::Maybe<kj::AutoCloseFd> openEfiVariables();

// `folder`: a descriptor of that file system, or of a folder like it. An option that cannot be read
// has no content, and its number counts as in use. Throws Unavailable if the order cannot be read,
// because then it must not be replaced.
BootVariables readBootVariables(int folder);
void writeEfiVariable(int folder, kj::StringPtr name, kj::ArrayPtr<const kj::byte> value);

// Makes the firmware start `wanted` first (planBootEntry()). Returns false if it did already.
bool addBootEntry(int folder, const EfiBootOption& wanted);

}  // namespace talos::install
