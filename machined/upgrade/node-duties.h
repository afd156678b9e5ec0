// The duties of a node: what it does for its cluster and itself, as far as it can be observed. The
// system on trial has to fulfil each duty that was fulfilled before the upgrade (upgrader.h).
//
// A duty is known by its name, which both systems compute from resources: "service etcd", "voter of
// etcd", "Kubernetes node", "pod kube-system/kube-apiserver-a", "kube-apiserver", "clock", "volume
// EPHEMERAL", "shared address 10.5.0.100". One that failed before may fail afterwards. A service
// that the new system does not have is no duty of it: another version may do its work otherwise,
// and whatever that work was for is a duty of its own.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "machined/resources/store.h"
#include "rpc/etcd.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kDutiesFile = "/system/state/upgrade-duties"_kj;

struct Duty {
  kj::String name;
  kj::Maybe<kj::String> problem = nullptr;  // none: it is fulfilled
  // The cause is that too few of the other voters of etcd run: no system of this node can help it.
  bool causedElsewhere = false;
};

// The duties before the upgrade, by name.
struct DutyRecord {
  kj::Date upgrade = kj::UNIX_EPOCH;  // the beginning of the upgrade that it belongs to
  kj::Vector<kj::String> fulfilled, failing;
};

struct DutyFacts {
  struct Service {
    kj::String id;
    bool up = false;
    kj::Maybe<kj::Duration> failedAgo = nullptr;  // the last time that it ended unasked
  };
  struct Etcd {
    kj::Vector<kj::String> problems;  // of the local member; empty: it answers as it should
    bool member = false, voter = false, leader = false;
    unsigned voters = 0, answering = 0;  // of all voters; those that answered, the local one apart
    // A node of another voter was reached: this node's network is no reason for their silence.
    bool othersReached = false;
  };
  kj::Vector<Service> services;
  kj::Maybe<Etcd> etcd;  // none: this node runs none
};

// Of the members as etcd-supervisor reports them; without `othersReached`.
DutyFacts::Etcd etcdFactsOf(capnp::List<rpc::Etcd::Member>::Reader members);
// True: its majority is lost whether or not this member runs.
bool isMajorityLost(const DutyFacts::Etcd& etcd);

// A service that is up again after a failure counts as failing for so long.
constexpr auto kCrashFreeFor = 30 * kj::SECONDS;

// In order of their names' kinds, as above.
kj::Vector<Duty> dutiesOf(const Store& store, const DutyFacts& facts);

// A status of a pod in YAML, as kubed writes it: true if its condition Ready is "True".
bool isPodReady(kj::ArrayPtr<const char> status);

kj::String describe(const Duty& duty);  // of one that fails: name and problem
DutyRecord recordOf(kj::ArrayPtr<const Duty> duties, kj::Date upgrade);
// The duties of before that are not fulfilled now. One that does not exist now fails as "missing",
// but for services and for kinds that only a later release knows: the record was its own when this
// system is the older one.
kj::Vector<Duty> failingOf(const DutyRecord& before, kj::ArrayPtr<const Duty> now);

kj::Maybe<DutyRecord> decodeDuties(kj::ArrayPtr<const char> bytes);  // none for what is no record
kj::Array<char> encodeDuties(const DutyRecord& record);

}  // namespace talos::machined
