// How the cluster is, as seen from here: its members, each asked how it is, and the local one.
#pragma once

#include "etcd-supervisor/membership/peer-queries.h"
#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {

struct SeenMember {
  etcd::Member member;
  kj::Maybe<etcd::Status> status;
  kj::String problem;  // why there is none
  bool here = false;
};

struct Seen {
  kj::Maybe<etcd::Status> local;
  kj::String problem;              // of the local member; empty: it answers as it should
  kj::Vector<SeenMember> members;  // by name
  bool certain = false;            // the list is what a quorum says
  bool quorum = false;
  kj::Vector<etcd::Alarm> alarms;

  kj::Array<Voice> voices() const;
  kj::Maybe<const SeenMember&> find(etcd::MemberId id) const;
  // The leader that most recently led; none: nobody knows one.
  kj::Maybe<const SeenMember&> leader() const;
};

class View {
 public:
  explicit View(Edges& edges) : edges(edges) {}

  // Asks the local member if it runs, and all others; `known` besides those that it knows itself.
  // Never rejects, and takes 7 s at most, however many are silent.
  kj::Promise<Seen> look(const Config& config, kj::ArrayPtr<const kj::String> known);

  // What a quorum says: linearizable, through the first of these in their order that answers.
  // Unavailable with the reasons, after 2.5 s at most.
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

  // Each asked whether it answers, and reads through it what a quorum says.
  kj::Promise<kj::Array<Voice>> voices(kj::ArrayPtr<const etcd::Member> members,
                                       const Config& config);
  // The same of those that have answered just now.
  kj::Promise<kj::Array<Voice>> voices(const Seen& seen, const Config& config);

 private:
  Edges& edges;

  kj::Promise<Answer> firstOf(kj::ArrayPtr<const kj::String> addresses, bool linearizable);
  kj::Promise<void> lookHere(Seen& seen);
  kj::Promise<kj::Maybe<etcd::MemberList>> listFor(Seen& seen,
                                                   kj::ArrayPtr<const kj::String> addresses);
  kj::Promise<void> askMembers(Seen& seen, kj::Array<etcd::Member> members, const Config& config);
  kj::Promise<void> askLocal(Seen& seen);
  kj::Promise<SeenMember> lookAt(etcd::Member member, const Config& config,
                                 kj::Maybe<etcd::Status>& local, kj::StringPtr localProblem,
                                 bool here);
  kj::Promise<Voice> voice(etcd::Member member, const Config& config,
                           kj::Maybe<etcd::Status>& local, bool here);
  kj::Promise<Voice> voice(SeenMember seen, const Config& config);
  kj::Promise<kj::String> problemOf(const etcd::Status& local);
  kj::Promise<kj::String> readThrough(etcd::Etcd& door);
};

etcd::Status clone(const etcd::Status& status);

}  // namespace talos::supervisor
