#include "etcd-supervisor/backup/backup-loop.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/etcd-data/snapshot-series.h"

namespace talos::supervisor {
namespace {

constexpr auto kLook = 15 * kj::SECONDS;  // who leads
constexpr auto kUntilItRuns = 5 * kj::SECONDS;
constexpr auto kFirstRetry = 1 * kj::MINUTES, kLongestRetry = 30 * kj::MINUTES;
constexpr auto kClocksDiffer = 1 * kj::MINUTES;

}  // namespace

BackupPlan planBackup(kj::ArrayPtr<const kj::String> names, const BackupSchedule& schedule,
                      uint64_t cluster, kj::Date now) {
  BackupPlan plan;
  kj::Vector<kj::StringPtr> ours;
  for (auto& name : names) {
    KJ_IF_MAYBE (backup, readBackupName(name)) {
      if (backup->cluster.orDefault(~cluster) != cluster) {
        ++plan.foreign;
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
  if (known == nullptr) known = co_await list(target);
  plan(target);
  if (shown.due <= deps.clock.now()) {
    // Another member may have taken one since.
    known = co_await list(target);
    plan(target);
    if (shown.due <= deps.clock.now()) co_await take(target);
  }
  failures = 0;
  auto message = shown.foreign == 0 ? kj::String()
                                    : kj::str("the store has ", shown.foreign,
                                              shown.foreign == 1 ? " snapshot" : " snapshots",
                                              " of another cluster, which stay there");
  co_await publish("waiting", kj::mv(message));
  co_return kj::min(kLook, kj::max(shown.due - deps.clock.now(), 1 * kj::SECONDS));
}

void BackupLoop::plan(Target& target) {
  shown = planBackup(KJ_ASSERT_NONNULL(known), target.schedule, cluster, deps.clock.now());
}

kj::Promise<kj::Vector<kj::String>> BackupLoop::list(Target& target) {
  auto& prefix = target.schedule.prefix;
  kj::Vector<kj::String> names;
  for (auto& key : co_await target.store->list(prefix))
    names.add(kj::str(key.slice(prefix.size())));
  co_return names;
}

kj::Promise<void> BackupLoop::take(Target& target) {
  co_await publish("uploading", kj::str());
  auto name = backupName(deps.clock.now(), cluster);
  auto key = kj::str(target.schedule.prefix, name);
  auto file = co_await target.spool();
  co_await target.store->put(key, file);
  bytes = file.size;
  log::info("etcd backup uploaded", {{"name", key}, {"bytes", bytes}});
  for (auto& old : shown.replaced) {
    co_await target.store->remove(kj::str(target.schedule.prefix, old));
  }
  known = co_await list(target);
  plan(target);
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

// machined may be away; the next one is published when it is back.
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
