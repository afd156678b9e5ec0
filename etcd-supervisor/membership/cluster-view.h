// Asks the members of the cluster, each for its status, and the local one in particular.
#pragma once

#include "etcd-supervisor/membership/peer-queries.h"
#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {

struct ObservedMember {
  etcd::Member member;
  kj::Maybe<etcd::Status> status;
  kj::String problem;  // why there is none
  bool isLocal = false;
};

struct ObservedCluster {
  kj::Maybe<etcd::Status> local;
  kj::String problem;                  // of the local member; empty: it answers as it should
  kj::Vector<ObservedMember> members;  // by name
  bool certain = false;                // the list is what a quorum says
  bool quorum = false;
  kj::Vector<etcd::Alarm> alarms;

  kj::Array<MemberProbe> probes() const;
  kj::Maybe<const ObservedMember&> find(etcd::MemberId id) const;
  // The leader that most recently led; none: nobody knows one.
  kj::Maybe<const ObservedMember&> leader() const;
};

class ClusterView {
 public:
  explicit ClusterView(Dependencies& deps) : deps(deps) {}

  // Asks the local member if it runs, and all others: `known` and those that it names itself. Never
  // rejects, and takes 7 s at most, however many do not answer.
  kj::Promise<ObservedCluster> look(const Config& config, kj::ArrayPtr<const kj::String> known);

  // The member list of a quorum: linearizable, through the first of these in their order that
  // answers. Unavailable with the errors, after 2.5 s at most.
  struct Answer {
    etcd::MemberList list;
    etcd::Etcd& through;
  };
  kj::Promise<Answer> members(kj::ArrayPtr<const kj::String> addresses);

  // None: it does not run, or does not answer.
  kj::Promise<kj::Maybe<etcd::Status>> local();

  // Resolves when the others can do without the local member for a while, by what is read through
  // one that answers; FailedPrecondition says why they cannot.
  kj::Promise<void> requireSpare(etcd::Etcd& through, const Config& config);

  // Probes each member: does it answer, and can it read what a quorum has?
  kj::Promise<kj::Array<MemberProbe>> probes(kj::ArrayPtr<const etcd::Member> members,
                                             const Config& config);
  // The same for members that have answered just now.
  kj::Promise<kj::Array<MemberProbe>> probes(const ObservedCluster& observed, const Config& config);

 private:
  Dependencies& deps;

  kj::Promise<Answer> firstOf(kj::ArrayPtr<const kj::String> addresses, bool linearizable);
  kj::Promise<void> lookAtLocal(ObservedCluster& observed);
  kj::Promise<kj::Maybe<etcd::MemberList>> listFor(ObservedCluster& observed,
                                                   kj::ArrayPtr<const kj::String> addresses);
  kj::Promise<void> askMembers(ObservedCluster& observed, kj::Array<etcd::Member> members,
                               const Config& config);
  kj::Promise<void> askLocal(ObservedCluster& observed);
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
