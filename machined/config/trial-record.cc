#include "machined/config/trial-record.h"

#include <capnp/serialize.h>
#include <string.h>

#include "common/base/fill-list.h"
#include "common/base/sha256.h"
#include "common/memory/zeroize.h"

namespace talos::machined {
namespace {

kj::Array<kj::byte> hashOf(kj::ArrayPtr<const char> config) {
  Sha256 hash;
  hash.add(config.asBytes());
  return hash.finish();
}

}  // namespace

TrialRecord::~TrialRecord() noexcept(false) {
  zeroize(before);
}

bool TrialRecord::isAbout(kj::ArrayPtr<const char> config) const {
  auto hash = hashOf(config);
  for (auto& known : configs) {
    if (known.asPtr() == hash.asPtr()) return true;
  }
  return false;
}

void TrialRecord::add(kj::ArrayPtr<const char> config) {
  if (!isAbout(config)) configs.add(hashOf(config));
}

kj::Maybe<TrialRecord> decodeTrialRecord(kj::ArrayPtr<const char> bytes) {
  kj::Maybe<TrialRecord> result;
  // The record is of another version, or damaged: nothing is known.
  (void)kj::runCatchingExceptions([&] {
    auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    KJ_DEFER(zeroize(words.asChars()));
    memcpy(words.begin(), bytes.begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    auto in = reader.getRoot<rpc::ConfigTrialRecord>();
    KJ_REQUIRE(in.getStage() <= TrialRecord::Stage::REVERTED);
    TrialRecord record;
    record.stage = in.getStage();
    record.before = kj::heapArray(in.getBefore().asChars());
    for (auto name : in.getFulfilled()) record.fulfilled.add(kj::str(name));
    constexpr uint64_t kMost = kLongestChangeTrial / kj::MILLISECONDS;
    record.timeout =
        kj::max(static_cast<int64_t>(kj::min(in.getTimeoutMs(), kMost)) * kj::MILLISECONDS,
                kShortestChangeTrial);
    record.needsCall = in.getNeedsCall();
    record.boots = in.getBoots();
    record.reason = kj::str(in.getReason());
    for (auto hash : in.getConfigs()) record.configs.add(kj::heapArray<kj::byte>(hash));
    KJ_REQUIRE(record.before.size() > 0 || !record.hasWayBack());
    result = kj::mv(record);
  });
  return result;
}

kj::Array<char> encodeTrialRecord(const TrialRecord& record) {
  SecretMessage message;
  auto out = message.initRoot<rpc::ConfigTrialRecord>();
  out.setStage(record.stage);
  out.setBefore(record.before.asBytes());
  fillTexts(out.initFulfilled(static_cast<unsigned>(record.fulfilled.size())), record.fulfilled);
  out.setTimeoutMs(record.timeout / kj::MILLISECONDS);
  out.setNeedsCall(record.needsCall);
  out.setBoots(record.boots);
  out.setReason(record.reason);
  auto configs = out.initConfigs(static_cast<unsigned>(record.configs.size()));
  for (auto i : kj::indices(record.configs)) {
    configs.set(static_cast<unsigned>(i), record.configs[i]);
  }
  auto words = capnp::messageToFlatArray(message);
  KJ_DEFER(zeroize(words.asChars()));
  return kj::heapArray<char>(words.asBytes().asChars());
}

}  // namespace talos::machined
