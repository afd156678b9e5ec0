// The health of disks by their own account (SMART), from their answers. Pure: the bytes come from a
// disk, and may be any.
//
// NVM Express Base Specification 2.0, figure 207: the log page 2, SMART / Health Information.
// ATA/ATAPI Command Set 3, SMART RETURN STATUS, through SCSI / ATA Translation 3, 12.2.2.6.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

constexpr size_t kNvmeHealthBytes = 512;

struct NvmeHealth {
  uint8_t warning = 0;                              // bits of the field Critical Warning
  int32_t temperature = 0;                          // degrees Celsius
  uint8_t spare = 0, spareThreshold = 0, used = 0;  // percent; `used` may be above 100
  // Values of 128 bits; values above 64 bits become the largest one of 64 bits.
  uint64_t bytesRead = 0, bytesWritten = 0;
  uint64_t powerCycles = 0, powerOnHours = 0, unsafeShutdowns = 0;
  uint64_t mediaErrors = 0, errorLogEntries = 0;
};

// Returns nullptr if the page is too short, or not a log of a working controller, which always
// measures a temperature.
kj::Maybe<NvmeHealth> decodeNvmeHealth(kj::ArrayPtr<const kj::byte> page);
// Returns texts for the critical warnings: "spare capacity is below its threshold". Empty if the
// disk is healthy.
kj::Vector<kj::String> warningsOf(const NvmeHealth& health);

enum class AtaVerdict { kPassed, kThresholdExceeded };
// Decodes the sense data, of either format, that return the device's registers. Returns nullptr if
// they do not, or if the registers hold neither of the two answers.
kj::Maybe<AtaVerdict> decodeAtaVerdict(kj::ArrayPtr<const kj::byte> sense);

}  // namespace talos::machined
