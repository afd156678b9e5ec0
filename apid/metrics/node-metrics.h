// Metrics of the node itself: facts from machined and its resources. Each function takes answers of
// machined unchanged and writes families; missing parts are left out. Pure: the time is passed in.
#pragma once

#include <kj/time.h>
#include <sys/utsname.h>

#include "apid/metrics/metrics-text.h"
#include "common/base/resource.h"
#include "rpc/containers.capnp.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/etcd.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/hardware-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"
#include "rpc/metrics-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/resources.capnp.h"

namespace talos::metrics {

using Resources = capnp::List<rpc::Resource>::Reader;

// machine-metrics.cc
void writeIdentity(MetricsText& out, const utsname& kernel, rpc::Version::Reader version,
                   kj::Date now);
void writeMachine(MetricsText& out, rpc::Status::Reader status);
void writeBoots(MetricsText& out, Resources bootRecords);
void writeTime(MetricsText& out, Resources timeStatuses);
void writeUpgrade(MetricsText& out, Resources upgradeStatuses);
void writeCertificates(MetricsText& out, Resources certificateStatuses);

// service-metrics.cc
void writeServices(MetricsText& out, capnp::List<rpc::Service>::Reader services);
// Writes groups without groups below them as talos_cgroup_*, which can be summed, and the others as
// talos_cgroup_parent_*, whose values include those of the groups below. Groups of pods have the
// labels namespace, pod and container, as far as `containers` name them, and are left out if not
// `pods`. At most kMostCgroups groups; machined's `leftOut` is added to the number of omitted ones.
constexpr size_t kMostCgroups = 1000;
void writeCgroups(MetricsText& out, capnp::List<rpc::Cgroup>::Reader groups, uint64_t leftOut,
                  capnp::List<rpc::Container>::Reader containers = {}, bool pods = true);

// Writes the counts of each destination of machine.logging.
void writeLogDestinations(MetricsText& out, Resources logDestinationStatuses);

// cluster-metrics.cc
void writeEtcd(MetricsText& out, Resources etcdStatuses, Resources etcdMembers,
               kj::Maybe<rpc::Etcd::MemberStatus::Reader> local);
// Writes backups only for the member that takes them; nothing without cluster.etcd.backup.
void writeEtcdBackup(MetricsText& out, Resources etcdBackupStatuses);
void writeVip(MetricsText& out, Resources vipStatuses, kj::Date now);
void writeKubernetes(MetricsText& out, Resources nodeStatuses, Resources localApiStatuses);

// hardware-metrics.cc
void writeLinks(MetricsText& out, Resources linkStatuses);
void writeSensors(MetricsText& out, Resources sensorReadings);
void writeDiskHealth(MetricsText& out, Resources diskHealths);
void writeMemoryErrors(MetricsText& out, Resources memoryErrorCounts);
void writeOomActions(MetricsText& out, Resources oomActions);

// Calls `use` with the id and the spec of each resource of a list.
template <typename Spec, typename Use>
void eachSpec(Resources list, Use&& use) {
  for (auto resource : list) {
    use(kj::StringPtr(resource.getMetadata().getId()), resource.getSpec().getAs<Spec>());
  }
}

}  // namespace talos::metrics
