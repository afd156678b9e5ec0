#include "etcd-supervisor/control/supervisor-server.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/sha256.h"
#include "common/base/shared-reading.h"
#include "common/memory/zeroize.h"
#include "etcd-supervisor/control/snapshot-file.h"
#include "etcd-supervisor/membership/bootstrap-status.h"

namespace talos::supervisor {
namespace {

constexpr size_t kMostPieceBytes = 64u << 10;
constexpr unsigned kMostAmong = 64;

void fill(rpc::Etcd::Member::Builder out, const ObservedMember& observed, etcd::MemberId leader) {
  auto& member = observed.member;
  out.setId(member.id);
  out.setName(member.name);
  fillTexts(out.initPeerUrls(member.peerUrls.size()), member.peerUrls);
  fillTexts(out.initClientUrls(member.clientUrls.size()), member.clientUrls);
  out.setLearner(member.learner);
  out.setLeader(member.id == leader);
  out.setLocal(observed.isLocal);
  out.setProblem(observed.problem);
  KJ_IF_MAYBE (status, observed.status) {
    out.setVersion(status->version);
    out.setDbSize(static_cast<uint64_t>(status->dbSize));
  }
}

void fill(rpc::Etcd::MemberStatus::Builder out, const etcd::Status& status) {
  out.setId(status.member);
  out.setClusterId(status.cluster);
  out.setLeader(status.leader);
  out.setVersion(status.version);
  out.setDbSize(static_cast<uint64_t>(status.dbSize));
  out.setDbSizeInUse(static_cast<uint64_t>(status.dbSizeInUse));
  out.setRaftIndex(status.raftIndex);
  out.setRaftTerm(status.raftTerm);
  out.setRaftAppliedIndex(status.raftAppliedIndex);
  out.setRevision(status.revision);
  out.setLearner(status.learner);
  fillTexts(out.initErrors(status.errors.size()), status.errors);
}

kj::StringPtr nameOf(etcd::Alarm::Type type) {
  return type == etcd::Alarm::Type::kNoSpace   ? "NOSPACE"_kj
         : type == etcd::Alarm::Type::kCorrupt ? "CORRUPT"_kj
                                               : "NONE"_kj;
}

void fill(capnp::List<rpc::Etcd::Alarm>::Builder out, kj::ArrayPtr<const etcd::Alarm> alarms,
          kj::ArrayPtr<const etcd::Member> members) {
  for (auto i : kj::indices(alarms)) {
    out[i].setMember(alarms[i].member);
    out[i].setAlarm(nameOf(alarms[i].type));
    for (auto& member : members) {
      if (member.id == alarms[i].member) out[i].setName(member.name);
    }
  }
}

constexpr kj::StringPtr kSecrets = "/registry/secrets/"_kj;
// A value is 1.5 MiB at most, and usually some KiB.
constexpr size_t kReadAtOnce = 8;
constexpr size_t kMostNamedSecrets = 100;

// Number of the Secrets of Kubernetes in etcd by the key that encrypts them, which the beginning of
// each value names.
struct StoredSecrets {
  uint64_t total = 0, others = 0;  // others: without the prefix
  kj::Vector<kj::String> names;    // namespace/name of others, the first kMostNamedSecrets
};

// Counts them without keeping any content. Reads all at one revision, so the next call sees changes
// made meanwhile. Errors are the store's.
kj::Promise<StoredSecrets> storedSecrets(etcd::Etcd& member, kj::StringPtr prefixGiven) {
  auto prefix = kj::str(prefixGiven);
  auto list = co_await member.range({.keys = {kj::str(kSecrets), true}, .keysOnly = true});
  StoredSecrets found;
  found.total = list.kvs.size();
  for (size_t from = 0; from < list.kvs.size(); from += kReadAtOnce) {
    auto part = list.kvs.slice(from, kj::min(from + kReadAtOnce, list.kvs.size()));
    etcd::Txn read;
    read.then = KJ_MAP(kv, part) {
      return etcd::Operation(
          etcd::Range{.keys = {kj::str(kv.key), false}, .revision = list.revision});
    };
    auto answer = co_await member.txn(kj::mv(read));
    for (auto& result : answer.results) {
      for (auto& kv : result.get<etcd::RangeResult>().kvs) {
        if (kv.value.startsWith(prefix)) continue;
        ++found.others;
        if (found.names.size() < kMostNamedSecrets) {
          found.names.add(kj::str(kv.key.slice(kSecrets.size())));
        }
      }
    }
  }
  co_return kj::mv(found);
}

// Answers that cost connections to all members, or many records, are read for all clients together.
struct SharedReads final : public kj::Refcounted {
  explicit SharedReads(const ServedParts& parts)
      : cluster([&reconciler = parts.reconciler]() { return reconciler.look(); }),
        tokens([&tokens = parts.tokens]() { return tokens.list(); }) {}
  SharedReading<ObservedCluster> cluster;
  SharedReading<kj::Vector<JoinTokenBook::Listed>> tokens;
};

// Keeps the last bytes of a stream, as many as a hash has.
void keepNewest(kj::Vector<kj::byte>& newest, kj::ArrayPtr<const kj::byte> bytes) {
  newest.addAll(bytes.slice(bytes.size() - kj::min(bytes.size(), Sha256::kBytes), bytes.size()));
  if (newest.size() <= Sha256::kBytes) return;
  kj::Vector<kj::byte> last;
  last.addAll(newest.slice(newest.size() - Sha256::kBytes, newest.size()));
  newest = kj::mv(last);
}

class EtcdServer final : public rpc::Etcd::Server, private ServedParts {
 public:
  EtcdServer(const ServedParts& parts, kj::Own<SharedReads> reads, kj::StringPtr client)
      : ServedParts(parts), reads(kj::mv(reads)), client(kj::str(client)) {}

