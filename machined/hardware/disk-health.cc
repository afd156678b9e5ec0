#include "machined/hardware/disk-health.h"

namespace talos::machined {
namespace {

constexpr int32_t kZeroCelsius = 273;    // the log has kelvins
constexpr uint64_t kDataUnit = 512'000;  // bytes
constexpr uint64_t kMost = kj::maxValue;

uint64_t counterAt(kj::ArrayPtr<const kj::byte> page, size_t offset) {
  uint64_t low = 0, high = 0;
  for (size_t i = 8; i-- > 0;) {
    low = low << 8 | page[offset + i];
    high = high << 8 | page[offset + 8 + i];
  }
  return high > 0 ? kMost : low;
}

uint64_t bytesAt(kj::ArrayPtr<const kj::byte> page, size_t offset) {
  auto units = counterAt(page, offset);
  return units > kMost / kDataUnit ? kMost : units * kDataUnit;
}

constexpr kj::StringPtr kWarnings[] = {
    "spare capacity is below its threshold"_kj,
    "temperature is beyond its threshold"_kj,
    "reliability is degraded by media or internal errors"_kj,
    "media are read-only"_kj,
    "backup of the volatile memory has failed"_kj,
    "persistent memory region is read-only or unreliable"_kj,
};

// SPC-4: sense data in either format.
constexpr kj::byte kFixed = 0x70, kDescriptors = 0x72;
constexpr kj::byte kAtaReturnDescriptor = 0x09;
constexpr size_t kAtaDescriptorBytes = 14;

kj::Maybe<AtaVerdict> verdictOf(kj::byte middle, kj::byte high) {
  if (middle == 0x4f && high == 0xc2) return AtaVerdict::kPassed;
  if (middle == 0xf4 && high == 0x2c) return AtaVerdict::kThresholdExceeded;
  return nullptr;
}

}  // namespace

kj::Maybe<NvmeHealth> decodeNvmeHealth(kj::ArrayPtr<const kj::byte> page) {
  if (page.size() < kNvmeHealthBytes) return nullptr;
  int32_t kelvins = page[1] | page[2] << 8;
  if (kelvins == 0) return nullptr;
  return NvmeHealth{.warning = page[0],
                    .temperature = kelvins - kZeroCelsius,
                    .spare = page[3],
                    .spareThreshold = page[4],
                    .used = page[5],
                    .bytesRead = bytesAt(page, 32),
                    .bytesWritten = bytesAt(page, 48),
                    .powerCycles = counterAt(page, 112),
                    .powerOnHours = counterAt(page, 128),
                    .unsafeShutdowns = counterAt(page, 144),
                    .mediaErrors = counterAt(page, 160),
                    .errorLogEntries = counterAt(page, 176)};
}

kj::Vector<kj::String> warningsOf(const NvmeHealth& health) {
  kj::Vector<kj::String> warnings;
  for (auto bit : kj::indices(kWarnings)) {
    if ((health.warning & 1 << bit) != 0) warnings.add(kj::str(kWarnings[bit]));
  }
  unsigned later = health.warning >> kj::size(kWarnings);
  if (later != 0) warnings.add(kj::str("critical warning ", unsigned(health.warning)));
  return warnings;
}

kj::Maybe<AtaVerdict> decodeAtaVerdict(kj::ArrayPtr<const kj::byte> sense) {
  if (sense.size() < 8) return nullptr;
  kj::byte format = sense[0] & 0x7f;
  if (format == kFixed) {
    if (sense.size() < 12) return nullptr;
    return verdictOf(sense[10], sense[11]);
  }
  if (format != kDescriptors) return nullptr;
  size_t end = kj::min(sense.size(), size_t(8) + sense[7]);
  for (size_t at = 8; at + 2 <= end; at += 2 + sense[at + 1]) {
    if (sense[at] == kAtaReturnDescriptor && at + kAtaDescriptorBytes <= end) {
      return verdictOf(sense[at + 9], sense[at + 11]);
    }
  }
  return nullptr;
}

}  // namespace talos::machined
