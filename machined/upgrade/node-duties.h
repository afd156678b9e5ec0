// The duties of a node: the observable work that it does for its cluster and itself. The system on
// trial has to fulfil each duty that was fulfilled before the upgrade (upgrader.h).
//
// A duty is identified by its name, which both systems compute from resources: "service etcd",
// "voter of etcd", "Kubernetes node", "pod kube-system/kube-apiserver-a", "kube-apiserver",
// "clock", "volume EPHEMERAL", "data volume u-data", "shared address 10.5.0.100", "network" (all
// that the config requests), and while that is incomplete its parts "default route", "lease
// eth0/dhcp4", "link eth0" and "address 10.5.0.2/24 on eth0". A duty that failed before may fail
// afterwards. A service that the new system lacks is not one of its duties: another version may do
// the work in another way, and the purpose of the work is a separate duty. Volumes of documents
// have another kind, which releases before these documents ignore when they are on trial.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "machined/resources/store.h"
#include "rpc/etcd.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kNetworkDuty = "network"_kj;
constexpr kj::StringPtr kDutiesFile = "/system/state/upgrade-duties"_kj;

struct Duty {
  kj::String name;
  kj::Maybe<kj::String> problem = nullptr;  // nullptr: the duty is fulfilled
  // The cause is that too few of etcd's other voters run: no system of this node can change this.
  bool causedElsewhere = false;
};

// The duties before the upgrade, by name.
struct DutyRecord {
  kj::Date upgrade = kj::UNIX_EPOCH;  // start time of the upgrade that it belongs to
  kj::Vector<kj::String> fulfilled, failing;
};

// The work in Kubernetes that the config wants of the node. The old system may have ignored keys of
// the config by which a node has less of it, or another name.
struct DutyScope {
  bool known = false;                 // the config was read; false: each earlier duty is wanted
  bool registered = true;             // the kubelet registers the node
  kj::Vector<kj::String> staticPods;  // ids of their definitions
};
DutyScope dutyScopeOf(const Store& store);

struct DutyFacts {
  struct Service {
    kj::String id;
    bool up = false;
    kj::Maybe<kj::Duration> failedAgo = nullptr;  // time since it last exited without a request
  };
  struct Etcd {
    kj::Vector<kj::String> problems;  // of the local member; empty: it works
    bool member = false, voter = false, leader = false;
    unsigned voters = 0,
             answering = 0;  // all voters; the voters that answered, without the local one
    // The node of another voter was reached, so this node's network is not the cause of their
    // silence.
    bool othersReached = false;
  };
  struct Network {
    kj::Maybe<kj::String> lacks;  // nullptr: it is as the config requests
  };
  kj::Vector<Service> services;
  kj::Maybe<Etcd> etcd;        // nullptr: this node runs no etcd
  kj::Maybe<Network> network;  // nullptr: unknown, and then the network is not among the duties
};

// Extracts facts of the members from etcd-supervisor's report; sets othersReached if another
// answered.
DutyFacts::Etcd etcdFactsOf(capnp::List<rpc::Etcd::Member>::Reader members);
// Returns true if etcd's majority is lost whether or not this member runs.
bool isMajorityLost(const DutyFacts::Etcd& etcd);

// How long a service that is up again after a failure counts as failing.
constexpr auto kCrashFreeFor = 30 * kj::SECONDS;

// Returns the duties in the order of kinds above.
kj::Vector<Duty> dutiesOf(const Store& store, const DutyFacts& facts);

// Returns true if the condition Ready in a pod's status, YAML as kubed writes it, is "True".
bool isPodReady(kj::ArrayPtr<const char> status);

kj::String describe(const Duty& duty);  // of a failing duty: name and problem
DutyRecord recordOf(kj::ArrayPtr<const Duty> duties, kj::Date upgrade);
// Returns the earlier duties that are in the scope and not fulfilled now. A duty that does not
// exist now fails as "missing", except services and kinds that only a later release knows: if this
// is the older system, the newer one wrote the record. A pod of the same definition fulfils the
// duty of a pod, also under another name of the node.
kj::Vector<Duty> failingOf(const DutyRecord& before, kj::ArrayPtr<const Duty> now,
                           const DutyScope& scope = {});

kj::Maybe<DutyRecord> decodeDuties(
    kj::ArrayPtr<const char> bytes);  // nullptr if `bytes` is not a record
kj::Array<char> encodeDuties(const DutyRecord& record);

}  // namespace talos::machined
