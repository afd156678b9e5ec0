#include "apid/metrics/node-metrics.h"
#include "common/base/date.h"

namespace talos::metrics {
namespace {

constexpr kj::StringPtr kEtcdPhases[] = {"waiting"_kj, "bootstrapping"_kj, "joining"_kj,
                                         "learner"_kj, "member"_kj,        "leaving"_kj,
                                         "left"_kj};
constexpr kj::StringPtr kVipStates[] = {"holder"_kj, "waiting"_kj, "idle"_kj};

void writeLocalMember(MetricsText& out, rpc::Etcd::MemberStatus::Reader local) {
  auto gauge = [&](kj::StringPtr name, kj::StringPtr help, uint64_t value) {
    out.family(name, Type::kGauge, help);
    out.add(value);
  };
  gauge("talos_etcd_db_size_bytes", "Size of the local member's database", local.getDbSize());
  gauge("talos_etcd_db_in_use_bytes", "Bytes in use of the local member's database",
        local.getDbSizeInUse());
  gauge("talos_etcd_raft_index", "Index of raft that the local member knows", local.getRaftIndex());
  gauge("talos_etcd_raft_applied_index", "Index of raft that the local member has applied",
        local.getRaftAppliedIndex());
  gauge("talos_etcd_raft_term", "Term of raft; each election has another one", local.getRaftTerm());
  out.family("talos_etcd_has_leader", Type::kGauge, "1 if the local member knows a leader");
  out.add({}, local.getLeader() != 0);
  out.family("talos_etcd_is_leader", Type::kGauge, "1 if the local member is the leader");
  out.add({}, local.getLeader() != 0 && local.getLeader() == local.getId());
}

}  // namespace

void writeEtcd(MetricsText& out, Resources etcdStatuses, Resources etcdMembers,
               kj::Maybe<rpc::Etcd::MemberStatus::Reader> local) {
  if (etcdStatuses.size() == 0) return;
  eachSpec<rpc::EtcdStatusSpec>(etcdStatuses, [&](auto, auto status) {
    out.family("talos_etcd_phase", Type::kGauge, "1 for the phase of this node in its cluster");
    for (auto phase : kEtcdPhases) out.add({{"phase", phase}}, phase == status.getPhase());
    out.family("talos_etcd_voters", Type::kGauge, "Voting members of the cluster");
    out.add(uint64_t{status.getVoters()});
    out.family("talos_etcd_failures_tolerated", Type::kGauge,
               "Voting members that may still fail without a loss of the quorum");
    out.add(uint64_t{status.getTolerates()});
    out.family("talos_etcd_alarms", Type::kGauge, "Alarms of the cluster");
    out.add(uint64_t{status.getAlarms().size()});
  });
  out.family("talos_etcd_member_info", Type::kGauge, "A member of the cluster");
  eachSpec<rpc::EtcdMemberSpec>(etcdMembers, [&](auto id, auto member) {
    out.add({{"member", id},
             {"name", member.getName()},
             {"learner", member.getLearner() ? "true"_kj : "false"_kj}},
            uint64_t{1});
  });
  // A node that is, or will be, in a cluster and whose etcd does not answer is a fact too.
  out.family("talos_etcd_up", Type::kGauge, "1 if etcd of this node answers");
  out.add({}, local != nullptr);
  KJ_IF_MAYBE (member, local) writeLocalMember(out, *member);
}

void writeEtcdBackup(MetricsText& out, Resources etcdBackupStatuses) {
  eachSpec<rpc::EtcdBackupStatusSpec>(etcdBackupStatuses, [&](auto, auto status) {
    if (status.getPhase() == "standby") return;
    auto time = [&](kj::StringPtr name, kj::StringPtr help, kj::StringPtr text) {
      KJ_IF_MAYBE (date, parseDate(text)) {
        out.family(name, Type::kGauge, help);
        out.add(static_cast<uint64_t>((*date - kj::UNIX_EPOCH) / kj::SECONDS));
      }
    };
    time("talos_etcd_backup_newest_timestamp_seconds", "When the newest backup of etcd was taken",
         status.getTaken());
    time("talos_etcd_backup_due_timestamp_seconds", "When the next backup of etcd is due",
         status.getNext());
    out.family("talos_etcd_backup_kept", Type::kGauge, "Backups of etcd in the store");
    out.add(uint64_t{status.getKept()});
    out.family("talos_etcd_backup_failing", Type::kGauge, "1 if no backup of etcd can be taken");
    out.add({}, status.getMessage().size() > 0);
  });
}

void writeVip(MetricsText& out, Resources vipStatuses, kj::Date now) {
  out.family("talos_vip_state", Type::kGauge, "1 for the state of this node in the election");
  eachSpec<rpc::VipStatusSpec>(vipStatuses, [&](auto address, auto status) {
    for (auto state : kVipStates) {
      out.add({{"address", address}, {"state", state}}, state == status.getState());
    }
  });
  out.family("talos_vip_holder_known", Type::kGauge,
             "1 if this node knows who holds the shared address");
  eachSpec<rpc::VipStatusSpec>(vipStatuses, [&](auto address, auto status) {
    out.add({{"address", address}}, status.getHolder().size() > 0);
  });
  out.family("talos_vip_holder_info", Type::kGauge, "The holder, as this node knows it");
  eachSpec<rpc::VipStatusSpec>(vipStatuses, [&](auto address, auto status) {
    if (status.getHolder().size() == 0) return;
    out.add({{"address", address}, {"holder", status.getHolder()}}, uint64_t{1});
  });
  out.family("talos_vip_changes_total", Type::kCounter,
             "How often this node has become the holder");
  eachSpec<rpc::VipStatusSpec>(vipStatuses, [&](auto address, auto status) {
    out.add({{"address", address}}, uint64_t{status.getChanges()});
  });
  out.family("talos_vip_lease_left_seconds", Type::kGauge,
             "Time until the holder's lease ends unless it is renewed");
  eachSpec<rpc::VipStatusSpec>(vipStatuses, [&](auto address, auto status) {
    KJ_IF_MAYBE (until, parseDate(status.getLeaseUntil())) {
      constexpr double kMillisecondsOfLease = 1e3;
      auto left = kj::max(*until - now, 0 * kj::SECONDS) / kj::MILLISECONDS;
      out.add({{"address", address}}, static_cast<double>(left) / kMillisecondsOfLease);
    }
  });
}

void writeKubernetes(MetricsText& out, Resources nodeStatuses, Resources localApiStatuses) {
  eachSpec<rpc::NodeStatusSpec>(nodeStatuses, [&](auto, auto status) {
    out.family("talos_kubernetes_node_ready", Type::kGauge, "1 if the Node object is ready");
    out.add({{"node", status.getNodename()}}, status.getReady());
    out.family("talos_kubernetes_node_unschedulable", Type::kGauge,
               "1 if the Node object is cordoned");
    out.add({{"node", status.getNodename()}}, status.getUnschedulable());
    out.family("talos_kubernetes_node_applied", Type::kGauge,
               "1 if the Node object has the labels and taints of the config");
    out.add({{"node", status.getNodename()}}, status.getApplied());
  });
  eachSpec<rpc::LocalApiStatusSpec>(localApiStatuses, [&](auto, auto status) {
    out.family("talos_kube_apiserver_ready", Type::kGauge,
               "1 if kube-apiserver of this node is ready");
    out.add({}, status.getReady());
  });
}

}  // namespace talos::metrics