  kj::Promise<void> members(MembersContext context) override {
    if (context.getParams().getLocal()) co_return co_await localMembers(context);
    auto shared = co_await reads->cluster.get();
    auto& observed = shared->value;
    if (observed.members.empty()) fail(ErrorKind::kUnavailable, observed.problem);
    etcd::MemberId leader = 0;
    KJ_IF_MAYBE (leads, observed.leader()) leader = leads->member.id;
    auto results = context.getResults();
    auto list = results.initMembers(static_cast<unsigned>(observed.members.size()));
    for (auto i : kj::indices(observed.members)) fill(list[i], observed.members[i], leader);
    results.setQuorum(observed.quorum);
  }

  kj::Promise<void> status(StatusContext context) override {
    auto status = co_await reconciler.localMember().status();
    fill(context.getResults().initStatus(), status);
  }

  kj::Promise<void> bootstrap(BootstrapContext context) override {
    auto params = context.getParams();
    BootstrapRequest request;
    if (params.getAmong().size() > kMostAmong) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(params.getAmong().size(), " nodes to ask; name ", kMostAmong, " at most"));
    }
    request.among = textsOf(params.getAmong());
    request.without = textsOf(params.getWithout());
    auto recovery = params.getRecovery();
    if (recovery.getKept()) {
      auto file = kept.take();
      restore(request, recovery, sourceOf(kj::mv(file.file)), file.size);
    } else if (recovery.hasBytes()) {
      restore(request, recovery, recovery.getBytes(), recovery.getSize());
    }
    kept.drop();
    context.getResults().setDone(co_await reconciler.bootstrap(kj::mv(request)));
  }

  kj::Promise<void> leave(LeaveContext context) override {
    return reconciler.leave(context.getParams().getForce());
  }

  kj::Promise<void> removeMember(RemoveMemberContext context) override {
    auto params = context.getParams();
    return reconciler.removeMember(kj::str(params.getMember()), params.getForce());
  }

  kj::Promise<void> forfeitLeadership(ForfeitLeadershipContext context) override {
    context.getResults().setLeader(co_await reconciler.forfeitLeadership());
  }

  kj::Promise<void> snapshot(SnapshotContext context) override {
    auto sink = context.getParams().getSink();
    auto& member = reconciler.localMember();
    SnapshotStatement statement{.taken = clock.now(),
                                .cluster = (co_await member.status()).cluster};
    // Its last bytes are the hash of the others, which the caller verifies.
    kj::Vector<kj::byte> newest;
    auto size = co_await member.snapshot([&](kj::ArrayPtr<const kj::byte> bytes, uint64_t) {
      keepNewest(newest, bytes);
      return send(sink, bytes);
    });
    if (size < Sha256::kBytes) fail(ErrorKind::kUnavailable, "the member sent an empty snapshot");
    statement.bytes = size - Sha256::kBytes;
    statement.sha256 = newest.releaseAsArray();
    context.getResults().setSignature(sign(statement));
  }

  kj::Promise<void> alarms(AlarmsContext context) override {
    auto& member = *co_await reconciler.anyMember();
    auto alarms = co_await member.alarms();
    auto list = co_await member.members(true);
    fill(context.getResults().initAlarms(alarms.size()), alarms, list.members);
  }

