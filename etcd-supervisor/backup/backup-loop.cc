#include "etcd-supervisor/backup/backup-loop.h"

#include <kj/map.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd-data/snapshot-series.h"
#include "common/etcd-data/snapshot-signature.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kStored = "stored"_kj, kUploading = "uploading"_kj;

kj::String recordKey(kj::StringPtr key) {
  return kj::str(kBackupsPrefix, key);
}

}  // namespace

kj::Promise<kj::Vector<BackupRecord>> backupRecords(etcd::Etcd& member) {
  auto answer = co_await member.range({.keys = {kj::str(kBackupsPrefix), true},
                                       .order = etcd::Range::Order::kCreateRevision,
                                       .descending = true});
  kj::Vector<BackupRecord> records;
  for (auto& kv : answer.kvs) {
    auto key = kj::str(kv.key.slice(kBackupsPrefix.size()));
    if (records.size() < kMostBackupRecords) {
      records.add(BackupRecord{kj::mv(key), kv.value == kStored});
    } else {
      co_await forgetBackup(member, key).catch_([&](kj::Exception&& e) {
        log::warn("cannot remove an old record of a backup; retrying", {{"error", messageOf(e)}});
      });
    }
  }
  co_return kj::mv(records);
}

kj::Promise<void> recordBackup(etcd::Etcd& member, const BackupRecord& record) {
  auto value = record.stored ? kStored : kUploading;
  return member.put({recordKey(record.key), kj::str(value)}).ignoreResult();
}

kj::Promise<void> forgetBackup(etcd::Etcd& member, kj::StringPtr key) {
  return member.remove({{recordKey(key), false}}).ignoreResult();
}

namespace {

constexpr auto kLook = 15 * kj::SECONDS;  // who leads
constexpr auto kUntilItRuns = 5 * kj::SECONDS;
constexpr auto kFirstRetry = 1 * kj::MINUTES, kLongestRetry = 30 * kj::MINUTES;
constexpr auto kClocksDiffer = 1 * kj::MINUTES;

// Returns the records of a prefix by the names after it. If two have the same name, the first
// counts.
kj::HashMap<kj::StringPtr, bool> storedByName(kj::ArrayPtr<const BackupRecord> records,
                                              kj::StringPtr prefix) {
  kj::HashMap<kj::StringPtr, bool> stored;
  for (auto& record : records) {
    if (!record.key.startsWith(prefix)) continue;
    stored.upsert(record.key.slice(prefix.size()), record.stored, [](bool&, bool&&) {});
  }
  return stored;
}

kj::String counted(size_t count, kj::StringPtr text) {
  return kj::str(count, count == 1 ? " snapshot " : " snapshots ", text);
}

// Describes the objects that do not belong to the series; empty if there are none.
kj::String strangersIn(const BackupPlan& plan) {
  kj::Vector<kj::String> texts;
  if (plan.foreign > 0)
    texts.add(
        kj::str("the store has ", counted(plan.foreign, "of another cluster, which stay there")));
  if (!plan.unknown.empty()) {
    texts.add(kj::str("the store has ",
                      counted(plan.unknown.size(), "that this cluster has no record of"),
                      ", which do not count and stay there: ", plan.unknown[0],
                      plan.unknown.size() > 1 ? " …" : ""));
  }
  return kj::strArray(texts, "; ");
}

}  // namespace

BackupPlan planBackup(kj::ArrayPtr<const kj::String> names,
                      kj::ArrayPtr<const BackupRecord> records, const BackupSchedule& schedule,
                      uint64_t cluster, kj::Date now) {
  BackupPlan plan;
  kj::Vector<kj::StringPtr> ours;
  auto recorded = storedByName(records, schedule.prefix);
  for (auto& name : names) {
    KJ_IF_MAYBE (backup, readBackupName(name)) {
      if (backup->cluster.orDefault(~cluster) != cluster) {
        ++plan.foreign;
        continue;
      }
      KJ_IF_MAYBE (stored, recorded.find(name.asPtr())) {
        if (!*stored) {  // the upload was cut off
          plan.replaced.add(kj::str(name));
          continue;
        }
      } else {
        plan.unknown.add(kj::str(name));
        continue;
      }
      if (backup->date > now + kClocksDiffer) continue;
      ours.add(name);
      plan.newest = kj::str(name);
      plan.taken = backup->date;
    }
  }
  plan.kept = static_cast<unsigned>(ours.size());
  KJ_IF_MAYBE (date, plan.taken) plan.due = *date + schedule.every;
  for (size_t i = 0; i + schedule.keep <= ours.size(); ++i) plan.replaced.add(kj::str(ours[i]));
  return plan;
}

kj::Promise<void> BackupLoop::run() {
  for (;;) {
    auto next = changed.wait();
    current = deps.target();
    known = nullptr;
    shown = BackupPlan();
    failures = 0;
    co_await whileUnchanged().exclusiveJoin(kj::mv(next));
  }
}

