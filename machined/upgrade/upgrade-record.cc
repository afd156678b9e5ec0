#include "machined/upgrade/upgrade-record.h"

#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>

namespace talos::machined {
namespace {

UpgradeRecord recordOf(rpc::UpgradeRecord::Reader in) {
  UpgradeRecord record;
  record.image = kj::str(in.getImage());
  record.digest = kj::str(in.getDigest());
  record.from = KJ_REQUIRE_NONNULL(install::slotNamed(in.getFrom()));
  record.to = KJ_REQUIRE_NONNULL(install::slotNamed(in.getTo()));
  KJ_REQUIRE(record.from != record.to, "an upgrade into the slot that it comes from");
  record.fromVersion = kj::str(in.getFromVersion());
  record.toVersion = kj::str(in.getToVersion());
  record.healthTimeoutS = in.getHealthTimeoutS();
  record.empty = in.getEmpty();
  record.emptying = in.getEmptying();
  record.staged = in.getStaged();
  record.forced = in.getForced();
  record.live = in.getLive();
  // A stage of a later release counts as one under way: the rest of the record is valid, above all
  // that EPHEMERAL is half-emptied.
  bool known = in.getStage() <= UpgradeRecord::Stage::FAILED;
  record.stage = known ? in.getStage() : UpgradeRecord::Stage::STARTED;
  record.reason = kj::str(in.getReason());
  record.began = kj::UNIX_EPOCH + in.getBegan() * kj::NANOSECONDS;
  return record;
}

}  // namespace

kj::String UpgradeRecord::target() const {
  return kj::str(install::nameOf(to), toVersion.size() > 0 ? " " : "", toVersion);
}

kj::Maybe<UpgradeRecord> decodeRecord(kj::ArrayPtr<const char> bytes) {
  kj::Maybe<UpgradeRecord> result;
  // A record that cannot be read is of another version, or damaged: nothing is known.
  (void)kj::runCatchingExceptions([&] {
    auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    memcpy(words.begin(), bytes.begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    result = recordOf(reader.getRoot<rpc::UpgradeRecord>());
  });
  return result;
}

kj::Array<char> encodeRecord(const UpgradeRecord& record) {
  KJ_REQUIRE(record.from != record.to, "an upgrade into the slot that it comes from");
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::UpgradeRecord>();
  out.setImage(record.image);
  out.setDigest(record.digest);
  out.setFrom(install::nameOf(record.from));
  out.setTo(install::nameOf(record.to));
  out.setFromVersion(record.fromVersion);
  out.setToVersion(record.toVersion);
  out.setHealthTimeoutS(record.healthTimeoutS);
  out.setEmpty(record.empty);
  out.setEmptying(record.emptying);
  out.setStaged(record.staged);
  out.setForced(record.forced);
  out.setLive(record.live);
  out.setStage(record.stage);
  // A system may describe a problem at any length; the record is limited.
  constexpr size_t kMostReason = 8192;
  bool whole = record.reason.size() <= kMostReason;
  out.setReason(whole ? kj::str(record.reason)
                      : kj::str(record.reason.slice(0, kMostReason), " …"));
  out.setBegan((record.began - kj::UNIX_EPOCH) / kj::NANOSECONDS);
  auto words = capnp::messageToFlatArray(message);
  return kj::heapArray<char>(words.asBytes().asChars());
}

}  // namespace talos::machined