  kj::Promise<void> disarm(DisarmContext context) override {
    auto& member = *co_await reconciler.anyMember();
    auto list = co_await member.members(true);
    auto alarms = co_await member.disarm({});
    fill(context.getResults().initAlarms(alarms.size()), alarms, list.members);
    reconciler.wake();
  }

  kj::Promise<void> defragment(DefragmentContext context) override {
    auto& member = reconciler.localMember();
    auto before = co_await member.status();
    co_await member.defragment();
    auto after = co_await member.status();
    context.getResults().setBefore(static_cast<uint64_t>(before.dbSize));
    context.getResults().setAfter(static_cast<uint64_t>(after.dbSize));
  }

  kj::Promise<void> keepSnapshot(KeepSnapshotContext context) override {
    if (files.data() != Data::kNone) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the data directory ", kDataFolder,
                   " is not empty; etcd makes no new cluster over what is there"));
    }
    context.getResults().setUpload(kept.upload());
    return kj::READY_NOW;
  }

  kj::Promise<void> removeInitializedKey(RemoveInitializedKeyContext context) override {
    context.getResults().setRemoved(co_await endSelfHosting(reconciler.localMember()));
  }

  kj::Promise<void> secretsNotUnder(SecretsNotUnderContext context) override {
    auto found = co_await storedSecrets(reconciler.localMember(), context.getParams().getPrefix());
    auto out = context.getResults();
    out.setTotal(found.total);
    out.setOthers(found.others);
    fillTexts(out.initNames(found.names.size()), found.names);
  }

  kj::Promise<void> createJoinToken(CreateJoinTokenContext context) override {
    auto params = context.getParams();
    auto made = co_await tokens.create(params.getHostname(), params.getTtlS(), client);
    auto out = context.getResults();
    out.setToken(made.token);
    zeroize(made.token.asArray());
    out.setId(made.id);
    out.setEnds(secondsText(made.ends));
  }

  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    auto shared = co_await reads->tokens.get();
    auto& all = shared->value;
    auto now = tokens.now();
    auto out = context.getResults().initTokens(static_cast<unsigned>(all.size()));
    for (auto i : kj::indices(all)) fillToken(out[i], all[i].id, all[i].record.get(), now);
  }

  kj::Promise<void> revokeJoinToken(RevokeJoinTokenContext context) override {
    return tokens.revoke(context.getParams().getId());
  }

  kj::Promise<void> bootstrapState(BootstrapStateContext context) override {
    using State = rpc::Etcd::BootstrapState::State;
    constexpr State kStates[] = {State::NONE, State::CLAIMING, State::BOOTSTRAPPING, State::MEMBER};
    auto bootstrapState = reconciler.bootstrapState(context.getParams().getAsker());
    auto out = context.getResults().initState();
    out.setName(bootstrapState.name);
    out.setState(kStates[static_cast<size_t>(bootstrapState.state)]);
    out.setClusterId(bootstrapState.cluster);
    out.setSince(bootstrapState.since);
    return kj::READY_NOW;
  }

 private:
  kj::Own<SharedReads> reads;
  kj::String client;

  // Returns the local member's own list, even if the others have removed this member.
  kj::Promise<void> localMembers(MembersContext context) {
    auto& member = reconciler.localMember();
    auto status = co_await member.status();
    auto found = co_await member.members(false);
    std::sort(found.members.begin(), found.members.end(),
              [](auto& a, auto& b) { return a.name < b.name; });
    auto list = context.getResults().initMembers(static_cast<unsigned>(found.members.size()));
    for (auto i : kj::indices(found.members)) {
      bool isLocal = found.members[i].id == status.member;
      ObservedMember observed{.member = kj::mv(found.members[i]),
                              .status = nullptr,
                              .problem = kj::String(),
                              .isLocal = isLocal};
      fill(list[i], observed, status.leader);
    }
    context.getResults().setQuorum(status.leader != 0);
  }

  void restore(BootstrapRequest& request, rpc::Etcd::Recovery::Reader recovery,
               rpc::ByteSource::Client source, uint64_t size) {
    request.skipHashCheck = recovery.getSkipHashCheck();
    request.receive = [this, source = kj::mv(source), size,
                       skip = recovery.getSkipHashCheck()]() mutable {
      return receiveSnapshot(timer, kj::mv(source), size, skip,
                             {.queue = queue, .path = kj::str(files.snapshot())});
    };
  }

  static kj::Promise<void> send(rpc::ByteSink::Client& sink, kj::ArrayPtr<const kj::byte> bytes) {
    for (size_t at = 0; at < bytes.size(); at += kMostPieceBytes) {
      auto request = sink.writeRequest();
      request.setBytes(bytes.slice(at, kj::min(bytes.size(), at + kMostPieceBytes)));
      co_await request.send();
    }
  }
};