kj::Promise<void> BackupLoop::whileUnchanged() {
  KJ_IF_MAYBE (target, current) {
    for (;;) {
      kj::Maybe<kj::Exception> problem;
      auto pause = kLook;
      co_await once(**target).then([&](kj::Duration next) { pause = next; },
                                   [&](kj::Exception&& e) { problem = kj::mv(e); });
      KJ_IF_MAYBE (e, problem) pause = co_await failed(**target, kj::mv(*e));
      co_await deps.timer.afterDelay(pause);
    }
  }
  co_await publish(nullptr);
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

kj::Promise<kj::Duration> BackupLoop::once(Target& target) {
  if (!deps.runs()) {
    known = nullptr;
    co_await publish("waiting", kj::str("etcd of this node does not run"));
    co_return kUntilItRuns;
  }
  auto status = co_await deps.member.status();
  cluster = status.cluster;
  if (status.leader == status.member) co_return co_await lead(target);
  known = nullptr;
  shown = BackupPlan();
  failures = 0;
  auto who = status.leader == 0 ? kj::str("etcd has no leader")
                                : kj::str("the member that leads (", kj::hex(status.leader),
                                          ") takes the snapshots");
  co_await publish("standby", kj::mv(who));
  co_return kLook;
}

kj::Promise<kj::Duration> BackupLoop::lead(Target& target) {
  if (known == nullptr) known = co_await look(target);
  plan(target);
  if (shown.due <= deps.clock.now()) {
    // Another member may have taken one since.
    known = co_await look(target);
    plan(target);
    if (shown.due <= deps.clock.now()) co_await take(target);
  }
  failures = 0;
  co_await publish("waiting", strangersIn(shown));
  co_return kj::min(kLook, kj::max(shown.due - deps.clock.now(), 1 * kj::SECONDS));
}

void BackupLoop::plan(Target& target) {
  auto& found = KJ_ASSERT_NONNULL(known);
  shown = planBackup(found.names, found.records, target.schedule, cluster, deps.clock.now());
}

kj::Promise<BackupLoop::Known> BackupLoop::look(Target& target) {
  auto& prefix = target.schedule.prefix;
  co_await recordAgain();
  Known found;
  // A snapshot that this process has stored outranks a record that etcd could not change any more.
  for (auto& key : recorded) found.records.add(BackupRecord{kj::str(key), true});
  for (auto& one : co_await backupRecords(deps.member)) found.records.add(kj::mv(one));
  for (auto& key : co_await target.store->list(prefix)) {
    found.names.add(kj::str(key.slice(prefix.size())));
  }
  co_return kj::mv(found);
}

// Writes the record. A backup is worth more than its record, so an etcd that accepts no writes does
// not stop it.
kj::Promise<void> BackupLoop::record(kj::StringPtr key, bool stored) {
  auto own = kj::str(key);
  bool written = true;
  co_await recordBackup(deps.member, {kj::str(own), stored}).catch_([&](kj::Exception&& e) {
    log::warn("cannot record a backup in etcd; this process remembers it",
              {{"name", own}, {"error", messageOf(e)}});
    written = false;
  });
  if (!written && stored) recorded.add(kj::mv(own));
}

// Repeats failed records: another leader knows only the records in etcd.
kj::Promise<void> BackupLoop::recordAgain() {
  kj::Vector<kj::String> left;
  for (auto& key : recorded) {
    bool written = left.empty();
    if (written) {
      co_await recordBackup(deps.member, {kj::str(key), true}).catch_([&](kj::Exception&&) {
        written = false;
      });
    }
    if (!written) left.add(kj::str(key));
  }
  recorded = kj::mv(left);
}

kj::Promise<void> BackupLoop::take(Target& target) {
  co_await publish("uploading", kj::str());
  auto now = deps.clock.now();
  auto key = kj::str(target.schedule.prefix, backupName(now, cluster));
  auto upload = co_await target.spool(now, cluster);
  co_await record(key, false);
  co_await target.store->put(kj::str(key, kSignatureSuffix), kj::mv(upload.signature));
  auto size = upload.snapshot.size;
  co_await target.store->put(key, kj::mv(upload.snapshot));
  co_await record(key, true);
  bytes = size;
  log::info("etcd backup uploaded", {{"name", key}, {"bytes", bytes}});
  co_await removeReplaced(target);
  known = co_await look(target);
  plan(target);
}

kj::Promise<void> BackupLoop::removeReplaced(Target& target) {
  for (auto& old : shown.replaced) {
    auto key = kj::str(target.schedule.prefix, old);
    co_await target.store->remove(key);
    co_await target.store->remove(kj::str(key, kSignatureSuffix));
    co_await forgetBackup(deps.member, key);
  }
}

kj::Promise<void> BackupLoop::publish(kj::StringPtr phase, kj::String message) {
  BackupState state{.phase = phase,
                    .newest = kj::str(shown.newest),
                    .bytes = bytes,
                    .kept = shown.kept,
                    .message = kj::mv(message)};
  KJ_IF_MAYBE (date, shown.taken) {
    state.taken = dateText(*date);
    state.next = dateText(shown.due);
  }
  return publish(kj::mv(state));
}

// Publishes the state. If machined cannot be reached, the next state is published when it is back.
kj::Promise<void> BackupLoop::publish(kj::Maybe<BackupState> state) {
  return kj::evalNow([&]() { return deps.publish(kj::mv(state)); }).catch_([](kj::Exception&& e) {
    log::warn("cannot publish the state of backups", {{"error", messageOf(e)}});
  });
}

kj::Promise<kj::Duration> BackupLoop::failed(Target& target, kj::Exception&& e) {
  auto pause = kj::min(kLongestRetry, kFirstRetry * (1 << kj::min(failures, 6u)));
  pause = kj::min(pause, target.schedule.every);
  ++failures;
  auto message = kj::str(messageOf(e), "; retry in ", pause / kj::SECONDS, " s");
  log::warn("no backup of etcd", {{"error", message}});
  known = nullptr;
  co_await publish("waiting", kj::mv(message));
  co_return pause;
}

}  // namespace talos::supervisor
