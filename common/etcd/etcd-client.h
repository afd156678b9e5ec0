// The real etcd: one server's client port, by gRPC over one connection of mutual TLS, which carries
// calls, watches and snapshots side by side.
//
// The connection is dialled when a call needs it, and again when it was lost; whoever wants another
// server makes another client. A server that falls silent (its node lost power, a cable was pulled)
// is noticed by pings over the connection: what is open on it rejects with Unavailable at the
// latest after `Deadlines::silence`. Nothing is kept beyond a crash.
//
// etcd's answers are foreign bytes from a server that has proved its identity: their lengths are
// bounded by common/grpc, their numbers mean nothing to memory here.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include "common/etcd/etcd.h"
#include "common/net/ip.h"
#include "common/tls/tls.h"

namespace talos::etcd {

class EtcdClient final : public Etcd {
 public:
  // `credentials` is used for each new connection, so a certificate that was replaced is shown from
  // the next one on. The server's certificate must name the address.
  EtcdClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, TlsEndpoint& credentials,
             Endpoint server, Deadlines deadlines = {});
  // For tests: on whatever `dial` makes.
  using Dial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()>;
  EtcdClient(kj::Timer& timer, kj::String name, Dial dial, Deadlines deadlines = {});
  ~EtcdClient() noexcept(false) override;
  KJ_DISALLOW_COPY_AND_MOVE(EtcdClient);

  kj::StringPtr name() const override;
  kj::Promise<RangeResult> range(Range request) override;
  kj::Promise<PutResult> put(Put request) override;
  kj::Promise<DeleteResult> remove(Delete request) override;
  kj::Promise<TxnResult> txn(Txn request) override;
  kj::Promise<kj::Own<Watch>> watch(WatchRequest request) override;
  kj::Promise<Lease> grant(kj::Duration ttl) override;
  kj::Promise<Lease> keepAlive(LeaseId id) override;
  kj::Promise<void> revoke(LeaseId id) override;
  kj::Promise<LeaseStatus> timeToLive(LeaseId id) override;
  kj::Promise<MemberList> members(bool linearizable = true) override;
  kj::Promise<MemberAdded> addMember(kj::Array<kj::String> peerUrls, bool learner) override;
  kj::Promise<kj::Array<Member>> removeMember(MemberId id) override;
  kj::Promise<kj::Array<Member>> updateMember(MemberId id, kj::Array<kj::String> peerUrls) override;
  kj::Promise<kj::Array<Member>> promoteMember(MemberId id) override;
  kj::Promise<Status> status() override;
  kj::Promise<void> moveLeader(MemberId to) override;
  kj::Promise<kj::Array<Alarm>> alarms() override;
  kj::Promise<kj::Array<Alarm>> disarm(Alarm alarm) override;
  kj::Promise<void> defragment() override;
  kj::Promise<StoreHash> hashKv(Revision revision = 0) override;
  kj::Promise<uint64_t> snapshot(SnapshotSink sink) override;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::etcd