Going read(rpc::DepartureKind going) {
  switch (going) {
    case rpc::DepartureKind::LEAVES:
      return Going::kLeaves;
    case rpc::DepartureKind::REJOINS:
      return Going::kRejoins;
    case rpc::DepartureKind::RESTARTS:
      return Going::kRestarts;
  }
  fail(ErrorKind::kInvalidArgument, "unknown kind of departure");
}

// Ends with the reference to it.
class TurnServer final : public rpc::EtcdTurn::Server {
 public:
  explicit TurnServer(kj::Own<void> turn) : turn(kj::mv(turn)) {}

 private:
  kj::Own<void> turn;
};

class SupervisorServer final : public rpc::EtcdSupervisor::Server, private ServedParts {
 public:
  SupervisorServer(const ServedParts& parts, kj::Maybe<RequestTrace&> trace)
      : ServedParts(parts), reads(kj::refcounted<SharedReads>(parts)), trace(trace) {}

  kj::Promise<void> etcd(EtcdContext context) override {
    rpc::Etcd::Client etcd =
        kj::heap<EtcdServer>(static_cast<const ServedParts&>(*this), kj::addRef(*reads),
                             context.getParams().getClient());
    KJ_IF_MAYBE (t, trace) {
      etcd = t->traced<rpc::Etcd>(kj::mv(etcd), context.getParams().getRequest());
    }
    context.getResults().setEtcd(kj::mv(etcd));
    return kj::READY_NOW;
  }
  kj::Promise<void> ready(ReadyContext context) override { return reconciler.ready(); }
  kj::Promise<void> health(HealthContext context) override { return reconciler.health(); }
  kj::Promise<void> outlook(OutlookContext context) override {
    auto outlook = co_await reconciler.outlook(read(context.getParams().getKind()));
    auto results = context.getResults();
    auto list = results.initMembers(static_cast<unsigned>(outlook.members.size()));
    for (auto i : kj::indices(outlook.members)) fill(list[i], outlook.members[i], outlook.leader);
    KJ_IF_MAYBE (objection, outlook.objection) results.setObjection(*objection);
  }
  kj::Promise<void> recoveryFailed(RecoveryFailedContext context) override {
    return reconciler.recoveryFailed(context.getParams().getError());
  }
  kj::Promise<void> rerun(RerunContext context) override {
    context.getResults().setTurn(kj::heap<TurnServer>(co_await reconciler.rerun()));
  }
  kj::Promise<void> withdraw(WithdrawContext context) override {
    auto params = context.getParams();
    return reconciler.withdraw(read(params.getKind()), params.getForce());
  }
  kj::Promise<void> stay(StayContext context) override {
    reconciler.stay();
    return kj::READY_NOW;
  }
  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    context.getResults().setTokens(serveJoinTokens(tokens));
    return kj::READY_NOW;
  }

 private:
  kj::Own<SharedReads> reads;
  kj::Maybe<RequestTrace&> trace;
};

}  // namespace

rpc::EtcdSupervisor::Client makeServer(const ServedParts& parts, kj::Maybe<RequestTrace&> trace) {
  return kj::heap<SupervisorServer>(parts, trace);
}

namespace {

class JoinTokensServer final : public rpc::JoinTokens::Server {
 public:
  explicit JoinTokensServer(JoinTokenBook& tokens) : tokens(tokens) {}

 protected:
  kj::Promise<void> find(FindContext context) override {
    auto params = context.getParams();
    return tokens.find(params.getId(), [context](auto record, int64_t now) mutable {
      fillFound(context.getResults().initToken(), record, context.getParams().getDigest(), now);
    });
  }
  kj::Promise<void> spend(SpendContext context) override {
    auto params = context.getParams();
    return tokens.spend(params.getId(), params.getDigest(), params.getFingerprint(),
                        params.getUsedBy(), [context](auto record, int64_t now) mutable {
                          fillFound(context.getResults().initToken(), record,
                                    context.getParams().getDigest(), now);
                        });
  }

 private:
  JoinTokenBook& tokens;
};

}  // namespace

rpc::JoinTokens::Client serveJoinTokens(JoinTokenBook& tokens) {
  return kj::heap<JoinTokensServer>(tokens);
}

}  // namespace talos::supervisor
