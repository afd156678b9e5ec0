#include "apid/metrics/node-metrics.h"
#include "common/base/date.h"
#include "common/net/text-values.h"

namespace talos::metrics {
namespace {

constexpr double kNanosecondsOfSecond = 1e9;

double secondsSince1970(kj::Date date) {
  return static_cast<double>((date - kj::UNIX_EPOCH) / kj::NANOSECONDS) / kNanosecondsOfSecond;
}

// Writes a sample for each state, with 1 for the current one.
template <size_t n>
void writeState(MetricsText& out, kj::StringPtr label, const kj::StringPtr (&states)[n],
                kj::StringPtr current) {
  for (auto state : states) out.add({{label, state}}, state == current);
}

constexpr kj::StringPtr kStages[] = {"booting"_kj,   "running"_kj,      "failed"_kj,
                                     "rebooting"_kj, "shuttingDown"_kj, "maintenance"_kj,
                                     "resetting"_kj};

// The reasons that machined writes for a boot that ended without a request (docs/machined.md).
constexpr kj::StringPtr kUnexpectedEnds[] = {"kernel panic"_kj,
                                             "the machine was reset or lost its power"_kj};

// Parses "-1.25ms".
kj::Maybe<double> offsetOf(kj::StringPtr text) {
  bool negative = text.startsWith("-");
  KJ_IF_MAYBE (duration, config::parseDuration(kj::str(text.slice(negative ? 1 : 0)))) {
    auto seconds = static_cast<double>(*duration / kj::NANOSECONDS) / kNanosecondsOfSecond;
    return negative ? -seconds : seconds;
  }
  return nullptr;
}

}  // namespace

void writeIdentity(MetricsText& out, const utsname& kernel, rpc::Version::Reader version,
                   kj::Date now) {
  out.family("node_uname_info", Type::kGauge, "The kernel, as uname(2) describes it");
  out.add({{"sysname", kernel.sysname},
           {"release", kernel.release},
           {"version", kernel.version},
           {"machine", kernel.machine},
           {"nodename", kernel.nodename},
           {"domainname", kernel.domainname}},
          uint64_t{1});
  out.family("node_time_seconds", Type::kGauge, "The clock of the node, in seconds since 1970");
  out.add(secondsSince1970(now));
  out.family("talos_version_info", Type::kGauge, "The running system");
  out.add({{"version", version.getTag()},
           {"sha", version.getSha()},
           {"platform", version.getPlatform()},
           {"arch", version.getArch()}},
          uint64_t{1});
}

void writeMachine(MetricsText& out, rpc::Status::Reader status) {
  out.family("talos_machine_stage", Type::kGauge, "1 for the stage of the machine");
  auto stage = static_cast<size_t>(status.getStage());
  writeState(out, "stage", kStages, stage < kj::size(kStages) ? kStages[stage] : ""_kj);
  out.family("talos_machine_problems", Type::kGauge, "Problems that stop the machine");
  out.add(uint64_t{status.getProblems().size()});
  out.family("talos_machined_restarts_total", Type::kCounter,
             "Crashes of machined since the node was started");
  out.add(uint64_t{status.getBrainRestarts()});
  out.family("talos_machined_hanging_reads", Type::kGauge,
             "Threads that have been blocked for more than 30 s in a read for a client");
  out.add(uint64_t{status.getHangingReads()});
  constexpr double kMillisecondsOfSecond = 1e3;
  out.family("talos_config_trial_left_seconds", Type::kGauge,
             "Time until the config on trial is reverted; 0 if none is on trial");
  out.add(static_cast<double>(status.getRevertsInMs()) / kMillisecondsOfSecond);
  if (status.getConfigSha256().size() == 0) return;
  out.family("talos_config_info", Type::kGauge, "The machine config in use, by its SHA-256");
  out.add({{"sha256", status.getConfigSha256()}}, uint64_t{1});
}

void writeBoots(MetricsText& out, Resources bootRecords) {
  uint64_t newest = 0, before = 0;
  kj::StringPtr reason;
  eachSpec<rpc::BootRecordSpec>(
      bootRecords, [&](auto, auto boot) { newest = kj::max(newest, boot.getNumber()); });
  eachSpec<rpc::BootRecordSpec>(bootRecords, [&](auto, auto boot) {
    if (boot.getNumber() >= newest || boot.getNumber() < before) return;
    before = boot.getNumber();
    reason = boot.getReason();
  });
  if (newest == 0) return;
  out.family("talos_boot_number", Type::kGauge, "Boots of this node, with the running one");
  out.add(newest);
  bool unexpected = false;
  for (auto text : kUnexpectedEnds) unexpected = unexpected || reason == text;
  out.family("talos_boot_previous_ended_unexpectedly", Type::kGauge,
             "1 if the boot before this one ended by a panic, a reset or a loss of power");
  out.add({}, unexpected);
}

void writeTime(MetricsText& out, Resources timeStatuses) {
  eachSpec<rpc::TimeStatusSpec>(timeStatuses, [&](auto, auto status) {
    out.family("talos_time_synced", Type::kGauge, "1 if the clock follows a time server");
    out.add({}, status.getSynced());
    out.family("talos_time_sync_disabled", Type::kGauge, "1 if the config switches it off");
    out.add({}, status.getSyncDisabled());
    KJ_IF_MAYBE (seconds, offsetOf(status.getOffset())) {
      out.family("talos_time_offset_seconds", Type::kGauge,
                 "Offset of the clock from its server at the newest measurement");
      out.add(*seconds);
    }
  });
}

void writeUpgrade(MetricsText& out, Resources upgradeStatuses) {
  eachSpec<rpc::UpgradeStatusSpec>(upgradeStatuses, [&](auto, auto status) {
    out.family("talos_upgrade_info", Type::kGauge, "The stage of the newest upgrade or rollback");
    out.add({{"stage", status.getStage()},
             {"slot", status.getSlot()},
             {"version", status.getVersion()}},
            uint64_t{1});
  });
}

void writeCertificates(MetricsText& out, Resources certificateStatuses) {
  out.family("talos_certificate_expiry_timestamp_seconds", Type::kGauge,
             "When a certificate of this node ends, in seconds since 1970");
  eachSpec<rpc::CertificateStatusSpec>(certificateStatuses, [&](auto id, auto status) {
    KJ_IF_MAYBE (end, parseDate(status.getNotAfter())) {
      out.add({{"certificate", id}, {"ca", status.getAuthority() ? "true"_kj : "false"_kj}},
              secondsSince1970(*end));
    }
  });
}

}  // namespace talos::metrics
