// Boot options of UEFI firmware (UEFI specification 2.10, chapter 3): what the variables Boot####
// and BootOrder hold, and which of them are to be written so that a machine starts from its system
// disk. Pure: the bytes are the firmware's, and may be any.
//
// An option of another is never changed or removed, and all that are in the order stay in it,
// behind ours: a machine that could be started before still can. An option is written before the
// order that names it, so a cut leaves at most one that nothing names; the next attempt finds and
// uses it.
#pragma once

#include <kj/array.h>
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
  kj::String description;  // what is not ASCII is '?'
  EfiFile file;
};
kj::Array<kj::byte> encode(const EfiBootOption& option);
// None: damaged, inactive, or one that starts something else than such a file.
kj::Maybe<EfiBootOption> decodeBootOption(kj::ArrayPtr<const kj::byte> bytes);

// The numbers in BootOrder, the first one first. A last odd byte does not count.
kj::Vector<uint16_t> decodeBootOrder(kj::ArrayPtr<const kj::byte> bytes);
kj::Array<kj::byte> encodeBootOrder(kj::ArrayPtr<const uint16_t> order);

// "Boot00AF", and its number.
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
  kj::Maybe<kj::Array<kj::byte>> option;  // none: it is there
  kj::Maybe<kj::Vector<uint16_t>> order;  // none: it is the first already
};
// None when all numbers are taken.
kj::Maybe<BootEntryPlan> planBootEntry(const BootVariables& found, const EfiBootOption& wanted);

}  // namespace talos::install
