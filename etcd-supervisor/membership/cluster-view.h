// Queries the status of each member of the cluster, and of the local one in particular.
#pragma once

#include "etcd-supervisor/membership/peer-queries.h"
#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {

struct ObservedMember {
  etcd::Member member;
  kj::Maybe<etcd::Status> status;
  kj::String problem;  // why there is no status
  bool isLocal = false;
};

struct ObservedCluster {
  kj::Maybe<etcd::Status> local;
  kj::String problem;                  // of the local member; empty if it answers as it should
  kj::Vector<ObservedMember> members;  // sorted by name
  bool certain = false;                // the list comes from a quorum
  bool quorum = false;
  kj::Vector<etcd::Alarm> alarms;

  kj::Array<MemberProbe> probes() const;
  kj::Maybe<const ObservedMember&> find(etcd::MemberId id) const;
  // Returns the leader that most recently led; nullptr if no member knows a leader.
  kj::Maybe<const ObservedMember&> leader() const;
};

class ClusterView {
 public:
  explicit ClusterView(Dependencies& deps) : deps(deps) {}

  // Queries the local member if it runs, and all others: `known` and those that the local one
  // names. Never rejects, and takes at most 7 s, however many do not answer.
  kj::Promise<ObservedCluster> look(const Config& config, kj::ArrayPtr<const kj::String> known);

  // Returns the member list of a quorum: linearizable, through the first of these in their order
  // that answers. Fails with Unavailable and the errors, after at most 2.5 s.
  struct Answer {
    etcd::MemberList list;
    etcd::Etcd& through;
  };
  kj::Promise<Answer> members(kj::ArrayPtr<const kj::String> addresses);

  // Returns nullptr if etcd does not run, or does not answer.
  kj::Promise<kj::Maybe<etcd::Status>> local();

  // Returns the problem of the local member, empty if it answers as it should. Queries no other
  // member, so that one that is silent delays nothing. Never rejects, and takes at most 4 s.
  kj::Promise<kj::String> localProblem();

  // Resolves if the others can do without the local member for a while, judged by a member that
  // answers (`through`); otherwise FailedPrecondition names the cause.
  kj::Promise<void> requireSpare(etcd::Etcd& through, const Config& config);

  // Probes whether each member answers, and whether it can read what a quorum has.
  kj::Promise<kj::Array<MemberProbe>> probes(kj::ArrayPtr<const etcd::Member> members,
                                             const Config& config);
  // Does the same for members that have answered just now.
  kj::Promise<kj::Array<MemberProbe>> probes(const ObservedCluster& observed, const Config& config);

 private:
  Dependencies& deps;

  kj::Promise<Answer> firstOf(kj::ArrayPtr<const kj::String> addresses, bool linearizable);
  kj::Promise<void> lookAtLocal(ObservedCluster& observed);
  kj::Promise<kj::Maybe<etcd::MemberList>> listFor(ObservedCluster& observed,
                                                   kj::ArrayPtr<const kj::String> addresses);
  kj::Promise<void> queryMembers(ObservedCluster& observed, kj::Array<etcd::Member> members,
                                 const Config& config);
  kj::Promise<void> queryLocal(ObservedCluster& observed);
  kj::Promise<ObservedMember> lookAt(etcd::Member member, const Config& config,
                                     kj::Maybe<etcd::Status>& local, kj::StringPtr localProblem,
                                     bool isLocal);
  kj::Promise<MemberProbe> probe(etcd::Member member, const Config& config,
                                 kj::Maybe<etcd::Status>& local, bool isLocal);
  kj::Promise<MemberProbe> probe(ObservedMember observed, const Config& config);
  kj::Promise<kj::String> problemOf(const etcd::Status& local);
  kj::Promise<kj::String> readThrough(etcd::Etcd& endpoint);
};

etcd::Status clone(const etcd::Status& status);

}  // namespace talos::supervisor
