// The record of a change of the config that is on trial, as it is stored on STATE (change-trial.h).
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "rpc/node-duties.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kTrialFile = "/system/state/config-trial"_kj;

struct TrialRecord {
  using Stage = rpc::ConfigTrialRecord::Stage;
  Stage stage = Stage::TRYING;
  kj::Array<char> before;            // the way back; empty: reverted
  kj::Vector<kj::String> fulfilled;  // duties before the change
  kj::Duration timeout = 0 * kj::SECONDS;
  bool needsCall = false;
  uint32_t boots = 0;
  kj::String reason;
  kj::Vector<kj::Array<kj::byte>> configs;  // hashes of the configs on trial
  // All these configs have persist: false, so the disk gets no copy of them, and the next boot
  // fetches another one. Not encoded.
  bool onlyInMemory = false;

  bool isAbout(kj::ArrayPtr<const char> config) const;
  bool hasWayBack() const { return stage != Stage::REVERTED; }
  void add(kj::ArrayPtr<const char> config);  // to those on trial

  TrialRecord() = default;
  TrialRecord(TrialRecord&&) = default;
  TrialRecord& operator=(TrialRecord&&) = default;
  ~TrialRecord() noexcept(false);  // overwrites the document: it holds secrets
};

// The shortest and the longest time of a trial.
constexpr auto kShortestChangeTrial = 1 * kj::MINUTES, kLongestChangeTrial = 24 * kj::HOURS;

// Returns nullptr if `bytes` is not a record, or has no way back although it needs one. A time out
// of range becomes the nearest one in range.
kj::Maybe<TrialRecord> decodeTrialRecord(kj::ArrayPtr<const char> bytes);
kj::Array<char> encodeTrialRecord(const TrialRecord& record);

}  // namespace talos::machined
